"""Scores and tables of one model's personas and stories: the point values of featurize, and what resampling adds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from pydantic import Field

from markedness.audits.personas import AXES, figures
from markedness.audits.personas.estimators import text_tables, word_tables
from markedness.audits.personas.estimators.classification import shuffled_balanced_accuracy
from markedness.audits.personas.estimators.corpus import Corpus
from markedness.audits.personas.estimators.marked_words import Null, mean, permutation_null, permutations
from markedness.audits.personas.estimators.notes import notes
from markedness.audits.personas.estimators.scores import (
    group_scores,
    of_further_kind,
    svm_scores,
    text_scores,
    word_scores,
)
from markedness.audits.personas.language.contrasts import contrast_log_odds, divergence
from markedness.records import Axes, FeatureTables, Strict
from markedness.results import Evaluation, Score

_SHUFFLED_TEST_LABELS = 50
"""Draws of the null of the classifiers."""


class Params(Strict):
    """What is estimated; the defaults are the published ones."""

    axes: Axes = AXES
    z_threshold: float = Field(default=1.96, ge=0)
    """A word is marked when its z is above this against every unmarked group."""
    jsd_words: int = Field(default=10, ge=1)
    """Words listed per group by Jensen-Shannon divergence."""
    word_share: tuple[tuple[str, ...], ...] = (("resilient", "resilience"),)
    """Sets of words, as tokens: which share of texts holds at least one of them?"""
    lexicon_within: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Axis -> values: only these texts in the lexicon table ({gender: [man, woman]}); none: all."""
    confidence_level: float = Field(default=0.95, gt=0, lt=1)
    n_resamples: int = Field(default=1000, ge=10)
    """Bootstrap replicates over prompts."""
    n_permutations: int = Field(default=200, ge=0)
    """Label permutations within prompt; 0: no null."""


def evaluate(features: FeatureTables, params: Params, rng: np.random.Generator) -> Evaluation:
    """Estimate everything for each kind of text.

    Parameters
    ----------
    features
        See `markedness.audits.personas.featurize.featurize`.
    params
        See `Params`.
    rng
        Seeded generator.

    Returns
    -------
    Evaluation
        Each table begins with ``kind``; ``left_out`` counts the texts of the group that the measure did not use.
    """
    corpora = _corpora(features, params)
    valence = dict(zip(features["word_sentiment"]["word"], features["word_sentiment"]["compound"], strict=True))
    said: list[str] = []
    parts: dict[str, list[pd.DataFrame]] = {}
    scores: list[Score] = []
    for place, corpus in enumerate(corpora):
        tables, of_kind = _of_kind(corpus, params, valence, rng)
        for name, table in tables.items():
            parts.setdefault(name, []).append(table)
        scores += of_kind if place == 0 else of_further_kind(corpus.kind, of_kind)
        said += notes(corpus)
    if corpora[0].kind != "persona":
        said.append(f"There are no personas: all scores are those of kind '{corpora[0].kind}'.")
    tables = {name: pd.concat(tables, ignore_index=True) for name, tables in parts.items()}
    tables["svm_words"] = features["svm_words"][["kind", "group", "word", "rank", "weight", "labeling"]]
    return Evaluation([*scores, *group_scores(tables)], tables, figures.charts(tables), notes=said)


def point_scores(features: FeatureTables, params: Params) -> dict[str, float]:
    """The headline estimates that need no null, of the first kind of text; rows of ``texts`` may be drawn again."""
    corpus = _corpora(features, params)[0]
    contrasts = corpus.grouping.contrasts
    n_marked = jsd = float("nan")
    if corpus.marked.any():
        z = contrast_log_odds(corpus.pooled, contrasts, corpus.prior).z
        n_marked = word_tables.n_marked(corpus, z, params.z_threshold)
        jsd = mean(divergence(corpus.pooled, contrasts).total[corpus.marked])
    return {
        "marked_words.count": n_marked,
        "jsd.mean": jsd,
        "svm.balanced_accuracy": mean(text_tables.svm(corpus)["balanced_accuracy"]),
        "similarity.difference": corpus.similarity.difference(corpus.grouping.combination),
    }


def _corpora(features: FeatureTables, params: Params) -> list[Corpus]:
    """One per kind of text, personas first."""
    kinds = sorted(features["texts"]["kind"].unique(), key=lambda kind: (kind != "persona", kind))
    return [Corpus(features, params.axes, str(kind)) for kind in kinds]


def _null(corpus: Corpus, params: Params, rng: np.random.Generator) -> Null:
    """Of the compared groups; no rows where nothing is compared or can be shuffled."""
    if not corpus.compared:
        return Null(np.empty((0, 0)), np.empty((0, 0)))
    shuffles = permutations(corpus.grouping, params.n_permutations, rng)
    return permutation_null(corpus.counts, shuffles, corpus.grouping.contrasts, corpus.prior, params.z_threshold)


def _of_kind(
    corpus: Corpus, params: Params, valence: Mapping[str, float], rng: np.random.Generator
) -> tuple[dict[str, pd.DataFrame], list[Score]]:
    """All tables and scores of one kind of text."""
    level = params.confidence_level
    null = _null(corpus, params, rng)
    resampling = word_tables.PromptResampling.of(corpus, params.n_resamples, rng)
    known_valence = None if "sentiment" in corpus.unread else valence
    words, by_group = word_tables.marked_words(corpus, null, resampling, params.z_threshold, level, known_valence)
    jsd, jsd_by_group = word_tables.divergent_words(corpus, params.jsd_words)
    tables = {
        "marked_words": words,
        "marked_words_by_group": by_group.merge(jsd_by_group, on=["kind", "group"], how="left"),
        "jsd": jsd,
        "svm": text_tables.svm(corpus),
        "lexicon": text_tables.lexicon(corpus, params.lexicon_within),
        "sentiment": text_tables.sentiment(corpus),
        "word_share": word_tables.word_share(corpus, params.word_share, level),
        "similarity": text_tables.similarity(corpus, params.n_resamples, rng, level),
        "refusals": text_tables.refusals(corpus),
    }
    n_marked = word_tables.n_marked(corpus, corpus.published.z, params.z_threshold)
    bits = mean(corpus.published.jsd[corpus.marked])
    difference = corpus.similarity.difference(corpus.grouping.combination)
    shuffles = permutations(corpus.grouping, params.n_permutations, rng)
    shuffled = np.array([corpus.similarity.difference(combination) for combination in shuffles])
    return tables, [
        *word_scores(corpus, words, n_marked, bits, null, level),
        *svm_scores(tables["svm"], shuffled_balanced_accuracy(corpus.held_out, _SHUFFLED_TEST_LABELS, rng)),
        *text_scores(corpus, difference, shuffled),
    ]
