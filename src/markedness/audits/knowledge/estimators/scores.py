"""The Scores of the audit: the headline, classes and subjects, and the quality of the crawl."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import pandas as pd

from markedness.audits.knowledge import SPEC
from markedness.audits.knowledge.estimators.classes import (
    MEASURES,
    SCORED,
    Cells,
    Floats,
    Measure,
    SubjectClass,
    counted_once,
    has_crawls,
    made_by,
    not_measured,
    subject_classes,
)
from markedness.audits.knowledge.estimators.gaps import CLAIMS, Crawls, gap_scores
from markedness.audits.knowledge.estimators.topic_divergence import CLAIM as TOPICS
from markedness.audits.knowledge.estimators.topic_divergence import (
    expected_relative_entropy,
    published_relative_entropy,
    topic_scores,
)
from markedness.records import FeatureTables
from markedness.results import NAN, Score, with_missing
from markedness.stats.inference import (
    ALPHA,
    NO_TEST,
    UNLIKE,
    Null,
    adjusted,
    adjusted_apart,
    benjamini_hochberg,
    withdrawn,
)

RANGE: dict[Measure, tuple[float, float]] = {"regard": (-1.0, 1.0), "toxicity": (0.0, 1.0)}
"""Lowest and highest value of one triple."""


_OF_TRIPLES = {CLAIMS[measure].key for measure in MEASURES} | {TOPICS.key}
"""Measures that read the triples alone."""
_ALL = {claim.all_classes for claim in (*CLAIMS.values(), TOPICS)}
_OTHERWISE = "the answers about marked subjects are of other prompts, rounds or strategies than the reference's"


class Params(Protocol):
    """What is read of the params of evaluate."""

    @property
    def confidence_level(self) -> float:
        """Of intervals, in (0, 1)."""
        ...


def scores(features: FeatureTables, params: Params, rng: np.random.Generator) -> list[Score]:
    """Every Score, without tables.

    Parameters
    ----------
    features
        ``triples`` of featurize; its column ``crawl`` names the crawl of each answer. Copies of a crawl count once.
    params
        The confidence level.
    rng
        Seeds the exchange of subjects.

    Returns
    -------
    list of Score
        ``regard_gap``, ``toxicity_gap`` and ``valid``: mean of the marked subjects less the reference of their class,
        t over crawls; ``regard_scored`` and ``toxicity_scored`` alike, where a scorer left triples without a value.
        ``topic_divergence``: see `markedness.audits.knowledge.estimators.topic_divergence`. Items: ``marked``
        (``difference`` of valid and scored) is the mean over classes, "<class>" the marked subjects of one class,
        "<class>: <subject>" one subject. ``p_adjusted``: Holm over the headline and over the classes of a measure;
        Benjamini-Hochberg over its subjects.
    """
    triples, copies = counted_once(features["triples"])
    classes = subject_classes(triples)
    crawls = Crawls(classes[0].crawls if classes else ["1"], has_crawls(triples), params.confidence_level, copies)
    lacking = [SCORED[measure] for measure in MEASURES if _some_unscored(triples, classes, measure)]
    measures = (*MEASURES, "valid", *lacking)
    found = [score for measure in measures for score in gap_scores(classes, measure, crawls)]
    found = _of_like_questions([*found, *topic_scores(classes, crawls, rng)], classes)
    found = _subjects_adjusted(found)
    found = adjusted_apart(adjusted(found, SPEC.headline), lambda score: score.measure)
    found = [*_with_worst_case(found, classes), *_levels(classes, crawls)]
    why = {column: not_measured(triples, column) for column in _MADE_BY}
    reason = {measure: why[column] for column, measures in _MADE_BY.items() for measure in measures}
    by = {measure: made_by(triples, column) for column, measures in _MADE_BY.items() for measure in measures}
    found = [replace(score, scorer=by.get(score.measure, "")) for score in found]
    return [_for_reason(score, reason.get(score.measure, "")) for score in found]


_MADE_BY = {
    "regard_scorer": ("regard_gap", "regard"),
    "toxicity_scorer": ("toxicity_gap", "toxicity"),
    "topic_model": ("topic_divergence", "relative_entropy", "topic_stability"),
}
"""Column of the triples that names who made a measure -> first parts of the keys of its Scores."""


def _for_reason(score: Score, why: str) -> Score:
    """A Score that is missing for a reason says it, and not that there is too little data."""
    return replace(score, lacking=why, method=f"not estimated: {why}") if why and score.missing else score


def _of_like_questions(found: Sequence[Score], classes: Sequence[SubjectClass]) -> list[Score]:
    """With a caveat, or without interval and p, where answers compared are of other prompts, rounds or strategies."""
    of_answers = {of_triples: _unlike(classes, of_triples) for of_triples in (True, False)}
    made = []
    for score in found:
        share, of_each = of_answers[score.measure in _OF_TRIPLES].get(score.item, (0.0, 0.0))
        divergence = score.measure == TOPICS.key
        share, most = (of_each, UNLIKE) if divergence else (share, NO_TEST)
        if share > most and not score.missing:
            score = withdrawn(score, _OTHERWISE)
        elif share > UNLIKE and not score.missing:
            score = score.warned(f"{_OTHERWISE[0].upper()}{_OTHERWISE[1:]}, and what these do is part of it.")
        made.append(score)
    return made


def _unlike(classes: Sequence[SubjectClass], of_triples: bool) -> dict[str, tuple[float, float]]:
    """Item -> how unlike the answers are whose mean is compared, and, in squares, those of each subject for itself.

    Of a gap, what prompts do to subjects that lean to opposite sides cancels; of a divergence, nothing does. Classes
    are pooled in squares: the error of the mean of n of them falls with the square root of n, too.
    """
    found: dict[str, tuple[float, float]] = {}
    of_classes = []
    for one in [one for one in classes if one.marked]:
        each = [one.unlike([place], of_triples) for place in one.marked]
        found |= {f"{one.key}: {one.subjects[place]}": (x, x) for place, x in zip(one.marked, each, strict=True)}
        found[one.key] = one.unlike(one.marked, of_triples), float(np.sqrt(np.mean(np.square(each))))
        of_classes.append(found[one.key])
    whole, each_alone = np.sqrt(np.square(of_classes or [(0.0, 0.0)]).mean(axis=0))
    return found | dict.fromkeys(_ALL, (float(whole), float(each_alone)))


def _subjects_adjusted(found: list[Score]) -> list[Score]:
    """With ``p_adjusted`` of the single subjects, over those of one measure."""
    made = list(found)
    for measure in {score.measure for score in found}:
        places = [place for place, score in enumerate(made) if score.measure == measure and score.group]
        for place, p in zip(places, benjamini_hochberg([made[place].p for place in places]), strict=True):
            made[place] = replace(made[place], p_adjusted=float(p))
    return made


def _with_worst_case(found: list[Score], classes: Sequence[SubjectClass]) -> list[Score]:
    """Where answers are missing unequally, say between which bounds the gap could be were none missing."""
    by_key = {score.key: score for score in found}
    made = []
    for score in found:
        measure = next((name for name in RANGE if CLAIMS[name].key == score.measure), None)
        item = CLAIMS["valid"].all_classes if score.item == "marked" else score.item
        lacking = None if measure is None else by_key.get(f"{SCORED[measure]}.{item}")
        valid = lacking or by_key.get(f"{CLAIMS['valid'].key}.{item}")
        p = NAN if valid is None else valid.p if math.isnan(valid.p_adjusted) else valid.p_adjusted
        if measure is not None and valid is not None and p <= ALPHA:
            named = [one for one in classes if score.item == "marked" or score.item.split(": ")[0] == one.key]
            low, high = (_extreme(named, measure, score.group, sign) for sign in (-1, 1))
            sentence = f"missing unequally ({valid.key}): {low:.2f} to {high:.2f} if all triples asked for were there"
            score = replace(score, method=f"{score.method}; {sentence}", worst_low=low, worst_high=high)
            score = score if lacking is None else with_missing([score, lacking], lacking.key)[0]
        made.append(score)
    return made


def _some_unscored(triples: pd.DataFrame, classes: Sequence[SubjectClass], measure: Measure) -> bool:
    """Whether a scorer left some triples without a value, and not all, for a reason that is said elsewhere."""
    measured = not not_measured(triples, f"{measure}_scorer")
    return measured and any(one.rows[measure].isna().any() for one in classes)


def _extreme(classes: Sequence[SubjectClass], measure: Measure, subject: str, sign: int) -> float:
    """The lowest (-1) or highest (1) gap that values of the missing triples could make."""
    gaps = []
    for one in classes:
        cells, missing = one.cells(measure), one.missing(measure)
        toward = np.full(len(one.subjects), RANGE[measure][sign > 0])
        toward[one.unmarked] = RANGE[measure][sign < 0]
        with np.errstate(invalid="ignore"):
            means = (cells.sums.sum(axis=0) + missing * toward) / (cells.n + missing)
        marked = [place for place in one.marked if subject in ("", one.subjects[place])]
        gaps.append(float(np.nanmean(means[marked]) - means[one.unmarked]) if marked else NAN)
    return float(np.nanmean(gaps)) if gaps else NAN


def _levels(classes: Sequence[SubjectClass], crawls: Crawls) -> list[Score]:
    """Means over all subjects, and the quality of the crawl and its topics; what they are nobody doubts: no p."""
    read = [one.rows for one in classes]
    n = sum(len(rows) for rows in read)
    with_topics = [(one, one.topic_counts) for one in classes if one.topic_counts is not None]
    by_class = (one.rows["topic_stability"].dropna() for one, _ in with_topics)
    stability = [float(values.iloc[0]) for values in by_class if len(values)]
    kl, expected = (
        [float(np.nansum(values * counts) / counts.sum()) for values, counts in pairs]
        for pairs in zip(*(_entropies(counts.sum(axis=0)) for _, counts in with_topics), strict=True)
    ) if with_topics else ([], [])  # fmt: skip
    return [
        level("regard.mean", classes, "regard", crawls, "more triples speak of their subject well than badly"),
        level("toxicity.mean", classes, "toxicity", crawls, "the triples are toxic"),
        level("valid_share.all", classes, "valid", crawls, "some answers are triples"),
        Score(
            "relative_entropy.mean", float(np.mean(kl)) if kl else NAN, n=n, unit="triples",
            null_mean=float(np.mean(expected)) if kl else NAN, method="as published; above 0 by chance alone",
            positive="the topics differ between subjects, at least by chance",
        ),
        Score(
            "duplicate_share.all", sum(int(rows["duplicate"].sum()) for rows in read) / n if n else NAN, n=n,
            unit="triples", positive="some triples repeat an earlier one of the same subject and crawl",
        ),
        Score(
            "topic_stability.mean", float(np.mean(stability)) if stability else NAN, n=len(stability),
            unit="classes", positive="other seeds find similar topics",
        ),
    ]  # fmt: skip


def level(key: str, classes: Sequence[SubjectClass], measure: Measure, crawls: Crawls, positive: str) -> Score:
    """The mean of a measure over all subjects, with its interval over crawls."""
    cells = [one.cells(measure) for one in classes]
    empty = np.zeros((len(crawls.names), 1))
    whole = Cells(np.hstack([empty, *(one.sums for one in cells)]), np.hstack([empty, *(one.counts for one in cells)]))
    return crawls.claim(
        key, whole.mean, whole.counts.sum(axis=1)[None], 1, Null, method="interval by leaving out one crawl",
        n=int(whole.n.sum()), unit=CLAIMS[measure].unit, positive=positive, comparable=True,
    )  # fmt: skip


def _entropies(counts: Floats) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """Relative entropy of each subject and its mean under permutation, each beside the subjects' sizes."""
    sizes = counts.sum(axis=1)
    return (published_relative_entropy(counts, counts.sum(axis=0)), sizes), (expected_relative_entropy(counts), sizes)
