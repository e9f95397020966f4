"""Speculative decoding, drawn as it happens: real engine, real models, every round on screen."""

import os

# Before torch is first imported. A thread of torch's OpenMP pool that waits for the others spins for
# longer than a scheduler's turn by default: one busy neighbour on a 2-core machine (a browser that
# draws this very page) then slows a pass 20-fold. Measured on 2 cores, a pass of one row, idle /
# beside one busy process: default 25 / 487 ms, 10,000 spins 26 / 90, 3,000 spins 30 / 57.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

__version__ = "0.1.0"
