"""Worlds of known truth for calibration: crawls whose shown triples colour the next, at a size of the study.

The subjects are those of params.yaml (4 + 3), the crawls those of the size, unless the world is about them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.audits.base import World
from markedness.audits.knowledge import SPEC
from markedness.records import FeatureTables

_SUBJECTS: Mapping[str, tuple[str, ...]] = {
    "ethnicity": ("White people", "Asian people", "Black people", "Latinx people"),
    "gender identity": ("Men", "Non-binary people", "Women"),
}
"""Class -> its subjects, the unmarked first."""
_SEVEN = {"ethnicity": tuple(f"Subject {number}" for number in range(7))}
_TOPICS = np.array([0.2, 0.16, 0.13, 0.11, 0.1, 0.09, 0.07, 0.06, 0.05, 0.03])
"""Share of each topic, the first near no topic."""
_TONE = np.log([0.3, 0.4, 0.3])
"""Log-shares of negative, neutral and positive triples."""
_SAID: Mapping[object, str] = {1: "One", 6: "Six"}
_GAPS = ("regard_gap.marked", "toxicity_gap.marked", "topic_divergence.marked")


@dataclass(frozen=True)
class Study:
    """A scripted model: a triple is its subject's own, or has tone and topic of a triple that was shown."""

    classes: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _SUBJECTS)
    crawls: int = 6
    completions: int = 1
    rounds: int = 1
    draws: int = 1
    """Triples of each of two strategies, per subject and later round."""
    copied: float = 0.6
    """Probability that a triple of a later round copies one of another subject in the same crawl."""
    crawl_sd: float = 0.7
    """Spread of the tone, in logits, that all subjects of a crawl share."""
    subject_sd: Sequence[float] = (0.5,)
    """Spread of tone and topics of a subject between crawls, in logits: of each subject by its place; the last of all
    further ones."""
    invalid: tuple[float, float] = (0.05, 0.05)
    """Probability that an answer of the unmarked and of a marked subject is no triple."""
    invalid_sd: float = 0.5
    """Spread of that between crawls, in logits."""
    harsh: float = 0.0
    """Logits by which triples of marked subjects are more often negative, and their toxicity is higher."""
    own_topic: float = 0.0
    """Share of a marked subject's triples that are of a topic of its own."""

    def draw(self, rng: np.random.Generator) -> FeatureTables:
        """The table that featurize makes, of one study."""
        parts = []
        for name, subjects in self.classes.items():
            for crawl in range(self.crawls):
                parts.append(self._crawl(name, subjects, rng).assign(crawl=str(crawl + 1)))
        triples = pd.concat(parts, ignore_index=True)
        valid = triples["regard"].ge(0)
        regard = np.array(["negative", "neutral", "positive", None], dtype=object)[triples["regard"]]
        return {
            "triples": triples.assign(
                regard=pd.array(regard, dtype="string"), topic=triples["topic"].where(valid).astype("Int64"),
                status=np.where(valid, "ok", "unparsed"), reason=np.where(valid, "", "no object"), included=valid,
                crawl=triples["crawl"].astype("string"), arm="both", analysed=True, cut=False, duplicate=False,
                group=triples["subject"], regard_scorer="world", toxicity_scorer="world", toxicity_reason="",
                topic_words="", topic_stability=1.0, topic_model="world", predicate="do", object="this",
            )
        }  # fmt: skip

    def _crawl(self, name: str, subjects: tuple[str, ...], rng: np.random.Generator) -> pd.DataFrame:
        """One crawl of one class: round, subject, tone (-1: no triple), topic, toxicity of each answer."""
        n = len(subjects)
        sd = np.array([self.subject_sd[min(place, len(self.subject_sd) - 1)] for place in range(n)])
        marked = np.arange(n) > 0
        lean = rng.normal(0, self.crawl_sd) + rng.normal(0, 1, n) * sd - self.harsh * marked
        tone = _shares(_TONE + np.outer(lean, [-0.5, 0.0, 0.5]))
        topics = _shares(np.log(_TOPICS) + rng.normal(0, 1, (n, len(_TOPICS))) * sd[:, None])
        own = np.eye(n, len(_TOPICS) + n, k=len(_TOPICS)) * self.own_topic
        topics = np.hstack([topics, np.zeros((n, n))]) * (1 - self.own_topic * marked[:, None]) + own * marked[:, None]
        odds = np.log(self.invalid) - np.log1p(-np.array(self.invalid)) + rng.normal(0, self.invalid_sd)
        invalid = 1 / (1 + np.exp(-odds[marked.astype(int)]))
        pool: NDArray[np.int64] = np.empty((0, 3), dtype=np.int64)
        parts = []
        for number in range(self.rounds + 1):
            asked = np.repeat(np.arange(n), 4 * self.completions if number == 0 else 2 * self.draws)
            attempts = np.minimum(rng.geometric(1 - invalid[asked]), 3)
            failed = (attempts == 3) & (rng.random(len(asked)) < invalid[asked])
            of = asked[~failed]
            made = np.column_stack([of, _choose(tone[of], rng), _choose(topics[of], rng)])
            if len(pool):
                shown = pool[rng.integers(len(pool), size=len(of))]
                copies = (rng.random(len(of)) < self.copied) & (shown[:, 0] != of)
                made[copies, 1:] = shown[copies, 1:]
            pool = np.vstack([pool, made])
            unread = attempts - 1 + failed
            wasted = np.repeat(asked, unread)
            blank = np.column_stack([wasted, np.full((len(wasted), 2), -1)])
            again = np.concatenate([attempts[~failed] - 1, *(np.arange(times) for times in unread)])
            parts.append(np.column_stack([np.full(len(again), number), np.vstack([made, blank]), again]))
        rows = np.vstack(parts)
        said = rows[:, 2]
        toxicity = 1 / (1 + np.exp(1.5 * said - 0.7 * (said == 0) + 1.0 - rng.normal(0, 1, len(rows))))
        place = rows[:, 1]
        return pd.DataFrame(
            {
                "class": name, "subject": np.array(subjects, dtype=object)[place], "reference": subjects[0],
                "round": rows[:, 0], "strategy": np.where(rows[:, 0] == 0, "initial", "relation"), "regard": said,
                "topic": rows[:, 3] - 1, "toxicity": np.where(said < 0, np.nan, toxicity), "attempt": rows[:, 4],
                "planned": 4 * self.completions + 2 * self.rounds * self.draws,
                "prompt_id": np.char.add(f"{name}/both/", rows[:, 0].astype(str)),
            }
        )  # fmt: skip


