"""The page. It shows what a session says and computes no facts of its own.

Importing it loads no model and no torch. The two switches below must stand before Gradio or
the Hub's client is imported anywhere: neither then reports to its makers.
"""

import os

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
