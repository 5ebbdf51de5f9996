"""Which earlier triples a prompt of the later rounds shows (Salinas et al. 2023, section 3.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from markedness.audits.knowledge.design.triples import Triple, fold


def relation_examples(pool: Sequence[Triple], size: int, rng: np.random.Generator) -> list[Triple]:
    """Up to ``size`` triples of pairwise different subject and predicate (section 3.2.1)."""
    chosen: list[Triple] = []
    for index in rng.permutation(len(pool)):
        triple = pool[index]
        if all(triple.subject != t.subject and fold(triple.predicate) != fold(t.predicate) for t in chosen):
            chosen.append(triple)
        if len(chosen) == size:
            break
    return chosen


def object_examples(pool: Sequence[Triple], subject: str, size: int, rng: np.random.Generator) -> list[Triple]:
    """Up to ``size`` triples with the same predicate and pairwise different subjects (section 3.2.2).

    The predicate is one that a subject other than ``subject`` has; its probability is proportional to
    1 / (its frequency among all triples of ``pool``).
    """
    frequency = Counter(fold(triple.predicate) for triple in pool)
    others = [triple for triple in pool if triple.subject != subject]
    names = list(dict.fromkeys(fold(triple.predicate) for triple in others))
    weights = np.array([1 / frequency[name] for name in names])
    predicate = names[int(rng.choice(len(names), p=weights / weights.sum()))]
    candidates = [triple for triple in others if fold(triple.predicate) == predicate]
    chosen: list[Triple] = []
    for index in rng.permutation(len(candidates)):
        if all(candidates[index].subject != triple.subject for triple in chosen):
            chosen.append(candidates[index])
        if len(chosen) == size:
            break
    return chosen
