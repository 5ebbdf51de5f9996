from __future__ import annotations

import numpy as np
import pytest
from tests.audits.homogeneity.stages import prompts

from markedness.audits.homogeneity import controls


@pytest.mark.parametrize(("exponent", "expected"), [(1, 0.911), (2, 0.588), (3, 0.296)])
def test_rule_weights_give_the_documented_variety(exponent: int, expected: float) -> None:
    # Without the names' own part: weights i^-exponent over 40 answers, P_d = 1 - sum w^2 / (sum w)^2.
    weights = np.arange(1, controls.N_ANSWERS + 1) ** -float(exponent)
    assert 1 - (weights**2).sum() / weights.sum() ** 2 == pytest.approx(expected, abs=0.001)


def test_answers_of_a_cue_are_its_own() -> None:
    music, food = (controls.answers(cue) for cue in ("music", "food"))
    assert len(set(music)) == len(set(food)) == controls.N_ANSWERS and len(set(music) & set(food)) <= 2


def test_rule_none_ignores_the_group_and_planted_does_not() -> None:
    asked = prompts(study="group_labels", cues=("music",))
    for name, alike in (("none", True), ("planted", False)):
        draws = {p.group: [controls.rule(name)(p, np.random.default_rng(s)) for s in range(200)] for p in asked}
        assert (draws["White man"] == draws["Black woman"]) is alike


def test_rule_answer_is_a_text() -> None:
    assert isinstance(controls.rule("none")(prompts()[0], np.random.default_rng(0)), str)
