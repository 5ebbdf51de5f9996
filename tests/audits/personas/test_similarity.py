"""Similarity of the texts of a group: over the prompts of both groups, with an error that each of them tells."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from markedness.audits.personas.estimators.corpus import Corpus
from markedness.audits.personas.estimators.group_similarity import Within
from markedness.axes import Axis, Value

AXES = {"race": Axis(unmarked="White", values={"White": Value(), "Black": Value()})}
Counts = dict[str, tuple[int, ...]]
UNEVEN = (8, 2, 2, 2, 2)


def measured(counts: Counts, rng: np.random.Generator) -> tuple[Corpus, Within, pd.DataFrame]:
    """Texts of both groups drawn alike: so many of each prompt, each prompt with a topic of its own."""
    topics = rng.normal(size=(20, 16))
    cells = [(race, prompt) for race, of in counts.items() for prompt, n in enumerate(of) for _ in range(n)]
    texts = pd.DataFrame(cells, columns=["race", "prompt_id"])
    vectors = rng.normal(size=(len(texts), 16)) + topics[texts["prompt_id"].to_numpy()]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    number = np.arange(len(texts), dtype=np.int64)
    texts = texts.astype({"prompt_id": "str"}).assign(
        text=number, kind="persona", group=texts["race"], sample=0, included=True, status="ok",
        cluster=[f"#{one}" for one in number],
    )  # fmt: skip
    embeddings = pd.DataFrame({"text": number, "embedding": list(vectors)})
    unread = pd.DataFrame(columns=["kind", "measure", "reason"], dtype="str")
    corpus = Corpus({"texts": texts, "embeddings": embeddings, "unread": unread}, AXES, "persona")
    part, found, _ = corpus.similar()
    return part, found, texts.assign(embedding=list(vectors))


def by_hand(texts: pd.DataFrame, prompts: list[str]) -> float:
    """Mean cosine of two texts of a group, mean over prompts: Black minus White."""
    means = []
    for race in ("Black", "White"):
        of = [texts[texts["race"].eq(race) & texts["prompt_id"].eq(prompt)]["embedding"].tolist() for prompt in prompts]
        cosines = [np.stack(vectors) @ np.stack(vectors).T for vectors in of]
        means.append(np.mean([one[~np.eye(len(one), dtype=bool)].mean() for one in cosines]))
    return float(means[0] - means[1])


def test_prompts_with_two_texts_or_of_one_group_are_left_out() -> None:
    part, found, texts = measured({"White": (8, 2, 5, 3, 0), "Black": (4, 6, 3, 1, 4)}, np.random.default_rng(0))
    assert found.estimate == pytest.approx(by_hand(texts, ["0", "2"]))
    assert sorted(part.grouping.prompts) == ["0", "2"] and len(part.used) == 20


def test_prompts_of_two_texts_alone_are_estimated_without_an_error() -> None:
    part, found, texts = measured({"White": (2, 2), "Black": (2, 9)}, np.random.default_rng(0))
    assert found.estimate == pytest.approx(by_hand(texts, ["0", "1"]))
    assert np.isnan(found.influences).all() and np.isnan(part.units.spread(found.influences).standard_error)


def test_error_is_of_the_prompts_that_are_used() -> None:
    # Of twelve prompts two are common: texts are left out within them, where eleven degrees of freedom were counted.
    part, found, _ = measured({"White": (6,) * 7, "Black": (0,) * 5 + (6,) * 7}, np.random.default_rng(0))
    spread = part.units.spread(found.influences)
    assert part.units.factor == "text" and spread.clusters == {"text": 24}


WORLDS: dict[str, Counts] = {
    "two texts": {"White": UNEVEN, "Black": UNEVEN},
    "unlike": {"White": (12, 6, 2), "Black": (2, 6, 12)},
    "two of twelve common": {"White": (6,) * 7, "Black": (0,) * 5 + (6,) * 7},
    "eight of sixteen common": {"White": (4,) * 12, "Black": (0,) * 4 + (4,) * 12},
}


@pytest.mark.parametrize("counts", WORLDS.values(), ids=WORLDS)
def test_worlds_without_an_effect_are_not_accused_in_uneven_designs(counts: Counts) -> None:
    # 68 and 32 of 100 of the first two had p < .05 while prompts with two texts counted
    p = []
    for seed in range(100):
        part, found, _ = measured(counts, np.random.default_rng(seed))
        p.append(part.units.spread(found.influences).p(found.estimate))
    assert np.isfinite(p).all() and np.less(p, 0.05).sum() <= 12  # 5 expected; more than 12 in 0.15 % of such hundreds
