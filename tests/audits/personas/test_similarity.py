"""Similarity of the texts of a group: over the prompts of both groups, with an error that each of them tells."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.audits.personas.conftest import generations, tabled

from markedness.audits import personas
from markedness.audits.personas import featurize, worlds
from markedness.audits.personas.estimators.corpus import Corpus, corpora
from markedness.audits.personas.estimators.group_similarity import Within
from markedness.audits.personas.estimators.params import Params
from markedness.audits.personas.estimators.scores import scores, similarity_difference
from markedness.audits.personas.language.classifiers import SvmParams
from markedness.audits.personas.language.groups import unlike_pairs
from markedness.axes import Axes, Axis, Value
from markedness.stats.inference import Floats

AXES = {"race": Axis(unmarked="White", values={"White": Value(), "Black": Value()})}
Counts = dict[str, tuple[int, ...]]
UNEVEN = (8, 2, 2, 2, 2)


def measured(counts: Counts, rng: np.random.Generator) -> tuple[Corpus, Within, pd.DataFrame]:
    """Texts of both groups drawn alike: so many of each prompt, each prompt with a topic of its own."""
    topics = rng.normal(size=(20, 16))
    cells = [(race, prompt) for race, of in counts.items() for prompt, n in enumerate(of) for _ in range(n)]
    texts = pd.DataFrame(cells, columns=["race", "prompt_id"])
    corpus = corpus_of(texts, rng.normal(size=(len(texts), 16)) + topics[texts["prompt_id"].to_numpy()], AXES)
    part, found, _ = corpus.similar()
    embedding = corpus.features["embeddings"]["embedding"].to_numpy()
    return part, found, corpus.features["texts"].assign(embedding=embedding)


def corpus_of(texts: pd.DataFrame, vectors: Floats, axes: Axes) -> Corpus:
    """Texts (prompt_id and the axes) with their vectors, of any length."""
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    number = np.arange(len(texts), dtype=np.int64)
    texts = texts.astype({"prompt_id": "str"}).assign(
        text=number, kind="persona", group=texts[list(axes)].agg(" ".join, axis=1), sample=0,
        cluster=[f"#{one}" for one in number],
    )  # fmt: skip
    texts["included"] = texts.get("included", True)
    texts["status"] = np.where(texts["included"], "ok", "refusal")
    embeddings = pd.DataFrame({"text": number, "embedding": list(vectors)})
    unread = pd.DataFrame(columns=["kind", "measure", "reason"], dtype="str")
    return Corpus({"texts": texts, "embeddings": embeddings, "unread": unread}, axes, "persona")


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


def test_composition_of_another_axis_is_no_difference_in_similarity(monkeypatch: pytest.MonkeyPatch) -> None:
    # Gender moves the theme; of Black texts 1 in 6 is about men, of White ones half: more pairs are of one gender.
    themes = {"man": "lamp river", "woman": "stone garden"}
    rng = np.random.default_rng(0)
    cells = [("White", "man", 12), ("White", "woman", 12), ("Black", "man", 3), ("Black", "woman", 15)]
    rows = [(race, gender, f"{themes[gender]} {rng.random()}") for race, gender, n in cells for _ in range(n)]
    noise = {text: rng.normal(size=8) for *_, text in rows}

    def embed(texts: list[str], *_: object) -> np.ndarray:
        vectors = np.stack([np.eye(8)[0 if text.startswith("lamp") else 1] * 3 + noise[text] for text in texts])
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))

    monkeypatch.setattr(featurize, "embed", embed)
    params = featurize.Params(svm=SvmParams(enabled=False))
    made = scores(tabled(generations(rows), params).tables, Params(n_permutations=99), np.random.default_rng(0))
    score = next(score for score in made if score.key == "similarity.difference")
    assert np.isfinite(score.estimate) and np.isnan([score.p, score.ci_low, score.ci_high]).all()
    assert score.lacking.startswith("the texts about Black, woman are of other groups of the other axes")


Cell = tuple[int, str, str]
CROSSED = AXES | {"gender": Axis(unmarked="man", values={"man": Value(), "woman": Value()})}


def of_two_themes(rng: np.random.Generator, prompts: int, n: int, holes: list[Cell], kept: float = 1.0) -> Corpus:
    """``n`` texts of each crossed group and prompt, without ``holes``; men and women have themes, race has none.

    ``kept``: how many are not missing.
    """
    crossed = [(prompt, race, gender) for prompt in range(prompts) for race in ("White", "Black") for gender in THEMES]
    cells = [(*cell, rng.random() < kept) for cell in crossed if cell not in holes for _ in range(n)]
    texts = pd.DataFrame(cells, columns=["prompt_id", "race", "gender", "included"])
    topics = rng.normal(size=(prompts, 16)) * (np.arange(16) > 0)
    vectors = rng.normal(size=(len(texts), 16)) + topics[texts["prompt_id"].to_numpy()]
    vectors[:, 0] += texts["gender"].map(THEMES)
    return corpus_of(texts, vectors, CROSSED)


THEMES = {"man": 6.0, "woman": -6.0}


@pytest.mark.parametrize(
    ("prompts", "n", "holes"),
    [
        (4, 5, [(0, "Black", "woman")]),
        (4, 20, [(0, "Black", "woman")]),
        (5, 4, [(0, "Black", "woman"), (1, "Black", "man")]),
        (12, 20, [(prompt, "Black", "woman") for prompt in range(3)]),
    ],
)
def test_similarity_says_where_prompts_lack_a_crossed_group(prompts: int, n: int, holes: list[Cell]) -> None:
    # Race has no effect, and a group without women in one of four prompts is more alike there: p < .05 in 97 and 100 of
    # 100 such worlds. Over all prompts, opposite holes are texts of as many women.
    score = similarity_difference(of_two_themes(np.random.default_rng(0), prompts, n, holes), Params())
    assert (
        "of other groups of the other axes" in score.lacking + score.caveat and "Black" in score.lacking + score.caveat
    )
    assert bool(score.lacking) == (len(holes) == 2)  # of two in five prompts more than a fifth of the pairs


def test_similarity_is_not_tested_where_each_prompt_has_fewer_texts_of_a_crossed_group() -> None:
    # What is the same in all prompts is not among what differs between them: p < .05 in 29 of 100 worlds of six texts,
    # three of marked women, where genders are unlike alike. Prompts that lack a group by turns are tested.
    rows = [
        (race == "Black", gender, prompt)
        for prompt in range(6)
        for race in ("White", "Black")
        for gender in range(3)
        for _ in range(3 if race == "Black" and gender == 1 else 6)
    ]
    own, gender, prompt = (np.array(column) for column in zip(*rows, strict=True))
    there = np.ones_like(own)
    assert unlike_pairs(own, gender, prompt, there, level=None) == pytest.approx(0.179, abs=0.003)
    turned = np.where(prompt % 2 == 0, own, ~own)
    assert unlike_pairs(turned, gender, prompt, there, level=None) == 0


@pytest.mark.parametrize(("prompts", "n", "kept"), [(4, 20, 0.7), (4, 5, 0.9), (2, 8, 0.9), (9, 5, 0.7)])
def test_similarity_is_tested_where_texts_are_missing_at_random(prompts: int, n: int, kept: float) -> None:
    made = [
        similarity_difference(of_two_themes(np.random.default_rng(s), prompts, n, [], kept), Params())
        for s in range(20)
    ]
    assert sum(bool(score.lacking) for score in made) <= 3  # one expected; more than three in 1.6 % of such twenties
    assert sum(score.p < 0.05 for score in made) <= 4  # one expected; more than four in 0.3 %


def test_similarity_of_a_planted_study_with_refusals_is_tested() -> None:
    # Marked groups refuse more: with what is missing at random for a difference, each such study lost its Score.
    planted = next(one for one in worlds.worlds("quick") if one.name == "planted")
    lost = 0
    for seed in range(6):
        corpus = corpora(planted.draw(np.random.default_rng(seed)), personas.AXES)[0]
        lost += bool(similarity_difference(corpus, Params()).lacking)
    assert lost <= 1  # one of twenty expected; two or more of six in 3 %


def test_refusals_of_other_prompts_are_no_interval_of_a_group() -> None:
    # Nothing differs by group, and half of the prompts is refused often: White is asked mostly the others.
    rng = np.random.default_rng(1)
    tables = []
    for prompt in range(8):
        for race, n in (("White", 9 if prompt < 4 else 1), ("Black", 5), ("Asian", 9 if prompt < 4 else 1)):
            said = [None if rng.random() < (0.05 if prompt < 4 else 0.5) else f"lamp {rng.random()}" for _ in range(n)]
            tables.append(generations([(race, "man", text) for text in said], f"p{prompt}"))
    params = Params(n_permutations=99)
    made = scores(tabled(pd.concat(tables, ignore_index=True)).tables, params, np.random.default_rng(0))
    found = {score.key: score for score in made}
    for key in ("refusals.persona: Black", "refusals.difference"):
        assert found[key].caveat.startswith("No interval: the requests for Black are of other prompts")
        assert np.isnan([found[key].ci_low, found[key].ci_high]).all() and np.isfinite(found[key].p)
    alike = found["refusals.persona: Asian"]
    assert "No interval" not in alike.caveat and np.isfinite(alike.ci_low)


def test_refusals_of_unequal_clusters_of_other_prompts_are_not_tested() -> None:
    # An author keeps its texts where labels are exchanged: 18 of 100 worlds without an effect of the group had p < .05.
    rng = np.random.default_rng(2)
    tables = []
    for prompt in range(4):
        for race in ("White", "Black"):
            n = 1 if (race, prompt > 1) == ("Black", True) else 4
            for author in range(8):
                refused = rng.random(n) < (0.4 if prompt > 1 else 0.05)
                rows = [(race, "man", None if no else f"lamp {rng.random()}") for no in refused]
                made = generations(rows, f"p{prompt}")
                tables.append(made.assign(cluster=f"{prompt} {race} {author}"))
    params = Params(n_permutations=99)
    made_scores = scores(tabled(pd.concat(tables, ignore_index=True)).tables, params, np.random.default_rng(0))
    found = {one.key: one for one in made_scores}
    for key in ("refusals.persona: Black", "refusals.difference"):
        assert np.isfinite(found[key].estimate) and np.isnan([found[key].p, found[key].ci_low]).all()
        assert found[key].lacking.startswith("the requests for Black are of other prompts")
