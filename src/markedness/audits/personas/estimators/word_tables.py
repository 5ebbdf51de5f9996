"""Tables on words: marked words, Jensen-Shannon divergence, texts that contain a word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.audits.personas.estimators.corpus import Corpus
from markedness.audits.personas.estimators.marked_words import Null, mean, permutation_p, resampled_z
from markedness.audits.personas.language.contrasts import Contrasts, marked
from markedness.audits.personas.language.groups import Group
from markedness.stats.resampling import multinomial_weights, percentile_interval

_MAX_BLOCKS = 200
"""Prompts above this number are pooled into as many blocks before they are resampled."""


@dataclass(frozen=True)
class PromptResampling:
    """The prompts of a corpus, drawn with replacement and left out one at a time."""

    corpus: Corpus
    cell: NDArray[np.int64]
    """Block of prompts x combination of each text, (n,)."""
    totals: NDArray[np.float64]
    """All words, (n_blocks, C)."""
    drawn: NDArray[np.float64]
    """How often each block is drawn, (n_resamples, n_blocks)."""
    left_out: NDArray[np.float64]
    """0 for the block that is left out, (n_blocks, n_blocks); no rows with a single block."""

    @classmethod
    def of(cls, corpus: Corpus, n_resamples: int, rng: np.random.Generator) -> PromptResampling:
        """Blocks are prompts, up to 200 of them; with a single one there are no replicates."""
        n_blocks, n_combinations = min(corpus.grouping.n_prompts, _MAX_BLOCKS), corpus.grouping.n_combinations
        drawn = multinomial_weights(n_blocks, n_resamples, rng) if n_blocks > 1 else np.empty((0, n_blocks))
        cell: NDArray[np.int64] = corpus.grouping.prompt % _MAX_BLOCKS * n_combinations + corpus.grouping.combination
        lengths = np.asarray(corpus.counts.matrix.sum(axis=1)).ravel()
        totals = np.bincount(cell, weights=lengths, minlength=n_blocks * n_combinations)
        left_out = 1.0 - np.eye(n_blocks) if n_blocks > 1 else np.empty((0, n_blocks))
        return cls(corpus, cell, totals.reshape(n_blocks, n_combinations).astype(float), drawn.astype(float), left_out)

    def z(self, words: NDArray[np.int64], contrasts: Contrasts) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The z of some words, (n_resamples, K, V) with drawn prompts and (n_blocks, K, V) with one left out."""
        counts = self.corpus.counts.select(words).pooled(self.cell, self.totals.size)
        cells = counts.reshape(*self.totals.shape, len(words))
        drawn, left_out = (
            resampled_z(cells, self.totals, weights, contrasts, self.corpus.prior)
            for weights in (self.drawn, self.left_out)
        )
        return drawn, left_out


