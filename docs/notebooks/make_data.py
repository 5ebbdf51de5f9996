"""Write the example files of the notebook: answers of ``control-planted``, whose stereotype is known.

python docs/notebooks/make_data.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pandas as pd
import yaml

from markedness import generation, params

HERE = Path(__file__).parent
RACES = {"unmarked": "White", "values": {"White": {}, "Black": {}}}
STUDY = {
    "seed": 2026,
    "models": {"planted": {"backend": "scripted", "rule": "planted"}},
    "personas": {
        "axes": {"race": RACES},
        "generate": {"prompts": ["imagine_yourself", "first_person", "describe"], "samples": 15},
    },
    "homogeneity": {
        "axes": {"race": RACES},
        "generate": {"cues": ["sports", "music", "eating", "commuting"], "names_per_group": 12, "samples": 4},
    },
    "guise": {
        "generate": {"pairs": {"habitual_be": {"sample": 18}}, "tasks": {"traits": {"prompts": ["T1"]}}},
    },
    "annotation": {
        "axes": {"group": RACES},
        "generate": {
            "mode": "single", "paradigms": ["names"],
            "names": {"tasks": ["hireable", "leader", "aggressive", "poor"], "iterations": 1, "pairs": 30},
        },
    },
}  # fmt: skip
FILES = {
    "personas": {"text": "answer", "prompt": "question", "race": "race"},
    "homogeneity": {"text": "answer", "cue": "situation", "name": "name", "race": "race"},
    "guise": {
        "prompt_id": "prompt", "candidate": "word", "log_prob": "log_prob", "group": "guise", "pair": "pair",
        "cluster": "verb",
    },
    "annotation": {
        "task": "task", "pair": "pair", "vignette": "vignette", "name": "name", "group": "race", "text": "label",
    },
}  # fmt: skip
"""Audit -> the columns that its file keeps: ours, and its name there."""


def main() -> None:
    """Ask the control, and keep what a reader of the notebook would have."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "params.yaml"
        file.write_text(yaml.safe_dump({"audits": [*FILES], **STUDY}), encoding="utf-8")
        loaded = params.load(file)
        for audit, columns in FILES.items():
            generation.generate(loaded, audit, "planted")
            rows = pd.read_parquet(Path(folder) / "data" / "generations" / audit / "planted.parquet")
            kept = rows[list(columns)].rename(columns=columns)
            if "log_prob" in kept:
                kept["log_prob"] = kept["log_prob"].round(4)
            kept.to_csv(HERE / f"{audit}.csv", index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
