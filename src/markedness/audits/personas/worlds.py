"""Scripted models at the level of features, whose truth is known: what ``markedness calibrate`` draws.

Each has what real answers have: words that follow Zipf's law, words and lengths of their own in each text, words of the
prompt. Groups, prompts, the vocabulary and what is planted are fixed; texts are drawn anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from markedness.audits.base import World
from markedness.audits.personas import AXES, SPEC
from markedness.audits.personas.language.comparisons import COMPARISON_COLUMNS, WORD_COLUMNS, compare_words
from markedness.audits.personas.language.contrasts import LogOddsPrior
from markedness.audits.personas.language.groups import Grouping
from markedness.audits.personas.language.word_counts import WordCounts
from markedness.records import FeatureTables, Status

Floats = NDArray[np.float64]
_WORDS = 700
PERSONAS = 6
"""Prompts that ask for personas, where a size names none."""
_DIMENSIONS = 24
_AXES = {name: (axis.unmarked, *axis.marked) for name, axis in AXES.items()}
_GROUPS = tuple(product(*_AXES.values()))
_TEST_SHARE = 0.2


@dataclass(frozen=True)
class Study:
    """One scripted model and the study that asks it; the defaults are those of size quick."""

    prompts: int = 2
    samples: int = 8
    length: int = 60
    """Mean number of words, as of the default study's 80 tokens."""
    copies: int = 1
    """How often every text is stored."""
    gender: float = 0.0
    """Strength of words and themes that depend on gender alone."""
    planted: float = 0.0
    """Strength of the words of each marked value and of crossed groups, of likeness and of refusals."""
    longer: float = 1.0
    """Length of the texts of marked groups over that of others."""
    fewer: float = 1.0
    """Number of the texts of marked groups over that of others."""
    refused: Mapping[tuple[str, ...], float] | float = 0.0
    """Share of refusals, of all or of some groups."""
    new_prompts: bool = False
    """Whether prompts are drawn anew, being a sample."""


@cache
def _vocabulary() -> tuple[NDArray[np.object_], Floats]:
    """Words and the logarithms of their shares."""
    letters = "abcdefghij"
    words = ["w" + "".join(letters[int(digit)] for digit in f"{place:03d}") for place in range(_WORDS)]
    return np.array(words, dtype=object), -np.log(np.arange(1, _WORDS + 1) + 2.7)


@cache
def _shifts() -> tuple[Floats, Floats, Floats]:
    """Logarithms by which words are more frequent: with gender, in planted worlds by combination, in two prompts.

    Planted: strength 1 is below the size of GPT-4's texts (Cheng et al. 2023, Tables 3 and A2; their divergence is .13
    bits beyond chance, here .03). Of 700 words each marked value has 14 that are 6 times as frequent, each crossing 3
    that are 12 times as frequent.
    """
    rng = np.random.default_rng(20261122)
    frequent = np.arange(20, 400)
    gender, planted = np.zeros((2, len(_GROUPS), _WORDS))
    for place, (axis, values) in enumerate(_AXES.items()):
        for value in values[1:]:
            own = rng.choice(frequent, 14, replace=False)
            inside = np.array([group[place] == value for group in _GROUPS])
            planted[np.ix_(inside, own)] += np.log(6)
            if axis == "gender":
                gender[np.ix_(inside, own)] += np.log(6)
    for number, group in enumerate(_GROUPS):
        if all(value != values[0] for value, values in zip(group, _AXES.values(), strict=True)):
            planted[number, rng.choice(frequent, 3, replace=False)] += np.log(12)
    return gender, planted, rng.normal(0, 0.7, (2, _WORDS))


