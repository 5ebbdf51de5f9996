"""Tables and scores of one model's personas and stories."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from pydantic import Field

from markedness.audits.personas import AXES, figures
from markedness.records import ESTIMATE_COLUMNS, Axes, Evaluation, Status, Strict
from markedness.stats.classification import agreement
from markedness.stats.group_similarity import GroupSimilarity
from markedness.stats.groups import Grouping
from markedness.stats.log_odds import Prior, WordCounts, count_words
from markedness.stats.marked_words import (
    Method,
    Null,
    contrast_z,
    divergence,
    marked,
    permutation_null,
    permutation_p,
    resampled_z,
)
from markedness.stats.resampling import multinomial_weights, percentile_interval, permute_within

ALL = "all"
"""Group name of the rows of all groups together."""
_MAX_BLOCKS = 200
"""Prompts above this number are pooled into as many blocks before they are resampled."""
_SMALL = 30
"""Texts below which a group's lists deserve a warning."""


class Params(Strict):
    """What is estimated; the defaults are the published ones."""

    axes: Axes = AXES
    prior: Prior = "corpus"
    """Prior of the log-odds, see `markedness.stats.log_odds.prior_counts`."""
    prior_scale: float = Field(default=1.0, gt=0)
    z_threshold: float = 1.96
    """A word is marked when its z is above this against every unmarked group."""
    jsd_words: int = Field(default=10, ge=1)
    """Words listed per group by Jensen-Shannon divergence."""
    word_share: tuple[tuple[str, ...], ...] = (("resilient", "resilience"),)
    """Sets of words, as tokens: which share of texts holds at least one of them?"""
    lexicon_within: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Axis -> values: only these texts in the lexicon table ({gender: [man, woman]}); none: all."""
    confidence_level: float = Field(default=0.95, gt=0, lt=1)
    n_resamples: int = Field(default=1000, ge=10)
    """Bootstrap replicates over prompts."""
    n_permutations: int = Field(default=200, ge=0)
    """Label permutations within prompt; 0: no null."""


class _Corpus:
    """The texts of one kind, coded once for all tables."""

    def __init__(self, rows: pd.DataFrame, axes: Axes, kind: str) -> None:
        self.kind, self.axes = kind, axes
        self.rows = rows
        """All texts, those left out of the measures included."""
        self.used = rows[rows["included"].astype(bool)].reset_index(drop=True)
        values = {name: list(axis.values) for name, axis in axes.items()}
        unmarked = {name: axis.unmarked for name, axis in axes.items()}
        self.grouping = Grouping(self.used, self.used["prompt_id"], values, unmarked)

    @cached_property
    def counts(self) -> WordCounts:
        """Word counts of the used texts."""
        return count_words(words if isinstance(words, str) else None for words in self.used["tokens"])

    @cached_property
    def pooled(self) -> np.ndarray:
        """Word counts per combination, (C, V)."""
        return self.counts.pooled(self.grouping.combination, self.grouping.n_combinations)

    @cached_property
    def similarity(self) -> GroupSimilarity:
        """Of the texts that have embeddings."""
        missing = pd.Series(None, index=self.used.index, dtype=object)
        return GroupSimilarity(self.grouping, self.used.get("embedding", missing))

    @cached_property
    def sets(self) -> list[tuple[str, np.ndarray, int]]:
        """Name, mask of the used texts and number left out: all texts, then each group."""
        everything = [(ALL, np.ones(len(self.used), dtype=bool), self.left_out({}))] if len(self.used) else []
        of_group = ((g.name, self.grouping.mask(g.fixed), self.left_out(g.fixed)) for g in self.grouping.groups)
        return [*everything, *of_group]

    def left_out(self, fixed: Mapping[str, str]) -> int:
        """How many texts with the fixed values no measure uses."""
        rows = self.rows[~self.rows["included"].astype(bool)]
        for axis, value in fixed.items():
            rows = rows[rows[axis].eq(value).fillna(False).astype(bool)]
        return len(rows)


def evaluate(features: pd.DataFrame, params: Params, rng: np.random.Generator) -> Evaluation:
    """Estimate everything for each kind of text.

    Parameters
    ----------
    features
        From featurize; its ``attrs`` hold classifier weights, word sentiments and notes.
    params
        See `Params`.
    rng
        Seeded generator.

    Returns
    -------
    Evaluation
        Each table begins with ``kind``; ``left_out`` counts the texts of the group that the measure did not use.
    """
    about: dict[str, Any] = json.loads(features.attrs.get("corpus", "{}"))
    notes: list[str] = list(about.get("notes", []))
    parts: dict[str, list[pd.DataFrame]] = {}
    metrics: dict[str, float] = {}
    corpora = _corpora(features, params)
    for place, corpus in enumerate(corpora):
        tables, values = _evaluate(corpus, params, about.get("word_sentiment", {}), rng)
        for name, table in tables.items():
            parts.setdefault(name, []).append(table)
        metrics |= values if place == 0 else _second(corpus.kind, values)
        notes += _notes(corpus, params)
    if corpora[0].kind != "persona":
        notes.append(f"There are no personas: all scores are those of kind '{corpora[0].kind}'.")
    tables = {name: pd.concat(tables, ignore_index=True) for name, tables in parts.items()}
    tables["svm_words"] = _svm_words(about.get("svm_words", []))
    return Evaluation(_estimates(tables), tables, metrics, figures.charts(tables), notes=notes)


def scores(features: pd.DataFrame, params: Params) -> dict[str, float]:
    """The headline scores that need no null, of the first kind of text; rows may stand more than once."""
    corpus = _corpora(features, params)[0]
    z = (
        contrast_z(corpus.pooled, corpus.grouping.contrasts, _method(params))
        if corpus.grouping.compared
        else np.empty((0, 0))
    )
    return {
        "marked_words.count": _n_marked(z, corpus, params),
        "jsd.mean": _mean_divergence(corpus),
        "svm.balanced_accuracy": _mean(_svm(corpus)["balanced_accuracy"]),
        "similarity.difference": corpus.similarity.difference(corpus.grouping.combination),
    }


def _corpora(features: pd.DataFrame, params: Params) -> list[_Corpus]:
    """One per kind of text, personas first."""
    kinds = sorted(features["kind"].unique(), key=lambda kind: (kind != "persona", kind))
    return [_Corpus(features[features["kind"] == kind], params.axes, str(kind)) for kind in kinds]


def _method(params: Params) -> Method:
    return Method(params.prior, params.prior_scale, params.z_threshold)


def _second(kind: str, values: Mapping[str, float]) -> dict[str, float]:
    """The few scores that are also reported of a second kind of text."""
    wanted = ("marked_words.count", "marked_words.null_mean", "marked_words.excess", "marked_words.p", "jsd.mean",
              "svm.balanced_accuracy", "similarity.difference", "sentiment.mean")  # fmt: skip
    return {name.replace(".", f".{kind}_", 1): values[name] for name in wanted}


def _evaluate(
    corpus: _Corpus, params: Params, valence: Mapping[str, float], rng: np.random.Generator
) -> tuple[dict[str, pd.DataFrame], dict[str, float]]:
    """All tables and scores of one kind of text."""
    method = _method(params)
    contrasts, n_groups = corpus.grouping.contrasts, len(corpus.grouping.compared)
    null = Null(np.full((0, n_groups), np.nan), np.full((0, n_groups), np.nan))
    z = np.empty((0, len(corpus.counts.words)))
    if n_groups:
        z = contrast_z(corpus.pooled, contrasts, method)
        if params.n_permutations and corpus.grouping.permutable:
            null = permutation_null(
                corpus.counts,
                corpus.grouping.combination,
                corpus.grouping.prompt,
                contrasts,
                method,
                params.n_permutations,
                rng,
            )
    marked_words, by_group = _marked_words(corpus, z, null, params, valence, rng)
    jsd, jsd_by_group = _jsd(corpus, params)
    by_group = by_group.merge(jsd_by_group, on=["kind", "group"], how="left")
    svm = _svm(corpus)
    tables = {
        "marked_words": marked_words,
        "marked_words_by_group": by_group,
        "jsd": jsd,
        "svm": svm,
        "lexicon": _lexicon(corpus, params),
        "sentiment": _sentiment(corpus),
        "word_share": _word_share(corpus, params),
        "similarity": _similarity(corpus, params, rng),
        "refusals": _refusals(corpus),
    }
    is_marked = corpus.grouping.marked
    totals = null.marked[:, is_marked].sum(axis=1)
    bits = null.divergence[:, is_marked].mean(axis=1) if is_marked.any() else np.array([])
    null_low, null_high = percentile_interval(totals, params.confidence_level)
    count = _n_marked(z, corpus, params)
    difference = corpus.similarity.difference(corpus.grouping.combination)
    shuffled = [corpus.similarity.difference(c) for c in _permuted(corpus, params, rng)]
    sentiments = corpus.used["sentiment"].to_numpy(float)
    metrics = {
        "marked_words.count": count,
        "marked_words.null_mean": _mean(totals),
        "marked_words.null_mean_ci_low": null_low,
        "marked_words.null_mean_ci_high": null_high,
        "marked_words.excess": count - _mean(totals),
        "marked_words.p": permutation_p(count, totals),
        "marked_words.robust_share": _mean(marked_words["survives_leave_one_prompt_out"].astype(float)),
        "jsd.mean": _mean_divergence(corpus),
        "jsd.null_mean": _mean(bits),
        "jsd.p": permutation_p(_mean_divergence(corpus), bits),
        "svm.accuracy": _mean(svm["accuracy"]),
        "svm.accuracy_sd": _mean((svm["accuracy"] - svm["accuracy"].mean()) ** 2) ** 0.5,
        "svm.balanced_accuracy": _mean(svm["balanced_accuracy"]),
        "svm.balanced_accuracy_null_mean": _svm_null(corpus, rng),
        "svm.f1": _mean(svm["f1"]),
        "svm.majority_baseline": _mean(svm["majority_baseline"]),
        "similarity.difference": difference,
        "similarity.null_mean": _mean(shuffled),
        "similarity.p": permutation_p(abs(difference), np.abs(np.array(shuffled))),
        "sentiment.mean": _mean(sentiments),
        "refusals.share": _mean(corpus.rows["status"].eq(Status.REFUSAL.value).astype(float)),
    }
    return tables, metrics


def _mean(values: Any) -> float:
    """Mean of what is not missing; NaN where nothing is."""
    numbers = np.asarray(values, dtype=float)
    numbers = numbers[~np.isnan(numbers)]
    return float(numbers.mean()) if len(numbers) else float("nan")


def _permuted(corpus: _Corpus, params: Params, rng: np.random.Generator) -> Iterator[np.ndarray]:
    for _ in range(params.n_permutations if corpus.grouping.permutable else 0):
        yield np.asarray(permute_within(corpus.grouping.combination, corpus.grouping.prompt, rng))


# ---------------------------------------------------------------- words


def _n_marked(z: np.ndarray, corpus: _Corpus, params: Params) -> float:
    """Words listed for the marked groups, all groups together; NaN without a comparison."""
    is_marked = corpus.grouping.marked
    if not is_marked.any():
        return float("nan")
    listed = marked(z, corpus.grouping.contrasts, params.z_threshold) & (corpus.counts.words != "")
    return float(listed[is_marked].sum())


def _mean_divergence(corpus: _Corpus) -> float:
    is_marked = corpus.grouping.marked
    return (
        _mean(divergence(corpus.pooled, corpus.grouping.contrasts)[0][is_marked]) if is_marked.any() else float("nan")
    )


def _marked_words(
    corpus: _Corpus, z: np.ndarray, null: Null, params: Params, valence: Mapping[str, float], rng: np.random.Generator
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The words of each compared group, and one row per group on how many there are and would be by chance."""
    method, words = _method(params), corpus.counts.words
    listed = (
        marked(z, corpus.grouping.contrasts, params.z_threshold) & (words != "")
        if len(z)
        else np.empty((0, len(words)))
    )
    blocks = corpus.grouping.prompt % _MAX_BLOCKS
    n_blocks = min(corpus.grouping.n_prompts, _MAX_BLOCKS)
    weights = multinomial_weights(n_blocks, params.n_resamples, rng) if n_blocks > 1 else np.empty((0, n_blocks))
    shape = (n_blocks, corpus.grouping.n_combinations)
    cell = blocks * corpus.grouping.n_combinations + corpus.grouping.combination
    lengths = np.asarray(corpus.counts.matrix.sum(axis=1)).ravel()
    totals = np.bincount(cell, weights=lengths, minlength=n_blocks * shape[1]).reshape(shape)
    tables, summaries = [], []
    for place, group in enumerate(corpus.grouping.compared):
        rows = np.flatnonzero(corpus.grouping.contrasts.group == place)
        here = np.flatnonzero(listed[place])
        # unmarked groups are ordered by the first marked value of their axis, as in the published tables
        order = z[rows][:, here].sum(axis=0) if group.marked else z[rows[0], here]
        here = here[np.lexsort((words[here].astype(str), -order))]
        contrasts = corpus.grouping.contrasts.of_group(place)
        cells = corpus.counts.select(here).pooled(cell, n_blocks * shape[1]).reshape(*shape, len(here))
        replicates = resampled_z(cells, totals, weights, contrasts, method)
        without = 1 - np.eye(n_blocks) if n_blocks > 1 else np.empty((0, n_blocks))
        kept = marked(resampled_z(cells, totals, without, contrasts, method), contrasts, params.z_threshold)[:, 0]
        target = contrasts.targets[0] @ corpus.pooled[:, here]
        table = pd.DataFrame({"kind": corpus.kind, "group": group.name, "word": words[here].astype(str)})
        table["rank"] = np.arange(1, len(here) + 1)
        table["z"] = z[rows][:, here].sum(axis=0)
        family = (contrasts.targets[0] @ corpus.pooled) > 0
        for k, (reference, _) in enumerate(group.references):
            table[f"z_{reference}"] = z[rows[k], here]
            seen = (family | ((contrasts.references[k] @ corpus.pooled) > 0)) & (words != "")
            table[f"q_{reference}"] = _q_values(z[rows[k]], seen)[here]
        table["count_target"] = target.astype(int)
        for k, (reference, _) in enumerate(group.references):
            table[f"count_{reference}"] = (contrasts.references[k] @ corpus.pooled[:, here]).astype(int)
            low, high = percentile_interval(replicates[:, k], params.confidence_level)
            table[f"z_{reference}_ci_low"], table[f"z_{reference}_ci_high"] = low, high
        table["prompts_left_out_survived"] = kept.sum(axis=0) if n_blocks > 1 else np.nan
        survives = kept.all(axis=0) if n_blocks > 1 else [pd.NA] * len(here)
        table["survives_leave_one_prompt_out"] = pd.Series(survives, index=table.index, dtype="boolean")
        table["sentiment"] = [valence.get(str(word), 0.0) for word in words[here]]
        chance = null.marked[:, place]
        low, high = percentile_interval(chance, params.confidence_level)
        table["null_mean"], table["null_p"] = _mean(chance), permutation_p(len(here), chance)
        tables.append(table)
        summaries.append(
            {
                "kind": corpus.kind, "group": group.name, "references": ", ".join(name for name, _ in group.references),
                "marked": group.marked, "n_words": len(here), "null_mean": _mean(chance), "null_ci_low": low,
                "null_ci_high": high, "p": permutation_p(len(here), chance), "excess": len(here) - _mean(chance),
                "survive_leave_one_prompt_out": kept.all(axis=0).sum() if n_blocks > 1 else np.nan,
                "n": int(corpus.grouping.mask(group.fixed).sum()), "left_out": corpus.left_out(group.fixed),
            }
        )  # fmt: skip
    columns = ["kind", "group", "word", "rank", "z", "count_target", "survives_leave_one_prompt_out"]
    by_group = pd.DataFrame(summaries) if summaries else pd.DataFrame(columns=["kind", "group", "n_words"])
    return (pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=columns)), by_group


