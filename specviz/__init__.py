"""Speculative decoding, drawn as it happens: real engine, real models, every round on screen."""

__version__ = "0.1.0"
