"""Descriptions of the texts themselves: features of dialect and topics by guise. No Score rests on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.audits.guise.estimators.sampling import VERB
from markedness.audits.guise.estimators.tables import Row
from markedness.audits.guise.estimators.text_sets import Floats
from markedness.audits.guise.language.features import CONTROLS, PUBLISHED
from markedness.audits.guise.language.texts import COUNT
from markedness.results import NAN, Score
from markedness.stats.inference import MIN_CLUSTERS, Codes, composition_test, group_difference_score

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

    @property
    def _blocks(self) -> NDArray[np.object_]:
        units = self._units[1]
        both = units.groupby("source")["marked"].transform("nunique").eq(2)
        return np.asarray(("in both: " + units["source"]).where(both, "in one"), dtype=object)

    def difference(self, has: NDArray[np.bool_], rng: np.random.Generator) -> Score:
        """The marked guise's share of texts that have something, minus that of the other."""
        code, units = self._units
        return group_difference_score(
            "texts", np.bincount(code, has), np.bincount(code), units["marked"].to_numpy(dtype=float), [1.0], 0.0, rng,
            cluster=VERB, clusters=units["source"].to_numpy(), blocks=[self._blocks],
        )  # fmt: skip

    def topics(self, topic: Codes, rng: np.random.Generator) -> tuple[float, Floats]:
        """P of all topics together, and of each, corrected."""
        code, units = self._units
        counts = np.zeros((len(units), int(topic.max()) + 1))
        np.add.at(counts, (code, topic), 1)
        null, of_each = composition_test(counts, units["marked"], rng, [self._blocks])
        return null.p, of_each

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
    """The texts of each set in each marked guise, and those of the unmarked guise of the set."""
    for _, own in texts.groupby("text_set", sort=False, observed=True):
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
        their guise together, within the source where it has texts in both. ``missing`` says why there is no p.
    """
    features = [str(name).removeprefix(COUNT) for name in texts if str(name).startswith(COUNT)]
    rows: list[Row] = []
    for own, others in _sides(texts):
        for name in features:
            rows.append(_feature_row(name, own, others, rng))
    return rows


def _feature_row(name: str, own: pd.DataFrame, others: pd.DataFrame, rng: np.random.Generator) -> Row:
    sides = [side[COUNT + name].to_numpy(dtype=float) for side in (own, others)]
    words = [int(side["words"].sum()) for side in (own, others)]
    first = own.iloc[0]
    count, count_reference = (float(side.sum()) for side in sides)
    sources = _Sources(pd.concat([own, others]), np.arange(len(own) + len(others)) < len(own))
    missing = sources.why_not() if count + count_reference else "does not occur"
    chi2, p_published = published_two_counts(count, count_reference, len(own), len(others))
    low = high = p = NAN
    if not missing:
        found = sources.difference(np.concatenate(sides) > 0, rng)
        low, high, p, missing = found.ci_low, found.ci_high, found.p, found.lacking or found.caveat
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
        guise's share of texts minus its reference's, with interval, ``p_adjusted`` by max-T over the topics, and
        ``residual``, standardised; positive: more frequent in the guise. NaN with a reason in ``missing`` where there
        is too little text or topics were not measured.
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
    p_published, p, p_adjusted = NAN, NAN, np.full(len(names), NAN)
    chi2, df = float((np.square(table - expected) / expected).sum()), len(names) - 1
    tested = not why
    if tested:
        p, p_adjusted = sources.topics(codes.astype(np.intp), rng)
    if table.sum(axis=1).min() >= MIN_CLUSTERS and len(names) > 1:
        # Cochran (1954): at most a fifth of the cells below 5, none below 1
        thin = (expected < LEAST_EXPECTED).mean() > 0.2 or expected.min() < 1
        p_published = NAN if thin else _upper_tail(chi2, df)
        why = why or (f"p_published is missing: too few texts for {len(names)} topics" if thin else "")
    yield {
        "topic": "all", "count": table[0].sum(), "count_reference": table[1].sum(), "chi2": chi2, "df": df,
        "p_published": p_published, "p": p, "missing": why,
    }  # fmt: skip
    shares = table / table.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        free = (1 - table.sum(axis=1, keepdims=True) / table.sum()) * (1 - table.sum(axis=0) / table.sum())
        residual = (table - expected) / np.sqrt(expected * free)
    for place in np.argsort(-table.sum(axis=0), kind="stable"):
        found = sources.difference(codes == place, rng) if tested else None
        yield {
            "topic": str(names[place]), "count": table[0, place], "count_reference": table[1, place],
            "share": shares[0, place], "share_reference": shares[1, place], "residual": residual[0, place],
            "difference": shares[0, place] - shares[1, place], "ci_low": found.ci_low if found else NAN,
            "ci_high": found.ci_high if found else NAN, "p_adjusted": p_adjusted[place],
        }  # fmt: skip
