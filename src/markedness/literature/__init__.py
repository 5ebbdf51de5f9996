"""How well this reproduces the literature: printed tables against the results on the studies' own data.

The printed tables are data of the project (data/published); the studies' data are pinned (`markedness.corpora`)
and are audited like any corpus, with the params of literature.yaml.
"""

from __future__ import annotations

from pathlib import Path

from markedness.literature import annotation, guise, homogeneity, numbers, personas
from markedness.literature.agreement import Agreement, cells, per_paper, published, summary, write
from markedness.literature.page import page

__all__ = ["Agreement", "agreements", "cells", "page", "per_paper", "published", "summary", "write"]

RULES = (
    personas.words,
    personas.svm_words,
    numbers.agreements,
    personas.claims,
    *homogeneity.RULES,
    *guise.RULES,
    *annotation.RULES,
)


def agreements(root: Path) -> list[Agreement]:
    """Every printed table whose study has results under ``root``, in the order of the papers."""
    return [made for rule in RULES for made in rule(root)]
