"""How many triples there will be to score, before anything is asked."""

from __future__ import annotations

from markedness.audits.knowledge.design.subjects import classes
from markedness.audits.knowledge.design.wording import Wording
from markedness.audits.knowledge.generate import Params
from markedness.records import Stimuli


def most_answers(params: Params, stimuli: Stimuli) -> int | None:
    """Triples that all crawls have at most; None where the model names the subjects."""
    if params.dynamic_subjects:
        return None
    subjects = sum(len(axis.values) for axis in classes(stimuli, params.axes).values())
    predicates = len(params.predicates or Wording.read(stimuli).predicates)
    of_arm = predicates * params.completions + 2 * params.rounds * params.draws
    return subjects * of_arm * len(params.arms) * params.crawls
