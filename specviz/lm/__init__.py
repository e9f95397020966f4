"""Running a language model: sampling, masks, caches, forward passes, weights. Torch starts here."""
