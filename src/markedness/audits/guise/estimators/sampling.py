"""What was sampled: the verbs or source texts of the pairs, the prompts, and for prestige the occupations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from markedness.audits.guise.estimators.text_sets import Floats, Names, TextSet, mean_over_sets
from markedness.stats.inference import Codes, LeaveOut, Spread, spread

VERB, PROMPT, OCCUPATION = "verb", "prompt", "occupation"
"""Factors: pairs of one verb, or of one source text where they are not made from verbs, are one cluster."""
ScoreFunction = Callable[[Floats], Floats]
"""Log ratios (..., n_prompts, n_attributes) -> scores (...)."""
_BATCH = 4_000_000


@dataclass(frozen=True)
class _Side:
    """One term of the log ratio of a set: means over these cells."""

    values: Floats
    """ln p, its difference, or for sets that are not matched p up to a factor for each prompt and attribute."""
    places: Codes
    """Prompt and attribute of each cell, as a place in an array (n_prompts, n_attributes)."""
    names: Names | None
    """Cluster of each cell."""


@dataclass(frozen=True)
class Sample:
    """The scores of one task, cell by cell, so that any clusters of them can be left out."""

    sets: Sequence[TextSet]
    base: float

    @property
    def missing_column(self) -> str:
        """The column that the data lack to say which texts belong together; "" where they say, or ask for no texts."""
        texts = [one for one in self.sets if one.setting != "overt"]
        named = all(one.clusters is not None and one.clusters_reference is not None for one in texts)
        return "" if named else "verb"

    @cached_property
    def _sides(self) -> list[list[_Side]]:
        return [_sides(one) for one in self.sets]

    def spread(self, score: ScoreFunction, *factors: str) -> Spread:
        """Sampling error of a score over these factors; words for the groups are fixed."""
        if VERB in factors and self.missing_column:
            return Spread()
        sides = [side for of_set in self._sides for side in of_set]
        places = np.concatenate([side.places for side in sides])
        n_attributes = len(self.sets[0].attributes)
        coded: dict[str, Codes | Names] = {
            PROMPT: np.asarray(self.sets[0].prompts, dtype=object)[places // n_attributes],
            OCCUPATION: np.asarray(self.sets[0].attributes, dtype=object)[places % n_attributes],
        }
        if all(side.names is not None for side in sides):
            coded[VERB] = np.concatenate([side.names for side in sides if side.names is not None])
        known: Mapping[str, Codes | Names] = {name: coded[name] for name in factors if name in coded}
        return spread(self.without(score), known) if len(places) else Spread()

    def without(self, score: ScoreFunction) -> LeaveOut:
        """The score without each cluster of cells."""
        shape = (len(self.sets[0].prompts), len(self.sets[0].attributes))
        n_cells = int(np.prod(shape))

        def left_out(codes: Codes, n_clusters: int) -> Floats:
            step, found = max(1, _BATCH // n_cells), []
            for start in range(0, n_clusters, step):
                stop, place, ratios = min(start + step, n_clusters), 0, []
                for one, sides in zip(self.sets, self._sides, strict=True):
                    terms = []
                    for side in sides:
                        own = codes[place : place + len(side.values)]
                        place += len(side.values)
                        terms.append(_means(side, own, start, stop, n_cells).reshape(-1, *shape))
                    ratios.append(_log_ratio(terms, one.matched) / float(np.log(self.base)))
                found.append(score(mean_over_sets(self.sets, ratios)))
            return np.concatenate(found)

        return left_out


def _sides(one: TextSet) -> list[_Side]:
    shape = one.log_p.shape
    places = np.broadcast_to(np.arange(int(np.prod(shape[1:]))), (shape[0], int(np.prod(shape[1:])))).reshape(shape)
    if one.matched:
        terms = [(one.log_p - one.log_p_reference, one.clusters)]
    else:
        both = np.concatenate([one.log_p, one.log_p_reference])
        top = np.max(np.where(np.isfinite(both), both, -np.inf), axis=0, initial=-745.0)
        terms = [
            (np.exp(one.log_p - top), one.clusters),
            (np.exp(one.log_p_reference - top), one.clusters_reference),
        ]
    made = []
    for values, names in terms:
        there = np.isfinite(values)
        of_cells = None if names is None else np.broadcast_to(names[:, None, None], shape)[there]
        if one.setting == "overt":
            of_cells = np.full(int(there.sum()), "words", dtype=object)
        made.append(_Side(values[there], places[there].astype(np.intp), of_cells))
    return made


def _means(side: _Side, codes: Codes, start: int, stop: int, n_cells: int) -> Floats:
    """Mean of each place without each of the clusters from start to stop, shape (stop - start, n_cells)."""
    chosen = (codes >= start) & (codes < stop)
    cells = (codes[chosen] - start) * n_cells + side.places[chosen]
    size = (stop - start) * n_cells
    taken = np.bincount(cells, side.values[chosen], size).reshape(-1, n_cells)
    counted = np.bincount(cells, minlength=size).reshape(-1, n_cells)
    total = np.bincount(side.places, side.values, n_cells)
    count = np.bincount(side.places, minlength=n_cells) - counted
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(count > 0, (total - taken) / count, np.nan))


def _log_ratio(terms: Sequence[Floats], matched: bool) -> Floats:
    if matched:
        return terms[0]
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.log(terms[0]) - np.log(terms[1])
    return np.where(np.isfinite(ratio), ratio, np.nan)
