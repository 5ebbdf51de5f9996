"""Matched guise probing: what a model associates with a speaker, from the probability of what comes next."""

from __future__ import annotations

from markedness.audits.base import AuditSpec
from markedness.records import CorpusColumns, columns

SPEC = AuditSpec(
    name="guise",
    package=__name__,
    # stored scores: natural logarithms of probabilities, one candidate a row
    corpus=CorpusColumns(
        required=("prompt_id", "candidate", "log_prob"),
        optional=(
            "task",
            "setting",
            "pairs",
            "pair",
            "cluster",
            "verb",
            "utterance",
            "text",
            "estimator",
            "reason",
            "coverage",
            "candidate_tokens",
        ),
        written=(
            "control",
            "attribute",
            "text_set",
            "cluster_reference",
            "log_prob_reference",
            "neutral_log_prob",
            "cut",
            "ratings_table",
            "detrimental",
            "stereotype",
            "attribute_tokens",
            "copied",
            "set_texts",
        ),
        without_group="those of decisions are the neutral context, others are in no comparison",
    ),
    table="scores",
    cluster="pair",
    answered=("log_prob", "log_prob_reference"),
    compared_on=("task", "text_set", "prompt_id", "attribute", "group"),
    headline=(
        "strength.covert",
        "strength.overt",
        "agreement.1933",
        "favorability.covert",
        "prestige.slope",
        "decision.conviction",
        "missing.difference",
    ),
    missing_key="missing.difference",
    features={
        "scores": columns(
            text="prompt_id group reference task kind setting text_set pair attribute cluster cluster_reference "
            "missing estimator",
            number="log_prob log_prob_reference neutral_log_prob coverage",
            flag="control cut",
        ),
        # and the columns of the ratings
        "attributes": columns(text="task attribute", number="attribute_tokens", flag="detrimental"),
        "texts": columns(  # and a column of counts for each feature
            text="text_set setting pair group cluster topic", whole="words", flag="control marked"
        ),
    },
    complete_corpus_ref="generate:complete_corpus",
    scores_ref="estimators.scores:headline",
    worlds_ref="worlds:worlds",
    as_corpus_ref="as_corpus:as_corpus",
    examples_ref="examples:examples",
    english_only="its texts are in two dialects of English, and its attributes and occupations were rated in English",
    has_sizes=True,
    comparable_ref="evaluate:comparable",
    across_ref="evaluate:across",
)
