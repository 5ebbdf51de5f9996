"""Response category and status of each answer."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated

import pandas as pd
from pydantic import Field, field_validator

from markedness.audits.homogeneity.language.categories import response_categories, word_counts
from markedness.records import FILTERED, AuditError, Status, Strict, answerless_status
from markedness.text.answers import answers, says_nothing
from markedness.text.languages import language_of
from markedness.text.refusals import APOLOGIES, is_refusal

TEXT_WORDS = 10
"""An answer without a word limit is a text from this number of words on; "sorry" in a text is no refusal."""


class Params(Strict):
    """``homogeneity.clean``."""

    word_limits: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    """Cue -> maximum number of words, instead of that of the stimuli; a cue in neither has no limit."""
    refusal_words: tuple[str, ...] = ("sorry",)
    """An answer that contains one of these, in any case and punctuation, is a refusal, unless it is a longer text
    without a limit. Of another language than English its own words are added. An answer that declines in one of the
    usual forms (`markedness.text.refusals`) is a refusal without them."""

    @field_validator("refusal_words")
    @classmethod
    def _have_letters(cls, words: tuple[str, ...]) -> tuple[str, ...]:
        if empty := [word for word in words if not _cleaned(word)]:
            raise ValueError(f"'{empty[0]}' has no letter or digit, so that every answer would contain it; remove it")
        return words


def _cleaned(word: str) -> str:
    """A refusal word as answers have it."""
    return str(response_categories(pd.Series([word])).iloc[0])


def _check_limits(limits: dict[str, int], cues: list[str]) -> None:
    """Refuse a limit for a cue that these answers have under another spelling; models may well have other cues."""
    for cue in limits:
        if cue not in cues and (close := get_close_matches(cue, [other for other in cues if other not in limits], 1)):
            raise AuditError(
                f"homogeneity.clean.word_limits: '{cue}' is not a cue of these answers, which have '{close[0]}'; "
                "correct the entry"
            )


def clean(generations: pd.DataFrame, params: Params) -> pd.DataFrame:
    """Response category and status of every answer.

    Parameters
    ----------
    generations
        With prompt_id (the cue), text, finish_reason, error and word_limit (NaN: none).
    params
        Word limits and refusal words.

    Returns
    -------
    DataFrame
        The same rows with answer (the response category), status, and empty: whether the answer has no letter or digit,
        which makes it "", or says that there is none ("N/A"). As published, such answers are categories of their own.

    Raises
    ------
    AuditError
        When word_limits names a cue that the answers have under a similar name.

    Notes
    -----
    Published: an answer does not comply when it contains "sorry" or has more words than the cue allows. Here such
    answers are divided into refusal, unparsed and, where the token limit cut them off, truncated; all are left out
    by default. So are refusals in other words, however short and whatever the limit: as a category of their own they
    would make the group that is refused more often the more alike one.
    """
    said = answers(generations["text"])
    answer = response_categories(said)
    status = answerless_status(generations)
    _check_limits(params.word_limits, [str(cue) for cue in generations["prompt_id"].dropna().unique()])
    limit = generations["prompt_id"].map(params.word_limits).astype("Float64")
    limit = limit.fillna(generations["word_limit"].astype("Float64"))
    declined = pd.Series(False, index=generations.index)
    language = language_of(generations)
    for word in (*params.refusal_words, *APOLOGIES.get(language, ())):
        declined |= answer.str.contains(_cleaned(word), regex=False).fillna(False).astype(bool)
    words = word_counts(answer)
    long = words.gt(limit).fillna(False).astype(bool)
    text = (limit.isna() & words.ge(TEXT_WORDS)).fillna(False).astype(bool)
    cut = generations["finish_reason"].eq("length").fillna(False).astype(bool)
    withheld = generations["finish_reason"].eq(FILTERED).fillna(False).astype(bool)

    open_rows = status.isna()
    status[open_rows & answer.isna()] = Status.FAILED.value
    status[open_rows & withheld] = Status.REFUSAL.value
    open_rows = status.isna()
    status[open_rows] = Status.OK.value
    status[open_rows & long] = Status.UNPARSED.value
    # Nothing follows the reasoning: no category, not the empty one.
    thought = said.eq("").fillna(False) & generations["text"].astype("string").str.strip().ne("").fillna(False)
    status[open_rows & thought.astype(bool)] = Status.UNPARSED.value
    status[open_rows & cut] = Status.TRUNCATED.value
    says_no = is_refusal(said.fillna(""), language).astype(bool)
    status[open_rows & ((declined & ~text) | says_no)] = Status.REFUSAL.value
    return generations.assign(answer=answer, status=status, empty=says_nothing(answer))
