"""Tables on words: marked words, Jensen-Shannon divergence, texts that contain a word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.audits.personas.estimators.corpus import Corpus
from markedness.audits.personas.estimators.interaction import Interactions
from markedness.audits.personas.estimators.word_tests import WordTests
from markedness.audits.personas.language.contrasts import Contrasts, contrast_log_odds, marked
from markedness.audits.personas.language.groups import Group
from markedness.audits.personas.language.tokens import tokenize
from markedness.results import NAN, Score, not_estimated
from markedness.stats.inference import ALPHA, effective

_MAX_BLOCKS = 200
"""Prompts above this number are pooled into as many blocks before they are resampled."""

PRONOUNS = frozenset({
    "i", "me", "my", "mine", "myself", "you", "your", "yours", "yourself", "yourselves", "we", "us", "our", "ours",
    "ourselves", "he", "him", "his", "himself", "she", "her", "hers", "herself", "it", "its", "itself", "they", "them",
    "their", "theirs", "themself", "themselves", "im", "i'm", "ive", "i've", "hes", "he's", "shes", "she's", "theyre",
    "they're", "theyve", "they've", "youre", "you're",
})  # fmt: skip
"""English personal pronouns: they tell the group without describing it."""


def marked_words(
    corpus: Corpus, tests: WordTests, threshold: float, valence: Mapping[str, float] | None
) -> pd.DataFrame:
    """The words of each compared group: one row per group and marked word.

    Parameters
    ----------
    corpus
        The texts of one kind.
    tests
        Of the words of the same texts.
    threshold
        A word is marked when its z is above this against every unmarked group.
    valence
        Sentiment of the words that are not neutral; None where it is not measured.
    """
    tables = []
    listed = _listed(corpus, corpus.published.z, threshold)
    for place, group in enumerate(corpus.compared):
        rows = np.flatnonzero(corpus.grouping.contrasts.group == place)
        here, z = np.flatnonzero(listed[place]), corpus.published.z[rows]
        # unmarked groups are ordered by the first marked value of their axis, as in the published tables
        order = z[:, here].sum(axis=0) if group.marked else z[0, here]
        here = here[np.lexsort((corpus.counts.words[here].astype(str), -order))]
        contrasts = corpus.grouping.contrasts.of_group(place)
        table = _z_columns(corpus, group, here, z, contrasts)
        survives = marked(_without_each_prompt(corpus, here, contrasts), contrasts, threshold)[:, 0]
        table["prompts_left_out_survived"] = survives.sum(axis=0) if len(survives) else np.nan
        always = survives.all(axis=0) if len(survives) else [pd.NA] * len(here)
        table["survives_leave_one_prompt_out"] = pd.Series(always, index=table.index, dtype="boolean")
        table["sentiment"] = np.nan if valence is None else [valence.get(word, 0.0) for word in table["word"]]
        table["only_crossed"] = _only_crossed(corpus, group, listed[:, here])
        table["in_prompt"] = _in_prompt(corpus, group, table["word"])
        table["pronoun"] = table["word"].isin(_pronouns(corpus)).astype("boolean")
        tables.append(pd.concat([table, pd.DataFrame(tests.columns(group, here), index=table.index)], axis=1))
    columns = ["kind", "group", "word", "rank", "z", "count_target", "survives_leave_one_prompt_out"]
    # A copy, so that the columns of many references are one array and not as many.
    return pd.concat(tables, ignore_index=True).copy() if tables else pd.DataFrame(columns=columns)


def with_departures(corpus: Corpus, words: pd.DataFrame, found: Interactions | None) -> pd.DataFrame:
    """`marked_words` with how far each word of a crossed group departs from what its single values let expect.

    ``departure_z``: as in `interactions`, positive: more often than race plus gender. ``departure_p_adjusted``:
    one-sided, max-T over all words and crossed groups. NaN for single values and for words too rare to be tested.
    """
    if found is None:
        return words.assign(departure_z=np.nan, departure_p_adjusted=np.nan)
    places = pd.Index(corpus.counts.words[found.words].astype(str)).get_indexer(pd.Index(words["word"].astype(str)))
    groups = pd.Index([group.name for group in found.groups]).get_indexer(pd.Index(words["group"].astype(str)))
    known = (places >= 0) & (groups >= 0)
    z, p = (np.where(known, values[groups, places], np.nan) for values in (found.z, found.p))
    return words.assign(departure_z=z, departure_p_adjusted=np.where(np.isnan(z), np.nan, p))


def marked_words_by_group(corpus: Corpus, words: pd.DataFrame, scores: Sequence[Score]) -> pd.DataFrame:
    """How many words each group has, and at equal lengths has and would have by chance, and its divergence in bits."""
    by_key = {score.key: score for score in scores}
    sentiment = words["sentiment"].astype(float) if "sentiment" in words else pd.Series(dtype=float)
    by_group = sentiment.groupby(words["group"].astype(object))
    valence, valence_sd, negative = by_group.mean(), by_group.std(ddof=0), by_group.agg(_below_zero)
    robust = words["survives_leave_one_prompt_out"].astype(float).groupby(words["group"]).sum(min_count=1)
    rows = []
    for place, group in enumerate(corpus.compared):
        score = by_key.get(f"marked_words.{corpus.kind}: {group.name}") or not_estimated("")
        rows.append(
            {
                "kind": corpus.kind, "group": group.name, "references": ", ".join(name for name, _ in group.references),
                "marked": group.marked, "n_words": int(words["group"].eq(group.name).sum()),
                "n_words_equal": NAN if np.isnan(score.null_mean) else score.estimate,
                "null_mean": score.null_mean, "null_ci_low": score.null_low, "null_ci_high": score.null_high,
                "p": score.p, "p_adjusted": score.p_adjusted, "excess": score.estimate - score.null_mean,
                "valence": valence.get(group.name, NAN), "valence_sd": valence_sd.get(group.name, NAN),
                "n_negative": negative.get(group.name, NAN),
                "survive_leave_one_prompt_out": robust.get(group.name, 0.0 if corpus.grouping.n_prompts > 1 else NAN),
                "n": int(corpus.grouping.mask(group.fixed).sum()), "left_out": corpus.left_out(group.fixed),
                "jsd": corpus.published.jsd[place] if group.marked else NAN,
            }
        )  # fmt: skip
    return pd.DataFrame(rows) if rows else pd.DataFrame(columns=["kind", "group", "n_words"])


def _below_zero(values: pd.Series) -> float:
    """How many are negative; NaN where none is known."""
    return float((values < 0).sum()) if values.notna().any() else NAN


def interaction_words(corpus: Corpus, found: Interactions | None) -> pd.DataFrame:
    """Words of crossed groups beyond their single values with p <= 0.05 over all words and groups, strongest first."""
    columns = ["kind", "group", "word", "count", "expected", "z", "p_adjusted"]
    if found is None:
        return pd.DataFrame(columns=columns)
    group, word = np.nonzero(found.p <= ALPHA)
    order = np.argsort(-found.z[group, word], kind="stable")
    group, word = group[order], word[order]
    values = (found.counts[group, word].astype(int), found.expected[group, word], found.z[group, word])
    return pd.DataFrame(
        {
            "kind": corpus.kind, "group": [found.groups[place].name for place in group.tolist()],
            "word": corpus.counts.words[found.words[word]].astype(str),
            **dict(zip(("count", "expected", "z"), values, strict=True)), "p_adjusted": found.p[group, word],
        },
        columns=columns,
    )  # fmt: skip


def _without_each_prompt(corpus: Corpus, words: NDArray[np.int64], contrasts: Contrasts) -> NDArray[np.float64]:
    """The z of some words with one prompt left out, (n_blocks, K, V); no rows with a single prompt."""
    n_blocks, n_combinations = min(corpus.grouping.n_prompts, _MAX_BLOCKS), corpus.grouping.n_combinations
    if n_blocks < 2:
        return np.empty((0, len(contrasts.group), len(words)))
    cell = corpus.grouping.prompt % _MAX_BLOCKS * n_combinations + corpus.grouping.combination
    lengths = np.bincount(cell, np.asarray(corpus.counts.matrix.sum(axis=1)).ravel(), n_blocks * n_combinations)
    cells = corpus.counts.select(words).pooled(cell, len(lengths)).reshape(n_blocks, n_combinations, -1)
    totals = lengths.reshape(n_blocks, n_combinations)
    return contrast_log_odds(cells.sum(axis=0) - cells, contrasts, corpus.prior, totals.sum(axis=0) - totals).z


def _in_prompt(corpus: Corpus, group: Group, words: pd.Series[str]) -> pd.Series[bool]:
    """Whether a prompt of the group holds the word; missing where the prompts are not known."""
    said = corpus.prompt_words(group)
    if said is None:
        return pd.Series(pd.NA, index=words.index, dtype="boolean")
    return words.isin(said).astype("boolean")


def _pronouns(corpus: Corpus) -> set[str]:
    """English personal pronouns and those of the axes, as either rule cuts them."""
    values = [value for axis in corpus.axes.values() for value in axis.values.values()]
    return {*PRONOUNS, *(word.lower() for value in values for word in value.pronouns or ())}


def _only_crossed(corpus: Corpus, group: Group, listed: NDArray[np.bool_]) -> pd.Series:
    """Whether none of a crossed group's single values has the word, from ``listed`` (G, words); <NA> for one value."""
    singles = [
        place
        for place, other in enumerate(corpus.compared)
        if len(other.fixed) == 1 and other.fixed.items() <= group.fixed.items()
    ]
    if len(group.fixed) < 2:
        return pd.Series([pd.NA] * listed.shape[1], dtype="boolean")
    return pd.Series(~listed[singles].any(axis=0), dtype="boolean")