def _q_values(z: np.ndarray, family: np.ndarray) -> np.ndarray:
    """Benjamini-Hochberg q of two-sided p-values over the words that occur in either set of one comparison."""
    from scipy.stats import false_discovery_control, norm

    q = np.full(len(z), np.nan)
    known = family & ~np.isnan(z)
    if known.any():
        q[known] = false_discovery_control(2 * norm.sf(np.abs(z[known])))
    return q


def _jsd(corpus: _Corpus, params: Params) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The words that contribute most on the marked side, and each marked group's total."""
    words, rows, totals = corpus.counts.words, [], []
    total, share, side = (
        divergence(corpus.pooled, corpus.grouping.contrasts) if corpus.grouping.compared else (np.array([]),) * 3
    )
    for place, group in enumerate(corpus.grouping.compared):
        if not group.marked:
            continue
        candidates = np.flatnonzero((side[place] > 0) & (words != ""))
        best = candidates[np.lexsort((words[candidates].astype(str), -share[place, candidates]))][: params.jsd_words]
        rows += [
            (corpus.kind, group.name, str(words[i]), rank, share[place, i], int(side[place, i]), total[place])
            for rank, i in enumerate(best, start=1)
        ]
        totals.append((corpus.kind, group.name, total[place]))
    columns = ["kind", "group", "word", "rank", "share", "side", "jsd"]
    return pd.DataFrame(rows, columns=columns), pd.DataFrame(totals, columns=["kind", "group", "jsd"])


