"""The downstream calculator against studies that are drawn: bias, coverage and the gold labels that correct it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from markedness.cli import app
from markedness.downstream import downstream
from markedness.records import AuditError

SHARE, MARKED, REFERENCE, GAP, DISAGREEMENT, N = 0.3, 0.4, 0.35, -0.06, 0.2, 2000


def labels(truth: np.ndarray, gap: float, base: float, rng: np.random.Generator) -> np.ndarray:
    """Labels that differ from the truth in `DISAGREEMENT`, and have a yes-rate that is off by ``gap``."""
    up, down = (DISAGREEMENT + gap) / 2 / (1 - base), (DISAGREEMENT - gap) / 2 / base
    return np.where(rng.random(len(truth)) < np.where(truth == 1, down, up), 1 - truth, truth)


def test_bias_coverage_and_gold_labels_are_those_of_drawn_studies() -> None:
    table = downstream(SHARE, MARKED, REFERENCE, GAP, DISAGREEMENT, N).set_index("quantity")["value"].astype(float)
    rng = np.random.default_rng(1)
    gold, n_marked = int(table["gold_labels_per_group"]), int(N * SHARE)
    found, held, left = [], 0, 0
    for _ in range(400):
        truth = [(rng.random(n) < base).astype(int) for n, base in ((n_marked, MARKED), (N - n_marked, REFERENCE))]
        said = [
            labels(one, gap, base, rng) for one, gap, base in zip(truth, (GAP, 0), (MARKED, REFERENCE), strict=True)
        ]
        difference = said[0].mean() - said[1].mean()
        error = np.sqrt(sum(one.var() / len(one) for one in said))
        found.append(difference)
        held += abs(difference - table["true_difference"]) <= 1.96 * error
        errors = []
        for base, gap in ((MARKED, GAP), (REFERENCE, 0.0)):
            drawn = (rng.random(gold) < base).astype(int)
            errors.append((labels(drawn, gap, base, rng) - drawn).mean())
        left += abs(errors[0] - errors[1] - GAP) <= 0.5 * abs(GAP)
    assert np.mean(found) == pytest.approx(table["labelled_difference"], abs=4 * np.std(found) / 20)
    assert np.std(found) == pytest.approx(table["standard_error"], rel=0.15)
    assert stats.binomtest(held, 400, table["coverage"]).pvalue > 0.001
    assert stats.binomtest(left, 400, 0.95).pvalue > 0.001


def test_without_a_gap_nothing_is_biased_and_no_gold_label_needed() -> None:
    table = downstream(SHARE, MARKED, REFERENCE, 0.0, DISAGREEMENT, N).set_index("quantity")["value"].astype(float)
    assert (table["bias"], table["log_odds_bias"], table["gold_labels_per_group"]) == (0, 0, 0)
    assert table["coverage"] == pytest.approx(0.95)


@pytest.mark.parametrize(("changed", "said"), [
    ({"share": 0.0}, "share is 0"), ({"gap": -0.5}, "base-rate plus gap"), ({"disagreement": 0.01}, "the gap"),
    ({"n": 1}, "n must be 2"),
])  # fmt: skip
def test_a_number_out_of_range_is_one_sentence(changed: dict[str, float], said: str) -> None:
    given = {"share": SHARE, "base_rate": MARKED, "base_rate_reference": REFERENCE, "gap": GAP,
             "disagreement": DISAGREEMENT, "n": N}  # fmt: skip
    with pytest.raises(AuditError, match=said):
        downstream(**{**given, **changed})  # type: ignore[arg-type]


def test_command_prints_what_the_gap_does() -> None:
    arguments = ["downstream", "--gap", "-0.05", "--base-rate", "0.3", "--base-rate-reference", "0.3"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0 and "gold_labels_per_group" in done.output
    assert CliRunner().invoke(app, [*arguments[:1], "--gap", "-0.5", *arguments[3:]]).exit_code != 0
