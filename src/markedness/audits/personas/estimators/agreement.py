"""Whether the words of a group depend on how one looks: on the method that lists them, and on the prompt.

Exploratory: no headline rests on it. Shapes: u units, P prompts, G groups, V words, B draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.audits.personas.estimators.corpus import Corpus
from markedness.audits.personas.estimators.marked_words import Exchanged, of_axis
from markedness.audits.personas.estimators.word_tables import divergent_words
from markedness.audits.personas.language.contrasts import contrast_log_odds, divergence
from markedness.audits.personas.language.groups import Group
from markedness.stats.inference import Codes, Draws, Exchange, Floats, Null, benjamini_hochberg, exchange_test

METHOD_COLUMNS = (
    "kind", "group", "method", "n_marked", "n_method", "n_both", "expected", "words", "held_out_z", "null_mean", "p",
    "p_adjusted", "n_held_out",
)  # fmt: skip
PROMPT_COLUMNS = (
    "kind", "group", "overlap", "null_mean", "p", "p_adjusted", "overlap_mixed", "p_differ", "p_differ_adjusted",
    "n_prompts", "n_words",
)  # fmt: skip
_MOST_WORDS = 500
"""The most frequent words are compared between prompts."""
_BATCH = 2_000_000


def method_overlap(
    corpus: Corpus, listed: pd.DataFrame, svm_words: pd.DataFrame, n_words: int, n_draws: int, rng: np.random.Generator
) -> pd.DataFrame:
    """Words that a second method lists too, and whether they are marked in texts that it never saw.

    Parameters
    ----------
    corpus
        The texts of one kind.
    listed
        The table ``marked_words`` of the same kind.
    svm_words
        Table of featurize.
    n_words
        Of the list by divergence.
    n_draws
        At most so many exchanges.
    rng
        Seeded generator.

    Returns
    -------
    DataFrame
        `METHOD_COLUMNS`: one row per marked group and method (svm, jsd). ``n_both``: words on both lists, as published;
        ``expected``: if the lists were independent draws from the vocabulary. Both methods read the same texts, so that
        they agree on chance as well: the test is of ``held_out_z``, the mean z of the words that the method lists from
        the training texts of the classifiers, in their test texts; ``null_mean`` and ``p`` (one-sided) with labels
        exchanged there within prompt; ``p_adjusted`` by Benjamini-Hochberg. NaN without such texts.
    """
    rows = []
    by_divergence = divergent_words(corpus, n_words)
    svm = svm_words[svm_words["kind"].eq(corpus.kind)]
    vocabulary = int((corpus.counts.words != "").sum())
    for labeling, groups in _by_labeling(corpus):
        split = _split(corpus, labeling)
        for group in groups:
            own = set(listed.loc[listed["group"].eq(group.name), "word"])
            of_svm = svm[svm["group"].eq(group.name) & svm["labeling"].eq(labeling)]
            of_jsd = by_divergence[by_divergence["group"].eq(group.name)]
            for method, table in (("svm", of_svm), ("jsd", of_jsd)):
                words = [str(word) for word in table["word"]]
                both = [word for word in words if word in own]
                null, z = Null(), float("nan")
                if split is not None and words:
                    chosen = words if method == "svm" else _divergent(split[0], group, n_words)
                    z, null = _held_out(split[1], group, labeling, chosen, n_draws, rng)
                rows.append((
                    corpus.kind, group.name, method, len(own), len(words), len(both),
                    len(own) * len(words) / max(1, vocabulary), " ".join(both), z, null.mean, null.p, np.nan,
                    len(split[1].used) if split is not None else 0,
                ))  # fmt: skip
    table = pd.DataFrame(rows, columns=list(METHOD_COLUMNS))
    return table.assign(p_adjusted=benjamini_hochberg(table["p"]))


def _by_labeling(corpus: Corpus) -> Iterator[tuple[str, list[Group]]]:
    for axis in (*corpus.axes, None):
        groups = [group for group in of_axis(corpus.grouping, axis) if group.marked] if corpus.compared else []
        if groups:
            yield axis or "intersection", groups


def _split(corpus: Corpus, labeling: str) -> tuple[Corpus, Corpus] | None:
    """The texts that a labeling's classifiers may have seen, and those they did not, without copies of the former."""
    tested = next((split.texts for split in corpus.held_out if split.labeling == labeling), None)
    if tested is None:
        return None
    in_test = np.isin(corpus.texts, tested)
    cluster = corpus.units.of_text
    clean = in_test & ~np.isin(cluster, np.unique(cluster[~in_test]))
    if not clean.any():
        return None
    parts = [_only(corpus, corpus.texts[mask]) for mask in (~in_test, clean)]
    return parts[0], parts[1]


