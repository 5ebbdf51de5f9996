"""Single prompts and cells of the paper's figures: agreement by prompt and setting, relative increase over cells."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from markedness.audits.guise import evaluate
from markedness.audits.guise.estimators.decision_tables import published_increases
from markedness.audits.guise.estimators.decisions import Verdicts

from .test_guise_stages import FAST, SMALL, measured, shifted


def test_published_increases_worked_example() -> None:
    # prompt 1: 3 of the guise, 2 of the reference: 0.5; prompt 2: 1 and 4: -0.75; prompt 3: none of the reference
    margin = np.array([[1, 1, 1], [1, -1, 1], [1, -1, -1], [-1, -1, -1]], dtype=float)
    reference = np.array([[1, 1, -1], [1, 1, -1], [-1, 1, -1], [-1, 1, -1]], dtype=float)
    found = published_increases([Verdicts("matched", ["a", "b", "c"], margin, reference)])
    # mean of 0.5 and -0.75; sd (ddof 1) 1.25 / sqrt 2, over root 2: 0.625
    assert (found["increase_cells"], found["increase_undefined"]) == (2, 1)
    assert found["increase_mean"] == pytest.approx(-0.125)
    assert found["increase_error_published"] == pytest.approx(0.625)
    nothing = published_increases([Verdicts("matched", ["c"], margin[:, 2:], reference[:, 2:])])
    assert np.isnan(nothing["increase_mean"]) and nothing["increase_undefined"] == 1


def test_agreement_of_single_prompts_has_the_mean_of_the_agreement_table() -> None:
    features = measured(SMALL, shifted(0.4))
    made = evaluate.evaluate(features, FAST, np.random.default_rng(0)).tables
    by_prompt, whole = made["agreement_prompts"], made["agreement"]
    assert by_prompt["prompt"].nunique() == 3 and set(by_prompt["setting"]) == {"all"}
    means = by_prompt.groupby(["task", "year"])["agreement"].mean()
    for row in whole.to_dict("records"):
        assert means[(row["task"], row["year"])] == pytest.approx(row["agreement"])
        own = by_prompt[by_prompt["year"].eq(row["year"]) & by_prompt["task"].eq(row["task"])]
        assert own["chance"].unique() == pytest.approx([row["chance"]])


def test_agreement_is_contrasted_between_settings_year_by_year() -> None:
    scores = measured(SMALL, shifted(0.4))
    other = scores["scores"].assign(setting="unmatched", text_set="other")
    marked = other["group"].notna() & (np.arange(len(other)) % 2 == 0)
    other["log_prob"] += np.random.default_rng(1).normal(0, 1.0, len(other)) * marked
    features = {**scores, "scores": pd.concat([scores["scores"], other], ignore_index=True)}
    made = evaluate.evaluate(features, FAST, np.random.default_rng(0)).tables
    contrasts = made["contrasts"]
    between = contrasts[contrasts["measure"].str.startswith("agreement.traits.")]
    assert set(made["agreement_prompts"]["setting"]) == {"all", "matched", "unmatched"}
    assert len(between) == made["agreement"]["year"].nunique()
    means = made["agreement_prompts"].groupby(["setting", "year"])["agreement"].mean()
    for row in between.to_dict("records"):
        year = row["measure"].rpartition(".")[2]
        assert row["difference"] == pytest.approx(means[("matched", year)] - means[("unmatched", year)])
