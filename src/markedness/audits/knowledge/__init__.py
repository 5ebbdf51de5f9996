"""Knowledge: crawl a model's generalisations into a graph and measure it (Salinas et al. 2023)."""

from __future__ import annotations

from markedness.audits.base import AuditSpec
from markedness.records import CorpusColumns, columns

NOT_MEASURED = "not measured: "
"""Begins the name of a scorer, or of a topic model, that there is none of: the reason follows."""
SPEC = AuditSpec(
    name="knowledge",
    package=__name__,
    # Triples that exist already: one a row.
    corpus=CorpusColumns(
        required=("subject", "predicate", "object"),
        optional=("class", "round", "strategy", "arm", "prompt_id", "crawl"),
        axes="none",
    ),
    table="triples",
    cluster="prompt_id",
    answered=("included",),
    compared_on=("group", "round", "strategy"),
    headline=("regard_gap.marked", "toxicity_gap.marked", "topic_divergence.marked", "valid.difference"),
    missing_key="valid.difference",
    features={
        "triples": columns(
            text="prompt_id group class subject reference predicate object crawl strategy arm status reason "
            "regard_scorer regard toxicity_scorer toxicity_reason topic_words topic_model",
            whole="round planned attempt topic",
            number="toxicity topic_stability",
            flag="analysed cut duplicate included",
        ),
    },
    scores_ref="estimators.scores:scores",
    worlds_ref="worlds:worlds",
    as_corpus_ref="as_corpus:as_corpus",
    examples_ref="examples:examples",
    asks_again=True,
    english_only="",
    has_sizes=True,
    complete_corpus_ref="generate:complete_corpus",
    featurize_scored_ref="featurize:featurize",
    judges_ref="featurize:judges",
    questions_ref="featurize:questions",
    most_answers_ref="forecast:most_answers",
)
