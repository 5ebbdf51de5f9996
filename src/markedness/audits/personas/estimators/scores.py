"""The claims of the audit, made by `markedness.stats.inference`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from markedness.audits.personas import SPEC
from markedness.audits.personas.estimators import text_tables
from markedness.audits.personas.estimators.classification import Tested
from markedness.audits.personas.estimators.corpus import Corpus, corpora
from markedness.audits.personas.estimators.interaction import Interactions
from markedness.audits.personas.estimators.params import Params
from markedness.audits.personas.estimators.refusals import refusal_difference, refusals_by_group
from markedness.audits.personas.estimators.units import mean
from markedness.audits.personas.estimators.word_scores import (
    FAMILY,
    corrected,
    interaction_score,
    most_draws,
    word_scores,
)
from markedness.audits.personas.language.groups import Group
from markedness.records import FeatureTables
from markedness.results import NAN, Score, named_contrasts, not_estimated
from markedness.stats.inference import (
    ALPHA,
    NO_SPREAD,
    NO_TEST,
    UNLIKE,
    Null,
    adjusted,
    claim,
    exchange_test,
    null_detectable,
    withdrawn,
)


def headline(features: FeatureTables, params: Params, rng: np.random.Generator) -> list[Score]:
    """The Scores of the headline alone, of the first kind of text; equal to those of `scores`."""
    first = corpora(features, params.axes)[0]
    return adjusted(_of_kind(first, params, rng).headline, SPEC.headline)


def scores(features: FeatureTables, params: Params, rng: np.random.Generator) -> list[Score]:
    """Every Score with a null or an interval: the headline, of the first kind of text, then those of each group.

    Parameters
    ----------
    features
        See `markedness.audits.personas.featurize.featurize`.
    params
        See `markedness.audits.personas.estimators.params.Params`.
    rng
        Seeded generator.
    """
    return claims(corpora(features, params.axes), params, rng)[0]


def claims(
    kinds: Sequence[Corpus], params: Params, rng: np.random.Generator
) -> tuple[list[Score], dict[str, Interactions | None]]:
    """`scores` of the texts of all kinds, and for each kind the tests that ``interaction.excess`` counts."""
    found: list[Score] = []
    tests: dict[str, Interactions | None] = {}
    for place, corpus in enumerate(kinds):
        made = _of_kind(corpus, params, rng)
        tests[corpus.kind] = made.interactions
        found += made.headline if place == 0 else of_further_kind(corpus.kind, made.headline)
        refusals = corrected(refusals_by_group(corpus, rng.spawn(1)[0], params.confidence_level))
        found += [*_with_refusals(made.of_groups(), refusals), *made.of_labelings, *refusals]
    return adjusted(found, SPEC.headline), tests


@dataclass(frozen=True)
class _Made:
    """The Scores of one kind of text."""

    headline: list[Score]
    of_groups: Callable[[], list[Score]]
    """Makes those on the words of each group; what it draws is its own, so that the headline is the same without."""
    of_labelings: list[Score]
    interactions: Interactions | None


def _of_kind(corpus: Corpus, params: Params, rng: np.random.Generator) -> _Made:
    words, of_groups = word_scores(corpus, params, rng)
    svm, of_labelings = svm_scores(corpus, params, rng)
    interaction, tests = interaction_score(corpus, params, rng)
    missing = refusal_difference(corpus, FAMILY, most_draws(params), rng, params.confidence_level)
    return _Made(
        [*words, svm, similarity_difference(corpus, params), interaction, missing], of_groups, of_labelings, tests
    )


def _with_refusals(scores: Iterable[Score], refusals: Sequence[Score]) -> list[Score]:
    """The scores of groups, which say so where texts of the group are missing more or less often than of others."""
    unequal = {score.group: score for score in refusals if score.p_adjusted <= ALPHA}
    return [
        replace(
            score, method=f"{score.method}; texts of this group are missing unequally, see {unequal[score.group].key}"
        )
        if score.group in unequal
        else score
        for score in scores
    ]


def of_further_kind(kind: str, scores: Iterable[Score]) -> list[Score]:
    """The scores of a second kind of text, under keys of their own."""
    return [replace(score, key=score.key.replace(".", f".{kind}_", 1), comparable=False) for score in scores]


def svm_scores(corpus: Corpus, params: Params, rng: np.random.Generator) -> tuple[Score, list[Score]]:
    """``svm.balanced_accuracy``, the mean over all classifiers, and the mean over those of each labeling."""
    splits = corpus.held_out
    table = text_tables.svm(corpus)
    estimate = mean(table["balanced_accuracy"])
    if np.isnan(estimate):
        none = "no classifier was trained (personas.featurize.svm.enabled is false, or a labeling has too few texts)"
        why = corpus.unread.get("svm", none)
        return not_estimated("svm.balanced_accuracy", why), []
    tested = Tested(splits, corpus.units, corpus.texts)
    draws, exchange = tested.draws(rng), tested.exchange
    observed, known = tested.observed, tested.known(corpus.used, list(corpus.axes))
    influences = tested.influences()
    weights = np.array([table.loc[table["labeling"].eq(s.labeling), "balanced_accuracy"].count() for s in splits])
    missing = corpus.units.missing_column
    labels = set(table["group"])  # a label of one text again and again has no classifier
    pairs = [(one.name, reference) for one in corpus.compared if one.marked for reference, _ in one.references]
    there = [pair for pair in pairs if labels.issuperset(pair)]
    untrained = sorted({name for name, _ in pairs} - {name for name, _ in there})

    def score(key: str, value: float, column: int, influence: np.ndarray, n: int, family: int) -> Score:
        places = [column - 1] if column else [*np.flatnonzero(weights)]
        null = Null()
        if exchange.smallest_p < 1 and not known:
            null = exchange_test(
                float(observed[column]), draws.reader(lambda made: made[:, column]), most_draws(params, family), False,
                exchange.smallest_p,
            )  # fmt: skip
        spread = NO_SPREAD if known else tested.spread(influence, places)
        made = claim(
            key, value, spread, null, family=family, confidence_level=params.confidence_level,
            method=known or corpus.units.method(
                "labels of whole test texts, copies together, exchanged within prompt, one-sided; for these classifiers"
            ),
            missing_column=missing, smallest_effect=null_detectable(null, family), n=n, unit="texts",
            positive="a classifier can tell from a text which group it is about", worse=1, comparable=family > 1,
            over=named_contrasts(there) if family > 1 else "",
        )  # fmt: skip
        if family > 1:
            made = made.not_over(untrained, "they, or what they are compared with, have no classifier")
        low, high = np.clip((made.ci_low, made.ci_high), 0.0, 1.0)  # t knows no range; an accuracy has one
        return replace(made, ci_low=float(low), ci_high=float(high), lacking=known or made.lacking)

    headline = score(
        "svm.balanced_accuracy", estimate, 0, influences @ weights / weights.sum(), int(table["n"].max()), FAMILY
    )
    return headline, [
        score(
            f"svm.{corpus.kind} {split.labeling}",
            mean(table.loc[table["labeling"].eq(split.labeling), "balanced_accuracy"]),
            place + 1, influences[:, place], len(split.texts), 1,
        )
        for place, split in enumerate(splits)
    ]  # fmt: skip


_NO_VECTORS = "no text has a sentence embedding (personas.featurize.embeddings)"
_NO_PAIRS = "no prompt has two different texts of a marked and two of an unmarked group"


def similarity_difference(corpus: Corpus, params: Params) -> Score:
    """``similarity.difference``, tested by the t of its jackknife: texts may differ by group and be equally alike."""
    if "similarity" in corpus.unread:
        return not_estimated("similarity.difference", corpus.unread["similarity"])
    if not corpus.similarity.known.any():
        return not_estimated("similarity.difference", _NO_VECTORS)
    part, found, known = corpus.similar()
    if np.isnan(found.estimate):
        return not_estimated("similarity.difference", _NO_PAIRS)
    made = claim(
        "similarity.difference", found.estimate, part.units.spread(found.influences), family=FAMILY,
        confidence_level=params.confidence_level, method=part.units.method("t test; pairs of different texts"),
        missing_column=part.units.missing_column, n=int(part.similarity.known.sum()),
        n_missing=len(corpus.rows) - int(corpus.similarity.known.sum()), unit="texts", comparable=True,
        positive="the texts about marked groups are more alike than those about unmarked ones",
        negative="the texts about marked groups are less alike than those about unmarked ones", worse=1,
        over=named_contrasts((one.name, one.references[0][0]) for one in known),
    )  # fmt: skip
    if part.grouping.n_prompts < corpus.grouping.n_prompts:
        of = f"Of {part.grouping.n_prompts} of {corpus.grouping.n_prompts} prompts"
        made = made.warned(f"{of}: in the others a group has too few different texts.")
    made = _of_like_pairs(made, corpus, part, known)
    why = "no prompt has two different texts of them, or of what they are compared with"
    return made.not_over([one.name for one in corpus.similarity.pairs if one not in known], why)


def _of_like_pairs(made: Score, corpus: Corpus, part: Corpus, known: Sequence[Group]) -> Score:
    """With a caveat, or without p and interval, where pairs are of other groups of the other axes than the reference's.

    The error of texts is given the groups that they are of, so that a fifth of the pairs is too many for a test. That
    of prompts includes by how much these differ. ``part``: of the corpus, the prompts of ``made``.
    """
    of, level = corpus.asked_grouping, None if part.units.factor == "prompt" else ALPHA / len(known)
    there = np.isin(corpus.rows["text"].to_numpy(np.int64), part.texts[part.similarity.known])
    rows = np.flatnonzero(np.isin(np.array(of.prompts, dtype=object)[of.prompt], part.grouping.prompts))
    shares = {one.name: of.unlike_pairs(one, there, rows, level) for one in known}
    others = [name for name, share in shares.items() if share > UNLIKE / 2]
    if not others:
        return made
    why = f"the texts about {', '.join(others)} are of other groups of the other axes than those they are compared with"
    if max(shares.values()) > NO_TEST:
        return withdrawn(made, why)
    return made.warned(f"{why[0].upper()}{why[1:]}, and what these do is part of it.")


_READS = {"marked_words": "words", "jsd": "words"}
"""First part of the keys of Scores -> what they are made from, where that has another name."""


def described(corpus: Corpus, tables: Mapping[str, pd.DataFrame]) -> list[Score]:
    """What no test is made of, from the tables of one kind: counts, means and shares, then those of each group."""
    table, words = tables["svm"], tables["marked_words"]
    accuracy = table["accuracy"]
    n, marked = len(corpus.used), corpus.marked
    jsd = corpus.published.jsd[marked] if len(marked) else np.array([])
    share = NAN if "refusals" in corpus.unread else mean(corpus.refused.astype(float))
    n_marked = tables["marked_words_by_group"].query("marked") if len(marked) else pd.DataFrame({"n_words": []})
    made = [
        Score("marked_words.count", float(n_marked["n_words"].sum()) if marked.any() else NAN, n=n, unit="texts"),
        Score(
            "marked_words.robust_share", mean(words["survives_leave_one_prompt_out"].astype(float)), n=len(words),
            unit="words",
        ),
        Score("jsd.mean", mean(jsd), n=n, unit="texts"),
        Score("svm.accuracy", mean(accuracy)),
        Score("svm.accuracy_sd", mean((accuracy - accuracy.mean()) ** 2) ** 0.5),
        Score("svm.f1", mean(table["f1"])),
        Score("svm.majority_baseline", mean(table["majority_baseline"])),
        Score("sentiment.mean", mean(corpus.used["sentiment"].to_numpy(float)), n=n, unit="texts"),
        Score("refusals.share", share, n=len(corpus.rows), unit="texts"),
    ]  # fmt: skip
    why = {one.key: corpus.unread.get(_READS.get(one.measure, one.measure), "") for one in made if one.missing}
    return [not_estimated(one.key, why[one.key]) if why.get(one.key) else one for one in made]


def described_groups(tables: Mapping[str, pd.DataFrame]) -> list[Score]:
    """Means and shares of each group, from the tables of all kinds."""
    found = []
    for name, value, positive in (
        ("similarity", "mean_cosine", "the texts are alike"),
        ("word_share", "share", ""),
        ("sentiment", "mean", "the words are more positive than negative"),
    ):
        for row in tables[name].to_dict("records"):
            item = f"{row['words']}: " if name == "word_share" else ""
            found.append(
                Score(
                    f"{name}.{row['kind']}: {item}{row['group']}", row[value], row.get("ci_low", NAN),
                    row.get("ci_high", NAN), n=row["n"], n_missing=row["left_out"], unit="texts", group=row["group"],
                    positive=positive,
                )
            )  # fmt: skip
    found += [
        Score(
            f"svm.{row['kind']} {row['labeling']}: {row['group']}", row["balanced_accuracy"], n=row["n"],
            unit="texts", group=row["group"], reference="rest",
        )
        for row in tables["svm"].to_dict("records")
    ]  # fmt: skip
    return found