def _listed(corpus: Corpus, z: NDArray[np.float64], threshold: float) -> NDArray[np.bool_]:
    """Which words are marked for each compared group, (G, V), from z (K, V); the empty word is never listed."""
    words = corpus.counts.words
    if not corpus.compared:
        return np.empty((0, len(words)), dtype=bool)
    listed: NDArray[np.bool_] = marked(z, corpus.grouping.contrasts, threshold) & (words != "")
    return listed


def _z_columns(
    corpus: Corpus,
    group: Group,
    here: NDArray[np.int64],
    z: NDArray[np.float64],
    contrasts: Contrasts,
) -> pd.DataFrame:
    """The words of one group with their z and counts against each reference."""
    words, pooled = corpus.counts.words, corpus.pooled
    table = pd.DataFrame({"kind": corpus.kind, "group": group.name, "word": words[here].astype(str)})
    table["rank"] = np.arange(1, len(here) + 1)
    table["z"] = z[:, here].sum(axis=0)
    for k, (reference, _) in enumerate(group.references):
        table[f"z_{reference}"] = z[k, here]
    table["count_target"] = (contrasts.targets[0] @ pooled[:, here]).astype(int)
    for k, (reference, _) in enumerate(group.references):
        table[f"count_{reference}"] = (contrasts.references[k] @ pooled[:, here]).astype(int)
    return table


