"""Measurements on the machine at hand, of the engine and of drafters. Nothing here decodes."""


class CannotMeasureError(Exception):
    """The text says in one sentence why, and what to do."""
