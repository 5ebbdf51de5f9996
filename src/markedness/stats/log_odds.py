"""Words that set one set of texts apart from another: weighted log-odds with an informative prior."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Literal

import numpy as np
from scipy import sparse

Prior = Literal["corpus", "others", "compared", "uninformative"]

_FLOOR = 0.5
"""Prior count of a word that the prior's texts lack; without one its log-odds would be infinite."""


@dataclass(frozen=True)
class WordCounts:
    """How often each word stands in each document."""

    words: np.ndarray
    """The vocabulary, (n_words,), in order of first occurrence; may hold the empty word ""."""
    matrix: sparse.csr_matrix
    """Counts, (n_documents, n_words)."""

    def pooled(self, labels: np.ndarray, n_labels: int) -> np.ndarray:
        """Counts summed over the documents of each label, (n_labels, n_words); label -1 is left out."""
        rows = np.flatnonzero(labels >= 0)
        ones = np.ones(len(rows), dtype=np.int32)
        indicator = sparse.csr_matrix((ones, (labels[rows], rows)), shape=(n_labels, len(labels)))
        return np.asarray((indicator @ self.matrix).todense(), dtype=np.float64)

    def select(self, keep: np.ndarray) -> WordCounts:
        """Only some words, by mask or index."""
        return WordCounts(self.words[keep], self.matrix[:, keep])


def count_words(documents: Iterable[str | None]) -> WordCounts:
    """Count the words of documents, reading them one at a time.

    Parameters
    ----------
    documents
        Words joined by single spaces, as `markedness.text.tokens.tokenize` gives them; None has no words.

    Returns
    -------
    WordCounts
        While counting, a word occurrence takes eight bytes; afterwards a distinct word of a document does.
    """
    codes: defaultdict[str, int] = defaultdict(count().__next__)
    occurrences = array("i")
    ends = array("q", [0])
    for document in documents:
        if isinstance(document, str):
            occurrences.extend(map(codes.__getitem__, document.split(" ")))
        ends.append(len(occurrences))
    columns = np.frombuffer(occurrences, dtype=np.int32) if occurrences else np.empty(0, dtype=np.int32)
    matrix = sparse.csr_matrix(
        (np.ones(len(columns), dtype=np.int32), columns, np.frombuffer(ends, dtype=np.int64)),
        shape=(len(ends) - 1, len(codes)),
        copy=True,
    )
    matrix.sum_duplicates()
    return WordCounts(np.array(list(codes), dtype=object), matrix)


def prior_counts(
    corpus: np.ndarray, target: np.ndarray, reference: np.ndarray, prior: Prior = "corpus", scale: float = 1.0
) -> np.ndarray:
    """Prior count of each word, the a of `log_odds_z`.

    Parameters
    ----------
    corpus, target, reference
        Word counts of the whole corpus and of the two sets, broadcastable to (..., n_words).
    prior
        ``"corpus"``: the whole corpus, target and reference included (published tables); ``"others"``: the
        corpus without the two sets (the paper's wording); ``"compared"``: the two sets alone;
        ``"uninformative"``: one occurrence of every word.
    scale
        Multiplies the counts: a weaker (< 1) or stronger (> 1) prior.

    Notes
    -----
    A word that the prior's texts lack gets half an occurrence, as long as it is in the compared sets.
    """
    if prior == "corpus":
        return corpus * scale + np.zeros_like(target + reference)
    if prior == "uninformative":
        return np.full_like(target + reference, scale, dtype=float)
    seen = target + reference
    base = seen if prior == "compared" else np.maximum(corpus - seen, 0)
    return scale * np.where((base == 0) & (seen > 0), _FLOOR, base)


def log_odds_z(
    target: np.ndarray,
    reference: np.ndarray,
    prior: np.ndarray,
    target_total: np.ndarray | None = None,
    reference_total: np.ndarray | None = None,
    prior_total: np.ndarray | None = None,
) -> np.ndarray:
    """z-score of each word's log-odds in the target texts against the reference texts.

    Parameters
    ----------
    target, reference
        Word counts y1, y2, shape (..., n_words).
    prior
        Prior counts a, shape (..., n_words), see `prior_counts`.
    target_total, reference_total, prior_total
        n1, n2 and a0, shape (...); the sums over words unless given (give them when words were left out).

    Returns
    -------
    array, (..., n_words)
        Positive: more typical of the target. NaN where a word has neither count nor prior, or where one side
        has no words at all.

    Notes
    -----
    l_i = (y_i + a) / (n_i + a0 - y_i - a), z = (ln l1 - ln l2) / sqrt(1/(y1 + a) + 1/(y2 + a)).

    References
    ----------
    Monroe, Colaresi & Quinn (2008), eqs. 16, 18, 22; Cheng, Durmus & Jurafsky (2023), section 3.2.
    """
    n1 = (target.sum(axis=-1) if target_total is None else np.asarray(target_total))[..., None]
    n2 = (reference.sum(axis=-1) if reference_total is None else np.asarray(reference_total))[..., None]
    a0 = (prior.sum(axis=-1) if prior_total is None else np.asarray(prior_total))[..., None]
    first, second = target + prior, reference + prior
    with np.errstate(divide="ignore", invalid="ignore"):
        log_ratio = np.log(first / (n1 + a0 - first)) - np.log(second / (n2 + a0 - second))
        z = log_ratio / np.sqrt(1.0 / first + 1.0 / second)
    return np.where((n1 > 0) & (n2 > 0) & np.isfinite(z), z, np.nan)
