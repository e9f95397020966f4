"""Targets that somebody else serves: a server that speculates on its own, over as many machines as it
likes, seen from outside.

What is seen is an answer that arrives in pieces and what the server counts. There is no tree, no
chance and no rejected token to be had, so a served run is no trace and races with no lane.
"""

from specviz.served.session import ServedSession

__all__ = ["ServedSession"]
