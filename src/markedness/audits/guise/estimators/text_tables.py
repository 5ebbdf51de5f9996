"""Descriptions of the texts themselves: features of dialect and topics by guise. No Score rests on them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.audits.guise.estimators.sampling import VERB
from markedness.audits.guise.estimators.tables import Row
from markedness.audits.guise.estimators.text_sets import Floats
from markedness.audits.guise.language.features import CONTROLS, PUBLISHED
from markedness.audits.guise.language.texts import COUNT
from markedness.results import NAN
from markedness.stats.inference import MIN_CLUSTERS, Codes, Exchange, exchange_test, group_difference_score

LEAST_EXPECTED = 5.0
"""Expected count below which a chi-square is not a chi-square (Cochran 1954)."""
N_DRAWS = 999


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
        are about ``difference``, the marked guise's share minus its reference's: texts exchanged between the guises
        within their source (matched) or set. ``missing`` says why there is no p.
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
    chi2, p_published = published_two_counts(count, count_reference, len(own), len(others))
    both = pd.concat([own, others])
    matched = str(first["setting"]) != "unmatched"
    named = both["cluster"].notna().all()
    clusters = both["cluster"].astype(str)
    enough = min(len(own), len(others)) >= MIN_CLUSTERS and count + count_reference > 0 and named
    low = high = p = NAN
    if enough:
        found = group_difference_score(
            "texts", np.concatenate(sides) > 0, np.ones(len(both)), np.r_[np.ones(len(own)), np.zeros(len(others))],
            [1.0], 0.0, rng, cluster=VERB, clusters=clusters, blocks=[clusters] if matched else (),
        )  # fmt: skip
        low, high, p = found.ci_low, found.ci_high, found.p
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
        "words_reference": words[1], "missing": _why(count + count_reference, len(own), len(others), bool(named)),
    }  # fmt: skip


def _why(total: float, n: int, n_reference: int, named: bool = True) -> str:
    """Why something about texts is not tested; "" where it is."""
    if min(n, n_reference) < MIN_CLUSTERS:
        return f"not measured: fewer than {MIN_CLUSTERS} texts in a guise"
    if not total:
        return "does not occur"
    if not named:
        return "not tested: the data do not say which texts belong together (column verb or cluster)"
    return ""


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
        ``df`` and ``p_published``, as in SI Figure 1, and ``p`` with texts exchanged between the guises, copies
        together. ``residual`` of a topic is its standardised residual: positive, more frequent in the guise. NaN with a
        reason in ``missing`` where there is too little text or topics were not measured.
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
    why = _why(float(len(both)), n_marked, len(both) - n_marked)
    if len(names) < 2:
        why = why or "not tested: all texts have one topic"
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    p_published = p = NAN
    chi2, df = float((np.square(table - expected) / expected).sum()), len(names) - 1
    if not why:
        p = _exchanged(both, codes, marked, rng)
        # Cochran (1954): at most a fifth of the cells below 5, none below 1
        thin = (expected < LEAST_EXPECTED).mean() > 0.2 or expected.min() < 1
        p_published = NAN if thin else _upper_tail(chi2, df)
        why = f"p_published is missing: too few texts for {len(names)} topics" if thin else ""
    yield {
        "topic": "all", "count": table[0].sum(), "count_reference": table[1].sum(), "chi2": chi2, "df": df,
        "p_published": p_published, "p": p, "missing": why,
    }  # fmt: skip
    shares = table / table.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        free = (1 - table.sum(axis=1, keepdims=True) / table.sum()) * (1 - table.sum(axis=0) / table.sum())
        residual = (table - expected) / np.sqrt(expected * free)
    for place in np.argsort(-table.sum(axis=0), kind="stable"):
        yield {
            "topic": str(names[place]), "count": table[0, place], "count_reference": table[1, place],
            "share": shares[0, place], "share_reference": shares[1, place], "residual": residual[0, place],
        }  # fmt: skip


def _exchanged(both: pd.DataFrame, codes: Codes, marked: NDArray[np.bool_], rng: np.random.Generator) -> float:
    """P of the chi-square of distinct texts, their guises exchanged; a text that is there ten times counts once."""
    text = both["cluster"].astype(str).where(both["cluster"].notna(), both["pair"].astype(str)).to_numpy()
    units = pd.DataFrame({"text": text, "marked": marked, "topic": codes}).drop_duplicates()
    topics = np.eye(int(codes.max()) + 1)[units["topic"].to_numpy()]
    exchange, total = Exchange.of(units["marked"].to_numpy()), topics.sum(axis=0)

    def statistic(drawn: Codes) -> Floats:
        own = drawn.astype(float) @ topics
        expected = own.sum(axis=1, keepdims=True) * total / total.sum()
        with np.errstate(invalid="ignore", divide="ignore"):
            value = np.square(own - expected) * (1 / expected + 1 / (total - expected))
        return np.asarray(np.nansum(value, axis=1))

    observed = float(statistic(exchange.labels[None, :])[0])
    found = exchange_test(
        observed, lambda n: statistic(exchange.draw(n, rng)), N_DRAWS, two_sided=False, smallest_p=exchange.smallest_p
    )
    return found.p
