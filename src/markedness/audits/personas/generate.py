"""Prompts: each persona or story prompt for each group that the axes cross to."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from pydantic import Field

from markedness.audits.personas import AXES
from markedness.records import (
    AuditError,
    Axes,
    Completion,
    CorpusColumns,
    Message,
    Prompt,
    Sampling,
    Stimuli,
    Strict,
    group_name,
)

CORPUS = CorpusColumns(required=("text",), optional=("prompt", "prompt_id", "kind"))
"""Texts that exist already. Axes may be missing or empty: a text then fixes fewer of them."""

_KINDS = ("persona", "story")
_PLURAL = ("they", "we", "you")


class Params(Strict):
    """What is asked; the defaults are the paper's (section 4)."""

    axes: Axes = AXES
    prompts: tuple[str, ...] = ()
    """Ids of prompts.yaml; none: all that are not ``default: false`` there (six personas, two stories)."""
    samples: int = Field(default=15, ge=1)
    """Completions of each prompt for each group."""
    temperature: float = Field(default=1.0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_tokens: int = Field(default=256, ge=1)
    stop: tuple[str, ...] = ("\n",)
    """Where a model that continues text stops; chat models end their turn themselves."""


def prompts(
    stimuli: Stimuli, params: Params, rng: np.random.Generator
) -> Generator[list[Prompt], list[list[Completion]], None]:
    """All prompts in one round: each template for each group; one that names no group is asked once.

    Parameters
    ----------
    stimuli
        prompts.yaml.
    params
        See `Params`.
    rng
        Not used: nothing is drawn here.

    Yields
    ------
    list of Prompt
        Columns: kind, one per axis, and ``marked``, the marked values joined by ", ".

    Raises
    ------
    AuditError
        When params.prompts names a prompt that prompts.yaml lacks.
    """
    data = stimuli.data("prompts.yaml")
    sampling = Sampling(params.temperature, params.top_p, params.max_tokens, params.stop)
    asked = []
    for template in _chosen(data["prompts"], params.prompts):
        for values in product(*(axis.values for axis in params.axes.values())):
            fixed: dict[str, str | None] = dict(zip(params.axes, values, strict=True))
            words = person(fixed, params.axes)
            if "{group}" not in template["text"]:
                fixed = dict.fromkeys(params.axes)
            text = template["text"].format(**words)
            reply = template["reply"].format(**words)
            marked = [value for axis, value in fixed.items() if value and value != params.axes[axis].unmarked]
            prompt = Prompt(
                prompt_id=template["id"],
                group=group_name(fixed, params.axes),
                messages=(Message("user", text),),
                completion=f"{data['frame'].rstrip()}\n\nPrompt: {text}\nReply: {reply}",
                sampling=sampling,
                samples=params.samples,
                columns={"kind": template["kind"], **fixed, "marked": ", ".join(marked)},
            )
            asked.append(prompt)
            if "{group}" not in template["text"]:
                break
    yield asked


def person(values: Mapping[str, str | None], axes: Axes) -> dict[str, str]:
    """The words for one person: group with article, subject, object, possessive, be.

    The noun is that of the last value that has one, else "person"; the other values' labels stand before it,
    in axis order: "an Asian woman", "a Latine nonbinary person".
    """
    fixed = {axis: axes[axis].values[value] for axis, value in values.items() if value}
    keys = [value for value in values.values() if value]
    noun_axis = next((axis for axis in reversed(fixed) if fixed[axis].noun), None)
    article, adjectives = "", []
    for axis, value in fixed.items():
        if axis == noun_axis:
            continue
        form = next((value.forms[key] for key in keys if key in value.forms), None)
        given_article, _, phrase = (value.phrase or "").partition(" ")
        adjectives.append(form or phrase or value.label or str(values[axis]))
        if len(adjectives) == 1 and not form:
            article = given_article
    noun = fixed[noun_axis].noun if noun_axis else "person"
    described = " ".join([*adjectives, str(noun)])
    article = article or ("an" if described[0].lower() in "aeiou" else "a")
    pronouns = next((value.pronouns for value in fixed.values() if value.pronouns), ("they", "them", "their"))
    subject, object_, possessive = pronouns
    return {
        "group": f"{article} {described}", "subject": subject, "object": object_, "possessive": possessive,
        "be": "are" if subject in _PLURAL else "is",
    }  # fmt: skip


def _chosen(templates: Sequence[Mapping[str, Any]], wanted: Sequence[str]) -> list[Mapping[str, Any]]:
    """The templates to ask, in the order of prompts.yaml."""
    known = [template["id"] for template in templates]
    for name in wanted:
        if name not in known:
            raise AuditError(f"personas.generate.prompts: '{name}' is not in prompts.yaml; known: {', '.join(known)}")
    if wanted:
        return [template for template in templates if template["id"] in wanted]
    return [template for template in templates if template.get("default", True)]


def complete_corpus(rows: pd.DataFrame, stimuli: Stimuli, params: Params) -> pd.DataFrame:
    """Give texts that exist already their kind and the id of the prompt they answer.

    A published prompt names the group, so that each group would have prompts of its own; resampling and
    permutation need the template. Prompts are recognised from prompts.yaml; of the others those that differ only
    in the words for their group are one ("Draw [group]"), and the rest keep their own text as id. Ids that the corpus
    gives stay.

    Raises
    ------
    AuditError
        When a kind is neither "persona" nor "story".
    """
    rows = rows.copy()
    templates = stimuli.data("prompts.yaml")["prompts"]
    # a short template ("Describe {group}.") also fits longer prompts, so the longest comes first
    patterns = [(_pattern(template["text"]), template) for template in sorted(templates, key=_literal_length)]
    found: dict[str, Mapping[str, Any]] = {}
    for prompt in rows["prompt"].dropna().unique():
        match = next((template for pattern, template in patterns if pattern.fullmatch(_plain(prompt))), None)
        if match is not None:
            found[prompt] = match
    matches = [found.get(prompt) if isinstance(prompt, str) else None for prompt in rows["prompt"]]
    ids = pd.Series([match["id"] if match else None for match in matches], index=rows.index, dtype="string")
    ids = ids.fillna(_shared_prompts(rows[ids.isna()], params.axes))
    kinds = pd.Series([match["kind"] if match else "persona" for match in matches], index=rows.index, dtype="string")
    own_ids = rows["prompt_id"].fillna("").ne("") & rows["prompt_id"].fillna("").ne(rows["prompt"].fillna(""))
    rows["prompt_id"] = rows["prompt_id"].astype("string").where(own_ids | ids.isna(), ids).fillna("")
    given = rows["kind"] if "kind" in rows else pd.Series(pd.NA, index=rows.index, dtype="string")
    rows["kind"] = kinds.where(given.isna() | given.eq(""), given)
    strange = rows.loc[~rows["kind"].isin(_KINDS), "kind"]
    if len(strange):
        raise AuditError(
            f"personas: row {strange.index[0] + 1} has the kind '{strange.iloc[0]}'; map it to persona or story in "
            "values.kind of the corpus"
        )
    rows["sample"] = rows.groupby(["prompt_id", "group", "kind"], sort=False, dropna=False).cumcount()
    return rows


def _shared_prompts(rows: pd.DataFrame, axes: Axes) -> pd.Series:
    """Prompts of one group each, with [group] for its words, where those of several groups become one by that."""
    table = rows.reindex(columns=["prompt", *axes]).astype("string").fillna("").drop_duplicates()
    table = table[table["prompt"].ne("") & ~table["prompt"].duplicated(keep=False)]
    prompts = table["prompt"].tolist()
    fixed = [dict(zip(axes, values, strict=True)) for values in table[list(axes)].itertuples(index=False)]
    nameless = [_nameless(text, values, axes) for text, values in zip(prompts, fixed, strict=True)]
    templates = pd.Series(nameless, index=prompts, dtype="string")
    templates = templates[templates.duplicated(keep=False)]
    return rows["prompt"].map(templates).astype("string")


def _nameless(text: str, values: Mapping[str, str], axes: Axes) -> str:
    """A prompt with [group] in place of each run of words for its group, pronouns included."""
    named: set[str] = set()
    for axis, key in values.items():
        if key in axes[axis].values:
            words = axes[axis].values[key]
            named |= {key, *words.forms.values(), *(words.pronouns or ())}
            named |= {word for word in (words.label, words.phrase, words.noun) if word}
    longest_first = "|".join(re.escape(word) for word in sorted(named, key=len, reverse=True))
    if not longest_first:
        return text
    return re.sub(
        rf"\b(?:an? )?(?:{longest_first})\b(?:[ -](?:{longest_first})\b)*", "[group]", text, flags=re.IGNORECASE
    )


def _literal_length(template: Mapping[str, Any]) -> int:
    return -len(re.sub(r"\{\w+\}", "", template["text"]))


def _plain(text: str) -> str:
    """Lowercase, straight quotes, single spaces."""
    return " ".join(text.lower().translate(str.maketrans("\u2018\u2019\u201c\u201d", "''''")).replace('"', "'").split())


def _pattern(template: str) -> re.Pattern[str]:
    """What a prompt made of the template looks like, whatever the group."""
    parts = re.split(r"(\{\w+\})", _plain(template))
    words = {"{group}": r"[^.,;:!?']+?"}
    return re.compile("".join(words.get(part, r"\w+") if part.startswith("{") else re.escape(part) for part in parts))