def divergent_words(corpus: Corpus, n_words: int) -> pd.DataFrame:
    """The ``n_words`` that contribute most on the side of each marked group; the group's divergence in bits."""
    words, rows = corpus.counts.words, []
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
    return pd.DataFrame(rows, columns=["kind", "group", "word", "rank", "share", "side", "jsd"])


def word_share(corpus: Corpus, word_sets: Sequence[Sequence[str]], confidence_level: float) -> pd.DataFrame:
    """Share of texts with at least one of the words, Wilson interval; no rows where the words cannot be read."""
    from statsmodels.stats.proportion import proportion_confint

    rows = []
    # Where no word has another letter, the rules make the same of these texts, or the published one has cut them.
    plain = all(not word or (word.isascii() and word.isalpha()) for word in corpus.counts.words.tolist())
    for wanted in word_sets if "lexicon" not in corpus.unread else ():
        tokens = [token for token in tokenize(wanted, "published" if plain else "unicode") if token]
        columns = np.flatnonzero(np.isin(corpus.counts.words, tokens))
        has = np.asarray(corpus.counts.matrix[:, columns].sum(axis=1)).ravel() > 0
        for texts in corpus.sets:
            n, hits = int(texts.mask.sum()), int(has[texts.mask].sum())
            # Copies are no further evidence: as many texts as there are effective units.
            n_units = effective(np.bincount(corpus.units.of_text[texts.mask]))
            low, high = proportion_confint(hits / n * n_units, n_units, 1 - confidence_level, "wilson")
            low, high = min(low, hits / n), max(high, hits / n)  # a share of 0 or 1 is a bound but for rounding
            rows.append((corpus.kind, texts.name, "/".join(wanted), hits / n, low, high, n, texts.left_out))
    return pd.DataFrame(rows, columns=["kind", "group", "words", "share", "ci_low", "ci_high", "n", "left_out"])
