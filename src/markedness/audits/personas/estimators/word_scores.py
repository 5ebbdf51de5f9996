"""Scores on words: how many are marked and how far they diverge, beyond what exchanged labels give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

import numpy as np

from markedness.audits.personas import SPEC
from markedness.audits.personas.estimators.corpus import Corpus
from markedness.audits.personas.estimators.interaction import Interactions, interactions
from markedness.audits.personas.estimators.marked_words import (
    Exchanged,
    divergence_influences,
    excess_influences,
    of_axis,
)
from markedness.audits.personas.estimators.params import Params
from markedness.audits.personas.language.groups import Group
from markedness.results import NAN, Score, not_estimated
from markedness.stats.inference import (
    NO_SPREAD,
    Draws,
    Exchange,
    Floats,
    Null,
    benjamini_hochberg,
    claim,
    draws_needed,
    exchange_test,
    null_detectable,
)

FAMILY = len(SPEC.headline)
EXCHANGED = "labels of whole texts, copies together, exchanged within prompt"
_MORE_WORDS = "the texts about marked groups have more words of their own than chance would give"
_MORE_BITS = "the words about marked groups differ from those about unmarked ones more than by chance"
_BEYOND = "crossed groups have words that their values one by one do not explain"


def most_draws(params: Params, family: int = FAMILY) -> int:
    """Draws that a family of tests needs, at most ``n_permutations``."""
    needed = draws_needed(family)
    return needed if params.n_permutations is None else min(needed, params.n_permutations)


def corrected(scores: Sequence[Score]) -> list[Score]:
    """``p_adjusted`` by Benjamini-Hochberg over the groups of one measure and kind."""
    if not scores:
        return []
    p_values = benjamini_hochberg([score.p for score in scores])
    return [
        replace(score, p_adjusted=NAN if np.isnan(score.p) else float(p))
        for score, p in zip(scores, p_values, strict=True)
    ]


@dataclass(frozen=True)
class _Test:
    """One-sided tests of statistics of one exchange."""

    draws: Draws
    most: int
    smallest_p: float

    @classmethod
    def of(cls, exchange: Exchange, draws: Draws, most: int) -> _Test:
        return cls(draws, most, exchange.smallest_p)

    def null(self, observed: float, statistic: Callable[[Floats], Floats]) -> Null:
        """NaN throughout where nothing can be exchanged."""
        if self.smallest_p >= 1:
            return Null()
        return exchange_test(observed, self.draws.reader(statistic), self.most, False, self.smallest_p)


def _centred(null: Null) -> Null:
    """Of the statistic minus its mean."""
    return replace(null, mean=null.mean - null.mean, low=null.low - null.mean, high=null.high - null.mean)


class _About(TypedDict, total=False):
    n: int
    n_missing: int
    unit: str
    positive: str
    worse: int
    group: str
    reference: str


def _about(corpus: Corpus, positive: str, group: Group | None = None) -> _About:
    n, missing = len(corpus.used), len(corpus.rows) - len(corpus.used)
    if group is None:
        return {"n": n, "n_missing": missing, "unit": "texts", "positive": positive, "worse": 1}
    reference = ", ".join(name for name, _ in group.references)
    return {
        "n": int(corpus.grouping.mask(group.fixed).sum()), "n_missing": corpus.left_out(group.fixed), "unit": "texts",
        "positive": positive.replace("marked groups", f"the group {group.name}"), "worse": 1, "group": group.name,
        "reference": reference,
    }  # fmt: skip


def _child(rng: np.random.Generator) -> np.random.Generator:
    """So that what one test draws does not depend on how long another drew."""
    return np.random.default_rng(int(rng.integers(2**63)))


def word_scores(corpus: Corpus, params: Params, rng: np.random.Generator) -> tuple[list[Score], list[Score]]:
    """``marked_words.excess`` and ``jsd.excess``; then the same of each group.

    The headline exchanges whole combinations: its null is that no axis matters. A group of one axis exchanges the
    values of that axis within prompt and the values of the others, which may matter; a crossed group is compared with
    several groups at once and exchanges combinations.
    """
    groups = [group for group in corpus.compared if group.marked]
    if not groups:
        return [not_estimated("marked_words.excess"), not_estimated("jsd.excess")], []
    marked = np.flatnonzero(corpus.marked)
    bits = divergence_influences(corpus, corpus.compared)[0]
    clustered = corpus.units.clustered(excess_influences(corpus, corpus.compared, _child(rng)))
    joint = Exchanged(corpus, groups, None, params.z_threshold)
    observed, drawn = joint.observed, joint.draws(_child(rng))
    n_groups = len(groups)
    test = _Test.of(joint.exchange, drawn, most_draws(params))
    counts = corpus.n_marked(params.z_threshold)
    n_marked = float(counts[marked].sum())
    words = test.null(n_marked, lambda made: made[:, :n_groups].sum(axis=1))
    more = test.null(float(observed[n_groups:].mean()), lambda made: made[:, n_groups:].mean(axis=1))
    units = corpus.units
    headline = [
        claim(
            "marked_words.excess", n_marked - words.mean, NO_SPREAD, _centred(words), family=FAMILY,
            method=f"{EXCHANGED}, one-sided; no interval and no comparison, since it grows with the number of texts",
            missing_column=units.missing_column, smallest_effect=null_detectable(words, FAMILY),
            **_about(corpus, _MORE_WORDS),
        ),
        claim(
            "jsd.excess", float(bits[marked].mean()) - more.mean, units.spread(clustered[:, marked].mean(axis=1)),
            _centred(more), family=FAMILY, confidence_level=params.confidence_level,
            method=units.method(f"{EXCHANGED}, one-sided"), missing_column=units.missing_column,
            smallest_effect=null_detectable(more, FAMILY), comparable=True, **_about(corpus, _MORE_BITS),
        ),
    ]  # fmt: skip
    by_group: dict[str, tuple[Score, Score]] = {}
    for axis in (*corpus.axes, None):
        groups = of_axis(corpus.grouping, axis)
        if not groups:
            continue
        own = joint if axis is None else Exchanged(corpus, groups, axis, params.z_threshold)
        made = drawn if axis is None else own.draws(_child(rng))
        test = _Test.of(own.exchange, made, most_draws(params, 1))
        for group in groups:
            place = corpus.compared.index(group)
            by_group[group.name] = _of_group(
                corpus, group, test, own, (float(counts[place]), float(bits[place])),
                clustered[:, place],
            )  # fmt: skip
    found = [by_group[group.name] for group in corpus.compared]
    return headline, [
        *corrected([counted for counted, _ in found]),
        *corrected([more for (_, more), is_marked in zip(found, corpus.marked, strict=True) if is_marked]),
    ]


def _of_group(
    corpus: Corpus, group: Group, test: _Test, own: Exchanged, values: tuple[float, float], influence: Floats
) -> tuple[Score, Score]:
    """Marked words and excess divergence of one group, whose point values are given."""
    n_words, bits = values
    column, width = own.groups.index(group), len(own.groups)
    words = test.null(n_words, lambda made: made[:, column])
    more = test.null(float(own.observed[width + column]), lambda made: made[:, width + column])
    how = EXCHANGED if own.axis is None else f"{EXCHANGED} and the values of other axes"
    missing = corpus.units.missing_column
    return (
        claim(
            f"marked_words.{corpus.kind}: {group.name}", n_words, NO_SPREAD, words, method=f"{how}, one-sided",
            missing_column=missing, smallest_effect=null_detectable(words), **_about(corpus, _MORE_WORDS, group),
        ),
        claim(
            f"jsd.{corpus.kind}: {group.name}", bits - more.mean, corpus.units.spread(influence), _centred(more),
            method=corpus.units.method(f"{how}, one-sided"), missing_column=missing,
            smallest_effect=null_detectable(more), **_about(corpus, _MORE_BITS, group),
        ),
    )  # fmt: skip


def interaction_score(corpus: Corpus, params: Params, rng: np.random.Generator) -> tuple[Score, Interactions | None]:
    """``interaction.excess``: words of crossed groups beyond their single values, and the tests it counts."""
    most = most_draws(params) if params.n_resamples is None else min(most_draws(params), params.n_resamples)
    found = interactions(corpus, most, FAMILY, rng) if corpus.compared else None
    method = (
        "words with p <= 0.05 by max-T over all words and crossed groups; residuals of whole texts, copies together, "
        "exchanged within prompt; one-sided; no interval and no comparison, since it grows with the number of texts"
    )
    if found is None:
        return not_estimated("interaction.excess"), None
    null = replace(found.null, mean=0.0, low=-found.n_by_chance, high=NAN)
    return (
        claim(
            "interaction.excess", found.n_words - found.n_by_chance, NO_SPREAD, null, family=FAMILY, method=method,
            missing_column=corpus.units.missing_column, smallest_effect=NAN, **_about(corpus, _BEYOND),
        ),
        found,
    )  # fmt: skip
