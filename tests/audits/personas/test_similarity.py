"""Similarity of the texts of a group: over the prompts of both groups, with an error that each of them tells."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from markedness.audits.personas.estimators.group_similarity import GroupSimilarity, Within
from markedness.audits.personas.estimators.units import Units
from markedness.audits.personas.language.groups import Grouping
from markedness.axes import Axis, Value

AXES = {"race": Axis(unmarked="White", values={"White": Value(), "Black": Value()})}
Counts = dict[str, tuple[int, ...]]
UNEVEN = (8, 2, 2, 2, 2)


def measured(counts: Counts, rng: np.random.Generator) -> tuple[Within, Units, int, pd.DataFrame]:
    """Texts of both groups drawn alike: so many of each prompt, each prompt with a topic of its own."""
    topics = rng.normal(size=(8, 16))
    cells = [(race, prompt) for race, of in counts.items() for prompt, n in enumerate(of) for _ in range(n)]
    texts = pd.DataFrame(cells, columns=["race", "prompt_id"])
    vectors = rng.normal(size=(len(texts), 16)) + topics[texts["prompt_id"].to_numpy()]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    texts = texts.astype({"prompt_id": "str"}).assign(group=texts["race"], sample=0)
    texts["cluster"] = [f"#{number}" for number in range(len(texts))]
    grouping, number = Grouping(texts, AXES), np.arange(len(texts), dtype=np.int64)
    similarity = GroupSimilarity(grouping, number, pd.DataFrame({"text": number, "embedding": list(vectors)}))
    units = Units.of(texts, grouping)
    found, _, left_out = similarity.difference_with_influences(units)
    return found, units, left_out, texts.assign(embedding=list(vectors))


def by_hand(texts: pd.DataFrame, prompts: list[str]) -> float:
    """Mean cosine of two texts of a group, mean over prompts: Black minus White."""
    means = []
    for race in ("Black", "White"):
        of = [texts[texts["race"].eq(race) & texts["prompt_id"].eq(prompt)]["embedding"].tolist() for prompt in prompts]
        cosines = [np.stack(vectors) @ np.stack(vectors).T for vectors in of]
        means.append(np.mean([one[~np.eye(len(one), dtype=bool)].mean() for one in cosines]))
    return float(means[0] - means[1])


def test_prompts_with_two_texts_or_of_one_group_are_left_out() -> None:
    found, _, left_out, texts = measured({"White": (8, 2, 5, 3, 0), "Black": (4, 6, 3, 1, 4)}, np.random.default_rng(0))
    assert found.estimate == pytest.approx(by_hand(texts, ["0", "2"])) and left_out == 3


def test_prompts_of_two_texts_alone_are_estimated_without_an_error() -> None:
    found, units, left_out, texts = measured({"White": (2, 2), "Black": (2, 9)}, np.random.default_rng(0))
    assert found.estimate == pytest.approx(by_hand(texts, ["0", "1"])) and left_out == 0
    assert np.isnan(found.influences).all() and np.isnan(units.spread(found.influences).standard_error)


@pytest.mark.parametrize(
    "counts", [{"White": UNEVEN, "Black": UNEVEN}, {"White": (12, 6, 2), "Black": (2, 6, 12)}], ids=["even", "unlike"]
)
def test_worlds_without_an_effect_are_not_accused_by_prompts_with_two_texts(counts: Counts) -> None:
    # 68 and 32 of 100 had p < .05 while such prompts counted
    p = []
    for seed in range(100):
        found, units, *_ = measured(counts, np.random.default_rng(seed))
        p.append(units.spread(found.influences).p(found.estimate))
    assert np.less(p, 0.05).sum() <= 12  # 5 expected; more than 12 in 0.15 % of such hundreds
