"""Texts in two guises under one task: ln p by pair, prompt and attribute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from markedness.audits.guise.estimators.association import matched_log_ratio, pooled_log_ratio
from markedness.records import NOT_SHOWN

Floats = NDArray[np.float64]
Names = NDArray[np.object_]


@dataclass(frozen=True)
class TextSet:
    """One set of text pairs: ln p after the marked guise and after its reference."""

    name: str
    setting: str
    """matched, unmatched or overt."""
    control: bool
    prompts: Sequence[str]
    attributes: Sequence[str]
    """In alphabetical order."""
    log_p: Floats
    """Shape (n_pairs, n_prompts, n_attributes), nats; NaN where missing."""
    log_p_reference: Floats
    """The same of the reference guise."""
    neutral_log_prob: Floats
    """ln p in the neutral context, of the same shape; NaN where it was not asked for."""
    clusters: Names | None = None
    """The verb or source text of each pair's text in the guise; None where the data do not say."""
    clusters_reference: Names | None = None
    """The same of the reference guise."""
    exact: bool = True
    """Whether the probabilities are the model's own; otherwise they are estimated from the most likely tokens."""
    subtracted: bool = False
    """Whether its log ratios are subtracted from those of the other sets: one dialect against another."""

    @property
    def matched(self) -> bool:
        """Whether log ratios are taken pair by pair; estimated probabilities are pooled, as in the paper for GPT-4."""
        return self.setting != "unmatched" and self.exact

    @property
    def n_pairs(self) -> int:
        """Number of pairs; of unmatched texts, the size of the larger set."""
        return len(self.log_p)

    def only(self, chosen: NDArray[np.bool_]) -> TextSet:
        """The scores of some attributes."""
        return replace(
            self, attributes=[name for name, kept in zip(self.attributes, chosen, strict=True) if kept],
            log_p=self.log_p[..., chosen], log_p_reference=self.log_p_reference[..., chosen],
            neutral_log_prob=self.neutral_log_prob[..., chosen],
        )  # fmt: skip

    def log_ratio(self, base: float = 10.0, weights: ArrayLike | None = None) -> Floats:
        """Log ratios (n_prompts, n_attributes); with weights (n, n_pairs) one such array per row of weights."""
        estimator = matched_log_ratio if self.matched else pooled_log_ratio
        return estimator(self.log_p, self.log_p_reference, base, weights)


def text_sets(rows: pd.DataFrame) -> list[TextSet]:
    """The text sets of one task and one marked guise, in order of appearance.

    Parameters
    ----------
    rows
        Features: setting, text_set, control, prompt_id, pair, attribute, log_prob, log_prob_reference,
        neutral_log_prob, estimator. A pair that occurs twice, as in a resample, counts twice. An attribute that a
        server never showed after a prompt, of either guise, has no score there.
    """
    prompt_codes, prompts = pd.factorize(rows["prompt_id"])
    attribute_codes, attributes = pd.factorize(rows["attribute"].astype(str), sort=True)
    made = []
    for name in rows["text_set"].unique():
        chosen = rows["text_set"].eq(name).to_numpy()
        part = rows[chosen]
        pair_codes, pair_names = pd.factorize(part["pair"])
        shape = (len(pair_names), len(prompts), len(attributes))
        cell = np.ravel_multi_index((pair_codes, prompt_codes[chosen], attribute_codes[chosen]), shape)
        (log_p, log_p_reference, neutral), pairs = _arrays(part, cell, shape)
        shown = np.zeros(shape[1:], dtype=bool)
        known = part[["log_prob", "log_prob_reference"]].notna().any(axis=1) & part["estimator"].ne(NOT_SHOWN)
        shown.flat[cell[known.to_numpy()] % shown.size] = True
        log_p, log_p_reference = (np.where(shown, side, np.nan) for side in (log_p, log_p_reference))
        first = part.iloc[0]
        made.append(
            TextSet(
                name=str(name),
                setting=str(first["setting"]),
                control=bool(first["control"]),
                prompts=list(prompts),
                attributes=list(attributes),
                log_p=log_p,
                log_p_reference=log_p_reference,
                neutral_log_prob=neutral,
                clusters=_clusters(part["cluster"], pair_codes, pairs, log_p),
                clusters_reference=_clusters(part["cluster_reference"], pair_codes, pairs, log_p_reference),
                exact=bool(part["estimator"].dropna().eq("exact").all()),
            )
        )
    return made