def _only(corpus: Corpus, texts: NDArray[np.int64]) -> Corpus:
    table = corpus.features["texts"]
    return Corpus({**corpus.features, "texts": table[table["text"].isin(texts)]}, corpus.axes, corpus.kind)


def _divergent(corpus: Corpus, group: Group, n_words: int) -> list[str]:
    """The words of largest divergence on the side of the group, from these texts alone."""
    names = [one.name for one in corpus.compared]
    if group.name not in names:
        return []
    found_of_all = divergence(corpus.pooled, corpus.grouping.contrasts)
    share, side = (values[names.index(group.name)] for values in (found_of_all.share, found_of_all.side))
    words = corpus.counts.words
    found = np.flatnonzero((side > 0) & (words != ""))
    return [str(words[place]) for place in found[np.lexsort((words[found].astype(str), -share[found]))][:n_words]]


def _held_out(
    corpus: Corpus, group: Group, labeling: str, words: Sequence[str], n_draws: int, rng: np.random.Generator
) -> tuple[float, Null]:
    """Mean over words of the smaller z against any reference, and its null; NaN where nothing can be exchanged."""
    own = next((one for one in corpus.compared if one.name == group.name), None)
    here = np.flatnonzero(np.isin(corpus.counts.words.astype(str), list(words)))
    if own is None or not len(here) or len(own.references) < len(group.references):
        return float("nan"), Null()
    axis = None if labeling == "intersection" else labeling
    exchanged = Exchanged(corpus, [own], axis, 0.0)
    counts = np.asarray(corpus.unit_counts[:, here].todense(), dtype=np.float32)
    lengths = np.asarray(corpus.unit_counts.sum(axis=1), dtype=np.float32)

    def statistic(labels: Codes) -> Floats:
        pooled, totals = exchanged.pooled(labels, counts), exchanged.pooled(labels, lengths)[..., 0]
        z = contrast_log_odds(pooled, exchanged.contrasts, corpus.prior, totals).z.min(axis=-2)
        return np.asarray(np.nanmean(np.nan_to_num(z), axis=-1))

    observed = float(statistic(exchanged.label[None])[0])
    draws = Draws(lambda n: statistic(exchanged.exchange.draw(n, rng))[:, None])
    smallest = exchanged.exchange.smallest_p
    return observed, exchange_test(observed, draws.reader(lambda made: made[:, 0]), n_draws, False, smallest)


# ---- prompts


