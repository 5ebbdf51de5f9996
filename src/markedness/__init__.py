"""Measure stereotypes in language models with five published methods."""

import os

# Threads of PyTorch that wait for work sleep instead of spinning: with another process on the same cores a spinning
# pair takes five times the CPU time. It is read when torch is loaded, so it stands before anything else.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

__version__ = "0.1.0"