def _clusters(names: pd.Series, codes: NDArray[np.int64], pairs: NDArray[np.int64], log_p: Floats) -> Names | None:
    """The cluster of each of these pairs; None where one with scores has none. ``codes``: the pair of each row."""
    first = np.unique(codes, return_index=True)[1]
    found = names.astype(object).to_numpy()[first][pairs]
    missing = pd.isna(found)
    if (missing & np.isfinite(log_p).any(axis=(1, 2))).any():
        return None
    return np.where(missing, "", found)


def _arrays(
    rows: pd.DataFrame, cell: NDArray[np.int64], shape: tuple[int, int, int]
) -> tuple[list[Floats], NDArray[np.int64]]:
    """The three columns of ln p as arrays of this shape, longer by the copies of pairs, and the number of each pair.

    ``cell`` numbers the rows.
    """
    copy = _copies(cell)
    n_copies = int(copy.max(initial=0)) + 1
    arrays = []
    for column in ("log_prob", "log_prob_reference", "neutral_log_prob"):
        values = np.full((n_copies, int(np.prod(shape))), np.nan)
        values[copy, cell] = pd.to_numeric(rows[column]).to_numpy(dtype=float, na_value=np.nan)
        arrays.append(values.reshape(n_copies * shape[0], *shape[1:]))
    pairs = np.tile(np.arange(shape[0]), n_copies)
    if n_copies > 1:  # pairs with fewer copies than the most frequent one leave empty rows
        filled = np.isfinite(arrays[0]).any(axis=(1, 2)) | np.isfinite(arrays[1]).any(axis=(1, 2))
        arrays, pairs = [values[filled] for values in arrays], pairs[filled]
    return arrays, pairs


def _copies(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """How often each cell occurs in the rows before."""
    order = np.argsort(cells, kind="stable")
    ordered = cells[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(cells) else np.array([], dtype=int)
    counts = np.arange(len(cells)) - np.repeat(starts, np.diff(np.r_[starts, len(cells)]))
    copies = np.empty(len(cells), dtype=np.int64)
    copies[order] = counts
    return copies


def mean_over_sets(sets: Sequence[TextSet], scores: Sequence[Floats]) -> Floats:
    """Mean over the sets of a setting, then over settings: a setting counts once, however many texts it has.

    Where some sets are subtracted, their mean is, from that of the others.
    """
    pairs = list(zip(sets, scores, strict=True))
    own, others = ([pair for pair in pairs if pair[0].subtracted is side] for side in (False, True))
    return _mean_over_settings(own) - _mean_over_settings(others) if others else _mean_over_settings(own)


def _mean_over_settings(pairs: Sequence[tuple[TextSet, Floats]]) -> Floats:
    settings = dict.fromkeys(one.setting for one, _ in pairs)
    return mean([mean([score for one, score in pairs if one.setting == setting]) for setting in settings])


def mean(values: Sequence[Floats] | Floats, axis: int = 0, weights: ArrayLike | None = None) -> Floats:
    """Mean without NaN, optionally weighted along ``axis``; NaN where nothing is left."""
    numbers = np.asarray(values, dtype=float)
    there = np.isfinite(numbers)
    if weights is not None:
        shape = np.asarray(weights, dtype=float)
        there = there * shape.reshape(shape.shape + (1,) * (numbers.ndim - shape.ndim))
    count = there.sum(axis=axis)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(count > 0, np.where(there > 0, numbers * there, 0.0).sum(axis=axis) / count, np.nan)
