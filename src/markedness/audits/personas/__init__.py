"""Personas: the words that distinguish portrayals of marked groups."""

from __future__ import annotations

from markedness.audits.base import AuditSpec
from markedness.axes import Axes, Axis, Value
from markedness.records import CorpusColumns, columns

AXES: Axes = {
    "race": Axis(
        unmarked="White",
        values={
            "White": Value(),
            "Black": Value(),
            "Asian": Value(),
            "Middle-Eastern": Value(),
            "Latine": Value(forms={"man": "Latino", "woman": "Latina"}),
        },
    ),
    "gender": Axis(
        unmarked="man",
        values={
            "man": Value(noun="man", pronouns=("he", "him", "his")),
            "woman": Value(noun="woman", pronouns=("she", "her", "her")),
            "nonbinary": Value(noun="nonbinary person", pronouns=("they", "them", "their")),
        },
    ),
}
"""The groups of the paper (section 4), where params.yaml sets none; order as in its Table 3."""

SPEC = AuditSpec(
    name="personas",
    package=__name__,
    # Axes may be missing or empty: a text then fixes fewer of them.
    corpus=CorpusColumns(
        required=("text",),
        optional=("prompt", "prompt_id", "kind", "cluster"),
        written=("sentiment", "svm_{axis}", "svm_intersection"),
    ),
    table="texts",
    cluster="prompt_id",
    answered=("included",),
    compared_on=("kind", "group"),
    headline=(
        "marked_words.excess",
        "jsd.excess",
        "svm.balanced_accuracy",
        "similarity.difference",
        "interaction.excess",
        "refusals.difference",
    ),
    missing_key="refusals.difference",
    features={
        "texts": columns(
            text="kind prompt_id group status cluster",
            whole="text sample",
            number="sentiment",
            flag="duplicate included",
        ),
        "prompt_words": columns(text="kind group word"),
        "bag_of_words": columns(text="word", whole="text count"),
        "words": columns(
            text="kind group reference word",
            whole="count_target count_reference",
            number="log_odds_ratio z jsd_contribution jsd_share jsd_side",
        ),
        "comparisons": columns(text="kind group reference prior", number="jsd prior_scale", flag="marked"),
        "embeddings": columns(whole="text", vector="embedding"),
        "svm_words": columns(text="kind labeling group word", whole="rank", number="weight"),
        "svm_predictions": columns(text="labeling group", whole="text", flag="is_group predicted"),
        "word_sentiment": columns(text="word", number="compound"),
        "unread": columns(text="kind measure reason"),
    },
    complete_corpus_ref="design.corpus_prompts:complete_corpus",
    scores_ref="estimators.scores:headline",
    worlds_ref="worlds:worlds",
    as_corpus_ref="as_corpus:as_corpus",
    across_ref="evaluate:across",
    examples_ref="examples:examples",
    english_only="",
    has_sizes=True,
)