def _shares(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each row as probabilities."""
    odds = np.exp(logits)
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def _choose(shares: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """One column of each row, drawn by its probability."""
    return np.asarray((shares.cumsum(axis=1) < rng.random((len(shares), 1))).sum(axis=1), dtype=np.int64)


def worlds(size: str = "quick") -> Sequence[World]:
    """The worlds of the audit, with the crawls of a size."""
    numbers = {key: SPEC.sizes[size][key] for key in ("crawls", "completions", "rounds", "draws")}
    crawls = f"{_SAID.get(numbers['crawls'], numbers['crawls'])} crawls"
    quick = size == "quick"

    def world(
        name: str, about: str, false: Sequence[str] = SPEC.headline, planted: Sequence[str] = (), **study: Any
    ) -> World:
        return World(name, about, Study(**{**numbers, **study}).draw, tuple(false), tuple(planted))

    # The paper prints its effects as figures alone (1, 7, 9): sections 6.2 and 6.3 say that overall regard is negative
    # for some subjects of a class and positive for others, and that topics differ. Strength 1 is ours: a regard gap of
    # a third of a point, a toxicity gap of 0.07, and two of five triples in topics of the subject's own.
    effect: dict[str, Any] = {"harsh": 1.5, "own_topic": 0.4, "false": ("valid.difference",), "planted": _GAPS}
    return (
        world(
            "copied_tone",
            f"{crawls}, each with tone, topics and invalid answers of its own; shown triples pass tone and topic on.",
            invalid=(0.15, 0.15),
        ),
        world(
            "unequal_spread",
            "Seven subjects, one mean: two of them, the unmarked one included, differ strongly between crawls.",
            classes=_SEVEN, subject_sd=(1.5, 1.5, 0.0),
        ),
        world(
            "unequal_invalid",
            "Two of five answers about marked subjects are no triples, one of twenty about the unmarked.",
            false=_GAPS, invalid=(0.05, 0.4),
        ),
        world(
            "one_pair", "One class of two subjects: few arrangements of the labels.",
            classes={"gender identity": ("Men", "Women")},
        ),
        *([world("many_crawls", "Twenty crawls.", crawls=20)] if quick else []),
        world(
            "long_crawls", f"{crawls} of the paper's length: 100 triples a subject, four rounds that copy.",
            classes={"gender identity": _SUBJECTS["gender identity"]}, completions=5, rounds=4, draws=10,
        ),
        world("planted", "Marked subjects are spoken of worse, and partly in topics of their own.", **effect),
        *([world("planted_15_crawls", "The same effect in fifteen crawls.", crawls=15, **effect)] if quick else []),
    )  # fmt: skip
