"""Descriptions of the texts themselves: features of dialect and topics by guise. No Score rests on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from markedness.audits.guise.estimators.tables import Row
from markedness.audits.guise.language.features import CONTROLS, PUBLISHED
from markedness.audits.guise.language.texts import COUNT
from markedness.results import NAN
from markedness.stats.inference import MIN_CLUSTERS, Codes, ShareTests, share_tests

_MOSTLY_FEW = f"the texts of a guise come mostly from fewer than {MIN_CLUSTERS} verbs or sources"
_NO_INTERVAL = f"no interval: {_MOSTLY_FEW}, or those of one guise do not differ"
_NOT_TESTED = f"not tested: {_MOSTLY_FEW} (column verb or cluster)"
LEAST_EXPECTED = 5.0
"""Expected count below which a chi-square is not a chi-square (Cochran 1954)."""


@dataclass(frozen=True)
class _Sources:
    """The texts of two guises by what they come from: a verb, a source text, an author, a text with its copies.

    A unit is all texts of one source in one guise. The units of a source that has texts in both guises change places;
    those of sources with texts in one guise change places with each other.
    """

    texts: pd.DataFrame
    """``cluster`` names the source."""
    marked: NDArray[np.bool_]
    """Of each text: whether it is of the marked guise."""

    @cached_property
    def named(self) -> bool:
        """Whether every text says what it comes from."""
        return bool(self.texts["cluster"].notna().all())

    @cached_property
    def _units(self) -> tuple[Codes, pd.DataFrame]:
        """Unit of each text, and source and guise of each unit."""
        keys = pd.DataFrame({"source": self.texts["cluster"].astype(str).to_numpy(), "marked": self.marked})
        code = np.asarray(keys.groupby(["source", "marked"], sort=False).ngroup(), dtype=np.intp)
        return code, keys.iloc[np.unique(code, return_index=True)[1]].reset_index(drop=True)

    @property
    def fewest(self) -> int:
        """Sources of the guise that has fewer."""
        return int(self._units[1]["marked"].value_counts().reindex([True, False], fill_value=0).min())

    def tests(self, counts: ArrayLike, rng: np.random.Generator, *, simultaneous: bool) -> ShareTests:
        """The marked guise's share of texts in each category minus that of the other; counts (texts, categories)."""
        code, units = self._units
        sums = np.zeros((len(units), np.shape(counts)[1]))
        np.add.at(sums, code, np.asarray(counts, dtype=float))
        return share_tests(
            sums, np.bincount(code), units["marked"], units["source"], rng, simultaneous=simultaneous
        )  # fmt: skip

    def why_not(self) -> str:
        """Why nothing can be tested; "" where it can."""
        n_marked = int(self.marked.sum())
        if min(n_marked, len(self.marked) - n_marked) < MIN_CLUSTERS:
            return f"not measured: fewer than {MIN_CLUSTERS} texts in a guise"
        if not self.named:
            return "not tested: the data do not say which texts belong together (column verb or cluster)"
        if self.fewest < MIN_CLUSTERS:
            return (
                f"not tested: the texts of a guise come from {self.fewest} verbs or sources (column verb or cluster), "
                f"and it takes {MIN_CLUSTERS}"
            )
        return ""


def _upper_tail(chi2: float, df: float) -> float:
    from scipy.stats import chi2 as distribution

    return float(distribution.sf(chi2, df))


def published_two_counts(count: float, count_reference: float, n: int, n_reference: int) -> tuple[float, float]:
    """Chi-square (df 1) of two counts against shares proportional to the numbers of texts, and its p.

    (a - b)^2 / (a + b) where both guises have as many texts, as in SI Table 3. Occurrences count as independent. NaN
    where nothing occurs; p is NaN where fewer than 5 are expected on a side.
    """
    total = count + count_reference
    if not (total and n and n_reference):
        return NAN, NAN
    expected = total * np.array([n, n_reference]) / (n + n_reference)
    chi2 = float((np.square(np.array([count, count_reference]) - expected) / expected).sum())
    return chi2, _upper_tail(chi2, 1) if expected.min() >= LEAST_EXPECTED else NAN


def _sides(texts: pd.DataFrame) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """The texts of each set, by name, in each marked guise, and those of the unmarked guise of the set."""
    for _, own in texts.groupby(texts["text_set"].astype(str)):
        marked = own["marked"].fillna(False).astype(bool)
        for _, part in own[marked].groupby("group", sort=False, observed=True):
            if (~marked).any():
                yield part, own[~marked]


def text_feature_rows(texts: pd.DataFrame, rng: np.random.Generator) -> list[Row]:
    """How often each feature occurs in the texts of a guise and of its reference.

    Parameters
    ----------
    texts
        See `markedness.audits.guise.language.texts.text_table`.
    rng
        Seeded generator of the exchanges.

    Returns
    -------
    list
        ``count`` occurrences, ``share`` of the texts with at least one, ``density`` per 100 words. ``p`` and interval
        are about ``difference``, the marked guise's share minus its reference's: all texts of a verb or source change
        their guise together, within the source where it has texts in both. The interval leaves out 0 where p is at most
        .05 and nowhere else, see `markedness.stats.inference.share_tests`. ``missing`` says why there is none.
    """
    features = [str(name).removeprefix(COUNT) for name in texts if str(name).startswith(COUNT)]
    rows: list[Row] = []
    for own, others in _sides(texts):
        sources = _Sources(pd.concat([own, others]), np.arange(len(own) + len(others)) < len(own))
        why = sources.why_not()
        has = sources.texts[[COUNT + name for name in features]].to_numpy(dtype=float) > 0
        found = None if why else sources.tests(has, rng, simultaneous=False)
        for place, name in enumerate(features):
            rows.append(_feature_row(name, own, others, why, found, place))
    return rows


