"""Cells and clusters of matched pairs, as integer codes: what the estimates are computed by."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.audits.annotation.estimators.sides import REQUESTS, iterations, of_other_gender, one_sided
from markedness.in_common import linked
from markedness.results import named_contrasts
from markedness.stats.inference import MIN_CLUSTERS, Floats, effective
from markedness.stats.inference.crossed import Crossed

Codes = NDArray[np.int64]
Labels = NDArray[np.object_]
REASONS = ("refusal", "unparsed", "truncated", "failed")
"""Why a judgment is missing: columns of the pairs, one of each side."""
PAIRS_A_PHRASE = 6
"""From so many pairs a phrase on, phrases are clusters. With 5, phrases that make a vignette fit marked names by 0.1
more or less (standard deviation) add a tenth to the variance of a gap."""
_COMPOSED = re.compile(r"a\d+-b\d+|b\d+-a\d+")


def of_paradigm(pairs: pd.DataFrame, paradigm: str) -> pd.DataFrame:
    """The pairs of one paradigm."""
    rows = (pairs["paradigm"].astype(object) == paradigm).to_numpy(dtype=bool)
    return pairs[rows].reset_index(drop=True)


def cells(pairs: pd.DataFrame) -> tuple[Codes, pd.DataFrame]:
    """Cell of each pair, and the group, task and facts of each cell, ordered by group name and first task."""
    (group, groups), (task, tasks) = (pd.factorize(pairs[name], use_na_sentinel=False) for name in ("group", "task"))
    rank = np.argsort(np.argsort(np.asarray(groups, dtype=str)))
    code, labels = pd.factorize(rank[group] * len(tasks) + task, sort=True)
    first = np.zeros(len(labels), dtype=np.int64)
    first[code[::-1]] = np.arange(len(pairs))[::-1]
    names = [name for name in ("group", "reference", "task", "domain", "valence") if name in pairs]
    return code, pairs.loc[first, names].astype(dict.fromkeys(names[:3], object)).reset_index(drop=True)


def codes(pairs: pd.DataFrame, name: str) -> Codes:
    """Codes of a column; -1 where the value is missing or empty, or there is no such column."""
    if name not in pairs:
        return np.full(len(pairs), -1, dtype=np.int64)
    found, values = pd.factorize(pairs[name])
    empty = np.flatnonzero(np.asarray(values, dtype=object) == "")
    return np.where(np.isin(found, empty), -1, found).astype(np.int64)


@dataclass(frozen=True)
class Matched:
    """Pairs of texts of one paradigm with their judgments on all tasks."""

    cells: pd.DataFrame
    """Group, reference, task and facts of each cell."""
    differences: Floats
    """Shape (5, pairs of texts, cells): `delta`, `lost`, `low`, `high` and `margin`."""
    factors: Mapping[str, Labels]
    """Factor -> cluster of each pair of texts."""
    groups: Labels
    missing_column: str = ""
    """A column of clusters that the data lack."""
    warning: str = ""
    """What a reader must see of its requests and names."""

    @property
    def delta(self) -> Floats:
        """Answer of the marked text minus that of the unmarked one, in [-1, 1]; NaN where one is missing."""
        return np.asarray(self.differences[0])

    @property
    def lost(self) -> Floats:
        """Share of missing judgments of the marked text minus that of the unmarked one; NaN where not asked."""
        return np.asarray(self.differences[1])

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """`delta` with every missing judgment at its least and at its most for the marked text."""
        return self.differences[2], self.differences[3]

    @property
    def margin(self) -> Floats:
        """Margin ln P(yes) - ln P(no) of the marked text minus that of the unmarked one, nats; NaN where not scored."""
        return np.asarray(self.differences[4])

    @property
    def valence(self) -> Floats:
        """1, -1 or 0 of each cell."""
        known = "valence" in self.cells
        return self.cells["valence"].to_numpy(dtype=float) if known else np.zeros(len(self.cells))

    @property
    def reference(self) -> str:
        """What the cells are compared with; "" when not all with one group."""
        found = self.cells["reference"].unique()
        return str(found[0]) if len(found) == 1 else ""

    @property
    def contrasts(self) -> str:
        """The groups with both answers to some pair; see `markedness.results.Score.over`."""
        return self._contrasts(self.delta)

    @property
    def asked_contrasts(self) -> str:
        """The groups that were asked about in some pair, answered or not."""
        return self._contrasts(self.lost)

    @property
    def unanswered(self) -> list[str]:
        """The groups that were asked about, of whom no pair has both answers."""
        if self.empty:
            return []
        groups = self.cells["group"].astype(str).to_numpy()
        asked, there = (set(groups[np.isfinite(values).any(axis=0).tolist()]) for values in (self.lost, self.delta))
        return sorted(asked - there)

    def _contrasts(self, values: Floats) -> str:
        if self.empty:
            return ""
        there = self.cells[np.isfinite(values).any(axis=0)]
        return named_contrasts(zip(there["group"].astype(str), there["reference"].astype(str), strict=True))

    @property
    def n(self) -> int:
        """Judgments of pairs with both answers."""
        return int(np.isfinite(self.delta).sum())

    @property
    def n_missing(self) -> int:
        """Judgments of pairs that lack an answer."""
        return int(np.isfinite(self.lost).sum()) - self.n

    @property
    def missing_share(self) -> float:
        """Of the judgments of pairs, those that lack an answer; NaN without any."""
        asked = self.n + self.n_missing
        return self.n_missing / asked if asked else float("nan")

    @property
    def empty(self) -> bool:
        """Whether there are no pairs."""
        return not self.delta.size

    def crossed(self, values: Floats) -> Crossed:
        """Values of the pairs by cell, and their clusters, for the engine."""
        kept = np.isfinite(values).any(axis=1)
        factors = {name: labels[kept] for name, labels in self.factors.items()}
        return Crossed(values[kept], factors, self.groups[kept])

    def caveats(self, values: Floats) -> list[str]:
        """Of each cell, which factors have fewer than six clusters in a group or in the cell: it holds for these alone.

        "" where all have six. A factor with fewer in any group counts as fixed in all cells; see `Crossed.tests`.
        """
        crossed, few = self.crossed(values), [list[str]() for _ in range(len(self.cells))]
        for name, labels in crossed.factors.items():
            known = pd.factorize(np.asarray(labels))[0]
            sizes = [effective(np.bincount(known[crossed.groups == group])) for group in np.unique(crossed.groups)]
            for cell, there in enumerate(crossed.there.T > 0):
                if min([*sizes, effective(np.bincount(known[there]))]) < MIN_CLUSTERS - 1e-9:
                    few[cell].append(f"'{name.replace('_', ' ')}'")
        told = "Fewer than {} of {} in a group or cell: it holds for these alone."
        return [told.format(MIN_CLUSTERS, " and ".join(names)) if names else "" for names in few]

    def only(self, cells: NDArray[np.bool_]) -> Matched:
        """Some cells, and the pairs that were asked in one of them."""
        kept = np.isfinite(self.lost[:, cells]).any(axis=1)
        factors = {name: labels[kept] for name, labels in self.factors.items()}
        table = self.cells[cells].reset_index(drop=True)
        own = self.differences[np.ix_(np.arange(len(self.differences)), np.flatnonzero(kept), np.flatnonzero(cells))]
        return Matched(table, own, factors, self.groups[kept], self.missing_column, self.warning)

    def _labels(self, name: str, place: int) -> Labels:
        """The clusters of a factor; of a paradigm that lacks it, of its own factor at that place, or its last."""
        own = list(self.factors.values())
        return self.factors.get(name, own[min(place, len(own) - 1)])

    @classmethod
    def joined(cls, parts: Sequence[Matched]) -> Matched:
        """Several paradigms as one. Pairs of one have clusters of their own in the factors of another."""
        if not parts:
            return cls(pd.DataFrame({"reference": []}), np.zeros((5, 0, 0)), {}, np.zeros(0, dtype=object))
        if len(parts) == 1:
            return parts[0]
        names = max((part.factors for part in parts), key=len)
        factors = {
            name: np.concatenate([part._labels(name, place) for part in parts]) for place, name in enumerate(names)
        }
        table = pd.concat([part.cells for part in parts], ignore_index=True)
        missing = next((part.missing_column for part in parts if part.missing_column), "")
        return cls(
            table,
            _diagonal([part.differences for part in parts]),
            factors,
            np.concatenate([part.groups for part in parts]),
            missing,
            next((part.warning for part in parts if part.warning), ""),
        )


def matched(pairs: pd.DataFrame) -> Matched:
    """The pairs of one paradigm as arrays; rows of featurize."""
    marked, unmarked = (
        pairs[["n" + side, *(reason + side for reason in REASONS)]].sum(axis=1) for side in ("", "_reference")
    )
    code, table = cells(pairs)
    both = ((marked > 0) & (unmarked > 0)).to_numpy(dtype=bool)
    pairs, code = pairs[both].reset_index(drop=True), code[both]
    dialect = bool(pairs["paradigm"].astype(object).eq("dialect").any())
    known, missing_column = factors(pairs, dialect)
    unit = np.zeros(len(pairs), dtype=np.int64)
    names = ("group", "pair", "vignette", *(() if dialect else ("iteration", "gender", "name", "reference_name")))
    for name in names:
        part = codes(pairs, name) + 1
        unit = pd.factorize(unit * (int(part.max(initial=0)) + 1) + part)[0].astype(np.int64)
    first = np.zeros(int(unit.max(initial=-1)) + 1, dtype=np.int64)
    first[unit[::-1]] = np.arange(len(pairs))[::-1]
    made = np.full((5, len(first), len(table)), np.nan)
    made[:, unit, code] = _differences(pairs)
    if missing_column:
        known = {"pair": np.arange(len(pairs)).astype(str).astype(object)}
    groups = pairs["group"].to_numpy(dtype=object)[first]
    labels = {name: labels[first] for name, labels in known.items()}
    warnings = [REQUESTS] if one_sided(pairs) and "iteration" not in known else []
    return Matched(table, made, labels, groups, missing_column, " ".join([*warnings, *of_other_gender(pairs)]))


def factors(pairs: pd.DataFrame, dialect: bool) -> tuple[dict[str, Labels], str]:
    """Clusters of each row, and the first factor that is not known of every row.

    Names: of vignettes that were composed, the two phrases, if each group has six of both and each is in many pairs;
    where requests held one side only, the iterations that they are of, if each group has six.
    Dialect: pairs of texts, and vignettes where several pairs share one.
    Where the two texts of a pair name different vignettes, vignettes that share a pair are one, see `linked`.
    """
    if {"vignette", "vignette_reference"} <= {*pairs}:
        pairs = pairs.assign(vignette=linked(*(_named(pairs[name]) for name in ("vignette", "vignette_reference"))))
    if dialect:
        return _of_texts(pairs), ""
    found: dict[str, Labels] = {}
    for name in ("name", "reference_name", "vignette"):
        if (codes(pairs, name) < 0).any():
            return {}, name
        found[name] = pairs[name].to_numpy(dtype=object) if name in pairs else np.empty(0, dtype=object)
    if composed := _phrases(found["vignette"], pairs["group"], pairs["task"].nunique()):
        del found["vignette"]
    if one_sided(pairs) and (of_requests := iterations(pairs)) is not None:
        found["iteration"] = of_requests
    return found | composed, ""


def _named(values: pd.Series) -> pd.Series:
    """The values, missing where they are empty."""
    return values.astype(object).where(values.notna() & values.astype(object).ne(""))


def _phrases(vignettes: Labels, groups: pd.Series, n_tasks: int) -> dict[str, Labels]:
    """The phrase of each pool, from names as the design gives them ("a3-b12", "b12-a3"); none for other vignettes.

    None where phrases are in fewer than `PAIRS_A_PHRASE` pairs: what these share is little, and four crossed factors
    of so few are estimated worse than it matters.
    """
    code, known = pd.factorize(vignettes)
    if not len(known) or not all(_COMPOSED.fullmatch(str(vignette)) for vignette in known):
        return {}
    pools = np.array([sorted(str(vignette).split("-")) for vignette in known], dtype=object)[code].T
    counts = [pd.crosstab(np.asarray(groups.astype(str)), pool).to_numpy() for pool in pools]
    few = min(effective(of_group) for table in counts for of_group in table) < MIN_CLUSTERS - 1e-9
    if few or min(len(code) / n_tasks / table.shape[1] for table in counts) < PAIRS_A_PHRASE:
        return {}
    return dict(zip(("phrase_a", "phrase_b"), pools, strict=True))


def _of_texts(pairs: pd.DataFrame) -> dict[str, Labels]:
    """Pairs of texts, known by their vignette where they have no name, and vignettes if they are not the same.

    A pair without a vignette, where others have one, has one of its own.
    """
    known = {name: codes(pairs, name) >= 0 for name in ("pair", "vignette")}
    of = {name: pairs[name].astype(str).to_numpy(object) if name in pairs else "" for name in known}
    found = {"pair": np.where(known["pair"], of["pair"], of["vignette"])}
    if known["vignette"].any():
        vignette = np.where(known["vignette"], of["vignette"], [f"of pair {one}" for one in found["pair"]])
        if not _same_partition(found["pair"], vignette):
            found["vignette"] = vignette
    return {name: np.array([f"dialect {one}" for one in labels], dtype=object) for name, labels in found.items()}


def _same_partition(first: Labels, second: Labels) -> bool:
    crossed = len(set(zip(first, second, strict=True)))
    return crossed == len(set(first)) == len(set(second))


def _differences(pairs: pd.DataFrame) -> Floats:
    """`Matched.differences` of each row, shape (5, rows)."""
    yes, answered, lost = (
        np.array([pairs[[f"{name}{side}" for name in which]].sum(axis=1) for side in ("", "_reference")], dtype=float)
        for which in (("yes",), ("n",), REASONS)
    )
    asked = answered + lost
    least, most, missing = yes / asked, (yes + lost) / asked, lost / asked
    delta = pairs["delta"].to_numpy(dtype=float)
    margin = margin_shift(pairs).to_numpy(dtype=float)
    return np.array([delta, missing[0] - missing[1], least[0] - most[1], most[0] - least[1], margin])


def margin_shift(pairs: pd.DataFrame) -> pd.Series:
    """Margin of the marked text minus that of the unmarked one, in nats; NaN where answers were not scored."""
    if "margin" not in pairs:
        return pd.Series(np.nan, index=pairs.index)
    return pairs["margin"] - pairs["margin_reference"]


def _diagonal(blocks: Sequence[Floats]) -> Floats:
    """Arrays along the diagonal of the last two axes, NaN elsewhere."""
    made = np.full((5, sum(block.shape[1] for block in blocks), sum(block.shape[2] for block in blocks)), np.nan)
    row = column = 0
    for block in blocks:
        made[:, row : row + block.shape[1], column : column + block.shape[2]] = block
        row, column = row + block.shape[1], column + block.shape[2]
    return made


def mean(values: NDArray[np.float64]) -> float:
    """Mean of the values that are there; NaN if there are none."""
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else np.nan
