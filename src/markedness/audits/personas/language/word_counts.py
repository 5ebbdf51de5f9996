"""Bags of words: how often each word occurs in each text."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray


@dataclass(frozen=True)
class WordCounts:
    """How often each word occurs in each text."""

    words: NDArray[np.object_]
    """The vocabulary, (n_words,), in order of first occurrence; may hold the empty word ""."""
    matrix: scipy.sparse.csr_matrix
    """Counts, (n_texts, n_words)."""

    @classmethod
    def of_texts(cls, bag: pd.DataFrame, texts: NDArray[np.int64]) -> WordCounts:
        """The counts of some texts, one row per entry of ``texts``, and the words that occur in them.

        Parameters
        ----------
        bag
            From `table`: text, word, count.
        texts
            Numbers of texts, (n,); a text that is named twice has two rows, one without words an empty row.
        """
        word = bag["word"].astype("category").cat
        n_texts = 1 + int(max(bag["text"].max() if len(bag) else -1, texts.max(initial=-1)))
        cells = (bag["text"].to_numpy(), word.codes.to_numpy())
        matrix = scipy.sparse.csr_matrix(
            (bag["count"].to_numpy(), cells), (n_texts, len(word.categories)), dtype=np.int32
        )
        if not np.array_equal(texts, np.arange(n_texts)):
            matrix = matrix[texts]
        counts = cls(word.categories.to_numpy(dtype=object), matrix)
        present = np.unique(matrix.indices)
        return counts if len(present) == len(counts.words) else counts.select(present)

    def table(self) -> pd.DataFrame:
        """One row per text and word that occurs in it: text (row of the matrix), word (categorical), count."""
        text = np.repeat(np.arange(self.matrix.shape[0], dtype=np.int32), np.diff(self.matrix.indptr))
        words = pd.Categorical.from_codes(self.matrix.indices, categories=pd.Index(self.words, dtype="str"))
        return pd.DataFrame({"text": text, "word": words, "count": self.matrix.data})

    def select(self, keep: NDArray[np.int64]) -> WordCounts:
        """Only some words, by their place in the vocabulary."""
        return WordCounts(self.words[keep], self.matrix[:, keep])

    def pooled(self, labels: NDArray[np.int64], n_labels: int) -> NDArray[np.float64]:
        """Counts summed over the texts of each label, (n_labels, n_words); label -1 is left out."""
        rows = np.flatnonzero(labels >= 0)
        ones = np.ones(len(rows), dtype=np.int32)
        indicator = scipy.sparse.csr_matrix((ones, (labels[rows], rows)), shape=(n_labels, len(labels)))
        counts: NDArray[np.float64] = np.asarray((indicator @ self.matrix).todense(), dtype=np.float64)
        return counts


def count_words(texts: Iterable[str | None]) -> WordCounts:
    """Count the words of texts, reading them one at a time.

    Parameters
    ----------
    texts
        Words joined by single spaces, as `markedness.audits.personas.language.tokens.tokenize` gives them;
        None has no words.

    Returns
    -------
    WordCounts
        While counting, each occurrence of a word takes eight bytes; afterwards each distinct word of a text does.
    """
    codes: defaultdict[str, int] = defaultdict(count().__next__)
    occurrences = array("i")
    ends = array("q", [0])
    for text in texts:
        if isinstance(text, str):
            occurrences.extend(map(codes.__getitem__, text.split(" ")))
        ends.append(len(occurrences))
    columns = np.frombuffer(occurrences, dtype=np.int32) if occurrences else np.empty(0, dtype=np.int32)
    matrix = scipy.sparse.csr_matrix(
        (np.ones(len(columns), dtype=np.int32), columns, np.frombuffer(ends, dtype=np.int64)),
        shape=(len(ends) - 1, len(codes)),
        copy=True,
    )
    matrix.sum_duplicates()
    return WordCounts(np.array(list(codes), dtype=object), matrix)
