"""What a model said, as data of a page: the texts that drive a score, and a listed word in its texts."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

import pandas as pd

from markedness.audits.base import Examples
from markedness.cards import count, words
from markedness.examples import LONGEST_TEXT, MIDDLE, picked
from markedness.reporting.embed import (
    LONGEST_NAME,
    LONGEST_PROMPT,
    MOST_WORDS,
    shortened,
)
from markedness.reporting.render import page_json, shown

_PER_GROUP = 14
"""Words of a group that are listed."""
_AROUND = 70
"""Letters of a text on either side of a word."""


def word_rows(marked: pd.DataFrame, found: Examples | None, key: str, data: dict[str, str]) -> Iterator[dict[str, Any]]:
    """The most marked words per group, one part per kind of text; a word opens its texts where they are known."""
    if not {"group", "word", "rank", "z"} <= set(marked.columns):
        return
    snippets = _snippets(found.contexts) if found is not None else {}
    used: list[list[tuple[str, str, str]]] = []
    kinds = marked.groupby("kind", sort=False) if "kind" in marked else [("", marked)]
    for kind, rows in kinds:
        parts = []
        for group, listed in rows.sort_values("rank", kind="stable").groupby("group", sort=False):
            chips = [_chip(row, rows["z"].abs().max()) for row in listed.head(_PER_GROUP).to_dict("records")]
            for chip, word in zip(chips, listed["word"], strict=False):
                if texts := snippets.get((str(kind), str(group), str(word))):
                    chip["texts"] = len(used)
                    used.append(texts)
            parts.append({"group": group, "count": count(len(listed), "word"), "words": chips})
        title = "Words that set groups apart" + (f": {words(str(kind), capital=False)}" if kind else "")
        text = (
            f"Up to {_PER_GROUP} words per group, the most marked first; the small number is z, summed over the "
            "comparisons with the unmarked groups. A word of the prompt repeats what was asked, and a pronoun follows "
            "from it: both are labelled. The table has all words, each comparison and its corrected q-value."
        )
        if used:
            text += " Choose a word to read it in its texts, which may hurt."
        yield {"title": title, "text": text, "rows": sorted(parts, key=lambda part: str(part["group"]))}
    if used:
        data[key] = page_json(used)


def _chip(row: Mapping[Hashable, Any], strongest: float) -> dict[str, Any]:
    q = [row[column] for column in row if str(column).startswith("q_") and row[column] == row[column]]
    return {
        "word": shortened(row["word"], LONGEST_NAME),
        "z": shown(row["z"]),
        "title": f"z {shown(row['z'])}" + (f", q {shown(max(q))} after correction" if q else ""),
        "weight": 1 + min(3, int(4 * abs(row["z"]) / strongest)) if strongest and row["z"] == row["z"] else 1,
        "given": "in the prompt" if _true(row.get("in_prompt")) else "pronoun" if _true(row.get("pronoun")) else "",
        "texts": None,
    }


def _true(value: Any) -> bool:
    """A flag as read back from a CSV file, where it may be missing."""
    return str(value) == "True"


def _snippets(contexts: pd.DataFrame) -> dict[tuple[str, str, str], list[tuple[str, str, str]]]:
    """(kind, group, word) -> what stands before it, the word as written, what stands after it."""
    found: dict[tuple[str, str, str], list[tuple[str, str, str]]] = {}
    for kind, group, word, text in contexts.itertuples(index=False, name=None):
        if cut := snippet(str(text), str(word)):
            found.setdefault((str(kind), str(group), str(word)), []).append(cut)
    return found


def snippet(text: str, word: str) -> tuple[str, str, str] | None:
    """The first place where a text has the word, as either rule for words cuts it; None where it has none."""
    for piece in re.finditer(r"\S+", text[: 10 * LONGEST_TEXT]):
        folded = piece[0].lower()
        inner = re.search(r"\w(?:.*\w)?", folded)
        if word in (re.sub("[^a-z]", "", folded), inner[0] if inner else ""):
            start, end = piece.span()
            before, after = text[max(0, start - _AROUND) : start], text[end : end + _AROUND]
            if start > _AROUND:  # not from the middle of a word
                before = "… " + (before.partition(" ")[2] or before)
            if len(text) > end + _AROUND:
                after = (after.rpartition(" ")[0] or after) + " …"
            return before, shortened(piece[0], LONGEST_NAME), after
    return None


def example_texts(
    found: Examples | None, responses: pd.DataFrame, marked: pd.DataFrame, most: int, key: str, data: dict[str, str]
) -> dict[str, Any] | None:
    """The folded texts of a section; sorted by what drives the score where the audit says what that is."""
    rows = picked(found.rows, most) if found is not None else _by_place(responses, most)
    if rows.empty:
        return None
    texts = [
        {
            "group": str(row.get("group") or ""),
            "prompt": "" if pd.isna(row.get("prompt")) else shortened(row["prompt"], LONGEST_PROMPT),
            "text": shortened(row["text"], LONGEST_TEXT),
            "note": shortened(row["note"], LONGEST_PROMPT),
            "middle": row.get("place") == MIDDLE,
        }
        for row in rows.to_dict("records")
    ]
    highlight = dict(found.highlight) if found is not None else _highlight(marked)
    listed = {group: [w for w in of_group if len(w) <= LONGEST_NAME] for group, of_group in highlight.items()}
    listed = {group: of_group[:MOST_WORDS] for group, of_group in listed.items()}
    data[key] = page_json({"groups": sorted({text["group"] for text in texts}), "words": listed, "texts": texts})
    if found is not None:
        said = f"Sorted by {shortened(found.by, LONGEST_PROMPT)}. The first of each group are extremes, not typical"
        said += "; the last is from the middle of the order." if any(text["middle"] for text in texts) else "."
    else:
        said = f"The first {most} texts of each group, a prompt after the other: chosen by place, not by content."
    return {"id": key, "text": said + (" The group's marked words are highlighted." if any(listed.values()) else "")}


def _by_place(responses: pd.DataFrame, most: int) -> pd.DataFrame:
    """The first texts of each group, a prompt after the other."""
    if not {"text", "group", "prompt"} <= set(responses.columns):
        return pd.DataFrame()
    rows = responses[responses["text"].notna() & responses["text"].astype(str).str.strip().ne("")]
    turn = rows.groupby(["group", "prompt_id"], sort=False, dropna=False).cumcount()
    rows = rows.assign(_turn=turn).sort_values("_turn", kind="stable")
    rows = rows.groupby("group", sort=False, dropna=False).head(most)
    status = rows["status"].astype(str) if "status" in rows else pd.Series("ok", index=rows.index)
    return rows.assign(note=("status: " + status).where(status.ne("ok"), ""))


def _highlight(marked: pd.DataFrame) -> dict[str, Iterable[str]]:
    if not {"group", "word"} <= set(marked.columns):
        return {}
    return {str(group): sorted(set(map(str, rows))) for group, rows in marked.groupby("group")["word"]}
