"""What a page says first: the verdicts of a model in sentences, and the mark of each score."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markedness.cards import Card, words
from markedness.lm.config import ScriptedModel
from markedness.reporting.pages import Pages
from markedness.results import Score, VerdictKind, headline
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
    found = {audit: result for audit in pages.audits if (result := pages.results.get((audit, model)))}
    not_run = [audit for audit in pages.audits if audit not in found]
    config = pages.models[model]
    planted = isinstance(config, ScriptedModel) and config.rule == "planted"
    first = answered(
        {audit: result.scores for audit, result in found.items()}, pages.cards,
        [f"{words(a)}: not run yet (markedness run {a} --model {model})." for a in not_run],
    )  # fmt: skip
    return first | {
        "planted": [(a, pages.cards[a].planted) for a in pages.audits if planted and pages.cards[a].planted]
    }


def answered(
    scores: Mapping[str, Sequence[Score]], cards: Mapping[str, Card], not_run: Sequence[str] = ()
) -> dict[str, Any]:
    """Shown, not shown, cannot say, from audit -> its Scores.

    Parameters
    ----------
    not_run
        A sentence for each audit that was not run.
    """
    every = answers({audit: headline(of_audit, cards[audit].headline) for audit, of_audit in scores.items()})
    made = summary(every, [(audit, card.missing_key) for audit, card in cards.items()])
    more_found, more_looked, more_cannot = made.more
    cannot = [{"audit": "", "title": "", "text": text, "caveat": ""} for text in (*made.cannot, *not_run)]
    return {
        "count": f"{counted(every)}.",
        "parts": [
            ("Shown", "nothing was found", [_sentence(one, scores) for one in made.found], more_found),
            (
                "Not shown", "every question has an answer above or below",
                [_sentence(one, scores) for one in made.not_found], more_looked,
            ),
            ("Cannot say", "every question has an answer above", cannot, more_cannot),
        ],
    }  # fmt: skip


def _sentence(one: Answer, scores: Mapping[str, Sequence[Score]]) -> dict[str, str]:
    more = strongest(one.score, scores[one.audit]) if one.verdict.kind is VerdictKind.FOUND else ""
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
    if not score.family:
        return ""
    if score.worse == 0 and math.isfinite(score.null_mean) and score.null_mean:
        return "away from the null is worse"
    return WORSE[score.worse]
