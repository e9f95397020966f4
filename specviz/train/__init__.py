"""Recipes that train drafters for a target: data, features, losses, checkpoints."""
