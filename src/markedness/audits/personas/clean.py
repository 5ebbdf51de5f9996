"""Label refusals and duplicates; the text is kept as it came, beside the answer in it."""

from __future__ import annotations

import pandas as pd

from markedness.records import Status, Strict, answerless_status
from markedness.text.answers import answers, says_nothing
from markedness.text.languages import language_of
from markedness.text.refusals import is_refusal


class Params(Strict):
    """What is set aside; statuses are left out by ``personas.featurize.exclude``."""

    drop_duplicates: bool = False
    """Set copies aside: same text, prompt and group as an earlier row."""


def clean(generations: pd.DataFrame, params: Params) -> pd.DataFrame:
    """Add answer, status and duplicate.

    Parameters
    ----------
    generations
        With text, error, finish_reason, prompt, group.
    params
        See `Params`.

    Returns
    -------
    DataFrame
        The same rows. ``answer``: the text without reasoning and the space around it, in one Unicode form (see
        `markedness.text.answers`), missing where there is none. ``status``: ok, refusal (see
        `markedness.text.refusals.is_refusal`), unparsed (a text without a letter or digit, or that
        says no more than "N/A"), failed or unsupported.
        A persona cut off by the token limit is ok, as published: its words count. ``duplicate``: whether the
        same text answers the same prompt for the same group in an earlier row; ``dropped``: whether the measures
        shall not use the row for that.
    """
    responses = generations.copy()
    if "kind" not in responses:
        responses["kind"] = "persona"
    texts = answers(responses["text"]).str.strip()
    responses["answer"] = texts.mask(texts.eq(""))
    status = answerless_status(responses)
    status = status.mask(status.isna() & is_refusal(responses["answer"], language_of(responses)), Status.REFUSAL.value)
    status = status.mask(status.isna() & responses["text"].isna(), Status.FAILED.value)
    status = status.mask(status.isna() & says_nothing(texts), Status.UNPARSED.value)
    responses["status"] = status.fillna(Status.OK.value)
    same = ["kind", "prompt_id", "prompt", "group", "answer"]
    responses["duplicate"] = responses.duplicated(same) & responses["answer"].notna()
    responses["dropped"] = responses["duplicate"] & params.drop_duplicates
    return responses
