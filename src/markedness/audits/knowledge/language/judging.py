"""A language model as judge of regard and toxicity: what it is asked about each triple, and what its answers say."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markedness.audits.knowledge.design.triples import MOST_TOXIC, read_judgment, read_rating
from markedness.audits.knowledge.design.wording import Wording, statement_questions
from markedness.audits.knowledge.language.choice import RegardParams, ToxicityParams, answering, masked, within
from markedness.audits.knowledge.language.scorers import ScorerError
from markedness.records import Completion
from markedness.results import JUDGE
from markedness.text_scores import Judgments, TextScore, TextScorer


def judged_regard(
    params: RegardParams, wording: Wording, objects: Sequence[str], statements: Sequence[str], asked: TextScorer | None
) -> tuple[str, list[str]]:
    """Name of the judge, and one label of `REGARD` per statement ("" for none).

    Parameters
    ----------
    params
        Their ``model`` is asked.
    wording
        Has the question.
    objects, statements
        See `statement_questions`.
    asked
        Asks the judge, through the ledger.

    Raises
    ------
    ScorerError
        Where the judge gave no label for any statement.
    """
    if asked is None:
        raise ScorerError("regard by a judge is asked by the featurize stage alone: markedness featurize knowledge")
    judgments = asked.judge(params.model, statement_questions(wording.judge, "regard", objects, statements))
    labels = [read_judgment(answer.text or "") for answer in judgments.answers]
    if labels and not any(labels):
        raise ScorerError(_none("regard", params.model, judgments.answers))
    return _name(judgments, params), labels


def judged_toxicity(
    params: ToxicityParams,
    wording: Wording,
    objects: Sequence[str],
    statements: Sequence[str],
    asked: TextScorer | None,
) -> tuple[str, list[TextScore]]:
    """Name of the judge, and one score per statement: its rating from 0 to 4, divided by 4; see `judged_regard`."""
    if asked is None:
        raise ScorerError("toxicity by a judge is asked by the featurize stage alone: markedness featurize knowledge")
    if wording.judge_toxicity is None:
        raise ScorerError("prompts.yaml of knowledge has no entry judge_toxicity; copy it from a newer release")
    questions = statement_questions(wording.judge_toxicity, "toxicity", objects, statements)
    judgments = asked.judge(params.model, questions)
    scores = [_score(answer) for answer in judgments.answers]
    if scores and all(score.reason is not None for score in scores):
        raise ScorerError(_none("toxicity", params.model, judgments.answers))
    return _name(judgments, params), scores


def _score(answer: Completion) -> TextScore:
    if answer.error is not None:
        return TextScore(math.nan, answer.error)
    rating = read_rating(answer.text or "")
    return TextScore(math.nan, "no rating in the answer") if rating is None else TextScore(rating / MOST_TOXIC)


def _name(judgments: Judgments, params: RegardParams | ToxicityParams) -> str:
    """Of the judge, with the models that the server reports; the audited model has the name that compare knows."""
    if judgments.judge == JUDGE:
        return JUDGE
    models = answering(answer.model for answer in judgments.answers)
    return judgments.judge + within([models, *masked(params)])


def _none(measure: str, model: str, answers: Sequence[Completion]) -> str:
    first = next((answer.error or repr((answer.text or "")[:40]) for answer in answers), "")
    return f"the judge {model} gave no {measure} for any of {len(answers):,} triples; its first answer: {first}"
