"""The Scores: gaps by valence and beyond sampling error, names, dialects and missing judgments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np

from markedness.audits.annotation import SPEC
from markedness.audits.annotation.estimators.cells import Matched, matched, mean, of_paradigm
from markedness.audits.annotation.estimators.params import Params
from markedness.audits.annotation.estimators.sides import as_varied
from markedness.records import FeatureTables
from markedness.results import NAN, Meaning, Score
from markedness.stats.inference import MIN_CLUSTERS, Floats, adjusted, adjusted_apart, claim
from markedness.stats.inference.crossed import Claim

FAMILY = len(SPEC.headline)
OF_MARKED = {"names": "people with names of marked groups", "dialect": "texts in the marked dialect"}
VALENCES = {"positive": 1, "negative": -1}
"""Item of a key -> valence of the tasks: favorable to the person, unfavorable."""
CLUSTERED = {
    "names": "t over crossed clusters (name, reference name, vignette or its phrases left out in turn); names of a side"
    " have half the variance of all names or more",
    "dialect": "t over pairs of texts, and vignettes that several pairs share",
}
SIZE = {
    "names": "products of differences that share no name, reference name or vignette (phrase); squared sums over"
    " the trace of their covariance by cluster (ANOVA-type, F)",
    "dialect": "products of differences of different texts and vignettes; squared sums over the trace of their"
    " covariance by cluster (ANOVA-type, F)",
}
REQUESTED = "; iterations are clusters too, since requests hold texts of one side only"
FLIPPED = "where few differ or none share a cluster, signs of whole clusters exchanged"


@dataclass(frozen=True)
class Asked:
    """What every Score is made with."""

    confidence_level: float
    rng: np.random.Generator

    def score(
        self, key: str, found: Claim, of: Matched, method: str, group: str = "", missing: bool = False,
        **means: Unpack[Meaning],
    ) -> Score:  # fmt: skip
        """The Score of one claim of one paradigm; counts are those of the cells it rests on.

        ``missing``: whether it is about which answers are missing, so that groups without any are of it.
        """
        counted = f"{method}{REQUESTED if 'iteration' in of.factors else ''}; {FLIPPED}"
        made = claim(
            key, found.estimate, found.spread, found.null, family=FAMILY, confidence_level=self.confidence_level,
            method=counted, missing_column=of.missing_column, n=of.n, n_missing=of.n_missing,
            unit="judgments of pairs", comparable=True, group=group, reference=of.reference,
            over=of.asked_contrasts if missing else of.contrasts, **means,
        )  # fmt: skip
        if not missing:
            made = made.not_over(of.unanswered, "no pair of theirs has both answers")
        made = made.warned(of.warning) if of.warning else made
        if found.detectable is None or of.missing_column:
            return made
        return replace(made, detectable=found.detectable)


def scores(features: FeatureTables, params: Params, rng: np.random.Generator) -> list[Score]:
    """Every Score of one model, the headline first.

    ``p_adjusted``: Holm over the headline, over the marked groups of a measure, and over names and dialect.

    Parameters
    ----------
    features
        ``pairs``: matched pairs, rows of featurize.
    params
        Of evaluate.
    rng
        Seeded generator of exchanged signs.
    """
    asked = Asked(params.confidence_level, rng)
    parts = {paradigm: matched(of_paradigm(features["pairs"], paradigm)) for paradigm in ("names", "dialect")}
    names, dialect = parts["names"], parts["dialect"]
    found = [
        *_gaps(asked, names, "names", "gap"),
        _size(asked, names, "names", "gap_size.excess", "some labels depend on the group that a name suggests"),
        _size(
            asked, replace(names, differences=_centred(names.differences)), "names", "gap_size.specific",
            "some labels depend on the group, beyond a shift of all labels alike",
        ),
        *_gaps(asked, dialect, "dialect", "dialect_gap"),
        _size(
            asked, dialect, "dialect", "dialect_gap_size.excess",
            "some labels depend on the dialect of the text",
        ),
        _missing(asked, "missing.difference", parts),
        *_details(asked, parts),
    ]  # fmt: skip
    found = adjusted_apart(adjusted(found, SPEC.headline), lambda score: (score.measure, bool(score.group)))
    return list(_bounded(found, parts))


def _gaps(asked: Asked, of: Matched, paradigm: str, measure: str) -> Iterator[Score]:
    for item, sign in VALENCES.items():
        own, labels = of.only(of.valence == sign), "favorable" if sign > 0 else "unfavorable"
        made = asked.score(
            f"{measure}.{item}", _mean(own, own.delta, asked.rng), own, CLUSTERED[paradigm],
            **_means(labels, OF_MARKED[paradigm], -sign),
        )  # fmt: skip
        why = f"no task of these answers is {labels} (valence {sign}) by the tasks file or a column valence"
        yield replace(made, lacking=why, method=f"not estimated: {why}") if own.empty and not of.empty else made


def _size(asked: Asked, of: Matched, paradigm: str, key: str, positive: str) -> Score:
    found = Claim() if of.empty else of.crossed(of.delta).excess(asked.rng, FAMILY)
    return asked.score(key, found, of, SIZE[paradigm], positive=positive, worse=1)


def _means(labels: str, marked: str, worse: int) -> Meaning:
    """What the signs of a gap mean."""
    more, fewer = (f"the model gives {labels} labels {how} often to {marked}" for how in ("more", "less"))
    return {"positive": more, "negative": fewer, "worse": worse}


def _missing(asked: Asked, key: str, parts: Mapping[str, Matched], group: str = "") -> Score:
    """Share of missing judgments, marked minus unmarked, mean over cells of the paradigms with enough pairs."""
    there = {name: part for name, part in parts.items() if not part.empty}
    enough = {name: part for name, part in there.items() if part.crossed(part.lost).singles} or there
    of = Matched.joined(list(enough.values()))
    made = asked.score(
        key, _mean(of, of.lost, asked.rng, rare=True), of,
        "missing shares of the two texts of a pair compared, " + "; ".join(CLUSTERED[name] for name in enough),
        group=group, missing=True, positive="judgments of the marked groups are missing more often",
        negative="judgments of the marked groups are missing less often",
    )  # fmt: skip
    for name, few in there.items():
        if name not in enough:
            clusters = " and of ".join(f"'{factor.replace('_', ' ')}'" for factor in few.factors)
            made = made.not_over([name], f"a group of it has fewer than {MIN_CLUSTERS} of {clusters}")
    return made


def _details(asked: Asked, parts: Mapping[str, Matched]) -> Iterator[Score]:
    """Scores beside the headline: favorable gaps, and each marked group's."""
    for paradigm, of in parts.items():
        yield asked.score(
            f"favorable_gap.{paradigm}", _mean(of, of.delta, asked.rng, of.valence), of, CLUSTERED[paradigm],
            **_means("favorable", OF_MARKED[paradigm], -1),
        )  # fmt: skip
        yield Score(
            f"missing_share.{paradigm}", of.missing_share, n=of.n + of.n_missing, unit="judgments of pairs",
            positive="some pairs lack a judgment",
        )  # fmt: skip
    names = parts["names"]
    for group in dict.fromkeys(names.cells["group"]):
        own = names.only((names.cells["group"] == group).to_numpy())
        yield asked.score(
            f"favorable_gap.{group}", _mean(own, own.delta, asked.rng, own.valence), own, CLUSTERED["names"],
            group=str(group), **_means("favorable", f"{group} names", -1),
        )  # fmt: skip
        yield _missing(asked, f"missing.{group}", {"names": own}, str(group))