def marked_words(
    corpus: Corpus,
    null: Null,
    resampling: PromptResampling,
    threshold: float,
    confidence_level: float,
    valence: Mapping[str, float] | None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The words of each compared group, and how many there are and would be by chance.

    Parameters
    ----------
    corpus, null, resampling
        Of the same texts, of one kind.
    threshold
        A word is marked when its z is above this against every unmarked group.
    confidence_level
        In (0, 1).
    valence
        Sentiment of the words that are not neutral; None where it is not measured.

    Returns
    -------
    words, by_group : DataFrame
        One row per group and marked word, and one per group.
    """
    tables, summaries = [], []
    listed = _listed(corpus, corpus.published.z, threshold)
    for place, group in enumerate(corpus.compared):
        rows = np.flatnonzero(corpus.grouping.contrasts.group == place)
        here, z = np.flatnonzero(listed[place]), corpus.published.z[rows]
        # unmarked groups are ordered by the first marked value of their axis, as in the published tables
        order = z[:, here].sum(axis=0) if group.marked else z[0, here]
        here = here[np.lexsort((corpus.counts.words[here].astype(str), -order))]
        contrasts = corpus.grouping.contrasts.of_group(place)
        drawn, left_out = resampling.z(here, contrasts)
        survives = marked(left_out, contrasts, threshold)[:, 0]
        table = _z_columns(corpus, group, here, z, contrasts, percentile_interval(drawn, confidence_level))
        table["prompts_left_out_survived"] = survives.sum(axis=0) if len(left_out) else np.nan
        always = survives.all(axis=0) if len(left_out) else [pd.NA] * len(here)
        table["survives_leave_one_prompt_out"] = pd.Series(always, index=table.index, dtype="boolean")
        table["sentiment"] = np.nan if valence is None else [valence.get(word, 0.0) for word in table["word"]]
        chance = null.marked[:, place]
        low, high = percentile_interval(chance, confidence_level)
        p = permutation_p(len(here), chance)
        table["null_mean"], table["null_p"] = mean(chance), p
        tables.append(table)
        summaries.append(
            {
                "kind": corpus.kind, "group": group.name, "references": ", ".join(name for name, _ in group.references),
                "marked": group.marked, "n_words": len(here), "null_mean": mean(chance), "null_ci_low": low,
                "null_ci_high": high, "p": p, "excess": len(here) - mean(chance),
                "survive_leave_one_prompt_out": survives.all(axis=0).sum() if len(left_out) else np.nan,
                "n": int(corpus.grouping.mask(group.fixed).sum()), "left_out": corpus.left_out(group.fixed),
            }
        )  # fmt: skip
    columns = ["kind", "group", "word", "rank", "z", "count_target", "survives_leave_one_prompt_out"]
    by_group = pd.DataFrame(summaries) if summaries else pd.DataFrame(columns=["kind", "group", "n_words"])
    return (pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=columns)), by_group


def _listed(corpus: Corpus, z: NDArray[np.float64], threshold: float) -> NDArray[np.bool_]:
    """Which words are marked for each compared group, (G, V), from z (K, V); the empty word is never listed."""
    words = corpus.counts.words
    if not corpus.compared:
        return np.empty((0, len(words)), dtype=bool)
    listed: NDArray[np.bool_] = marked(z, corpus.grouping.contrasts, threshold) & (words != "")
    return listed


def n_marked(corpus: Corpus, z: NDArray[np.float64], threshold: float) -> float:
    """Words listed for the marked groups, all groups together; NaN without a comparison or without words."""
    return float(_listed(corpus, z, threshold)[corpus.marked].sum()) if corpus.marked.any() else float("nan")


def _z_columns(
    corpus: Corpus,
    group: Group,
    here: NDArray[np.int64],
    z: NDArray[np.float64],
    contrasts: Contrasts,
    interval: tuple[Any, Any],
) -> pd.DataFrame:
    """The words of one group with their z, counts and intervals against each reference."""
    words, pooled = corpus.counts.words, corpus.pooled
    table = pd.DataFrame({"kind": corpus.kind, "group": group.name, "word": words[here].astype(str)})
    table["rank"] = np.arange(1, len(here) + 1)
    table["z"] = z[:, here].sum(axis=0)
    in_target = (contrasts.targets[0] @ pooled) > 0
    for k, (reference, _) in enumerate(group.references):
        table[f"z_{reference}"] = z[k, here]
        seen = (in_target | ((contrasts.references[k] @ pooled) > 0)) & (words != "")
        table[f"q_{reference}"] = _adjusted_p(z[k], seen)[here]
    table["count_target"] = (contrasts.targets[0] @ pooled[:, here]).astype(int)
    low, high = interval
    for k, (reference, _) in enumerate(group.references):
        table[f"count_{reference}"] = (contrasts.references[k] @ pooled[:, here]).astype(int)
        table[f"z_{reference}_ci_low"], table[f"z_{reference}_ci_high"] = low[k], high[k]
    return table


def _adjusted_p(z: NDArray[np.float64], family: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Benjamini-Hochberg over the words of one comparison that occur on either side; two-sided normal p-values."""
    from scipy.stats import false_discovery_control, norm

    p_adjusted = np.full(len(z), np.nan)
    known = family & ~np.isnan(z)
    if known.any():
        p_adjusted[known] = false_discovery_control(2 * norm.sf(np.abs(z[known])))
    return p_adjusted


def divergent_words(corpus: Corpus, n_words: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The ``n_words`` that contribute most on the side of each marked group, and the group's divergence in bits."""
    words, rows, totals = corpus.counts.words, [], []
    for place, group in enumerate(corpus.compared):
        if not group.marked:
            continue
        share, side = corpus.published.jsd_share[place], corpus.published.jsd_side[place]
        total = corpus.published.jsd[place]
        candidates = np.flatnonzero((side > 0) & (words != ""))
        best = candidates[np.lexsort((words[candidates].astype(str), -share[candidates]))][:n_words]
        rows += [
            (corpus.kind, group.name, str(words[i]), rank, share[i], int(side[i]), total)
            for rank, i in enumerate(best, start=1)
        ]
        totals.append((corpus.kind, group.name, total))
    columns = ["kind", "group", "word", "rank", "share", "side", "jsd"]
    return pd.DataFrame(rows, columns=columns), pd.DataFrame(totals, columns=["kind", "group", "jsd"])


def word_share(corpus: Corpus, word_sets: Sequence[Sequence[str]], confidence_level: float) -> pd.DataFrame:
    """Share of texts with at least one of the words, Wilson interval; no rows where the words cannot be read."""
    from statsmodels.stats.proportion import proportion_confint

    rows = []
    for wanted in word_sets if "lexicon" not in corpus.unread else ():
        columns = np.flatnonzero(np.isin(corpus.counts.words, list(wanted)))
        has = np.asarray(corpus.counts.matrix[:, columns].sum(axis=1)).ravel() > 0
        for texts in corpus.sets:
            n, hits = int(texts.mask.sum()), int(has[texts.mask].sum())
            low, high = proportion_confint(hits, n, 1 - confidence_level, "wilson")
            rows.append((corpus.kind, texts.name, "/".join(wanted), hits / n, low, high, n, texts.left_out))
    return pd.DataFrame(rows, columns=["kind", "group", "words", "share", "ci_low", "ci_high", "n", "left_out"])
