"""The pools give 211 distinct vignettes and touch no task."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from markedness.audits.annotation.design.vignettes import compose, screen
from markedness.store import Store

STIMULI = Store(Path("/nowhere")).stimuli("annotation")


def test_the_pools_give_211_distinct_vignettes() -> None:
    pools = STIMULI.data("vignettes.yaml")
    drawn = compose(pools["pattern"], pools["a"], pools["b"], 211, np.random.default_rng(1))
    assert len({v.text for v in drawn}) == 211 and len({v.vignette for v in drawn}) == 211
    assert all(v.text.startswith("Hi, I'm {NAME}. ") and "{A}" not in v.text and "{B}" not in v.text for v in drawn)
    first_a = sum(v.vignette.startswith("a") for v in drawn)
    assert 75 < first_a < 136  # order is random: 105.5 +- 4 standard deviations of 7.3


def test_the_pools_pass_their_screen() -> None:
    pools = STIMULI.data("vignettes.yaml")
    assert screen([*pools["a"], *pools["b"]], pools["screen"]) == []


@pytest.mark.parametrize(
    "phrase",
    ["I went to a good University", "Money is no object", "I lead a team",
     "People call me easy-going", "I was lazy once",
     "I'm likeable", "My job is fine", "I am Black", "I never stole anything", "I am winning"],
)  # fmt: skip
def test_the_screen_finds_words_that_touch_a_task(phrase: str) -> None:
    words = STIMULI.data("vignettes.yaml")["screen"]
    assert [touch.phrase for touch in screen([phrase], words)][:1] == [phrase]


def test_the_screen_matches_whole_words_only() -> None:
    assert screen(["The savannah is wide"], {"economic": ["sav*ing", "van"]}) == []


def test_compose_asked_for_more_than_the_pools_hold_says_so() -> None:
    with pytest.raises(ValueError, match=r"5 distinct vignettes .* 2 x 2 phrases give 4"):
        compose("{A} {B}", ["a", "b"], ["c", "d"], 5, np.random.default_rng(1))