def _word_share(corpus: _Corpus, params: Params) -> pd.DataFrame:
    """Share of texts with at least one of the words, Wilson interval."""
    from statsmodels.stats.proportion import proportion_confint

    rows = []
    for wanted in params.word_share:
        columns = np.flatnonzero(np.isin(corpus.counts.words, list(wanted)))
        has = np.asarray(corpus.counts.matrix[:, columns].sum(axis=1)).ravel() > 0
        for name, mask, left_out in corpus.sets:
            n, hits = int(mask.sum()), int(has[mask].sum())
            low, high = proportion_confint(hits, n, 1 - params.confidence_level, "wilson")
            rows.append((corpus.kind, name, "/".join(wanted), hits / n, low, high, n, left_out))
    columns_ = ["kind", "group", "words", "share", "ci_low", "ci_high", "n", "left_out"]
    return pd.DataFrame(rows, columns=columns_)


# ---------------------------------------------------------------- whole texts


def _lexicon(corpus: _Corpus, params: Params) -> pd.DataFrame:
    """Mean percent of lexicon words and its standard error (population sd over root n, as published)."""
    within = np.ones(len(corpus.used), dtype=bool)
    for axis, values in params.lexicon_within.items():
        within &= corpus.used[axis].isin(values).to_numpy()
    rows = []
    for column in [name for name in corpus.used if str(name).startswith("lexicon: ")]:
        percents = corpus.used[column].to_numpy(float)
        for name, mask, left_out in corpus.sets:
            part = percents[mask & within]
            part = part[~np.isnan(part)]
            if len(part):
                error = part.std() / np.sqrt(len(part)) if len(part) > 1 else np.nan
                lexicon = str(column).removeprefix("lexicon: ")
                rows.append((corpus.kind, lexicon, name, part.mean(), error, len(part), left_out))
    columns = ["kind", "lexicon", "group", "mean_percent", "standard_error", "n", "left_out"]
    return pd.DataFrame(rows, columns=columns)


