"""The round loop and what it decides. The rest of the project calls `Engine` and nothing else."""

from specviz.engine.api import Engine

__all__ = ["Engine"]
