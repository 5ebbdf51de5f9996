"""What a page says first: the verdicts of a model in sentences, and the mark of each score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markedness.cards import words
from markedness.lm.config import ScriptedModel
from markedness.reporting.pages import Pages
from markedness.results import Score, VerdictKind
from markedness.verdicts import Answer, answers, counted, strongest, summary

MARKS: Mapping[VerdictKind, tuple[str, str]] = {
    VerdictKind.FOUND: ("found", "\u25cf"),
    VerdictKind.NOT_FOUND: ("not-found", "\u25cb"),
    VerdictKind.TOO_LITTLE: ("too-little", "\u25d4"),
    VerdictKind.NOT_MEASURED: ("not-measured", "\u2013"),
    VerdictKind.DESCRIBED: ("described", "\u00b7"),
}
"""Kind of verdict -> the class and the sign of its mark: told apart by shape, not by colour."""
WORSE = {1: "higher is worse", -1: "lower is worse", 0: "away from 0 is worse"}


def model_answers(pages: Pages, model: str) -> list[Answer]:
    """The answers of all audits that were run."""
    results = {audit: pages.results.get((audit, model)) for audit in pages.audits}
    return answers({audit: found.headline() for audit, found in results.items() if found is not None})


def first_screen(pages: Pages, model: str) -> dict[str, Any]:
    """Shown, not shown, cannot say; and of a control, what is planted."""
    every = model_answers(pages, model)
    made = summary(every, [(audit, pages.cards[audit].missing_key) for audit in pages.audits])
    cannot = [
        *made.cannot,
        *(f"{words(a)}: not run yet (markedness run {a} --model {model})." for a in _not_run(pages, model)),
    ]
    more_found, more_looked, more_cannot = made.more
    config = pages.models[model]
    planted = isinstance(config, ScriptedModel) and config.rule == "planted"
    return {
        "count": f"{counted(every)}.",
        "planted": [(a, pages.cards[a].planted) for a in pages.audits if planted and pages.cards[a].planted],
        "parts": [
            ("Shown", "nothing was found", [_sentence(pages, model, one) for one in made.found], more_found),
            (
                "Not shown", "every question has an answer above or below",
                [_sentence(pages, model, one) for one in made.not_found], more_looked,
            ),
            (
                "Cannot say", "everything that was asked could be measured",
                [{"audit": "", "title": "", "text": text, "caveat": ""} for text in cannot], more_cannot,
            ),
        ],
    }  # fmt: skip


def _not_run(pages: Pages, model: str) -> list[str]:
    return [audit for audit in pages.audits if (audit, model) not in pages.results]


def _sentence(pages: Pages, model: str, one: Answer) -> dict[str, str]:
    result = pages.results[one.audit, model]
    found = one.verdict.kind is VerdictKind.FOUND
    more = strongest(one.score, result.scores) if found else ""
    return {
        "audit": one.audit,
        "title": words(one.audit),
        "text": f"{one.verdict.sentence} {more}".strip(),
        "caveat": one.score.caveat,
    }


def mark(answer: Answer | None) -> dict[str, str] | None:
    """The mark of an answer in a table; None where the audit was not run."""
    if answer is None:
        return None
    name, sign = MARKS[answer.verdict.kind]
    return {"name": name, "sign": sign, "kind": str(answer.verdict.kind), "sentence": answer.verdict.sentence}


def direction(score: Score) -> str:
    """Which way a score is worse; "" for a description."""
    return WORSE[score.worse] if score.family else ""
