"""The released completions of the publication, as corpus models through the pipeline, against its printed tables.

The bootstrap is random: 200 seeds were tried to set the tolerances. A wrong design shows in the bounds: rows in
place of names put 8 % of the lower bounds within 0.01, the right design 99 %.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from markedness import params, pipeline
from markedness import study as study_stages
from markedness.audits.homogeneity.estimators.effect_size import standard_error
from markedness.audits.homogeneity.replication import replication
from markedness.files import StoreError
from markedness.store import Store

pytestmark = pytest.mark.slow

GROUPS = {"black": "Black", "asian": "Asian", "hispanic": "Hispanic", "white": "White", "men": "man", "women": "woman"}
COMPARISONS = {
    "White v. African Americans": "White v. Black",
    "White v. Asian Americans": "White v. Asian",
    "White v. Hispanic Americans": "White v. Hispanic",
    "Men v. Women": "man v. woman",
}
POOLED = {  # section 3 and table 2: d of each comparison in the order of COMPARISONS
    "main": (-0.86, 0.29, -0.47, 0.73),
    "group_labels": (0.33, 5.27, 3.95, 1.29),
}


@pytest.fixture(scope="module")
def study(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of the two corpora; the code's defaults are the publication's."""
    root = tmp_path_factory.mktemp("published")
    corpora = shared / "corpora" / "homogeneity"
    race = {"black": "Black", "asian": "Asian", "hispanic": "Hispanic", "white": "White"}
    main = {
        "path": str(corpora / "main" / "*.csv"),
        "values": {"race": race, "gender": {"M": "man", "F": "woman"}},
    }
    labels = {"path": str(corpora / "group_labels" / "*.csv"), "values": {"race": {"African": "Black"}}}
    models = {"main": main, "group_labels": labels}
    (root / "params.yaml").write_text(
        yaml.safe_dump(
            {"models": {name: {"backend": "corpus", "homogeneity": source} for name, source in models.items()}}
        )
    )
    loaded = params.load(root / "params.yaml")
    for model in models:
        for stage in ("generate", "clean", "featurize", "evaluate"):
            pipeline.STAGES[stage](loaded, "homogeneity", model, lambda line: None)
    return root


def table(study: Path, model: str, name: str) -> pd.DataFrame:
    return pd.read_csv(study / "results" / "homogeneity" / model / "tables" / f"{name}.csv")


def printed(shared: Path, study: Path, name: str, groups: dict[str, str], value: str) -> pd.DataFrame:
    """A printed table as rows of cue, group or comparison, value, ci_low, ci_high."""
    titles = Store(study).stimuli("homogeneity").table("situation_cues.csv").set_index("title")["cue"]
    rows = json.loads((shared / "published" / "homogeneity_tables.json").read_text())[name]["rows"]
    return pd.DataFrame(
        [
            {
                "cue": titles[title],
                "of": groups[of],
                "printed": cell[value],
                "low": cell["ci"][0],
                "high": cell["ci"][1],
            }
            for title, cells in rows.items()
            for of, cell in cells.items()
        ]
    )


@pytest.mark.parametrize(
    ("name", "model"), [("A4", "main"), ("A6", "main"), ("A9", "group_labels"), ("A10", "group_labels")]
)
def test_published_differentiation_and_its_bounds(study: Path, shared: Path, name: str, model: str) -> None:
    ours = table(study, model, "probability_of_differentiation")
    both = printed(shared, study, name, GROUPS, "P_d").merge(ours, left_on=["of", "cue"], right_on=["group", "cue"])
    assert len(both) == 18 * both["of"].nunique()
    off = (both["pd"] - both["printed"]).abs()
    # Printed values are rounded to 0.01, which is 0.005 of the tolerances.
    assert (off <= 0.015).mean() >= 0.97
    assert off.max() <= 0.025
    bounds = pd.concat([(both["ci_low"] - both["low"]).abs(), (both["ci_high"] - both["high"]).abs()])
    assert (bounds <= 0.025).mean() >= 0.95


def test_published_effects_of_the_main_study_lie_within_four_standard_errors(study: Path, shared: Path) -> None:
    ours = table(study, "main", "effects")
    both = pd.concat([printed(shared, study, name, COMPARISONS, "d") for name in ("A5_d", "A6_d")]).merge(
        ours, left_on=["of", "cue"], right_on=["comparison", "cue"]
    )
    assert len(both) == 72
    errors = both["d"].map(lambda d: standard_error(d, 1000))
    # Two independent bootstraps differ by sqrt(2) S_d, more where replicates are skew: of 60 seeds 41 had all 72
    # within 4 S_d, none more than two beyond, the furthest at 5.6.
    off = ((both["d"] - both["printed"]).abs() - 0.005) / errors
    assert (off <= 4).mean() >= 0.97
    assert off.max() <= 6
    # 69 of the 72 published intervals exclude 0, 20 of 72 bootstrap z do; a few lie at the border.
    excluding = ((both["ci_low"] > 0) | (both["ci_high"] < 0)).sum()
    assert 66 <= excluding <= 71
    assert 17 <= (both["z"].abs() > 1.96).sum() <= 23


@pytest.mark.parametrize(("model", "spread"), [("main", 0.029), ("group_labels", 0.063)])
def test_published_pooled_effects(study: Path, model: str, spread: float) -> None:
    ours = table(study, model, "meta_analysis").set_index("comparison")["d"]
    # Both the printed and our number carry the Monte Carlo spread: 4 sqrt(2) of it, and 0.005 of rounding.
    expected = dict(zip(COMPARISONS.values(), POOLED[model], strict=True))
    for comparison, d in expected.items():
        assert ours[comparison] == pytest.approx(d, abs=4 * np.sqrt(2) * spread + 0.005)


@pytest.mark.parametrize(("model", "expected"), [("main", 130), ("group_labels", 23)])
def test_published_noncompliance_of_table_a16(study: Path, model: str, expected: int) -> None:
    assert table(study, model, "noncompliance").query("axis == 'gender'")["noncompliant"].sum() == expected


def test_published_replication_of_main_in_group_labels_is_one_of_72(study: Path) -> None:
    main, labels = (table(study, m, "effects").query("axis in ('race', 'gender')") for m in ("main", "group_labels"))
    made = replication(main, labels)
    assert made.n == 72
    assert made.hits <= 4 and made.p < 1e-6  # printed: one hit, 1.39 %
    assert made.expected == pytest.approx(0.834, abs=0.0005)


def test_published_replicate_says_the_share_and_what_is_missing(study: Path) -> None:
    said: list[str] = []
    made = study_stages.replicate(params.load(study / "params.yaml"), "main", "group_labels", said.append)
    assert made.n == 72 and f"{made.hits} of 72 effects of main" in said[0]
    with pytest.raises(StoreError, match="run the audit of this model first"):
        study_stages.replicate(params.load(study / "params.yaml"), "main", "never-run", said.append)


def test_published_run_again_gives_the_same_tables(study: Path) -> None:
    before = table(study, "main", "effects")
    pipeline.STAGES["evaluate"](params.load(study / "params.yaml"), "homogeneity", "main", lambda line: None)
    pd.testing.assert_frame_equal(before, table(study, "main", "effects"))
