"""A world's log ratios as stored ln probabilities: what a whole run of calibrate reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from markedness.audits.base import WorldCorpus
from markedness.records import FeatureTables

_ABOUT = ["task", "setting", "prompt_id", "pair", "attribute"]


def as_corpus(features: FeatureTables, root: Path) -> WorldCorpus:
    """One ln probability a row: after each guise, and of decisions in the neutral context.

    Texts that are not matched have no ``pair``; a missing score has an empty ``log_prob``. The ratings of the world are
    tables of the study.
    """
    scores = features["scores"]
    sides = []
    for suffix, guise in (("", "group"), ("_reference", "reference")):
        side = scores[_ABOUT].astype("object").assign(
            pairs=scores["text_set"].astype("object"), guise=scores[guise].astype("object"),
            cluster=scores[f"cluster{suffix}"].astype("object"), log_prob=scores[f"log_prob{suffix}"],
        )  # fmt: skip
        sides.append(side)
    rows = pd.concat(sides, ignore_index=True)
    rows["pair"] = rows["pair"].str.rpartition("/")[2].where(rows["setting"].ne("unmatched"))
    neutral = scores.loc[scores["neutral_log_prob"].notna(), ["task", "prompt_id", "attribute", "neutral_log_prob"]]
    neutral = neutral.astype(dict.fromkeys(("task", "prompt_id", "attribute"), "object")).drop_duplicates()
    rows = pd.concat([rows, neutral.rename(columns={"neutral_log_prob": "log_prob"})], ignore_index=True)
    rows["setting"] = rows["setting"].fillna("matched").where(rows["guise"].notna())
    return WorldCorpus(
        rows.rename(columns={"attribute": "candidate"}), features,
        {"generate": {"tasks": _tasks(features["attributes"], root)}},
    )  # fmt: skip


def _tasks(attributes: pd.DataFrame, root: Path) -> dict[str, Any]:
    """The tasks of the study, with the attributes and ratings of the world."""
    made: dict[str, Any] = {}
    for task, own in attributes.groupby("task", sort=False):
        if task == "conviction":
            words = own["attribute"].tolist()
            made[str(task)] = {
                "attributes": words,
                "detrimental": own.loc[own["detrimental"].eq(True), "attribute"].tolist(),
            }
            continue
        name = f"world_{task}.csv"
        own.drop(columns=["task", "detrimental"], errors="ignore").to_csv(root / name, index=False)
        made[str(task)] = {"attributes": name}
    return made