def _feature_row(
    name: str, own: pd.DataFrame, others: pd.DataFrame, why: str, found: ShareTests | None, place: int
) -> Row:
    """``why`` nothing is tested, or what was found, of which this feature has ``place``."""
    sides = [side[COUNT + name].to_numpy(dtype=float) for side in (own, others)]
    words = [int(side["words"].sum()) for side in (own, others)]
    first = own.iloc[0]
    count, count_reference = (float(side.sum()) for side in sides)
    missing = why if count + count_reference else "does not occur"
    chi2, p_published = published_two_counts(count, count_reference, len(own), len(others))
    low = high = p = NAN
    if found is not None and not missing:
        low, high, p = (float(of_all[place]) for of_all in (found.low, found.high, found.p))
        missing = _NOT_TESTED if np.isnan(p) else _NO_INTERVAL if np.isnan(low) else ""
    return {
        "text_set": str(first["text_set"]), "setting": str(first["setting"]), "control": bool(first["control"]),
        "group": str(first["group"]), "reference": str(others.iloc[0]["group"]), "feature": name,
        "source": "published" if name in PUBLISHED else "control" if name in CONTROLS else "pattern",
        "count": count, "count_reference": count_reference,
        "share": float((sides[0] > 0).mean()), "share_reference": float((sides[1] > 0).mean()),
        "difference": float((sides[0] > 0).mean() - (sides[1] > 0).mean()), "ci_low": low, "ci_high": high, "p": p,
        "density": 100 * count / words[0] if words[0] else NAN,
        "density_reference": 100 * count_reference / words[1] if words[1] else NAN,
        "chi2": chi2, "p_published": p_published, "n": len(own), "n_reference": len(others), "words": words[0],
        "words_reference": words[1], "missing": missing,
    }  # fmt: skip


def topic_rows(texts: pd.DataFrame, rng: np.random.Generator) -> list[Row]:
    """Topics of the texts of a guise and of its reference, in text sets that are not matched.

    Parameters
    ----------
    texts
        See `markedness.audits.guise.language.texts.text_table`.
    rng
        Seeded generator of the exchanges.

    Returns
    -------
    list
        One row per topic, and one of the topic "all" with the test: ``chi2`` of the table of guises and topics with
        ``df`` and ``p_published``, as in SI Figure 1, and ``p`` of all differences in share, with the guise of all
        texts of a source (an author, a text with its copies) exchanged together. Of a topic: ``difference``, the
        guise's share of texts minus its reference's, ``p_adjusted`` by max-T over the topics and the interval of the
        same test, which holds for all topics at once, and ``residual``, standardised; positive: more frequent in the
        guise. NaN with a reason in ``missing`` where there is too little text or topics were not measured.
    """
    rows: list[Row] = []
    for own, others in _sides(texts[texts["setting"].eq("unmatched")]):
        first = own.iloc[0]
        named: Row = {
            "text_set": str(first["text_set"]), "group": str(first["group"]),
            "reference": str(others.iloc[0]["group"]), "n": len(own), "n_reference": len(others),
        }  # fmt: skip
        both = pd.concat([own, others])
        if both["topic"].isna().any():
            rows.append({**named, "topic": "all", "missing": "not measured: set guise.featurize.topics"})
            continue
        rows += [named | row for row in _topics(both, len(own), rng)]
    return rows


def _topics(both: pd.DataFrame, n_marked: int, rng: np.random.Generator) -> Iterator[Row]:
    """The overall test and the topics of one set; its texts in the marked guise come first."""
    codes, names = pd.factorize(both["topic"].astype(str), sort=True)
    marked = np.arange(len(both)) < n_marked
    table = np.stack([np.bincount(codes[side], minlength=len(names)) for side in (marked, ~marked)]).astype(float)
    sources = _Sources(both, marked)
    why = sources.why_not() or ("not tested: all texts have one topic" if len(names) < 2 else "")
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    p_published, found = NAN, None
    chi2, df = float((np.square(table - expected) / expected).sum()), len(names) - 1
    if not why:
        found = sources.tests(codes[:, None] == np.arange(len(names)), rng, simultaneous=True)
    if table.sum(axis=1).min() >= MIN_CLUSTERS and len(names) > 1:
        # Cochran (1954): at most a fifth of the cells below 5, none below 1
        thin = (expected < LEAST_EXPECTED).mean() > 0.2 or expected.min() < 1
        p_published = NAN if thin else _upper_tail(chi2, df)
        why = why or (_NOT_TESTED if found and np.isnan(found.together.p) else "")
        why = why or (f"p_published is missing: too few texts for {len(names)} topics" if thin else "")
    yield {
        "topic": "all", "count": table[0].sum(), "count_reference": table[1].sum(), "chi2": chi2, "df": df,
        "p_published": p_published, "p": found.together.p if found else NAN, "missing": why,
    }  # fmt: skip
    shares = table / table.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        free = (1 - table.sum(axis=1, keepdims=True) / table.sum()) * (1 - table.sum(axis=0) / table.sum())
        residual = (table - expected) / np.sqrt(expected * free)
    for place in np.argsort(-table.sum(axis=0), kind="stable"):
        low = high = p = NAN
        if found:
            low, high, p = (float(of_all[place]) for of_all in (found.low, found.high, found.p))
        yield {
            "topic": str(names[place]), "count": table[0, place], "count_reference": table[1, place],
            "share": shares[0, place], "share_reference": shares[1, place], "residual": residual[0, place],
            "difference": shares[0, place] - shares[1, place], "ci_low": low, "ci_high": high, "p_adjusted": p,
            "missing": (_NOT_TESTED if np.isnan(p) else _NO_INTERVAL) if found and np.isnan(low) else "",
        }  # fmt: skip
