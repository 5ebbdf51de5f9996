"""Texts cut to lengths and numbers that all groups have alike, of which the tests of words are made.

The plug-in divergence of a few words is larger than that of many, and words of longer texts reach a threshold sooner.
Where one group's texts are shorter, exchanged labels do not show that: they mix the lengths. Of texts of equal lengths
they do; and of authors, as units of several texts, where those of all groups have as many. Words of a text are cut as
if drawn from an urn, so that what is left is a shorter text of the same kind.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy
from numpy.typing import NDArray

from markedness.stats.inference import Floats

Codes = NDArray[np.int64]
_FEWEST = 5
"""Texts of a value from which the spread of its lengths is known; values with fewer are taken together."""
_ROWS = 5000
"""Texts that are cut at a time, so that memory does not grow with all words."""


def kept_shares(lengths: Floats, prompt: Codes, axes: Sequence[Codes], combination: Codes) -> Floats:
    """Share of each text to keep so that lengths no longer depend on its group.

    Within a prompt every combination is cut to the mean length of the shortest; then a text of the q-th part of the
    lengths of its value of an axis, to the shortest q-th part of any value. Means are shrunken as far as they vary no
    more than chance lets them, so that few words are lost where groups are equally long.

    Parameters
    ----------
    lengths
        Words, (n,).
    prompt, combination
        Codes, (n,).
    axes
        Of each axis the codes of its values, (n,) each.

    Returns
    -------
    ndarray
        (n,), in (0, 1].
    """
    left, factor = np.maximum(lengths, 1.0), np.ones(len(lengths))
    levels = [*axes, combination, *(_crossed(prompt, code) for code in axes), _crossed(prompt, combination)]
    for sweep in range(20):  # effects of designs that are not balanced
        left = left / _means(left, prompt)
        for code in levels if sweep == 19 else axes:
            effect = _shrunken(left, code)
            left, factor = left / effect, factor * effect
    shortest = np.full(int(prompt.max(initial=-1)) + 1, np.inf)
    np.minimum.at(shortest, prompt, factor)
    shares = shortest[prompt] / factor
    for code in axes:
        shorter = np.minimum(left, _shortest_parts(left, code))
        shares, left = shares * shorter / left, shorter
    return np.asarray(shares)


def _means(values: Floats, code: Codes) -> Floats:
    """Mean of the values of each code, at each value, (n,)."""
    return np.asarray((np.bincount(code, values) / np.maximum(np.bincount(code), 1))[code])


def _shrunken(values: Floats, code: Codes) -> Floats:
    """`_means` of values around 1, drawn to 1 by the share of chance in their variance (DerSimonian & Laird 1986)."""
    means, n = _means(values, code), np.bincount(code)
    weight, n_codes = n[code], int((n > 0).sum())
    if n_codes < 2 or len(values) <= n_codes:
        return np.ones(len(values))
    noise = float(np.square(values - means).sum()) / (len(values) - n_codes)
    between = float(np.square(means - 1).sum()) - (n_codes - 1) * noise
    between /= len(values) - float(np.square(n).sum()) / len(values)
    if between <= 0:
        return np.ones(len(values))
    return np.asarray(1 + (means - 1) * between / (between + noise / weight))


def _crossed(first: Codes, second: Codes) -> Codes:
    return np.unique(np.column_stack([first, second]), axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _shortest_parts(values: Floats, code: Codes) -> Floats:
    """The smallest quantile of any code at the quantile that each value is of its own code, (n,)."""
    own = np.where(np.bincount(code)[code] < _FEWEST, -1, code)
    part, known = np.zeros(len(values)), []
    for one in np.unique(own):
        rows = np.flatnonzero(own == one)
        rows = rows[np.argsort(values[rows], kind="stable")]
        part[rows] = (np.arange(len(rows)) + 0.5) / len(rows)
        if len(rows) >= _FEWEST:
            known.append((part[rows], values[rows]))
    return np.asarray(np.min([np.interp(part, *of_code) for of_code in known], axis=0) if known else values)


def as_many(unit: Codes, prompt: Codes, axes: Sequence[Codes], combination: Codes) -> NDArray[np.bool_]:
    """Which texts stay, (n,), where the units of all groups have equally many; at least one of each unit.

    Parameters
    ----------
    unit
        Of each text, (n,), from 0 without gaps.
    prompt
        Of each unit, (u,).
    axes, combination
        Of each text, as for `kept_shares`.

    Notes
    -----
    Which texts stay is chance, the same for the same texts.
    """
    rng = np.random.default_rng(1)
    sizes, first = np.bincount(unit), np.unique(unit, return_index=True)[1]
    shares = kept_shares(sizes.astype(float), prompt, [code[first] for code in axes], combination[first])
    n_kept = np.maximum(1, np.floor(sizes * shares + rng.random(len(sizes))))
    order = np.lexsort((rng.random(len(unit)), unit))
    stays = np.empty(len(unit), dtype=bool)
    stays[order] = np.arange(len(unit)) - (np.cumsum(sizes) - sizes)[unit[order]] < n_kept[unit[order]]
    return stays


def cut(counts: scipy.sparse.csr_matrix, shares: Floats, rng: np.random.Generator) -> scipy.sparse.csr_matrix:
    """These shares of the words of each row, (n, V), drawn without replacement."""
    parts = [
        _cut(counts[start : start + _ROWS], shares[start : start + _ROWS], rng)
        for start in range(0, max(1, counts.shape[0]), _ROWS)
    ]
    return scipy.sparse.vstack(parts, format="csr")


def _cut(counts: scipy.sparse.csr_matrix, shares: Floats, rng: np.random.Generator) -> scipy.sparse.csr_matrix:
    found = counts.tocoo()
    times = found.data.astype(np.int64)
    row, word = np.repeat(found.row, times), np.repeat(found.col, times)
    lengths = np.bincount(row, minlength=counts.shape[0])
    kept = np.floor(lengths * shares + rng.random(len(lengths)))
    order = np.lexsort((rng.random(len(row)), row))
    row, word = row[order], word[order]
    inside = np.arange(len(row)) - (np.cumsum(lengths) - lengths)[row] < kept[row]
    return scipy.sparse.csr_matrix((np.ones(int(inside.sum())), (row[inside], word[inside])), counts.shape)