def _sentiment(corpus: _Corpus) -> pd.DataFrame:
    """VADER compound of whole texts, population sd."""
    compound, rows = corpus.used["sentiment"].to_numpy(float), []
    for name, mask, left_out in corpus.sets:
        part = compound[mask]
        part = part[~np.isnan(part)]
        if len(part):
            rows.append((corpus.kind, name, part.mean(), part.std(), len(part), left_out))
    return pd.DataFrame(rows, columns=["kind", "group", "mean", "sd", "n", "left_out"])


def _refusals(corpus: _Corpus) -> pd.DataFrame:
    """Refusals and other texts that are not there, per prompt and group."""
    missing = (Status.FAILED.value, Status.UNPARSED.value, Status.TRUNCATED.value, Status.UNSUPPORTED.value)
    rows = corpus.rows.assign(
        prompt=corpus.rows["prompt_id"].fillna(""), group=corpus.rows["group"].fillna(""),
        refusals=corpus.rows["status"].eq(Status.REFUSAL.value), other_missing=corpus.rows["status"].isin(missing),
        duplicates=corpus.rows["duplicate"].fillna(False).astype(bool), left_out=~corpus.rows["included"].astype(bool),
    )  # fmt: skip
    counted = ["refusals", "other_missing", "duplicates", "left_out"]
    grouped = rows.groupby(["prompt", "group"], sort=False)
    table = grouped.size().rename("n").to_frame().join(grouped[counted].sum()).reset_index()
    table.insert(0, "kind", corpus.kind)
    return table


