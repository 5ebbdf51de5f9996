"""Notes of evaluate: what is missing and why, estimated probabilities, small numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pandas as pd

from markedness.audits.guise.estimators.params import Params
from markedness.audits.guise.estimators.stereotypes import imputed, main_rows, marked_groups, scored_or_imputed
from markedness.cards import are
from markedness.records import NOT_SHOWN, SHOWN_IN_PART, TOP_LOGPROBS


def notes(scored: pd.DataFrame, params: Params, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Sentences that a reader of the results must see."""
    asked = scored[scored["kind"].ne("perplexity")]
    return [
        *_of_guises(scored, params),
        *_of_scores(asked),
        *_of_texts(scored, main_rows(asked, params)),
        *_of_tables(tables),
    ]


def _of_guises(scored: pd.DataFrame, params: Params) -> Iterator[str]:
    groups = marked_groups(scored, params)
    if len(groups) > 1:
        yield (
            f"The headline is about {groups[0]}; scores of {', '.join(groups[1:])} are in scores.csv. "
            "guise.evaluate.marked names another guise for the headline."
        )


def _of_scores(asked: pd.DataFrame) -> Iterator[str]:
    for reason, rows in asked[asked["missing"].notna()].groupby("missing", sort=False, observed=True):
        words = sorted(rows["attribute"].unique())
        shown = ", ".join(words[:8]) + (f" and {len(words) - 8} more" if len(words) > 8 else "")
        yield f"{len(rows)} of {len(asked)} scores {are(len(rows))} missing ({shown}): {reason}."
    estimated = asked[asked["estimator"].notna() & asked["estimator"].ne("exact")]
    if len(estimated):
        names = [name for name in estimated["estimator"].unique() if name not in (NOT_SHOWN, SHOWN_IN_PART)]
        yield (
            f"{len(estimated)} of {len(asked)} scores {are(len(estimated))} estimated "
            f"({', '.join(names) or TOP_LOGPROBS}), with a median coverage of {estimated['coverage'].median():.2f}. "
            "Agreement, correlations, the regression of prestige and stereotype strength need the whole ranking and "
            "are omitted."
        )
    yield from _of_imputed(asked[asked["kind"].eq("association")])


def _of_imputed(asked: pd.DataFrame) -> Iterator[str]:
    """How many attributes a server never showed, or not always."""
    asked = asked[scored_or_imputed(asked)]
    if not imputed(asked).any():
        return
    by = pd.DataFrame({name: asked[name].astype(str) for name in ("group", "task", "attribute")})
    by = by.assign(never=asked["estimator"].eq(NOT_SHOWN), always=~imputed(asked))
    words = by.groupby(["group", "task", "attribute"], sort=False).all().reset_index()
    for (group, task), of_task in words.groupby(["group", "task"], sort=False):
        hidden, in_part = int(of_task["never"].sum()), int((~of_task["always"] & ~of_task["never"]).sum())
        of = f"of the {len(of_task)} attributes of the task {task}"
        if hidden:
            yield (
                f"The server never showed {hidden} {of} after texts of {group} and its reference, or the data do not "
                "say that it did: they are in no ranking."
            )
        if hidden or in_part:
            yield (
                f"The others of the task {task} are shares among the attributes, of a sum with what is imputed: their "
                "log ratios rest on it, too, and none has an interval or a p."
            )
        if in_part:
            yield (
                f"It showed {in_part} {of} after a part of the texts of {group} and its reference (column shown): "
                "their place rests on the probability of other tokens."
            )


def _of_texts(scored: pd.DataFrame, main: pd.DataFrame) -> Iterator[str]:
    if cut := scored.loc[scored["cut"].astype(bool), "pair"].nunique():
        yield f"{cut} text pairs were longer than the model's context and were cut at their end."
    texts = main[main["setting"].ne("overt")]
    n_pairs, n_prompts = texts["pair"].nunique(), texts.groupby("task", observed=True)["prompt_id"].nunique().min()
    if n_pairs < 100 or n_prompts < 9:
        yield (
            f"The study is small: {n_pairs} text pairs, and as few as {n_prompts} prompts in a task; the paper has "
            "3,019 pairs, and 9 prompts for adjectives."
        )


def _of_tables(tables: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    decisions, favorability = tables["decisions"], tables["favorability"]
    scored = tables["associations"].dropna(subset=["q"])
    if len(words := sorted(scored.loc[scored["tokens"].gt(1), "attribute"].unique())):
        shown = ", ".join(words[:8]) + (f" and {len(words) - 8} more" if len(words) > 8 else "")
        yield (
            f"{len(words)} attributes are several tokens and scored by the chain rule ({shown}; column tokens of "
            "associations): ratios of attributes of different numbers of tokens are not comparable in level."
        )
    if len(decisions):
        yield (
            "Decisions are shown with both calibrations, ratio (defined in the paper) and difference (used in its code "
            "and printed rates); the two rules can decide differently."
        )
    unlike = (decisions["rate"] - decisions["rate_reference"] - decisions["difference"]).abs() > 1e-9
    if tasks := sorted({*decisions.loc[unlike, "task"].astype(str)}):
        yield (
            f"In decisions of {', '.join(tasks)} the two guises have unlike shares of prompts, sets or sources: "
            "difference, interval and p are at equal shares; rates, increase, counts and chi-squares are of all "
            "decisions as they are."
        )
    cells = decisions[decisions["level"].eq("prompt") & decisions["n"].gt(0) & decisions["n_reference"].gt(0)]
    if empty := int(cells["increase"].isna().sum()):
        yield (
            f"In {empty} of {len(cells)} cells of decisions (prompt and rule) one guise has no detrimental decision, "
            "so the relative increase is missing."
        )
    if favorability.loc[favorability["source"].eq("model"), "weighted"].isna().any():
        yield "A weighted favourability is missing because one of the top attributes has no positive score."
    texts, topics = tables["text_features"], tables["text_topics"]
    if texts.empty:
        yield "Features of dialect in the texts and their topics are not measured: the data do not hold the texts."
    for reason, rows in topics[topics["missing"].notna() & topics["missing"].ne("")].groupby("missing", sort=False):
        yield f"Topics of the texts of {', '.join(dict.fromkeys(rows['text_set']))}: {reason}."
    if tables["features"]["n_prompts"].lt(2).any():
        yield "With one prompt, stereotype strength has no t test: it is a test over prompts."