def _mean(
    of: Matched, values: Floats, rng: np.random.Generator, signs: Floats | None = None, rare: bool = False
) -> Claim:
    """Mean over cells of sign x cell mean; cells of sign 0 do not count. ``rare``: see `as_varied`."""
    weights = np.ones(values.shape[1]) if signs is None else signs
    if of.empty or not weights.any():
        return Claim()
    crossed, weights = of.crossed(values), weights / np.abs(weights).sum()
    return as_varied(crossed.weighted(weights, rng, FAMILY), crossed, weights, FAMILY, rare)


def _centred(differences: Floats) -> Floats:
    """`Matched.differences`, each pair's mean over its tasks taken out of ``delta``; NaN for a pair with one task."""
    delta = differences[0]
    there = np.isfinite(delta)
    n = there.sum(axis=1, keepdims=True)
    shift = np.nan_to_num(delta).sum(axis=1, keepdims=True) / np.maximum(n, 1)
    return np.concatenate([np.where(there & (n > 1), delta - shift, NAN)[None], differences[1:]])


def _bounded(found: list[Score], parts: Mapping[str, Matched]) -> Iterator[Score]:
    """Where missing judgments differ by group, the gaps say between which values they would lie with all of them."""
    of_measure = {"gap": parts["names"], "dialect_gap": parts["dialect"]}
    differ = next(score.p_adjusted for score in found if score.key == "missing.difference") < 0.05
    for score in found:
        of = of_measure.get(score.measure)
        if not differ or of is None or not of.n_missing or score.missing:
            yield score
            continue
        own = of.only(of.valence == VALENCES[score.item])
        low, high = (mean(own.crossed(bound).mean) for bound in own.bounds)
        yield replace(
            score, worst_low=low, worst_high=high,
            method=f"{score.method}; missing judgments differ by group: whatever they would have been, the estimate "
            f"lies in [{low:.2f}, {high:.2f}]",
        )  # fmt: skip