def _similarity(corpus: _Corpus, params: Params, rng: np.random.Generator) -> pd.DataFrame:
    """Within-group similarity with its interval, and distance to each unmarked group."""
    within = corpus.similarity.within(params.n_resamples, rng, params.confidence_level)
    distances = corpus.similarity.distances()
    rows = []
    for group in corpus.grouping.groups:
        row: dict[str, Any] = {"kind": corpus.kind, "group": group.name}
        found = dict(within.loc[group.name]) if group.name in within.index else {}
        row |= {name: found.get(name, np.nan) for name in ("mean_cosine", "ci_low", "ci_high")}
        row |= {"n": int(found.get("n", 0)), "left_out": corpus.left_out(group.fixed)}
        rows.append(row | {f"distance_{ref}": far for (name, ref), far in distances.items() if name == group.name})
    return pd.DataFrame(rows, columns=None if rows else ["kind", "group", "mean_cosine", "ci_low", "ci_high", "n"])


# ---------------------------------------------------------------- classifiers


def _svm(corpus: _Corpus) -> pd.DataFrame:
    """How well each one-v-rest classifier does on the texts it was not trained on."""
    columns = ["kind", "group", "labeling", "accuracy", "balanced_accuracy", "f1", "majority_baseline", "n"]
    rows = []
    for labeling, classes, truth, said in _test_splits(corpus):
        for place, label in enumerate(classes):
            values = agreement(truth == place, said[:, place])
            rows.append((corpus.kind, label, labeling, *values, len(truth)))
    return pd.DataFrame(rows, columns=columns)


