"""Homogeneity: whether some groups are described with less variety than others."""

from __future__ import annotations

from markedness.audits.base import AuditSpec
from markedness.axes import Axes, Axis, Value
from markedness.records import CorpusColumns, columns

DEFAULT_AXES: Axes = {
    "race": Axis(
        unmarked="White",
        values={"Black": Value(label="African"), "Asian": Value(), "Hispanic": Value(), "White": Value()},
    ),
    "gender": Axis(
        unmarked="man",
        values={
            "man": Value(noun="man", aliases=("M", "male")),
            "woman": Value(noun="woman", aliases=("F", "female")),
        },
    ),
}
"""The groups of the publication, where params name none."""

SPEC = AuditSpec(
    name="homogeneity",
    package=__name__,
    # Without `cue` the stem of the file is the cue; `format` is the prompt format of longer texts and stands for it.
    corpus=CorpusColumns(
        required=("text",),
        optional=("cue", "name", "format"),
        written=("word_limit", "study", "empty", "category", "kept", "count"),
    ),
    table="answers",
    cluster="cluster",
    question="cue",
    answered=("kept",),
    compared_on=("group",),
    counts="count",
    headline=(
        "pd_difference.marked",
        "replication.ceiling",
        "noncompliance.difference",
    ),
    missing_key="noncompliance.difference",
    features={
        "answers": columns(
            text="prompt_id group cue cluster name kind category status", whole="count", flag="empty kept"
        ),
    },
    complete_corpus_ref="generate:complete_corpus",
    scores_ref="estimators.scores:scores",
    worlds_ref="worlds:worlds",
    as_corpus_ref="as_corpus:as_corpus",
    examples_ref="examples:examples",
    english_only="",
    has_sizes=True,
    across_ref="evaluate:across",
)
