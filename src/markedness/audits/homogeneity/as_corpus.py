"""A world's counts of answers as texts: what a whole run of calibrate reads."""

from __future__ import annotations

from pathlib import Path

from markedness.audits.base import WorldCorpus
from markedness.records import FeatureTables

_REFUSAL = "Sorry, I can't say."


def as_corpus(features: FeatureTables, root: Path) -> WorldCorpus:
    """One answer a row, of a name to a cue; what does not comply is a refusal."""
    answers = features["answers"]
    rows = answers.loc[answers.index.repeat(answers["count"]), ["cue", "race", "gender", "name", "category"]]
    rows = rows.assign(text=rows["category"].fillna(_REFUSAL))
    return WorldCorpus(rows[["cue", "name", "race", "gender", "text"]].reset_index(drop=True), features)