def _test_splits(corpus: _Corpus) -> Iterator[tuple[str, list[str], np.ndarray, np.ndarray]]:
    """Labeling, classes, true class (n_test,), classifiers that said yes (n_test, n_classes)."""
    for labeling in (*corpus.axes, "intersection"):
        column = f"svm_{labeling}"
        tested = corpus.used[corpus.used[column].notna()] if column in corpus.used else corpus.used.iloc[:0]
        if not len(tested):
            continue
        truth = tested["group" if labeling == "intersection" else labeling].astype(str)
        classes = sorted(set(truth) | {label for labels in tested[column] for label in labels})
        said = np.array([[label in set(labels) for label in classes] for labels in tested[column]], dtype=bool)
        yield labeling, classes, pd.Categorical(truth, categories=classes).codes.astype(int), said


def _svm_null(corpus: _Corpus, rng: np.random.Generator, draws: int = 50) -> float:
    """Mean balanced accuracy when the test texts' labels are shuffled: 0.5 but for chance."""
    values = []
    for _, classes, truth, said in _test_splits(corpus):
        for _ in range(draws):
            shuffled = rng.permutation(truth)
            values += [agreement(shuffled == place, said[:, place])[1] for place in range(len(classes))]
    return _mean(values)


def _svm_words(rows: list[list[Any]]) -> pd.DataFrame:
    columns = ["kind", "labeling", "group", "word", "rank", "weight"]
    return pd.DataFrame(rows, columns=columns)[["kind", "group", "word", "rank", "weight", "labeling"]]


