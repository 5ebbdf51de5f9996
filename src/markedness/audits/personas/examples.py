"""Texts that hold most of the words that mark their group, and the texts in which a listed word occurs."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, combinations

import pandas as pd

from markedness.audits.base import CONTEXT_COLUMNS, EXAMPLE_COLUMNS, Examples, ResultTables
from markedness.audits.personas.estimators.params import Params
from markedness.axes import group_name
from markedness.cards import count
from markedness.records import FeatureTables

_WORDS, _TEXTS = 14, 3
"""Listed words of a group that open their texts, and texts of each."""


def examples(responses: pd.DataFrame, features: FeatureTables, tables: ResultTables, params: Params) -> Examples:
    """Texts by how many different marked words of their groups they hold."""
    texts = features["texts"]
    texts = texts[texts["included"].astype(bool)]
    marked = tables("marked_words").reindex(columns=["kind", "group", "word", "rank", "in_prompt", "pronoun"])
    said = responses.reindex(columns=["prompt", "text"]).reset_index(drop=True)
    belongs = _memberships(texts, params)
    held = _held(features["bag_of_words"], belongs, marked)
    counted = held[~(held["in_prompt"].eq(True) | held["pronoun"].eq(True))]
    n = counted.drop_duplicates(["text", "word"]).groupby("text").size()
    rows = texts[["text", "group"]].assign(n=texts["text"].map(n).fillna(0).astype(int))
    rows = rows.sort_values("n", ascending=False, kind="stable", ignore_index=True)
    rows[["prompt", "said"]] = said.loc[rows["text"]].to_numpy()
    rows["note"] = [count(n, "marked word") for n in rows["n"]]
    named = counted.drop(columns="group").merge(texts[["text", "group"]], on="text")
    highlight = {str(group): sorted(set(rows_of["word"])) for group, rows_of in named.groupby("group")}
    by = "how many different marked words of its groups a text holds (words of the prompt and pronouns left out)"
    if counted.empty:
        by = "nothing but their place, as no word is marked"
    rows = rows.drop(columns="text").rename(columns={"said": "text"})
    return Examples(by, rows[list(EXAMPLE_COLUMNS)], highlight, _contexts(held, said))


def _memberships(texts: pd.DataFrame, params: Params) -> pd.DataFrame:
    """Columns kind, text, group: each text under every group that it belongs to, "Black", "woman" and "Black woman"."""
    axes = [axis for axis in params.axes if axis in texts]
    parts = []
    for values, rows in texts.groupby(axes, dropna=False, sort=False, observed=True) if axes else ():
        fixed = dict(zip(axes, values, strict=True))
        names = {group_name({axis: fixed[axis] for axis in some}, params.axes) for some in _subsets(fixed)}
        parts += [rows[["kind", "text"]].assign(group=name) for name in sorted(names - {""})]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["kind", "text", "group"])


def _subsets(fixed: Mapping[str, object]) -> list[tuple[str, ...]]:
    return list(chain.from_iterable(combinations(fixed, size) for size in range(1, len(fixed) + 1)))


def _held(bag: pd.DataFrame, belongs: pd.DataFrame, marked: pd.DataFrame) -> pd.DataFrame:
    """Every marked word of a group in every text of the group that holds it."""
    bag = bag[bag["word"].isin(marked["word"].unique())][["text", "word"]].astype({"word": "object"})
    keys = ["kind", "group", "word"]
    return bag.merge(belongs.astype({"kind": "object"}), on="text").merge(marked.astype({"word": "object"}), on=keys)


def _contexts(held: pd.DataFrame, said: pd.DataFrame) -> pd.DataFrame:
    """`CONTEXT_COLUMNS`: the first texts of each listed word, a text of other words than its twin's."""
    listed = held[held["rank"].le(_WORDS)].assign(said=lambda rows: said["text"].loc[rows["text"]].to_numpy())
    keys = ["kind", "group", "word"]
    first = listed.drop_duplicates([*keys, "said"]).groupby(keys, sort=False).head(_TEXTS)
    return first.drop(columns="text").rename(columns={"said": "text"})[list(CONTEXT_COLUMNS)]
