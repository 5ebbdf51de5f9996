"""Tables and nulls -> Scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.audits.personas.estimators.corpus import Corpus
from markedness.audits.personas.estimators.marked_words import Null, mean, permutation_p
from markedness.results import NAN, Score
from markedness.stats.resampling import percentile_interval

_SHUFFLED = "labels permuted within prompt"


def _of_texts(corpus: Corpus, score: Score) -> Score:
    """The score with the texts it rests on."""
    return replace(
        score, n=len(corpus.used), n_missing=len(corpus.rows) - len(corpus.used), unit="texts",
        clusters={"prompt": corpus.grouping.n_prompts},
    )  # fmt: skip


def word_scores(
    corpus: Corpus, words: pd.DataFrame, n_marked: float, jsd: float, null: Null, confidence_level: float
) -> list[Score]:
    """How many words are marked and how far the words diverge, against shuffled labels.

    Parameters
    ----------
    corpus
        The texts of one kind.
    words
        The table of marked words.
    n_marked, jsd
        Number of marked words of all marked groups, and their mean divergence in bits.
    null
        Of all compared groups.
    confidence_level
        Of the band of the null.
    """
    totals = null.marked[:, corpus.marked].sum(axis=1)
    bits = null.divergence[:, corpus.marked].mean(axis=1) if corpus.marked.any() else np.array([])
    low, high = percentile_interval(totals, confidence_level)
    n_chance, bits_chance = mean(totals), mean(bits)
    p_words, p_bits = permutation_p(n_marked, totals), permutation_p(jsd, bits)
    more_words = "the texts of marked groups have more words of their own than chance would give"
    more_bits = "the words of marked groups differ more from those of unmarked groups than by chance (bits)"
    return [
        _of_texts(corpus, Score(
            "marked_words.excess", n_marked - n_chance, null_mean=0.0, null_low=low - n_chance,
            null_high=high - n_chance, p=p_words, positive=more_words, method=_SHUFFLED,
        )),
        _of_texts(corpus, Score(
            "marked_words.count", n_marked, null_mean=n_chance, null_low=low, null_high=high, p=p_words,
            method=_SHUFFLED, comparable=True,
        )),
        Score(
            "marked_words.robust_share", mean(words["survives_leave_one_prompt_out"].astype(float)), n=len(words),
            unit="words",
        ),
        _of_texts(corpus, Score(
            "jsd.excess", jsd - bits_chance, null_mean=0.0, p=p_bits, positive=more_bits, method=_SHUFFLED,
        )),
        _of_texts(corpus, Score(
            "jsd.mean", jsd, null_mean=bits_chance, p=p_bits, method=_SHUFFLED, comparable=True,
        )),
    ]  # fmt: skip


def svm_scores(svm: pd.DataFrame, null_mean: float) -> list[Score]:
    """Means over the classifiers; sd with ddof 0."""
    sd = mean((svm["accuracy"] - svm["accuracy"].mean()) ** 2) ** 0.5
    return [
        Score(
            "svm.balanced_accuracy", mean(svm["balanced_accuracy"]), null_mean=null_mean,
            positive="classifiers can tell the groups apart by their texts",
            method="labels of the test texts shuffled", comparable=True, n=int(svm["n"].max()) if len(svm) else 0,
            unit="texts",
        ),
        Score("svm.accuracy", mean(svm["accuracy"])),
        Score("svm.accuracy_sd", sd),
        Score("svm.f1", mean(svm["f1"])),
        Score("svm.majority_baseline", mean(svm["majority_baseline"])),
    ]  # fmt: skip


def text_scores(corpus: Corpus, difference: float, shuffled: NDArray[np.float64]) -> list[Score]:
    """Similarity, with its values under shuffled labels, sentiment and refusals."""
    return [
        _of_texts(corpus, Score(
            "similarity.difference", difference, null_mean=mean(shuffled),
            p=permutation_p(abs(difference), np.abs(shuffled)), method=_SHUFFLED, comparable=True,
            positive="the texts of marked groups are more alike than those of unmarked groups",
        )),
        _of_texts(corpus, Score("sentiment.mean", mean(corpus.used["sentiment"].to_numpy(float)))),
        Score(
            "refusals.share", NAN if "refusals" in corpus.unread else mean(corpus.refused.astype(float)),
            n=len(corpus.rows), unit="texts",
        ),
    ]  # fmt: skip


def of_further_kind(kind: str, scores: Sequence[Score]) -> list[Score]:
    """The scores of a second kind of text, under keys of their own."""
    return [replace(score, key=score.key.replace(".", f".{kind}_", 1), comparable=False) for score in scores]


def group_scores(tables: Mapping[str, pd.DataFrame]) -> list[Score]:
    """What is estimated of each group, from the tables of all kinds."""
    found = [
        Score(
            f"marked_words.{row['kind']}: {row['group']}", row["n_words"], null_mean=row["null_mean"],
            null_low=row["null_ci_low"], null_high=row["null_ci_high"], p=row["p"], n=row["n"], unit="texts",
            n_missing=row["left_out"], group=row["group"], reference=row["references"], method=_SHUFFLED,
        )
        for row in tables["marked_words_by_group"].to_dict("records")
    ]  # fmt: skip
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
