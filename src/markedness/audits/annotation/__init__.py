"""Annotation: whether identity cues in a text shift the labels of a model that annotates it."""

from __future__ import annotations

from markedness.audits.base import AuditSpec
from markedness.records import CorpusColumns, columns

_COUNTS = ("n", "refusal", "unparsed", "truncated", "failed")
SPEC = AuditSpec(
    name="annotation",
    package=__name__,
    # Stored judgments, one a row: `y` (0 or 1) or `text`; a `group` or a `dialect`, whatever the axes are.
    corpus=CorpusColumns(
        required=("task",),
        optional=(
            "paradigm",
            "y",
            "text",
            "pair",
            "vignette",
            "name",
            "reference_name",
            "gender",
            "iteration",
            "domain",
            "valence",
            "prompt_id",
        ),
        axes="any",
        written=(
            "yes",
            "margin",
            "imputed",
            "judgment",
            "refusal",
            "unparsed",
            "truncated",
            "failed",
            "delta",
            "ungrouped",
            "position",
            "position_reference",
            "together",
            "one_sided",
            "other_gender",
            "answer_order",
            "n_texts",
            "n_reference",
            "yes_reference",
            "refusal_reference",
            "unparsed_reference",
            "truncated_reference",
            "failed_reference",
            "margin_reference",
            "vignette_reference",
        ),
        may_be_axis=("group",),
    ),
    table="pairs",
    cluster="vignette",
    question="task",
    answered=("delta",),
    sides=(_COUNTS, tuple(f"{name}_reference" for name in _COUNTS)),
    compared_on=("paradigm", "group", "reference", "pair", "gender", "name", "reference_name", "vignette_reference"),
    headline=(
        "gap.positive",
        "gap.negative",
        "gap_size.excess",
        "gap_size.specific",
        "dialect_gap.positive",
        "dialect_gap.negative",
        "dialect_gap_size.excess",
        "missing.difference",
    ),
    missing_key="missing.difference",
    features={
        "pairs": columns(
            text="paradigm task group reference",
            whole="n yes refusal unparsed truncated failed n_reference yes_reference refusal_reference "
            "unparsed_reference truncated_reference failed_reference ungrouped",
            number="margin margin_reference delta",
        ),
    },
    complete_corpus_ref="generate:complete_corpus",
    scores_ref="estimators.scores:scores",
    worlds_ref="worlds:worlds",
    as_corpus_ref="as_corpus:as_corpus",
    examples_ref="examples:examples",
    english_only="its names, dialects, vignettes and tasks are those of the United States, in English",
    has_sizes=True,
    across_ref="evaluate:across",
)
