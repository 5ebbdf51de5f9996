"""What was sampled: the verbs or source texts of the pairs, the prompts, and the occupations or their groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from markedness.audits.guise.estimators.text_sets import Floats, Names, TextSet, mean_over_sets
from markedness.stats.inference import Codes, Estimator, LeaveOut, Spread, half_sample_spread, spread

VERB, PROMPT, OCCUPATION, OCCUPATIONAL_GROUP = "verb", "prompt", "occupation", "occupational group"
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
    attribute_groups: Names | None = None
    """Shape (attributes,): attributes of one name resemble each other; None where each is its own."""

    @property
    def missing_column(self) -> str:
        """The column that the data lack to say which texts belong together; "" where they say, or ask for no texts."""
        texts = [one for one in self.sets if one.setting != "overt"]
        named = all(one.clusters is not None and one.clusters_reference is not None for one in texts)
        return "" if named else "verb"

    @cached_property
    def _sides(self) -> list[list[_Side]]:
        return [_sides(one) for one in self.sets]

    @cached_property
    def _groups(self) -> Codes:
        """Group of each side: each guise of texts that are not matched has clusters and a spread of its own."""
        labels = [
            "matched" if one.matched else f"{number} {side}"
            for number, (one, sides) in enumerate(zip(self.sets, self._sides, strict=True))
            for side in range(len(sides))
        ]
        return np.unique(labels, return_inverse=True)[1].astype(np.intp)

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
        if self.attribute_groups is not None:
            coded[OCCUPATIONAL_GROUP] = self.attribute_groups[places % n_attributes]
        if all(side.names is not None for side in sides):
            coded[VERB] = np.concatenate([side.names for side in sides if side.names is not None])
        known: Mapping[str, Codes | Names] = {name: coded[name] for name in factors if name in coded}
        groups = np.repeat(self._groups, [len(side.places) for side in sides])
        return spread(self.without(score), known, groups) if len(places) else Spread()

    def half_sample_spread(self, score: ScoreFunction, estimate: float, *factors: str) -> Spread:
        """Sampling error of a score that jumps, over verbs and prompts; see the engine."""
        if VERB in factors and self.missing_column:
            return Spread()
        estimators = {}
        if VERB in factors:
            estimators[VERB] = self._weighted_verbs(score)
        if PROMPT in factors:
            log_ratio = mean_over_sets(self.sets, [one.log_ratio(self.base) for one in self.sets])
            prompts = list(self.sets[0].prompts)

            def of_prompts(weights: Floats) -> Floats:
                return score(np.where(weights[:, :, None] > 0, log_ratio, np.nan))

            estimators[PROMPT] = (prompts, np.isfinite(log_ratio).sum(axis=1), of_prompts)
        return half_sample_spread(estimate, estimators)

    def _weighted_verbs(self, score: ScoreFunction) -> tuple[list[str], Floats, Estimator]:
        """Names of the verbs or source texts, their sizes in each group, and the score from weights of them."""
        sides = [side for of_set in self._sides for side in of_set]
        names = np.concatenate([side.names for side in sides if side.names is not None]).astype(str)
        clusters, codes = np.unique(names, return_inverse=True)
        shape = (len(self.sets[0].prompts), len(self.sets[0].attributes))
        n, n_cells = len(clusters), int(np.prod(shape))
        sums, place = [], 0
        for side in sides:
            cells = codes[place : place + len(side.values)] * n_cells + side.places
            place += len(side.values)
            made = (np.bincount(cells, values, n * n_cells).reshape(n, n_cells) for values in (side.values, None))
            sums.append(tuple(made))

        def of_verbs(weights: Floats) -> Floats:
            with np.errstate(invalid="ignore", divide="ignore"):
                means = iter([((weights @ top) / (weights @ count)).reshape(-1, *shape) for top, count in sums])
            terms = [[next(means) for _ in of_set] for of_set in self._sides]
            ratios = [
                _log_ratio(term, one.matched) / float(np.log(self.base))
                for one, term in zip(self.sets, terms, strict=True)
            ]
            return score(mean_over_sets(self.sets, ratios))

        group = np.repeat(self._groups, [len(side.values) for side in sides])
        sizes = np.bincount(group * n + codes, minlength=(group.max(initial=0) + 1) * n).reshape(-1, n)
        return [str(name) for name in clusters], sizes.astype(float), of_verbs

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