# ---------------------------------------------------------------- what a reader must see


def _notes(corpus: _Corpus, params: Params) -> list[str]:
    notes = []
    n, out = len(corpus.rows), len(corpus.rows) - len(corpus.used)
    if out:
        shares = corpus.rows.loc[~corpus.rows["included"].astype(bool), "status"].value_counts()
        why = ", ".join(f"{count} {status}" for status, count in shares.items())
        notes.append(f"{corpus.kind}: {out} of {n} texts are left out of the word statistics ({why}).")
    refused = corpus.rows["status"].eq(Status.REFUSAL.value).groupby(corpus.rows["group"].fillna("")).mean()
    if len(refused) > 1 and refused.max() - refused.min() > 0.1:
        notes.append(
            f"{corpus.kind}: refusals are unequal, from {refused.min():.0%} ({refused.idxmin() or 'no group'}) to "
            f"{refused.max():.0%} ({refused.idxmax() or 'no group'}): what is left may not be comparable."
        )
    copies = int(corpus.rows["duplicate"].fillna(False).astype(bool).sum())
    if copies:
        notes.append(
            f"{corpus.kind}: {copies} of {n} texts are copies of an earlier one for the same prompt and group."
        )
    empty = [
        f"'{v}'" for name, axis in params.axes.items() for v in axis.values if not corpus.grouping.fits({name: v}).any()
    ]
    if empty:
        notes.append(
            f"{corpus.kind}: no texts for {', '.join(empty)}; nothing is compared with it or estimated for it."
        )
    if without := corpus.grouping.without_texts:
        notes.append(f"{corpus.kind}: no texts of {', '.join(without)}; these groups stand in no table.")
    if not corpus.grouping.compared:
        notes.append(f"{corpus.kind}: no marked words, because no axis has texts of two values.")
    if corpus.grouping.compared and not corpus.grouping.permutable:
        notes.append(
            f"{corpus.kind}: every prompt was asked for one group only, so that a difference may be the prompt's "
            "and there is no null; give the prompts that differ only in the group one prompt_id."
        )
    sizes = {group.name: int(corpus.grouping.mask(group.fixed).sum()) for group in corpus.grouping.compared}
    small = [name for name, size in sizes.items() if size < _SMALL]
    if small:
        notes.append(
            f"{corpus.kind}: {len(small)} of {len(sizes)} groups have fewer than {_SMALL} texts; their lists are short "
            "because little can be significant, not because little is there."
        )
    if corpus.grouping.n_prompts < 2 and len(corpus.used):
        notes.append(
            f"{corpus.kind}: only one prompt is known, so that nothing can be said about other prompts: bootstrap "
            "intervals over prompts are missing."
        )
    return notes


def _estimates(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One contrast or group value a row, from the tables."""
    rows: list[tuple[Any, ...]] = []
    words = tables["marked_words"]
    for column in [name for name in words if str(name).startswith("z_") and not str(name).endswith(("_low", "_high"))]:
        reference = str(column).removeprefix("z_")
        for row in words[words[column].notna()].to_dict("records"):
            interval = row[f"{column}_ci_low"], row[f"{column}_ci_high"]
            rows.append((f"log_odds_z.{row['kind']}", row["word"], row["group"], reference, row[column], *interval,
                         row["count_target"]))  # fmt: skip
    for name, value in (("similarity", "mean_cosine"), ("word_share", "share"), ("sentiment", "mean")):
        for row in tables[name].to_dict("records"):
            item = row.get("words", value)
            interval = row.get("ci_low", np.nan), row.get("ci_high", np.nan)
            rows.append((f"{name}.{row['kind']}", item, row["group"], "", row[value], *interval, row["n"]))
    for row in tables["svm"].to_dict("records"):
        values = row["balanced_accuracy"], np.nan, np.nan, row["n"]
        rows.append((f"svm.{row['kind']}", row["labeling"], row["group"], "rest", *values))
    return pd.DataFrame(rows, columns=list(ESTIMATE_COLUMNS))
