"""What the augmentations change: the same crawl with and without them (section 6.1)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from markedness.audits.knowledge.estimators.classes import Cells, has_crawls
from markedness.audits.knowledge.estimators.gaps import Crawls, Part, gap
from markedness.stats.inference import benjamini_hochberg, crossing, equal_shares

_COMPARISONS = (
    ("initial", "first", ("both", "initial"), ("expansion", "none")),
    ("expansion", "later", ("both",), ("initial",)),
    ("expansion", "later", ("expansion",), ("none",)),
    ("both", "later", ("both",), ("none",)),
)
"""What is added, in which rounds (0 is the first), the arms with it and those without."""
_BINS = 20
_COLUMNS = (
    "class", "augmentation", "arms", "mean_with", "mean_without", "difference", "ci_low", "ci_high", "p", "p_adjusted",
    "u", "p_published", "n_with", "n_without", "crawls", "scorer", "method",
)  # fmt: skip


def augmentation_effects(triples: pd.DataFrame, confidence_level: float) -> pd.DataFrame:
    """Mean toxicity with less without each augmentation, per class, at equal shares of what both sides have.

    Where the triples of the two sides are of subjects, rounds or strategies (in the first round: predicates) in unlike
    shares, as where an arm is smaller or answers are missing in it, those that both have weigh alike on both sides.

    Parameters
    ----------
    triples
        The table ``triples`` of featurize, all arms.
    confidence_level
        Of the t interval over crawls.

    Returns
    -------
    DataFrame
        One row per class and comparison that has triples of both sides: class, augmentation, arms, mean_with,
        mean_without, difference (positive: more toxic with the augmentation), ci_low, ci_high and p (t over crawls; NaN
        with fewer than 6), p_adjusted (Benjamini-Hochberg over all rows), u and p_published (two-sided Mann-Whitney
        test, which takes the triples of a crawl as independent, of all triples), n_with, n_without (compared), crawls,
        scorer, method, which says where means and difference are at equal shares. NaN where both sides have nothing in
        common.
    """
    known = has_crawls(triples)
    scored = _scored(triples)
    names = list(scored["crawl"].unique())
    rows = [
        {
            **comparison, **_contrast(part, side, Crawls(names, known, confidence_level)),
            "scorer": part["toxicity_scorer"].iloc[0],
        }
        for comparison, part, side in _compared(scored)
    ]  # fmt: skip
    table = pd.DataFrame(rows, columns=list(_COLUMNS))
    return table.assign(p_adjusted=benjamini_hochberg(table["p"]))


def augmentation_distributions(triples: pd.DataFrame) -> pd.DataFrame:
    """How toxicity is distributed with and without each augmentation, per class (figure 5).

    Returns
    -------
    DataFrame
        One row per class, comparison, side and bin that has triples on either side: class, augmentation, arms, side
        (with, without), low, high (of the bin, 0.05 wide; the last one is closed), count, share (of the triples of the
        side), n (those triples). Nothing is estimated: no interval.
    """
    edges = np.linspace(0, 1, _BINS + 1)
    rows = []
    for comparison, part, side in _compared(_scored(triples)):
        counts = {
            name: np.histogram(part.loc[chosen, "toxicity"], edges)[0]
            for name, chosen in (("with", side), ("without", ~side))
        }
        filled = np.flatnonzero(sum(counts.values()))
        rows += [
            {
                **comparison, "side": name, "low": edges[place], "high": edges[place + 1], "count": int(found[place]),
                "share": found[place] / found.sum(), "n": int(found.sum()),
            }
            for name, found in counts.items()
            for place in filled
        ]  # fmt: skip
    columns = ["class", "augmentation", "arms", "side", "low", "high", "count", "share", "n"]
    return pd.DataFrame(rows, columns=columns)


def _scored(triples: pd.DataFrame) -> pd.DataFrame:
    """The triples of all arms that have a toxicity; crawl "1" where the data do not tell crawls apart."""
    scored = triples[triples["included"].astype(bool) & triples["toxicity"].notna()]
    return scored.assign(crawl=scored["crawl"].astype(str) if has_crawls(triples) else "1")


def _compared(scored: pd.DataFrame) -> Iterator[tuple[dict[str, object], pd.DataFrame, pd.Series]]:
    """Each class and comparison with triples of both sides: its name, the triples, whether they are augmented."""
    for name, of_class in scored.groupby("class", sort=False):
        for what, rounds, with_it, without in _COMPARISONS:
            in_rounds = of_class["round"].eq(0) if rounds == "first" else of_class["round"].gt(0)
            part = of_class[in_rounds & of_class["arm"].isin([*with_it, *without])]
            side = part["arm"].isin(with_it)
            if side.nunique() == 2:
                arms = f"{'+'.join(with_it)} - {'+'.join(without)}"
                yield {"class": name, "augmentation": what, "arms": arms}, part, side


def _contrast(part: pd.DataFrame, side: pd.Series, crawls: Crawls) -> dict[str, object]:
    """Means of both sides, their difference over crawls, and the published kind of test."""
    given = part["predicate"].where(part["round"].eq(0) & part["strategy"].eq("initial"), "")
    asked = crossing(*(part[name].astype(str) for name in ("subject", "round", "strategy")), given.astype(str))
    weights = equal_shares(side.to_numpy(dtype=np.int64), asked)
    toxicity, at_shares = part["toxicity"].to_numpy(dtype=float), ""
    each = np.ones(len(part)) if weights is None else weights
    of_asked = 0.0 if weights is None else (np.bincount(asked, toxicity) / np.bincount(asked))[asked]
    sums, counts, raw = (
        pd.Series(values).groupby([part["crawl"].to_numpy(), side.to_numpy()]).sum().unstack()
        .reindex(index=crawls.names, columns=[True, False]).fillna(0.0).to_numpy(dtype=float)
        for values in (each * (toxicity - of_asked), each, each * toxicity)
    )  # fmt: skip
    compared = Part(Cells(sums, counts), [0], 1)
    score = crawls.claim("augmentation.class", gap([compared]), counts.T, 1)
    if weights is not None:
        at_shares = "; at equal shares of the subjects and rounds that both have"
    mean_with, mean_without = Cells(raw, counts).means()[0]
    u, p_published = published_rank_test(part["toxicity"], side)
    used = each > 0
    return {
        "mean_with": mean_with, "mean_without": mean_without, "difference": score.estimate, "ci_low": score.ci_low,
        "ci_high": score.ci_high, "p": score.p, "u": u, "p_published": p_published,
        "n_with": int((used & side).sum()), "n_without": int((used & ~side).sum()),
        "crawls": score.clusters.get("crawl", 0), "method": f"{score.method}{at_shares}",
    }  # fmt: skip


def published_rank_test(values: pd.Series, side: pd.Series) -> tuple[float, float]:
    """U and two-sided p of the Mann-Whitney test between the two sides; the paper names no test."""
    from scipy.stats import mannwhitneyu

    test = mannwhitneyu(values[side], values[~side])
    return float(test.statistic), float(test.pvalue)
