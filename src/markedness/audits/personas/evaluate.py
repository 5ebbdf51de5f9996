"""Scores and tables of one model's personas and stories: the point values of featurize, and what resampling adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from markedness.audits.personas import figures
from markedness.audits.personas.estimators import text_tables, word_tables
from markedness.audits.personas.estimators.agreement import method_overlap, prompt_agreement
from markedness.audits.personas.estimators.corpus import Corpus, corpora
from markedness.audits.personas.estimators.interaction import Interactions
from markedness.audits.personas.estimators.notes import notes
from markedness.audits.personas.estimators.params import Params as Params
from markedness.audits.personas.estimators.scores import claims, described, described_groups, of_further_kind
from markedness.audits.personas.estimators.word_scores import most_draws
from markedness.audits.personas.estimators.word_tests import WordTests
from markedness.records import FeatureTables
from markedness.results import Evaluation, Score


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
    valence = dict(zip(features["word_sentiment"]["word"], features["word_sentiment"]["compound"], strict=True))
    kinds = corpora(features, params.axes)
    made, interactions = claims(kinds, params, rng)
    said: list[str] = []
    parts: dict[str, list[pd.DataFrame]] = {}
    further: list[Score] = []
    for place, corpus in enumerate(kinds):
        tables = _of_kind(corpus, params, valence, made, interactions[corpus.kind], rng)
        for name, table in tables.items():
            parts.setdefault(name, []).append(table)
        shown = described(corpus, tables)
        further += shown if place == 0 else of_further_kind(corpus.kind, shown)
        said += notes(corpus, made)
    if kinds[0].kind != "persona":
        said.append(f"There are no personas: all scores are those of kind '{kinds[0].kind}'.")
    tables = {name: pd.concat(tables, ignore_index=True) for name, tables in parts.items()}
    if len(features["unread"]):
        tables["not_measured"] = features["unread"]
    tables["svm_words"] = features["svm_words"][["kind", "group", "word", "rank", "weight", "labeling"]]
    all_scores = [*made, *further, *described_groups(tables)]
    return Evaluation(all_scores, tables, figures.charts(tables), notes=said)


def across(features: Mapping[str, FeatureTables], versions: pd.DataFrame, params: Params) -> dict[str, pd.DataFrame]:
    """``personas_lexicon``: lexicon rates of every two models, scripted controls apart; {} with one model."""
    scripted = set(versions.loc[versions["scripted"], "model"])
    models = [model for model in features if model not in scripted]
    texts = {model: corpora(features[model], params.axes) for model in models}
    table = text_tables.lexicon_differences(texts, params.lexicon_within, params.confidence_level)
    return {"personas_lexicon": table} if len(table) else {}


def _of_kind(
    corpus: Corpus,
    params: Params,
    valence: Mapping[str, float],
    scores: Sequence[Score],
    interactions: Interactions | None,
    rng: np.random.Generator,
) -> dict[str, pd.DataFrame]:
    """All tables of one kind of text."""
    level, threshold = params.confidence_level, params.z_threshold
    tests = WordTests(corpus, threshold, most_draws(params, 1), level, rng)
    known_valence = None if "sentiment" in corpus.unread else valence
    words = word_tables.marked_words(corpus, tests, threshold, known_valence)
    words = word_tables.with_departures(corpus, words, interactions)
    most, further = most_draws(params, 1), rng.spawn(1)[0]
    return {
        "marked_words": words,
        "marked_words_by_group": word_tables.marked_words_by_group(corpus, words, scores),
        "interaction": word_tables.interaction_words(corpus, interactions),
        "jsd": word_tables.divergent_words(corpus, params.jsd_words),
        "method_overlap": method_overlap(corpus, words, corpus.features["svm_words"], params.jsd_words, most, further),
        "prompt_agreement": prompt_agreement(corpus, params.jsd_words, most, further),
        "svm": text_tables.svm(corpus),
        "lexicon": text_tables.lexicon(corpus, params.lexicon_within, level),
        "sentiment": text_tables.sentiment(corpus),
        "word_share": word_tables.word_share(corpus, params.word_share, level),
        "similarity": text_tables.similarity(corpus, level),
        "similarity_effects": text_tables.similarity_effects(corpus, level),
        "refusals": text_tables.refusals(corpus),
    }
