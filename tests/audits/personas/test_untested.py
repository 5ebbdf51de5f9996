"""A group that no prompt has together with its reference: not tested, and said so."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from markedness.audits.personas import AXES
from markedness.audits.personas.estimators.params import Params
from markedness.audits.personas.estimators.scores import scores
from markedness.results import Score

from .conftest import generations, tabled

WORDS = ["river", "book", "garden", "small", "music", "bread", "coffee", "walk", "brother", "window"]


def made(prompts: dict[str, str], only_women: bool = False, n_authors: int = 0) -> dict[str, Score]:
    """Scores of texts about White and Black people, the latter with words of their own; ``prompts``: race -> prompt.

    ``n_authors``: of each race, who write about men and women.
    """
    rng, parts = np.random.default_rng(1), []
    for race, prompt in prompts.items():
        for gender in ("woman",) if only_women else ("man", "woman"):
            own = " lantern velvet orchard" if race == "Black" else ""
            rows = [(race, gender, " ".join(rng.choice(WORDS, 12)) + own) for _ in range(20)]
            parts.append(generations(rows, prompt))
    table = pd.concat(parts, ignore_index=True)
    table["sample"] = range(len(table))
    if n_authors:
        table["cluster"] = [f"{race} {row % n_authors}" for row, race in enumerate(table["race"])]
    return {score.key: score for score in scores(tabled(table).tables, Params(axes=AXES, n_permutations=400), rng)}


def test_group_that_shares_no_prompt_with_its_reference_is_not_tested_and_not_in_the_headline() -> None:
    found = made({"White": "p0", "Black": "p1"})
    own = found["marked_words.persona: Black"]
    assert own.estimate == 3 and math.isnan(own.p) and "no prompt has texts of the group" in own.method
    assert math.isnan(found["jsd.persona: Black"].estimate) and found["jsd.persona: Black"].method
    for key in ("marked_words.excess", "jsd.excess"):
        assert found[key].over == "woman - man", key
        assert "not tested" in found[key].method and "Black" in found[key].method
    for key in ("marked_words.excess", "jsd.excess", "refusals.difference"):
        assert "Black" in found[key].caveat, key


def test_authors_of_one_race_who_write_about_men_and_women_are_named_as_the_reason() -> None:
    found = made({"White": "p0", "Black": "p0"}, n_authors=8)
    own = found["marked_words.persona: Black"]
    assert math.isnan(own.p) and "no cluster has texts of the group and of what it is compared with" in own.method
    for key in ("marked_words.excess", "refusals.difference"):
        assert "no cluster" in found[key].method and found[key].over == "woman - man", key


def test_no_group_that_shares_a_prompt_leaves_no_headline() -> None:
    found = made({"White": "p0", "Black": "p1"}, only_women=True)
    for key in ("marked_words.excess", "jsd.excess", "refusals.difference"):
        assert math.isnan(found[key].estimate) and math.isnan(found[key].p), key
        assert "no prompt" in found[key].method, key


def test_groups_in_one_prompt_are_tested_and_named() -> None:
    found = made({"White": "p0", "Black": "p0"})
    assert found["marked_words.persona: Black"].p < 0.05
    assert "Black - White" in found["marked_words.excess"].over and found["marked_words.excess"].p < 0.05


def test_group_of_one_text_is_not_tested_and_takes_no_interval_from_the_others() -> None:
    rng = np.random.default_rng(2)
    rows = [(race, "man", " ".join(rng.choice(WORDS, 12))) for race in ("White", "Black") for _ in range(20)]
    params = Params(axes=AXES, n_permutations=200)
    both = {one.key: one for one in scores(tabled(generations(rows)).tables, params, np.random.default_rng(3))}
    rows.append(("Asian", "man", "lantern velvet orchard lantern velvet orchard"))
    found = {one.key: one for one in scores(tabled(generations(rows)).tables, params, np.random.default_rng(3))}
    # one text among the 20 of its reference: exchange gives p = 1/21 at least, above 0.05 over the headline
    assert found["jsd.excess"].over == both["jsd.excess"].over == "Black - White"
    assert found["jsd.excess"].has_interval and both["jsd.excess"].has_interval
    assert "cannot be found at this size" in found["jsd.excess"].method and "Asian" in found["jsd.excess"].method
    own = found["jsd.persona: Asian"]
    assert own.p > 0.01 and not own.has_interval and own.method.endswith("no interval: too few texts")
    assert found["jsd.persona: Black"].has_interval
    assert abs(found["marked_words.excess"].estimate - both["marked_words.excess"].estimate) < 1


def test_group_of_one_text_beside_five_has_no_p() -> None:
    rng = np.random.default_rng(2)
    rows = [(race, "man", " ".join(rng.choice(WORDS, 12))) for race in ("White", "Black") for _ in range(5)]
    rows.append(("Asian", "man", "lantern velvet orchard lantern velvet orchard"))
    made = {one.key: one for one in scores(tabled(generations(rows)).tables, Params(axes=AXES), rng)}
    own = made["marked_words.persona: Asian"]
    assert math.isnan(own.p) and "cannot be found at this size" in own.lacking
