"""Calibration counts what it draws, flags what does not hold, and goes on where it stopped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from markedness import audits, calibration, whole_runs
from markedness.audits.base import World
from markedness.calibration import COLUMNS, Cell, calibrate, judged
from markedness.cli import app
from markedness.records import AuditError
from markedness.results import Score

WORLD = World("toy", "Nothing depends on the group.", lambda rng: {}, false=("gap.marked",), planted=("gap.real",))


def drawn(p: np.ndarray, key: str = "gap.marked", width: float = 2.0, claim: str = "score") -> pd.DataFrame:
    """Worlds with these p-values, and estimates of sd 1 with intervals of +- width."""
    estimate = np.random.default_rng(1).normal(size=len(p))
    rows = [
        ("homogeneity", "toy", i, claim, key, e, e - width, e + width, q, 0.5)
        for i, (e, q) in enumerate(zip(estimate, p, strict=True))
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def test_judged_scores_that_hold_their_rates_are_not_flagged() -> None:
    p = np.linspace(0.001, 1, 400)
    row = judged([(Cell("homogeneity", WORLD), drawn(p))]).iloc[0]
    assert row["found"] == pytest.approx(0.05, abs=0.003)
    assert row["covered"] == pytest.approx(0.954, abs=0.03)
    assert row["truth"] == "no effect" and not row["flagged"]


def test_judged_too_many_findings_or_too_short_intervals_are_flagged() -> None:
    p = np.linspace(0.001, 1, 400)
    assert judged([(Cell("homogeneity", WORLD), drawn(p**2))]).iloc[0]["flagged"]
    assert judged([(Cell("homogeneity", WORLD), drawn(p, width=1.0))]).iloc[0]["flagged"]


def test_judged_finding_a_planted_effect_is_power_and_no_error() -> None:
    row = judged([(Cell("homogeneity", WORLD), drawn(np.full(400, 0.01), "gap.real"))]).iloc[0]
    assert (row["truth"], row["found"]) == ("effect", 1.0) and not row["flagged"]


def test_judged_comparison_of_two_draws_has_the_truth_zero() -> None:
    table = drawn(np.linspace(0.001, 1, 400), claim="compare").assign(estimate=lambda t: t["estimate"] + 3)
    shifted = table.assign(ci_low=lambda t: t["ci_low"] + 3, ci_high=lambda t: t["ci_high"] + 3)
    assert judged([(Cell("homogeneity", WORLD), shifted)]).iloc[0]["flagged"]


def test_calibrate_stopped_halfway_goes_on_and_gives_the_same_table(tmp_path: Path) -> None:
    whole = calibrate(["homogeneity"], "quick", tmp_path / "whole", worlds=4, new_worlds=4)
    calibrate(["homogeneity"], "quick", tmp_path / "part", worlds=2, new_worlds=2)
    kept = {path: path.read_text().splitlines()[1] for path in (tmp_path / "part").glob("*.csv")}
    again = calibrate(["homogeneity"], "quick", tmp_path / "part", worlds=4, new_worlds=4)
    pd.testing.assert_frame_equal(whole, again)
    assert kept and all(path.read_text().splitlines()[1] == line for path, line in kept.items())


def test_calibrate_command_writes_the_page_with_every_headline_score(tmp_path: Path) -> None:
    out = tmp_path / "page.md"
    few = ["--worlds", "2", "--again", "2", "--out", str(out), "--keep", str(tmp_path / "k")]
    done = CliRunner().invoke(app, ["calibrate", "--audit", "homogeneity", *few])
    assert done.exit_code in (0, 1), done.output  # two worlds may all be found by chance
    assert "not held, in" in done.output
    text = out.read_text(encoding="utf-8")
    assert "pd_difference.marked (compare)" in text and "Every name has answers of its own" in text


@pytest.mark.slow
@pytest.mark.parametrize("size", ["quick", "standard"])
@pytest.mark.parametrize("name", sorted(audits.AUDITS))
def test_worlds_of_every_audit_have_the_features_that_its_scores_read(name: str, size: str) -> None:
    spec = audits.spec(name)
    assert spec.worlds is not None and spec.scores is not None
    found = spec.worlds(size)
    assert len({world.name for world in found}) == len(found) >= 3
    assert any(world.planted for world in found)
    keys = {key for world in found for key in (*world.false, *world.planted)}
    # Every headline Score that has a test is shown to hold its error rate, or its power, in some world.
    world = found[0]
    params = spec.params("evaluate")(**world.params)
    rng = np.random.default_rng(0)
    scores = {score.key: score for score in spec.scores(world.draw(rng), params, rng)}
    tested = {key for key in spec.headline if key in scores and not np.isnan(scores[key].p)}
    assert tested <= keys
    assert [cell.world.name for cell in calibration.cells([name], size)] == [world.name for world in found]


BEFORE = [
    ("homogeneity", "names_vary", "pd_difference.marked", (0.008537254706474331, -0.021613621942842776)),
    ("annotation", "blind", "gap.positive", (-0.2375, 0.05)),
    ("knowledge", "copied_tone", "regard_gap.marked", (0.02736928104575163, -0.055119825708060996)),
    ("guise", "attributes_differ", "strength.covert", (0.015721725470680386, -0.08205062646646277)),
    ("personas", "texts_vary", "jsd.excess", (-0.0003426226389260101, 0.002504425787519776)),
]
"""Estimates of the first two worlds that the table of docs/calibration.md was drawn from."""


@pytest.mark.parametrize(("audit", "world", "key", "expected"), BEFORE)
def test_quick_draws_what_the_committed_table_was_drawn_from(
    audit: str, world: str, key: str, expected: tuple[float, float]
) -> None:
    rows = pd.DataFrame(calibration.draw(audit, world, "quick", 0), columns=list(COLUMNS))
    found = rows.loc[rows["claim"].eq("score") & rows["key"].eq(key), "estimate"].tolist()
    assert found == pytest.approx(list(expected), abs=1e-7)  # words are exchanged in single precision


def test_worlds_take_their_numbers_from_the_sizes_and_the_stimuli() -> None:
    def first(audit: str, size: str, table: str) -> pd.DataFrame:
        found = audits.spec(audit).worlds
        assert found is not None
        return found(size)[0].draw(np.random.default_rng(0))[table]

    stimuli = Path(__file__).parents[1] / "data" / "stimuli"
    n_cues = len(pd.read_csv(stimuli / "homogeneity" / "situation_cues.csv"))
    introductions = pd.read_csv(stimuli / "annotation" / "dialect.csv")["kind"].eq("introduction").sum()
    assert first("homogeneity", "standard", "answers")["cue"].nunique() == n_cues
    for size, names, texts in (("quick", 40, 12), ("standard", 2400, introductions)):
        pairs = first("annotation", size, "pairs")
        assert pairs.groupby("paradigm")["pair"].nunique().to_dict() == {"names": names, "dialect": 2 * texts}
        sized: dict[str, Any] = dict(audits.spec("annotation").sizes[size])
        assert set(pairs["task"]) == {task for part in ("names", "dialect") for task in sized[part]["tasks"]}
    for size, n_pairs, n_prompts in (("quick", 12, 3), ("standard", 60, 9)):
        traits = first("guise", size, "scores").query("task == 'traits'")
        assert (traits["pair"].nunique(), traits["prompt_id"].nunique()) == (n_pairs, n_prompts)
    for size, n_prompts, samples in (("quick", 2, 8), ("standard", 6, 5)):
        texts_of = first("personas", size, "texts")
        assert (texts_of["prompt_id"].nunique(), texts_of["sample"].nunique()) == (n_prompts, samples)
    for size, crawls in (("quick", 6), ("standard", 15)):
        assert first("knowledge", size, "triples")["crawl"].nunique() == crawls


def test_cells_of_a_size_that_is_none_are_refused() -> None:
    with pytest.raises(AuditError, match="'large' is not a size; one of quick, standard, paper"):
        calibration.cells(["homogeneity"], "large")


def test_chosen_takes_the_first_world_of_each_kind_then_the_second() -> None:
    kinds = [cell.world.name for cell in calibration.cells(["homogeneity"], "quick")]
    runs = whole_runs.chosen(["homogeneity"], "quick", len(kinds) + 2)
    assert [(run.world, run.index) for run in runs] == [
        *((kind, 0) for kind in kinds),
        *((kind, 1) for kind in kinds[:2]),
    ]


def test_whole_runs_of_homogeneity_give_the_scores_of_the_features(tmp_path: Path) -> None:
    table = whole_runs.whole_runs(whole_runs.chosen(["homogeneity"], "quick", 2), tmp_path, workers=1)
    assert table["estimate"].notna().all() and table["differs"].eq("").all()
    text = whole_runs.page(table, "quick")
    assert "| pd_difference.marked | 2 | 2 |" in text and "held" in text


def test_compared_scores_that_are_not_the_same_say_what_differs() -> None:
    one = Score("gap.x", 0.5, 0.1, 0.9, p=0.02, n=10, clusters={"name": 8})
    other = replace(one, estimate=0.6, n=9, clusters={"name": 7}, p=0.03)
    assert whole_runs.compared(one, [one], one)["differs"] == ""
    assert whole_runs.compared(one, [one], other)["differs"] == "estimate, n, clusters, p"
    # An exchange of 999 draws: at p = .02 two draws differ by 4 x sqrt(2 x .02 x .98 / 1000) = .025 at most.
    drawn = replace(one, smallest_p=0.001)
    assert whole_runs.compared(drawn, [drawn], replace(drawn, p=0.03))["differs"] == ""
    assert whole_runs.compared(drawn, [drawn], replace(drawn, p=0.06))["differs"] == "p"


@pytest.mark.slow
@pytest.mark.parametrize("audit", ["annotation", "guise", "knowledge", "personas"])
def test_a_whole_run_gives_the_scores_of_the_features(audit: str) -> None:
    rows = whole_runs.measured(whole_runs.chosen([audit], "quick", 1)[0])
    assert [row["key"] for row in rows if row["differs"] and not row["why"]] == []
    assert len([row for row in rows if not row["why"] and not np.isnan(row["estimate"])]) >= 3