@dataclass(frozen=True)
class _Prompts:
    """The first words of each group in each prompt."""

    exchanged: Exchanged
    counts: NDArray[np.float32]
    """(u, V)."""
    lengths: NDArray[np.float32]
    """(u, 1)."""
    top: int

    def overlap(self, labels: Codes, prompts: Codes) -> Floats:
        """Mean over pairs of prompts of the share of the first words that both have, (B, G); labels, prompts (B, u)."""
        n_prompts, contrasts = int(prompts.max()) + 1, self.exchanged.contrasts
        n_labels = contrasts.targets.shape[1]
        step = max(1, _BATCH // (n_prompts * (n_labels + len(contrasts.group)) * self.counts.shape[1]))
        found = []
        for start in range(0, len(labels), step):
            own = prompts[start : start + step] * n_labels + labels[start : start + step]
            shape = (len(own), n_prompts, n_labels, -1)
            pooled, totals = (
                self.exchanged.pooled(own, part, n_prompts * n_labels).reshape(shape)
                for part in (self.counts, self.lengths)
            )
            with np.errstate(divide="ignore", invalid="ignore"):
                z = contrast_log_odds(pooled, contrasts, self.exchanged.corpus.prior, totals[..., 0]).z
            z = np.minimum.reduceat(np.nan_to_num(z, nan=-1.0), contrasts.starts, axis=-2)
            cut = -np.partition(-z, self.top - 1, axis=-1)[..., self.top - 1 : self.top]
            first = ((z >= cut) & (z > 0)).astype(np.float32)  # (B, P, G, V)
            shared = (np.square(first.sum(axis=1)) - first.sum(axis=1)).sum(axis=-1)
            found.append(shared / (self.top * n_prompts * (n_prompts - 1)))
        return np.concatenate(found)


def prompt_agreement(corpus: Corpus, n_words: int, n_draws: int, rng: np.random.Generator) -> pd.DataFrame:
    """Whether prompts agree on the first words of each marked group, and whether they differ in them.

    Returns
    -------
    DataFrame
        `PROMPT_COLUMNS`: one row per marked group. ``overlap``: share of the first ``n_words`` (by the smallest z
        against any reference, above 0) that two prompts share, mean over pairs. ``null_mean``, ``p``: with group
        labels exchanged within prompt; small p: prompts agree on the words of the group. ``overlap_mixed``,
        ``p_differ``: with prompts exchanged among the texts of a group; small p: the first words depend on the prompt.
        Both adjusted by Benjamini-Hochberg. No rows with one prompt.

    Notes
    -----
    Cheng, Durmus & Jurafsky (2023), section 3.1, names neither test nor number.
    """
    units = corpus.units
    prompts = pd.factorize(units.prompt)[0].astype(np.int64)
    in_units = np.bincount(corpus.unit_counts.indices, minlength=corpus.unit_counts.shape[1])
    words = np.flatnonzero((in_units > 1) & (corpus.counts.words != ""))
    words = words[np.argsort(-in_units[words], kind="stable")[:_MOST_WORDS]]
    if not len(prompts) or prompts.max() < 1 or len(words) <= n_words:
        return pd.DataFrame(columns=list(PROMPT_COLUMNS))
    counts = np.asarray(corpus.unit_counts[:, words].todense(), dtype=np.float32)
    lengths = np.asarray(corpus.unit_counts.sum(axis=1), dtype=np.float32)
    rows = []
    for labeling, groups in _by_labeling(corpus):
        exchanged = Exchanged(corpus, groups, None if labeling == "intersection" else labeling, 0.0)
        own, labels = _Prompts(exchanged, counts, lengths, n_words), exchanged.label
        of_prompts = Exchange.of(prompts, units.combination)
        tests = []
        for exchange, sign in ((exchanged.exchange, 1.0), (of_prompts, -1.0)):
            draws = Draws(_drawer(own, exchange, labels, prompts, sign, rng))
            tests.append((draws, exchange.smallest_p, sign))
        observed = own.overlap(labels[None], prompts[None])[0]
        for place, group in enumerate(groups):
            agree, differ = (
                exchange_test(sign * float(observed[place]), draws.reader(_column(place)), n_draws, False, smallest)
                for draws, smallest, sign in tests
            )
            rows.append((
                corpus.kind, group.name, observed[place], agree.mean, agree.p, np.nan, -differ.mean, differ.p, np.nan,
                int(prompts.max()) + 1, n_words,
            ))  # fmt: skip
    table = pd.DataFrame(rows, columns=list(PROMPT_COLUMNS))
    return table.assign(
        p_adjusted=benjamini_hochberg(table["p"]), p_differ_adjusted=benjamini_hochberg(table["p_differ"])
    )


def _drawer(
    own: _Prompts, exchange: Exchange, labels: Codes, prompts: Codes, sign: float, rng: np.random.Generator
) -> Callable[[int], Floats]:
    """Draws of the overlap with labels exchanged (sign 1), or of its negative with prompts exchanged (sign -1)."""

    def make(n: int) -> Floats:
        drawn = exchange.draw(n, rng)
        fixed = np.broadcast_to(prompts if sign > 0 else labels, drawn.shape)
        return sign * (own.overlap(drawn, fixed) if sign > 0 else own.overlap(fixed, drawn))

    return make


def _column(place: int) -> Callable[[Floats], Floats]:
    return lambda made: made[:, place]
