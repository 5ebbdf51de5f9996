"""Measure stereotypes in language models with five published methods.

For a notebook: `marked_words`, `probability_of_differentiation`, `matched_guise` and `paired_gaps` measure a DataFrame,
`load_study` reads a finished study; see `markedness.frames` and `markedness.notebook`. They are loaded when first used.
"""

import os
from importlib import import_module

# Threads of PyTorch that wait for work sleep instead of spinning: with another process on the same cores a spinning
# pair takes five times the CPU time. It is read when torch is loaded, so it stands before anything else.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

__version__ = "0.1.0"
_PLACES = {"load_study": "notebook"} | dict.fromkeys(
    ("marked_words", "matched_guise", "paired_gaps", "probability_of_differentiation"), "frames"
)
__all__ = ["load_study", "marked_words", "matched_guise", "paired_gaps", "probability_of_differentiation"]


def __getattr__(name: str) -> object:
    """One of ``__all__``, from the module that is loaded for it; their types are in ``__init__.pyi``."""
    if name in _PLACES:
        return vars(import_module(f"markedness.{_PLACES[name]}"))[name]
    raise AttributeError(f"module 'markedness' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
