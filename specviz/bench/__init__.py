"""Measurements of our own engine on the machine at hand. Nothing here is needed to decode."""
