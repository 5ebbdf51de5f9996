"""The analysed answers of each class, counted by crawl and subject: what tables and Scores are made from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.audits.knowledge import NOT_MEASURED
from markedness.axes import key_part
from markedness.stats.inference import unlike_shares

Measure = Literal["regard", "toxicity", "valid", "regard_scored", "toxicity_scored"]
MEASURES: tuple[Measure, ...] = ("regard", "toxicity")
"""What is measured of a triple; "valid" is measured of every answer."""
SCORED: dict[Measure, Measure] = {"regard": "regard_scored", "toxicity": "toxicity_scored"}
"""Whether a triple has a value of the measure, where some have none: 1 or 0; 0 too for an answer that is no triple."""
REGARD_VALUES = {"negative": -1.0, "neutral": 0.0, "positive": 1.0}
_ANSWER = ["subject", "predicate", "object", "status", "regard"]
"""What an answer and its copy have in common beside toxicity; they may be numbered, ordered and asked unlike."""
_SAME = 1e-6
"""Difference of toxicity up to which a scorer read two triples alike."""
Floats = NDArray[np.float64]


class Cells(NamedTuple):
    """Sums of a measure and numbers of values, each of shape (crawls, subjects)."""

    sums: Floats
    counts: Floats
    squares: float = float("nan")
    """Sum of all squared values."""

    @property
    def variance(self) -> float:
        """Variance of the answers about one subject, pooled over subjects and kept above 0; NaN without answers."""
        n, sums = self.counts.sum(axis=0), self.sums.sum(axis=0)[self.counts.any(axis=0)]
        inside = self.squares - float(np.square(sums) @ (1 / n[n > 0]))
        return (inside + 0.5) / max(1.0, float(n.sum()) - len(sums)) if n.any() else float("nan")

    @property
    def n(self) -> NDArray[np.int64]:
        """Values of each subject, shape (subjects,)."""
        return np.asarray(self.counts.sum(axis=0), dtype=np.int64)

    def means(self, weights: Floats | None = None) -> Floats:
        """Mean of each subject, shape (draws, subjects), under weights of the crawls, shape (draws, crawls).

        NaN for a subject without values; by default one draw in which each crawl weighs 1.
        """
        weight = np.ones((1, len(self.sums))) if weights is None else weights
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray((weight @ self.sums) / (weight @ self.counts))

    def mean(self, weights: Floats) -> Floats:
        """Mean of all values, shape (draws,), under weights of the crawls, shape (draws, crawls)."""
        whole = Cells(self.sums.sum(axis=1, keepdims=True), self.counts.sum(axis=1, keepdims=True))
        return whole.means(weights)[:, 0]


@dataclass(frozen=True)
class SubjectClass:
    """One protected class."""

    name: str
    subjects: list[str]
    reference: str
    crawls: list[str]
    """Crawls of the study, in the order of the data; ["1"] where the data do not tell crawls apart."""
    asked: pd.DataFrame
    """Every answer of the analysed arm, with regard as -1, 0 or 1 and ``valid`` as 0 or 1; see `analysed`."""

    @cached_property
    def rows(self) -> pd.DataFrame:
        """The triples that the measures read."""
        return self.asked[self.asked["included"].to_numpy(dtype=bool)]

    @property
    def marked(self) -> list[int]:
        """Places of the subjects that are not the reference."""
        return [place for place, subject in enumerate(self.subjects) if subject != self.reference]

    @property
    def unmarked(self) -> int:
        """Place of the reference."""
        return self.subjects.index(self.reference)

    @property
    def key(self) -> str:
        """The name as part of a key or file name."""
        return key_part(self.name)

    def cells(self, measure: Measure) -> Cells:
        """The measure by crawl and subject; "valid" of all answers, others of the triples."""
        return self._cells[measure]

    @cached_property
    def _cells(self) -> dict[Measure, Cells]:
        shape = (len(self.crawls), len(self.subjects))
        included = self.asked["included"].to_numpy(dtype=bool)
        found: dict[Measure, Cells] = {}
        valid = self.asked["valid"].to_numpy(dtype=float)
        read: dict[Measure, tuple[Floats, NDArray[np.bool_]]] = {"valid": (valid, np.ones(len(valid), dtype=bool))}
        for measure in MEASURES:
            values = self.asked[measure].to_numpy(dtype=float)
            read[measure] = values, included
            read[SCORED[measure]] = (included & ~np.isnan(values)).astype(float), included | (valid == 0)
        for measure, (values, there) in read.items():
            known = ~np.isnan(values) & there
            sums, squares, counts = (
                np.bincount(self._cell[known], part, shape[0] * shape[1]).reshape(shape).astype(np.float64)
                for part in (values[known], np.square(values[known]), np.ones(int(known.sum())))
            )
            found[measure] = Cells(sums, counts, float(squares.sum()))
        return found

    @cached_property
    def topic_counts(self) -> Floats | None:
        """Triples of each crawl, subject and topic, shape (crawls, subjects, topics); None without topics."""
        rows = self.rows[self.rows["topic"].notna()]
        if rows.empty:
            return None
        topics, names = pd.factorize(rows["topic"].to_numpy(dtype=int), sort=True)
        shape = (len(self.crawls), len(self.subjects), len(names))
        with_topic = (self.asked["included"] & self.asked["topic"].notna()).to_numpy(dtype=bool)
        places = self._cell[with_topic] * len(names) + topics
        return np.asarray(np.bincount(places, minlength=int(np.prod(shape))).reshape(shape), dtype=np.float64)

    def missing(self, measure: Measure) -> NDArray[np.int64]:
        """Triples asked for of each subject without a value, shape (subjects,); none of the answers for "valid".

        A triple counts once, however often it was asked for again. What the table does not ask is not missing: in a
        comparison with a model of fewer rounds, these are all that both were asked.
        """
        if measure not in MEASURES:
            return np.zeros(len(self.subjects), dtype=np.int64)
        return np.asarray(np.maximum(self._asked_for - self.cells(measure).n, 0))

    @cached_property
    def _asked_for(self) -> NDArray[np.int64]:
        first = self.asked.loc[self.asked["attempt"].eq(0).to_numpy(dtype=bool), "subject"]
        return np.asarray(first.value_counts().reindex(self.subjects, fill_value=0), dtype=np.int64)

    def unlike(self, marked: Sequence[int], of_triples: bool) -> float:
        """How the prompts, rounds and strategies of marked subjects' answers differ from the reference's, from 0 to 1.

        See `markedness.stats.inference.unlike_shares`. Prompts that no marked subject shares with the reference, as
        where each names its own, tell nothing. ``of_triples``: of the triples that the measures read, or of all that
        were asked for.
        """
        here = (self.asked["included"] if of_triples else self.asked["attempt"].eq(0)).to_numpy(dtype=bool)
        subject = self._cell[here] % len(self.subjects)
        there = [place for place in marked if (subject == place).any()]
        place = {one: number for number, one in enumerate([*there, self.unmarked])}
        compared = np.isin(subject, list(place))
        of = np.array([place[one] for one in subject[compared]], dtype=np.int64)
        for question in self._questions:
            asked = question[here][compared]
            if np.isin(asked[of == len(there)], asked[of < len(there)]).any():
                return unlike_shares(of, asked)
        return 0.0

    @cached_property
    def _questions(self) -> list[NDArray[np.int64]]:
        """Numbers of what each answer was asked with: prompt, round and strategy, and the last two alone."""
        asked_with = ["prompt_id", "round", "strategy"]
        kinds = (self.asked.groupby(names, sort=False, dropna=False) for names in (asked_with, asked_with[1:]))
        return [np.asarray(kind.ngroup(), dtype=np.int64) for kind in kinds]

    def scorer(self, measure: Measure) -> str:
        """Who scored the triples; "" without triples."""
        return str(self.rows[f"{measure}_scorer"].iloc[0]) if len(self.rows) else ""

    @cached_property
    def _cell(self) -> NDArray[np.intp]:
        """Crawl and subject of each answer as one number."""
        crawl = pd.Index(self.crawls).get_indexer(pd.Index(self.asked["crawl"]))
        subject = pd.Index(self.subjects).get_indexer(pd.Index(self.asked["subject"]))
        return np.asarray(crawl * len(self.subjects) + subject, dtype=np.intp)


def has_crawls(triples: pd.DataFrame) -> bool:
    """Whether the answers say which crawl they belong to."""
    return bool(triples["crawl"].notna().all())


def made_by(triples: pd.DataFrame, column: str) -> str:
    """The scorer or topic model that a column of the triples names; "" without triples."""
    named = triples[column].dropna() if column in triples else pd.Series(dtype="str")
    return str(named.iloc[0]) if len(named) else ""


def not_measured(triples: pd.DataFrame, column: str) -> str:
    """Why there is no scorer or topic model in a column that names it; "" where there is."""
    first = made_by(triples, column)
    return first.removeprefix(NOT_MEASURED) if first.startswith(NOT_MEASURED) else ""


def counted_once(triples: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """The answers without those of crawls that are copies, and a sentence that says how many; "" without copies.

    Crawls of a class and arm with the same answers, in whatever order, are one crawl, the first by name, whether a file
    has it twice or the model always answers alike. Crawls without a triple do not show whether they are copies.
    """
    copied = _copied(triples) if has_crawls(triples) else np.zeros(len(triples), dtype=bool)
    if not copied.any():
        return triples, ""
    counts = {
        str(name): f"{rows['crawl'][copied[rows.index]].nunique()} of {rows['crawl'].nunique()}"
        for name, rows in triples.reset_index(drop=True).groupby("class", sort=False)
    }
    numbers = [f"{number} for {name}" for name, number in counts.items()]
    said = ", ".join(numbers if len(set(counts.values())) > 1 else set(counts.values()))
    return triples[~copied], f"Crawls with exactly the answers of another are copies and count once: {said}."


def _copied(triples: pd.DataFrame) -> NDArray[np.bool_]:
    """Whether each answer belongs to a crawl that is the copy of another."""
    answer = pd.util.hash_pandas_object(triples[_ANSWER].astype("string"), index=False).to_numpy()
    toxicity, valid = triples["toxicity"].to_numpy(dtype=float), triples["status"].eq("ok").to_numpy(dtype=bool)
    order = np.lexsort((toxicity, answer))
    copied = np.zeros(len(triples), dtype=bool)
    side = triples.groupby(["class", "arm"], dropna=False).ngroup().to_numpy()
    crawls = pd.DataFrame({"side": side, "crawl": triples["crawl"].astype(str).to_numpy()}).iloc[order]
    first: defaultdict[tuple[int, bytes], list[NDArray[np.intp]]] = defaultdict(list)
    for _, places in sorted(crawls.groupby(["side", "crawl"]).indices.items(), key=lambda crawl: str(crawl[0])):
        rows = order[np.asarray(places)]
        known = first[int(side[rows[0]]), answer[rows].tobytes()]
        copied[rows] = valid[rows].any() and any(
            np.allclose(toxicity[rows], toxicity[one], rtol=0, atol=_SAME, equal_nan=True) for one in known
        )
        known.append(rows)
    return copied


def analysed(triples: pd.DataFrame) -> pd.DataFrame:
    """Every answer of the analysed arm.

    ``regard`` is -1, 0 or 1 (NaN: not scored), ``valid`` is 1 for a triple and 0 for any other answer, and ``crawl`` is
    "1" where the data do not tell crawls apart.
    """
    rows = triples[triples["analysed"].to_numpy(dtype=bool)]
    return rows.assign(
        regard=rows["regard"].map(REGARD_VALUES).astype(float), valid=rows["status"].eq("ok").astype(float),
        crawl=rows["crawl"].astype(str) if has_crawls(triples) else "1",
    )  # fmt: skip


def subject_classes(triples: pd.DataFrame) -> list[SubjectClass]:
    """The classes of the table ``triples`` of featurize, in its order."""
    asked = analysed(triples)
    crawls = list(asked["crawl"].unique())
    by_class = dict(list(asked.groupby("class", sort=False)))
    found = []
    for name, rows in triples.groupby("class", sort=False):
        subjects = list(rows["subject"].unique())
        reference = str(rows["reference"].iloc[0])
        subjects += [reference] if reference not in subjects else []
        found.append(SubjectClass(str(name), subjects, reference, crawls, by_class.get(name, asked.iloc[:0])))
    return found
