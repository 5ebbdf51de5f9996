"""Which prompt each text of a corpus answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import get_args

import pandas as pd

from markedness.audits.personas.generate import Kind, Params, PromptFile, Template
from markedness.axes import Axes, check_filled
from markedness.records import AuditError, Stimuli

_KINDS = get_args(Kind)


def complete_corpus(rows: pd.DataFrame, stimuli: Stimuli, params: Params) -> pd.DataFrame:
    """Give texts that exist already their kind and the id of the prompt they answer.

    A published prompt names the group, so that each group would have prompts of its own; resampling and
    permutation need the template. Prompts are recognised from prompts.yaml; of the others those that differ only
    in the words for their group are one ("Draw [group]"), and the rest keep their own text as id, as do prompts of
    several groups that name none of them. Ids that the corpus gives stay.

    Raises
    ------
    AuditError
        When a kind is none of `_KINDS`; when the prompts, or kinds that the prompts do not tell, are blank in part.
    """
    rows = rows.copy()
    templates = PromptFile.read(stimuli).prompts
    # a short template ("Describe {group}.") also fits longer prompts, so the longest comes first
    patterns = [(_pattern(template.text), template) for template in sorted(templates, key=_literal_length)]
    found: dict[str, Template] = {}
    shared = _of_several_groups(rows, params.axes)
    for prompt in rows["prompt"].dropna().unique():
        match = next((template for pattern, template in patterns if pattern.fullmatch(_plain(prompt))), None)
        if match is not None and not (prompt in shared and "{" in match.text):
            found[prompt] = match
    matches = [found.get(prompt) if isinstance(prompt, str) else None for prompt in rows["prompt"]]
    ids = pd.Series([match.id if match else None for match in matches], index=rows.index, dtype="string")
    ids = ids.fillna(_shared_prompts(rows[ids.isna()], params.axes))
    kinds = pd.Series([match.kind if match else "" for match in matches], index=rows.index, dtype="string")
    own_ids = rows["prompt_id"].fillna("").ne("") & rows["prompt_id"].fillna("").ne(rows["prompt"].fillna(""))
    rows["prompt_id"] = rows["prompt_id"].astype("string").where(own_ids | ids.isna(), ids).fillna("")
    name = "prompt_id" if own_ids.any() else "prompt"
    check_filled(rows.assign(**{name: rows["prompt_id"]}), name, "personas")
    given = (rows["kind"] if "kind" in rows else pd.Series("", index=rows.index)).astype("string").fillna("")
    rows["kind"] = kinds.where(given.eq(""), given)
    if given.ne("").any():
        check_filled(rows, "kind", "personas")
    rows["kind"] = rows["kind"].replace("", "persona")
    strange = rows.loc[~rows["kind"].isin(_KINDS), "kind"]
    if len(strange):
        raise AuditError(
            f"personas: row {strange.index[0] + 1} has the kind '{strange.iloc[0]}'; map it to "
            f"{', '.join(_KINDS[:-1])} or {_KINDS[-1]} in values.kind of the corpus"
        )
    rows["sample"] = rows.groupby(["prompt_id", "group", "kind"], sort=False, dropna=False).cumcount()
    return rows


def _of_several_groups(rows: pd.DataFrame, axes: Axes) -> set[str]:
    """Prompts of several groups that name none of them: they fill in no template, though "Describe {group}." fits."""
    table = rows.reindex(columns=["prompt", *axes]).astype("string").fillna("").drop_duplicates()
    table = table[table["prompt"].ne("") & table["prompt"].duplicated(keep=False)]
    named = [
        _nameless(row["prompt"], {axis: row[axis] for axis in axes}, axes) != row["prompt"]
        for row in table.to_dict("records")
    ]
    return set(table["prompt"]) - set(table.loc[named, "prompt"])


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
            named |= {key, *words.forms.values(), *words.phrases.values(), *(words.pronouns or ())}
            named |= {word for word in (words.label, words.phrase, words.noun) if word}
    longest_first = "|".join(re.escape(word) for word in sorted(named, key=len, reverse=True))
    if not longest_first:
        return text
    return re.sub(
        rf"\b(?:an? )?(?:{longest_first})\b(?:[ -](?:{longest_first})\b)*", "[group]", text, flags=re.IGNORECASE
    )


def _literal_length(template: Template) -> int:
    return -len(re.sub(r"\{\w+\}", "", template.text))


def _plain(text: str) -> str:
    """Lowercase, straight quotes, single spaces."""
    return " ".join(text.lower().translate(str.maketrans("\u2018\u2019\u201c\u201d", "''''")).replace('"', "'").split())


def _pattern(template: str) -> re.Pattern[str]:
    """What a prompt made of the template looks like, whatever the group."""
    parts = re.split(r"(\{\w+\})", _plain(template))
    single = ("{subject}", "{object}", "{possessive}", "{be}")
    group = r"[^.,;:!?']+?"
    words = (r"\w+" if part in single else group if part.startswith("{") else re.escape(part) for part in parts)
    return re.compile("".join(words))
