"""What plan says of requests and effects before anything is asked."""

from __future__ import annotations

import math
import shutil
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from markedness import audits, params, planning, typical
from markedness.params import ParamsError
from markedness.reporting.results import Result
from markedness.results import Score, not_estimated
from markedness.stats.inference import detectable
from markedness.store import Store

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped study, to be asked of the control that is blind."""
    folder = tmp_path_factory.mktemp("plan")
    content = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    content |= {"run": ["control-none"], "audits": ["homogeneity"]}
    (folder / "params.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    shutil.copytree(ROOT / "data" / "stimuli", folder / "data" / "stimuli")
    return folder / "params.yaml"


def plan(path: Path, **asked: Any) -> tuple[pd.DataFrame, list[str]]:
    said: list[str] = []
    return planning.plan(params.load(path), "control-none", say=said.append, **asked), said


def test_plan_has_requests_and_smallest_effects_of_every_size_and_asks_nothing(study: Path) -> None:
    table, said = plan(study)
    assert [line.split(":")[0] for line in said if "requests" in line] == [
        f"homogeneity, size {size}" for size in ("quick", "standard", "paper")
    ]
    assert "640 requests, 0 of them in the ledger, 640 to be asked" in said[0] and "cost at most" in said[0]
    effects = table[table["score"].eq("pd_difference.marked")].set_index("size")["smallest_effect"]
    assert effects["quick"] > effects["standard"] > effects["paper"] > 0
    assert not Store(study.parent).table_path("generations", "homogeneity", "control-none").exists()


def test_wanted_effect_names_the_first_size_that_finds_it_or_the_clusters_it_takes(study: Path) -> None:
    table, _ = plan(study, sizes=["quick"])
    smallest = table.set_index("score")["smallest_effect"]["pd_difference.marked"]
    _, said = plan(study, sizes=["quick"], detect=[f"homogeneity.pd_difference.marked={smallest * 1.01}"])
    assert said[-1].endswith("found at size quick (name 40)")
    _, said = plan(study, sizes=["quick"], detect=[f"homogeneity.pd_difference.marked={smallest / 2}"])
    assert "it takes about 4.0 times the clusters of quick (name 160)" in said[-1]
    _, said = plan(study, sizes=["quick"], detect=["homogeneity.pd_difference.marked=1e-300"])
    assert said[-1].endswith("not at these sizes, nor at any that can be asked")


def test_more_power_takes_a_larger_effect_in_the_ratio_of_the_t_quantiles(study: Path) -> None:
    usual, _ = plan(study, sizes=["quick"])
    sure, _ = plan(study, sizes=["quick"], power=0.95)
    ratio = sure["smallest_effect"] / usual["smallest_effect"]
    df = 1e6  # about: names are many
    expected = detectable(1.0, df, 0.025, 0.95) / detectable(1.0, df, 0.025, 0.8)
    assert ratio.iloc[0] == pytest.approx(expected, abs=0.03)


def test_variance_of_a_finished_run_scales_the_plan(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone, said = plan(study, sizes=["quick"])
    assert "planted world alone" in said[-1]
    loaded = params.load(study)
    world = typical.typical("homogeneity", "quick")["pd_difference.marked"]

    scores = [replace(not_estimated("pd_difference.marked"), detectable=3 * world.detectable)]
    finished = Result("homogeneity", "m", audits.spec("homogeneity").card, study.parent, scores, notes=[])
    found = planning.smallest_effects(loaded, "homogeneity", "quick", ("m", finished))
    by_key = {key: value for key, value, *_ in found}
    first = alone.set_index("score")["smallest_effect"]
    assert by_key["pd_difference.marked"] == pytest.approx(3 * first["pd_difference.marked"])
    assert math.isnan(by_key["noncompliance.difference"]) and math.isnan(first["noncompliance.difference"])
    assert "results of m at size quick" in found[0][3]


@pytest.mark.parametrize("change", ["samples", "groups", "model"])
def test_effects_of_a_study_that_asks_something_else_than_the_size_are_not_those_of_the_size(
    study: Path, change: str
) -> None:
    content = yaml.safe_load(study.read_text(encoding="utf-8"))
    if change == "model":
        content["models"]["control-none"]["generate"] = {"homogeneity": {"samples": 2}}
    elif change == "samples":
        content["homogeneity"]["generate"]["samples"] = 2
    else:
        del content["homogeneity"]["axes"]["race"]["values"]["Asian"]
    file = study.with_name(f"{change}.yaml")
    file.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    table, said = plan(file, sizes=["quick"], detect=["homogeneity.pd_difference.marked=0.1"])
    named = "axes" if change == "groups" else "samples"
    assert (", with samples of its own: " in said[0]) == (change == "model")
    assert table["smallest_effect"].isna().all() and table["from"].str.contains(f"the size in .*{named}").all()
    assert "no effect can be named" in said[1] and "cannot be planned" in said[-1]
    loaded = params.load(file)
    own = replace(not_estimated("pd_difference.marked"), detectable=0.3, df=30.0, family=2, clusters={"name": 8})
    finished = Result("homogeneity", "m", audits.spec("homogeneity").card, study.parent, [own], notes=[])
    first, *others = planning.smallest_effects(loaded, "homogeneity", "quick", ("m", finished), asked="control-none")
    assert first[:3] == ("pd_difference.marked", 0.3, "name 8") and "results of m alone" in first[3]
    assert len(others) and all(math.isnan(value) for _, value, *_ in others)


def test_variance_is_never_that_of_a_control_or_of_texts_that_exist(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = yaml.safe_load(study.read_text(encoding="utf-8"))
    served = {"backend": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
    texts = {"backend": "corpus", "homogeneity": {"path": "texts.csv"}}
    models = {"new": served, "old": served, "texts": texts, "control-none": {"backend": "scripted"}}
    file = study.with_name("several.yaml")

    def variance_of(*run: str) -> str | None:
        file.write_text(yaml.safe_dump({**content, "models": models, "run": list(run)}), encoding="utf-8")
        loaded = params.load(file)
        found = planning._finished(loaded, Store(loaded.root), "homogeneity", "new")
        return found[0] if found else None

    finished = Result("homogeneity", "m", audits.spec("homogeneity").card, study.parent, [Score("a", 1.0)], notes=[])
    monkeypatch.setattr(planning, "read", lambda store, audit, name, card: None if name == "new" else finished)
    assert variance_of("new", "texts", "control-none") is None
    assert variance_of("new", "texts", "control-none", "old") == "old"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"detect": ["homogeneity.pd_difference.marked"]}, "write AUDIT.KEY=VALUE"),
        ({"detect": ["homogeneity.pd_difference.marked=x"]}, "write AUDIT.KEY=VALUE"),
        ({"detect": ["homogeneity.no.such=1"]}, "homogeneity has no headline score 'no.such'"),
        ({"detect": ["guise.strength.covert=1"]}, "'guise' is not among the audits planned: homogeneity"),
        ({"chosen": ["guise"]}, "'guise' is not an audit of params.yaml"),
        ({"sizes": ["huge"]}, "one of quick, standard, paper"),
        ({"power": 1.0}, "a probability above 0.05"),
        ({"power": 0.03}, "a probability above 0.05"),
        ({"power": math.nan}, "a probability above 0.05"),
    ],
)
def test_wrong_use_of_plan_is_one_sentence(study: Path, asked: dict[str, object], said: str) -> None:
    with pytest.raises(ParamsError, match=said):
        plan(study, **asked)


@pytest.mark.parametrize("audit", audits.AUDITS)
def test_every_audit_is_planned_from_a_world_of_the_size_itself(audit: str) -> None:
    quick, larger = typical.typical(audit, "quick"), typical.typical(audit, "standard")
    assert quick and set(quick) <= set(larger) <= set(audits.spec(audit).headline)
    # One crawl, as in the paper, has nothing to estimate an error from.
    assert (set(typical.typical(audit, "paper")) == set(larger)) == (audit != "knowledge")
    for key, one in quick.items():
        assert one.n <= larger[key].n and one.draws >= typical.N_DRAWS, key


@pytest.mark.slow
@pytest.mark.parametrize("audit", audits.AUDITS)
def test_smallest_effects_on_file_are_those_of_the_scores_as_they_are_now(audit: str) -> None:
    drawn = {one.key: one for one in typical.draw_typical(audit, "quick", 1)}
    for key, one in typical.typical(audit, "quick").items():
        # Another first draw: run scripts/smallest_effects.py.
        if math.isnan(one.first):
            assert key not in drawn
        else:
            assert drawn[key].first == pytest.approx(one.first, rel=1e-6), key
            assert drawn[key].smallest_p == pytest.approx(one.smallest_p, rel=0.01, nan_ok=True), key


def test_looks_that_the_smallest_p_cannot_pass_find_nothing_and_name_the_remedy(study: Path) -> None:
    # 800 draws of 2 scores: p is 1/801 at least, 2/801 after correction; .05 is reached with 20 looks, not with 21.
    table, said = plan(study, sizes=["quick"], looks=20)
    tested = table["score"].eq("pd_difference.marked")  # of the other two no effect can be named
    assert table["smallest_effect"][tested].notna().all() and table["cannot"].eq("").all()
    table, said = plan(study, sizes=["quick"], looks=21, detect=["homogeneity.pd_difference.marked=0.5"])
    assert table["smallest_effect"].isna().all()
    why = (
        "cannot be found with these draws and arrangements: the smallest p that could come out is 0.0012, which is "
        "0.052 after correction over 2 scores and 21 looks; plan at most 20 looks, or ask more (name 40)"
    )
    assert table["cannot"][tested].str.startswith(why).all()
    assert why in said[1] and why in said[-1]


def test_draws_that_params_limit_are_known_to_the_plan(study: Path) -> None:
    content = yaml.safe_load(study.read_text(encoding="utf-8"))
    content["homogeneity"]["evaluate"]["n_permutations"] = 20
    file = study.with_name("few.yaml")
    file.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    table, _ = plan(file, sizes=["quick"])  # 1/21 for each of 2 scores
    table = table[table["score"].eq("pd_difference.marked")]  # of the other two no effect can be named
    assert table["smallest_effect"].isna().all()
    assert table["cannot"].str.contains("is 0.048, which is 0.095 after correction over 2 scores; ask more").all()
    assert table["cannot"].str.endswith("; where evaluate sets n_permutations, set more").all()


def test_an_effect_that_was_simulated_stands_for_that_of_the_typical_error() -> None:
    one = typical.Typical("gap.a", 60, 0.3, 20.0, 4, "name 20", 20, 0.3)
    assert one.smallest == 0.3 and replace(one, simulated=0.25).smallest == 0.25
    assert math.isnan(replace(one, simulated=math.inf).smallest)  # no strength was found so often


def test_effect_that_no_simulated_world_reached_is_not_planned() -> None:
    assert math.isnan(typical.typical("guise", "quick")["decision.conviction"].smallest)


def test_typical_effect_is_the_root_mean_square_over_draws() -> None:
    spec = audits.spec("homogeneity")
    assert spec.worlds is not None and spec.scores is not None
    world = next(one for one in spec.worlds("quick") if one.name == "planted")
    own = []
    for draw in range(3):
        rng = np.random.default_rng([typical.SEED, zlib.crc32(b"homogeneity/quick"), draw])
        made = spec.scores(world.draw(rng), spec.params("evaluate")(), rng)
        own.append(next(score.detectable for score in made if score.key == "pd_difference.marked"))
    drawn = typical.draw_typical("homogeneity", "quick", 3)[0]
    assert drawn.detectable == pytest.approx(math.sqrt(sum(one**2 for one in own) / 3))
    assert drawn.draws == 3 and drawn.first == own[0]


def test_annotation_at_quick_is_planned_with_its_forty_pairs_of_names() -> None:
    found = typical.typical("annotation", "quick")
    assert found["dialect_gap.positive"].clusters == "pair 12"
    assert found["gap.positive"].n == 40 * 2  # two favourable tasks
    assert int(found["gap.positive"].clusters.rsplit("vignette ", 1)[1]) <= 40


def test_size_at_which_nothing_can_be_found_says_so(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "typical", lambda audit, size: {})
    table, said = plan(study, sizes=["quick"])
    assert table.empty and said[-1] == "  no effect can be named that would be found at this size"


def test_score_without_a_smallest_effect_has_a_line_that_says_so(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only = {"pd_difference.marked": typical.typical("homogeneity", "quick")["pd_difference.marked"]}
    monkeypatch.setattr(planning, "typical", lambda audit, size: only)
    _, said = plan(study, sizes=["quick"])
    assert "  noncompliance.difference: no effect can be named that would be found" in said
