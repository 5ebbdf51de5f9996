"""Measure stereotypes in language models with five published methods."""

__version__ = "0.1.0"
