"""Scores on words: how many are marked and how far they diverge, beyond what exchanged labels give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypedDict

import numpy as np

from markedness.audits.personas import SPEC
from markedness.audits.personas.estimators.corpus import Corpus
from markedness.audits.personas.estimators.divergence import excess_influences
from markedness.audits.personas.estimators.interaction import Interactions, interactions, untested
from markedness.audits.personas.estimators.marked_words import Exchanged, of_axis
from markedness.audits.personas.estimators.notes import shared_texts, unequal_copies, unequal_lengths
from markedness.audits.personas.estimators.params import Params
from markedness.audits.personas.language.groups import Group
from markedness.results import NAN, Score, named_contrasts, not_estimated
from markedness.stats.inference import (
    ALPHA,
    NO_SPREAD,
    Draws,
    Exchange,
    Floats,
    Null,
    benjamini_hochberg,
    claim,
    count_detectable,
    draws_needed,
    exchange_test,
    null_detectable,
)

FAMILY = len(SPEC.headline)
EXCHANGED = "labels of whole texts, cut to lengths that all groups have, copies together, exchanged within prompt"
_MORE_WORDS = "the texts about marked groups have more words of their own than chance would give"
_MORE_BITS = "the words about marked groups differ from those about unmarked ones more than by chance"
_BEYOND = "crossed groups have words that their values one by one do not explain"


def most_draws(params: Params, family: int = FAMILY) -> int:
    """Draws that a family of tests needs, at most ``n_permutations``."""
    needed = draws_needed(family)
    return needed if params.n_permutations is None else min(needed, params.n_permutations)


def corrected(scores: Sequence[Score]) -> list[Score]:
    """``p_adjusted`` by Benjamini-Hochberg over the groups of one measure and kind."""
    p_values = benjamini_hochberg([score.p for score in scores])
    return [replace(score, p_adjusted=float(p)) for score, p in zip(scores, p_values, strict=True)]


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
    over: str


def _about(corpus: Corpus, positive: str, group: Group | None = None, over: Sequence[Group] = ()) -> _About:
    n, missing = len(corpus.used), len(corpus.rows) - len(corpus.used)
    if group is None:
        pairs = ((one.name, reference) for one in over for reference, _ in one.references)
        named = named_contrasts(pairs) if over else corpus.marked_contrasts
        return {"n": n, "n_missing": missing, "unit": "texts", "positive": positive, "worse": 1, "over": named}
    reference = ", ".join(name for name, _ in group.references)
    return {
        "n": int(corpus.grouping.mask(group.fixed).sum()), "n_missing": corpus.left_out(group.fixed), "unit": "texts",
        "positive": positive.replace("marked groups", f"the group {group.name}"), "worse": 1, "group": group.name,
        "reference": reference,
    }  # fmt: skip


def _child(rng: np.random.Generator) -> np.random.Generator:
    """So that what one test draws does not depend on how long another drew."""
    return np.random.default_rng(int(rng.integers(2**63)))


def word_scores(
    corpus: Corpus, params: Params, rng: np.random.Generator
) -> tuple[list[Score], Callable[[], list[Score]]]:
    """``marked_words.excess`` and ``jsd.excess``; then what makes the same of each group.

    The headline exchanges whole combinations: its null is that no axis matters. A group of one axis exchanges the
    values of that axis within prompt and the values of the others, which may matter; a crossed group is compared with
    several groups at once and exchanges combinations. A group without a prompt that has texts of a reference too, or
    with so few texts that no exchange with it could reach the level, is not tested, and the headline is not over it.
    """
    if not corpus.marked.any():
        nothing = "no text of a marked group has words that can be compared with those of its reference"
        why = corpus.unread.get("words", nothing)
        return [not_estimated("marked_words.excess", why), not_estimated("jsd.excess", why)], list
    groups = [group for group in corpus.compared if group.marked and group not in corpus.untested]
    marked = np.array([corpus.compared.index(group) for group in groups], dtype=np.intp)
    bits, influences = excess_influences(corpus, corpus.compared, _child(rng))
    clustered, further = corpus.units.clustered(influences), rng.spawn(1)[0]
    if not groups:
        headline = [
            not_estimated(key, _untested(corpus, corpus.untested)) for key in ("marked_words.excess", "jsd.excess")
        ]
        return headline, partial(_group_scores, corpus, params, further, bits, clustered, None)
    joint = Exchanged(corpus, groups, None, params.z_threshold)
    observed, drawn = joint.observed, joint.draws(_child(rng))
    n_groups = len(groups)
    test = _Test.of(joint.exchange, drawn, most_draws(params))
    n_marked = float(observed[:n_groups].sum())
    words = test.null(n_marked, lambda made: made[:, :n_groups].sum(axis=1))
    more = test.null(float(observed[n_groups:].mean()), lambda made: made[:, n_groups:].mean(axis=1))
    units, about = corpus.units, _about(corpus, _MORE_WORDS, over=groups)
    left = f"; {_untested(corpus, corpus.untested)}" if corpus.untested else ""
    headline = [
        claim(
            "marked_words.excess", n_marked - words.mean, NO_SPREAD, _centred(words), family=FAMILY,
            method=f"{EXCHANGED}, one-sided; no interval and no comparison, since it grows with the number of texts"
            + left,
            missing_column=units.missing_column, smallest_effect=count_detectable(words, FAMILY), **about,
        ),
        claim(
            "jsd.excess", float(bits[marked].mean()) - more.mean, units.spread(clustered[:, marked].mean(axis=1)),
            _centred(more), family=FAMILY, confidence_level=params.confidence_level,
            method=units.method(f"{EXCHANGED}, one-sided") + left, missing_column=units.missing_column,
            smallest_effect=null_detectable(more, FAMILY), comparable=True,
            **_about(corpus, _MORE_BITS, over=groups),
        ),
    ]  # fmt: skip
    if corpus.untested:  # a reader of the number alone must not take it for one of these groups
        headline = [one.warned(f"Not over all groups, {_untested(corpus, corpus.untested)}.") for one in headline]
    unequal = unequal_copies(corpus, None, _child(rng))

    def of_groups() -> list[Score]:
        made = _group_scores(corpus, params, further, bits, clustered, (joint, drawn))
        of_axes: dict[str | None, str] = {axis: unequal_copies(corpus, axis, _child(further)) for axis in corpus.axes}
        return _warned(corpus, made, {**of_axes, None: unequal})

    return _warned(corpus, headline, {None: unequal}), of_groups


def _warned(corpus: Corpus, scores: Sequence[Score], unequal: Mapping[str | None, str]) -> list[Score]:
    """What is tested says where copies or lengths could be what is found; ``unequal``: of the groups of each axis."""
    axes = {group.name: axis for axis in unequal for group in of_axis(corpus.grouping, axis)}
    always = (shared_texts(corpus), unequal_lengths(corpus))

    def warned(score: Score) -> Score:
        if not score.family or score.missing:
            return score
        said = " ".join(filter(None, (unequal[axes.get(score.group)], *always)))
        return score.warned(said) if said else score

    return list(map(warned, scores))


def _untested(corpus: Corpus, groups: Sequence[Group], axis: str | None = None) -> str:
    """Why these groups are not tested."""
    apart = [group for group in groups if corpus.units.smallest_p(group, axis) >= 1]
    few = [group.name for group in groups if group not in apart]
    parts = []
    if apart:
        names, within = ", ".join(group.name for group in apart), corpus.units.apart(apart, axis)
        parts.append(f"no {within} has texts of the group and of what it is compared with: {names}")
    if few:
        parts.append("cannot be found at this size, with so few texts: " + ", ".join(few))
    return f"not tested: {'; '.join(parts)}"


def _group_scores(
    corpus: Corpus, params: Params, rng: np.random.Generator, bits: Floats, clustered: Floats,
    joint: tuple[Exchanged, Draws] | None,
) -> list[Score]:  # fmt: skip
    """Marked words and excess divergence of each compared group; ``joint``: combinations exchanged, and draws of it."""
    by_group: dict[str, tuple[Score, Score]] = {}
    counts = corpus.n_marked(params.z_threshold)
    for axis in (*corpus.axes, None):
        groups = of_axis(corpus.grouping, axis)
        if not groups:
            continue
        if axis is not None:
            own = Exchanged(corpus, groups, axis, params.z_threshold)
            tested: tuple[Exchanged, Draws] | None = (own, own.draws(_child(rng)))
        else:
            tested = joint
        for group in groups:
            place = corpus.compared.index(group)
            if tested is None or group not in tested[0].groups or corpus.units.smallest_p(group, axis) > ALPHA:
                by_group[group.name] = _not_tested(corpus, group, axis, float(counts[place]))
                continue
            own, made = tested
            test = _Test.of(own.exchange, made, most_draws(params, 1))
            by_group[group.name] = _of_group(
                corpus, group, test, own, float(bits[place]), clustered[:, place], params.confidence_level
            )
    found = [by_group[group.name] for group in corpus.compared]
    return [
        *corrected([counted for counted, _ in found]),
        *corrected([more for (_, more), is_marked in zip(found, corpus.marked, strict=True) if is_marked]),
    ]


def _not_tested(corpus: Corpus, group: Group, axis: str | None, n_words: float) -> tuple[Score, Score]:
    """The number of words, without a p, and no excess."""
    missing, why = corpus.units.missing_column, _untested(corpus, [group], axis)

    def score(measure: str, estimate: float, positive: str) -> Score:
        key, about = f"{measure}.{corpus.kind}: {group.name}", _about(corpus, positive, group)
        made = claim(key, estimate, NO_SPREAD, Null(), method=why, missing_column=missing, **about)
        return made if missing else replace(made, lacking=why)

    return score("marked_words", n_words, _MORE_WORDS), score("jsd", NAN, _MORE_BITS)


def _of_group(
    corpus: Corpus, group: Group, test: _Test, own: Exchanged, bits: float, influence: Floats, confidence_level: float
) -> tuple[Score, Score]:
    """Marked words and excess divergence of one group."""
    column, width = own.groups.index(group), len(own.groups)
    n_words = float(own.observed[column])
    words = test.null(n_words, lambda made: made[:, column])
    more = test.null(float(own.observed[width + column]), lambda made: made[:, width + column])
    how = EXCHANGED if own.axis is None else f"{EXCHANGED} and the values of other axes"
    units, missing = corpus.units, corpus.units.missing_column
    return (
        claim(
            f"marked_words.{corpus.kind}: {group.name}", n_words, NO_SPREAD, words, method=f"{how}, one-sided",
            missing_column=missing, smallest_effect=count_detectable(words), **_about(corpus, _MORE_WORDS, group),
        ),
        claim(
            f"jsd.{corpus.kind}: {group.name}", bits - more.mean,
            units.spread(influence) if units.supports(group) else NO_SPREAD, _centred(more),
            confidence_level=confidence_level, method=units.method(f"{how}, one-sided", group), missing_column=missing,
            smallest_effect=null_detectable(more), **_about(corpus, _MORE_BITS, group),
        ),
    )  # fmt: skip


def interaction_score(corpus: Corpus, params: Params, rng: np.random.Generator) -> tuple[Score, Interactions | None]:
    """``interaction.excess``: words of crossed groups beyond their single values, and the tests it counts."""
    if reason := untested(corpus.units):
        return not_estimated("interaction.excess", f"not tested: {reason}"), None
    most = most_draws(params) if params.n_resamples is None else min(most_draws(params), params.n_resamples)
    found = interactions(corpus, most, FAMILY, rng) if corpus.compared else None
    method = (
        "words with p <= 0.05 by max-T over all words and crossed groups; residuals of whole texts, copies together, "
        "exchanged within prompt; one-sided; no interval and no comparison, since it grows with the number of texts"
    )
    if found is None:
        why = "there is no word of a crossed group of marked values that can be tested"
        return not_estimated("interaction.excess", why), None
    null = replace(found.null, mean=0.0, low=-found.n_by_chance, high=NAN)
    return (
        claim(
            "interaction.excess", found.n_words - found.n_by_chance, NO_SPREAD, null, family=FAMILY, method=method,
            missing_column=corpus.units.missing_column, smallest_effect=NAN, **_about(corpus, _BEYOND),
        ),
        found,
    )  # fmt: skip