def draw(study: Study, rng: np.random.Generator) -> FeatureTables:
    """The features of one run of the study."""
    rows = pd.DataFrame(
        [(f"prompt {p}", *_GROUPS[g], g, sample) for p in range(study.prompts) for g in range(len(_GROUPS))
         for sample in range(round(study.samples * (study.fewer if _marked()[g] else 1.0)))],
        columns=["prompt_id", *_AXES, "code", "sample"],
    )  # fmt: skip
    code, prompt = rows["code"].to_numpy(), np.repeat(np.arange(study.prompts), len(rows) // study.prompts)
    refused = study.refused if isinstance(study.refused, Mapping) else dict.fromkeys(_GROUPS, study.refused)
    chance = np.array([refused.get(group, 0.0) for group in _GROUPS])[code]
    included = rng.random(len(rows)) >= chance
    counts = _words(study, code, prompt, rng)
    vectors = _vectors(study, code, prompt, rng)
    counts[~included] = 0
    rows["group"] = [" ".join(_GROUPS[place]) for place in code]
    rows["status"] = np.where(included, Status.OK.value, Status.REFUSAL.value)
    rows["included"] = included
    rows["cluster"] = [f"#{number}" if there else "" for number, there in enumerate(included)]
    repeated = np.tile(np.arange(len(rows)), study.copies)
    texts = rows.iloc[repeated].reset_index(drop=True)
    texts["duplicate"] = (np.arange(len(texts)) >= len(rows)) & texts["included"]
    texts["sample"] += np.arange(len(texts)) // len(rows) * study.samples
    texts.insert(0, "text", np.arange(len(texts), dtype=np.int32))
    texts.insert(1, "kind", "persona")
    return _tables(texts.drop(columns="code"), counts[repeated], vectors[repeated])


def _words(study: Study, code: NDArray[np.int64], prompt: NDArray[np.int64], rng: np.random.Generator) -> Floats:
    """Counts of the words in each text, (n, _WORDS)."""
    _, logs = _vocabulary()
    gender, planted, fixed = _shifts()
    prompts = rng.normal(0, 0.7, (study.prompts, _WORDS)) if study.new_prompts else fixed[: study.prompts]
    # Each text has words of its own: it repeats what it is about.
    logs = logs + rng.normal(0, 1.0, (len(code), _WORDS)) + prompts[prompt]
    logs = logs + (study.gender * gender + study.planted * planted)[code]
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    length = study.length * np.where(_marked()[code], study.longer, 1.0) * rng.uniform(0.7, 1.3, len(code))
    return rng.multinomial(length.astype(int), shares / shares.sum(axis=1, keepdims=True)).astype(float)


def _marked() -> NDArray[np.bool_]:
    """Which groups have a marked value."""
    return np.array([any(v != values[0] for v, values in zip(group, _AXES.values(), strict=True)) for group in _GROUPS])


def _vectors(study: Study, code: NDArray[np.int64], prompt: NDArray[np.int64], rng: np.random.Generator) -> Floats:
    """Sentence vectors of length 1, (n, _DIMENSIONS): the themes of prompt and gender, and the text's own."""
    half = _DIMENSIONS // 2
    themes = np.random.default_rng(7).normal(size=(2, half))
    prompts = rng.normal(size=(study.prompts, half)) if study.new_prompts else themes[: study.prompts]
    gender = np.array([_AXES["gender"].index(group[1]) for group in _GROUPS])[code]
    spread = np.where(_marked()[code], 1 - 0.15 * study.planted, 1.0)[:, None]
    vectors = spread * rng.normal(size=(len(code), _DIMENSIONS))
    vectors[:, :half] += prompts[prompt]
    # Of one length and at right angles to all else, so that no gender is more alike for its theme.
    vectors[np.arange(len(code)), half + gender] += 2.0 * study.gender
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def _tables(texts: pd.DataFrame, counts: Floats, vectors: Floats) -> FeatureTables:
    """As featurize makes them."""
    words, _ = _vocabulary()
    bag = WordCounts(words, scipy.sparse.csr_matrix(counts.astype(np.int32))).table()
    included = np.flatnonzero(texts["included"])
    rows = texts.iloc[included]
    comparisons, of_words = compare_words(
        WordCounts.of_texts(bag, included.astype(np.int64)), Grouping(rows, AXES), "persona", LogOddsPrior()
    )
    texts = texts.assign(sentiment=np.nan)
    nothing = pd.DataFrame({"word": pd.Series(dtype="str"), "compound": pd.Series(dtype=float)})
    return {
        "texts": texts,
        "bag_of_words": bag,
        "comparisons": comparisons[list(COMPARISON_COLUMNS)].astype(COMPARISON_COLUMNS),
        "words": of_words[list(WORD_COLUMNS)].astype(WORD_COLUMNS),
        "embeddings": pd.DataFrame({"text": included.astype(np.int32), "embedding": list(vectors[included])}),
        "svm_words": pd.DataFrame(columns=["kind", "labeling", "group", "word", "rank", "weight"]),
        "svm_predictions": _predictions(rows, counts[included]),
        "word_sentiment": nothing,
        "unread": pd.DataFrame(columns=["kind", "measure", "reason"], dtype="str"),
        "prompt_words": pd.DataFrame(columns=["kind", "group", "word"], dtype="str"),
    }


def _predictions(rows: pd.DataFrame, counts: Floats) -> pd.DataFrame:
    """Of linear one-v-rest classifiers (ridge regression in place of the support vector machine, for speed)."""
    kernel = counts @ counts.T
    parts = []
    labelings = {**{axis: rows[axis].to_numpy() for axis in AXES}, "intersection": rows["group"].to_numpy()}
    split = np.random.default_rng(42)
    for labeling, labels in labelings.items():
        tested = _split(labels, rows["cluster"].to_numpy(), split)
        groups = np.unique(labels.astype(str))
        truth = labels[:, None] == groups
        train, test = np.flatnonzero(~tested), np.flatnonzero(tested)
        target = truth[train] - truth[train].mean(axis=0)
        weights = np.linalg.solve(kernel[np.ix_(train, train)] + 30.0 * np.eye(len(train)), target)
        # The cut is where as many training texts are above it as are in the class, so that both answers are given.
        scores = kernel[np.ix_(test, train)] @ weights
        cut = np.array(
            [np.quantile(score, 1 - share) for score, share in zip(scores.T, truth[train].mean(axis=0), strict=True)]
        )
        parts.append(
            pd.DataFrame(
                {"text": np.repeat(rows["text"].to_numpy()[test], len(groups)), "labeling": labeling,
                 "group": np.tile(groups, len(test)), "is_group": truth[test].ravel(),
                 "predicted": (scores > cut).ravel()}
            )
        )  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def _split(labels: NDArray[np.object_], cluster: NDArray[np.object_], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which texts are tested: a fifth of each label's, copies on one side."""
    tested = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels.astype(str)):
        own = np.unique(cluster[labels == label].astype(str))
        chosen = rng.permutation(own)[: max(1, round(_TEST_SHARE * len(own)))]
        tested |= np.isin(cluster.astype(str), chosen) & (labels == label)
    return tested


def _asked(size: str) -> Study:
    """What the size asks for; from six prompts on they are a sample, as the Scores take them."""
    sized: dict[str, Any] = dict(SPEC.sizes[size])
    prompts = len(sized["prompts"]) or PERSONAS
    return Study(prompts, sized["samples"], sized["max_tokens"] * 3 // 4, new_prompts=prompts >= PERSONAS)


def worlds(size: str = "quick") -> Sequence[World]:
    """Without an effect of the group but with dependence; and one with effects of the size that the paper reports."""
    asked, quick = _asked(size), size == "quick"
    everything = SPEC.headline
    beyond = ("similarity.difference", "interaction.excess", "refusals.difference")
    black_men: dict[tuple[str, ...], float] = {("Black", "man"): 2 / 3}

    def world(name: str, about: str, study: Study, false: Sequence[str], planted: Sequence[str] = ()) -> World:
        # The interval of the classifiers is for those that were trained, and each world trains others. A hundred
        # exchanges are enough to test at 5 %, and a world takes a fraction of the time.
        return World(
            name, about, partial(draw, study), tuple(false), tuple(planted), ("svm.balanced_accuracy",),
            params={"n_permutations": 100},
        )  # fmt: skip

    return (
        world("texts_vary", "Texts and prompts have words of their own; a tenth is refused, whatever the group.",
              replace(asked, refused=0.1), everything),
        world("copies", "The same, and every text is stored three times.",
              replace(asked, samples=asked.samples // 2, copies=3), everything),
        world("gender_matters", "Words and themes depend on gender alone, in the same way for each race.",
              replace(asked, gender=1.0), beyond),
        world("refusals_of_one_group", "Two thirds of the requests for Black men are refused.",
              replace(asked, refused=black_men), [key for key in everything if not key.startswith("refusals")]),
        world("marked_are_longer", "Texts of marked groups are twice as long, and not otherwise different.",
              replace(asked, longer=2.0), [key for key in everything if not key.startswith("svm")]),
        world("marked_are_fewer", "Marked groups have half as many texts, half as long; each is stored three times.",
              replace(asked, longer=0.5, fewer=0.5, copies=3),
              [key for key in everything if not key.startswith("svm")]),
        world("few", "One prompt, four samples.", Study(prompts=1, samples=4), everything),
        *([world("six_prompts", "Six prompts, drawn anew in every world, and three samples.",
                 Study(prompts=6, samples=3, new_prompts=True), everything)] if quick else []),
        world("planted", "Each marked value and crossing has words of its own; its texts are refused more.",
              replace(asked, planted=1.0, refused={group: 0.5 for group in _GROUPS if group[0] != "White"}),
              (), ("marked_words.excess", "jsd.excess", "svm.balanced_accuracy", "refusals.difference")),
    )  # fmt: skip
