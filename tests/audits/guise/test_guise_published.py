"""The printed and stored numbers of Hofmann et al. (2024), recomputed by the statistics of the project.

Samples are built with exactly the printed mean, standard deviation and size, and handed to the tests that
evaluate uses; a number passes when the interval that the rounding of its inputs implies meets the interval that
its own rounding implies.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from markedness.audits.guise.estimators.agreement import (
    expected_agreement,
    human_top,
    mean_average_precision,
    published_random_agreement,
)
from markedness.audits.guise.estimators.decisions import published_chi_square, two_by_two
from markedness.audits.guise.estimators.favorability import rank_correlation, regression, top_favorability
from markedness.stats.inference import holm
from markedness.stats.t_tests import one_sample_t, pooled_t

STIMULI = Path(__file__).parents[3] / "data" / "stimuli" / "guise"


@pytest.fixture(scope="module")
def printed(shared: Path) -> dict[str, dict[str, Any]]:
    content = json.loads((shared / "published" / "guise_si_checks.json").read_text(encoding="utf-8"))
    return {section["section"]: section for section in content["sections"]}


@pytest.fixture(scope="module")
def stored(shared: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(
        (shared / "published" / "guise_notebook_checks.json").read_text(encoding="utf-8")
    )
    return content


@pytest.fixture(scope="module")
def adjectives() -> pd.DataFrame:
    return pd.read_csv(STIMULI / "adjectives.csv", index_col="attribute")


def sample(mean: float, sd: float, n: int) -> np.ndarray:
    """n values of exactly this mean and population standard deviation."""
    values = np.random.default_rng(n).normal(size=n)
    made: np.ndarray = mean + sd * (values - values.mean()) / values.std()
    return made


def around(value: float, digits: int) -> tuple[float, float]:
    half = 0.5 * 10.0**-digits
    return value - half, value + half


def meet(low: float, high: float, printed: float, digits: int) -> bool:
    first, last = around(printed, digits)
    return low <= last + 1e-12 and high >= first - 1e-12


def digits_of(value: float) -> int:
    text = repr(value)
    return len(text.split(".")[1]) if "." in text else 0


# ---- t tests


ONE_SAMPLE = ["Table 14", "Table 15", "text: eight features, all models, n=90", "text: dialects, all models, n=90"]


@pytest.mark.parametrize("section", [*ONE_SAMPLE, "text: am feature"])
def test_one_sample_t_from_printed_mean_and_sd(printed: dict[str, Any], section: str) -> None:
    for row in printed[section]["rows"]:
        n = row["df"] + 1
        corners = [one_sample_t(sample(m, s, n), "greater").t for m in around(row["m"], 3) for s in around(row["s"], 3)]
        assert meet(min(corners), max(corners), row["t"], 1), row["row"]


@pytest.mark.parametrize("section", ["Table 14", "Table 15", "text: am feature"])
def test_holm_over_the_whole_table_from_printed_t(printed: dict[str, Any], section: str) -> None:
    rows = printed[section]["rows"]
    ends = []
    for end in (1, 0):  # a larger t has the smaller p
        p = [
            one_sample_t(sample(around(row["t"], 1)[end] / np.sqrt(row["df"]), 1.0, row["df"] + 1), "greater").p
            for row in rows
        ]
        ends.append(holm(p))
    for row, low, high in zip(rows, *ends, strict=True):
        assert meet(low, high, row["p"], 1 if section == "text: am feature" else 4), row["row"]


@pytest.mark.parametrize("section", ["Table 13", "Table 16", "text: two-sample tests"])
def test_pooled_t_from_printed_means_and_sds(printed: dict[str, Any], section: str) -> None:
    for row in printed[section]["rows"]:
        found = pooled_t(sample(row["m1"], row["s1"], row["n1"]), sample(row["m2"], row["s2"], row["n2"]))
        assert found.df == row["df"]
        digits = digits_of(row["m1"])
        corners = [
            pooled_t(sample(m1, s1, row["n1"]), sample(m2, s2, row["n2"])).t
            for m1, m2 in zip(around(row["m1"], digits), around(row["m2"], digits)[::-1], strict=True)
            for s1, s2 in zip(around(row["s1"], digits), around(row["s2"], digits), strict=True)
        ]
        assert meet(min(corners), max(corners), row["t"], 1), row["row"]


def test_pooled_t_holm_over_table_13(printed: dict[str, Any]) -> None:
    rows = printed["Table 13"]["rows"]
    tests = [pooled_t(sample(r["m1"], r["s1"], r["n1"]), sample(r["m2"], r["s2"], r["n2"])) for r in rows]
    t = np.array([test.t for test in tests])
    assert np.abs(t - [row["t_recomputed"] for row in rows]).max() < 1e-4
    # p of the printed t, by two samples whose means are that many standard errors apart
    ends = []
    for end in (1, 0):
        p = []
        for row in rows:
            gap = around(row["t"], 1)[end] * np.sqrt(2 / (row["n1"] - 1))
            p.append(pooled_t(sample(gap, 1.0, row["n1"]), sample(0.0, 1.0, row["n1"])).p)
        ends.append(holm(p))
    for row, low, high in zip(rows, *ends, strict=True):
        assert meet(low, high, row["p"], 4), row["row"]


def test_family_rows_mix_to_the_pooled_row(printed: dict[str, Any]) -> None:
    families = {
        name: [row for row in printed["Table 14"]["rows"] if row["row"].endswith(f"/ {name}")]
        for name in ("be", "finna", "been", "copula", "stay")
    }
    pooled = {row["row"]: row for row in printed["text: eight features, all models, n=90"]["rows"]}
    for name, rows in families.items():
        values = np.concatenate([sample(row["m"], row["s"], row["df"] + 1) for row in rows])
        found = one_sample_t(values, "greater")
        assert found.n == 90
        assert found.mean == pytest.approx(pooled[name]["m"], abs=0.00101)
        assert found.sd == pytest.approx(pooled[name]["s"], abs=0.00101)


def test_stored_two_sample_tests_are_exact(stored: dict[str, Any]) -> None:
    for row in stored["two_sample_pooled_t_n9_vs_9"]:
        found = pooled_t(sample(row["m1"], row["s1_ddof0"], 9), sample(row["m2"], row["s2_ddof0"], 9))
        assert found.df == 16 and (found.t, found.p) == pytest.approx((row["t"], row["p"])), row["what"]


def test_stored_occupation_tests(stored: dict[str, Any]) -> None:
    row = stored["one_sample"]
    found = one_sample_t(sample(row["mean"], row["sd_ddof1"] * np.sqrt(83 / 84), 84))
    assert found.t == pytest.approx(row["t"])
    assert found.p == pytest.approx(row["p_two_sided"])
    for family, mean, sd, t, df, _ in stored["occupation_ttests"]["rows"]:
        shrunk = [s * np.sqrt(df / (df + 1)) for s in around(sd, 3)]
        corners = [one_sample_t(sample(m, s, df + 1)).t for m in around(mean, 3) for s in shrunk]
        assert meet(min(corners), max(corners), t, 1), family


def test_stored_holm_of_the_occupation_tests(stored: dict[str, Any]) -> None:
    rows = stored["occupation_ttests"]["rows"]
    ends = [
        holm([one_sample_t(sample(around(abs(row[3]), 1)[end] / np.sqrt(83), 1.0, 84)).p for row in rows])
        for end in (1, 0)
    ]
    for row, low, high in zip(rows, *ends, strict=True):
        assert meet(low, high, row[5], 5), row[0]


# ---- agreement


def test_chance_agreement_exact_and_simulated(stored: dict[str, Any]) -> None:
    expected = stored["chance_agreement"]
    assert expected_agreement(37) == pytest.approx(expected["exact_mean"], abs=1e-12)
    draws = published_random_agreement(37, np.random.default_rng(0))
    assert draws.mean() == pytest.approx(expected["mc_mean"], abs=0.004)
    assert draws.std() == pytest.approx(expected["own_mc_sd_40000"], abs=0.004)


@pytest.mark.parametrize("kind", ["covert", "overt"])
def test_agreement_against_chance_and_its_holm_over_16(stored: dict[str, Any], kind: str) -> None:
    expected = stored["agreement_vs_chance"]
    rows = [dict(zip(expected["columns"], row, strict=True)) for row in expected[kind]]
    chance = sample(stored["chance_agreement"]["mc_mean"], stored["chance_agreement"]["mc_sd"], 10_000)
    lows, highs = [], []
    for row in rows:
        corners = [
            pooled_t(sample(m, s, 9), chance, "greater") for m in around(row["m"], 3) for s in around(row["s_ddof0"], 3)
        ]
        assert corners[0].df == 10007
        assert meet(min(c.t for c in corners), max(c.t for c in corners), row["t"], 1), row
        lows.append(min(c.p for c in corners))
        highs.append(max(c.p for c in corners))
    for row, low, high in zip(rows, holm(lows), holm(highs), strict=True):
        assert meet(low, high, row["p_holm"], 5), row


def test_human_stereotypes_of_the_four_studies(stored: dict[str, Any], adjectives: pd.DataFrame) -> None:
    for year, expected in stored["top5_lists"]["human"].items():
        assert human_top(adjectives[f"percent_{year}"]) == expected
        percentages = adjectives[f"percent_{year}"].fillna(0)
        if (percentages > 0).sum() > 5:  # otherwise the ties of the rest decide nothing
            assert mean_average_precision(percentages, list(adjectives.index), expected) == pytest.approx(1.0)


def test_human_favorability_of_the_four_studies(shared: Path, adjectives: pd.DataFrame) -> None:
    human = json.loads((shared / "corpora" / "guise" / "human_data.json").read_text(encoding="utf-8"))
    for year, expected in human["expected"].items():
        found = top_favorability(adjectives[f"percent_{year}"], adjectives["favorability"])
        assert list(found.attributes) == expected["top5"]
        assert found.weighted == pytest.approx(expected["F_weighted"], abs=1e-6)
        assert found.unweighted == pytest.approx(expected["F_unweighted"], abs=1e-9)
    rho, p, n = rank_correlation(adjectives["percent_2012"], adjectives["favorability"])
    expected = human["spearman_2012_percent_vs_favourability"]
    assert rho == pytest.approx(expected["rho"], abs=1e-6) and p == pytest.approx(expected["p"], abs=1e-5) and n == 37


# ---- regression


def with_r_squared(r_squared: float, n: int, sign: float) -> tuple[np.ndarray, np.ndarray]:
    """x and y of n points with exactly this squared correlation."""
    rng = np.random.default_rng(n)
    x = rng.normal(size=n)
    x -= x.mean()
    other = rng.normal(size=n)
    other -= other.mean() + (other @ x) / (x @ x) * x
    return x, np.sign(sign) * np.sqrt(r_squared) * x / np.sqrt(x @ x) + np.sqrt(1 - r_squared) * other / np.sqrt(
        other @ other
    )


@pytest.mark.parametrize("section", ["Table 6 (model versions)", "Table 7 (settings)", "Table 8 (prompts)"])
def test_regression_from_printed_f(printed: dict[str, Any], section: str) -> None:
    for row in printed[section]["rows"]:
        ends = []
        for f in around(row["F"], digits_of(row["F"]) if row["F"] != 15.9 else 2):
            x, y = with_r_squared(f / (f + 63), 65, row["beta"])
            found = regression(x, y)
            assert found.f == pytest.approx(f)
            assert np.sign(found.slope) == np.sign(row["beta"])
            ends.append(found)
        if row["tests"]["R2"]:
            assert meet(ends[0].r_squared, ends[1].r_squared, row["R2"], 3), row
        if row["tests"]["p"]:  # two printed p do not follow from their own F: specification, section 8
            assert meet(ends[1].p, ends[0].p, row["p"], 4), row


def test_regression_stored_in_the_notebook(stored: dict[str, Any]) -> None:
    expected = stored["ols_prestige"]
    prestige = pd.read_csv(STIMULI / "occupations.csv")["prestige"].dropna().to_numpy()
    derived = expected["derived"]
    assert len(prestige) == expected["n"]
    assert prestige.mean() == pytest.approx(derived["mean_prestige_65"], abs=1e-6)
    assert ((prestige - prestige.mean()) ** 2).sum() == pytest.approx(derived["SST_of_65_prestige_values"], abs=1e-4)
    # an x with the stored mean and sum of squares whose regression on the real prestige has the stored slope
    y = prestige - prestige.mean()
    other = np.random.default_rng(0).normal(size=65)
    other -= other.mean()
    other -= (other @ y) / (y @ y) * y
    along = expected["beta"] * derived["Sxx_of_q"] / (y @ y)
    across = np.sqrt((derived["Sxx_of_q"] - along**2 * (y @ y)) / (other @ other))
    found = regression(derived["mean_q"] + along * y + across * other, prestige)
    assert found.slope == pytest.approx(expected["beta"])
    assert found.intercept == pytest.approx(expected["const"], abs=0.001)
    assert found.slope_error == pytest.approx(expected["se_beta"], abs=0.001)
    assert found.r_squared == pytest.approx(expected["R2"], abs=0.0006)
    assert found.f == pytest.approx(expected["F"], abs=0.02)
    assert found.p == pytest.approx(expected["p"], abs=2e-6)


# ---- decisions


def test_decision_totals_stored_in_the_notebooks(stored: dict[str, Any]) -> None:
    for row in stored["decision_totals"]:
        found = published_chi_square(row["count_aae"], row["count_sae"])
        assert found.statistic == pytest.approx(row["chi2"], abs=1e-8)
        assert found.p == pytest.approx(row["p"])
        assert row["count_aae"] / row["decisions_per_guise"] == pytest.approx(row["rate_aae"], abs=5e-7)


DECISIONS = [
    "Table 9 conviction", "Table 10 death", "Table 11 conviction by setting", "Table 12 death by setting",
    "Table 17 IQ by family", "Table 18 IQ by version", "Table 19 IQ by setting",
]  # fmt: skip


@pytest.mark.parametrize("section", DECISIONS)
def test_chi_square_of_counts_that_fit_the_printed_rates(printed: dict[str, Any], section: str) -> None:
    rows = printed[section]["rows"]
    found = []
    for row in rows:
        first, second = row["the_pair_if_unique"] or row["an_example_pair"]
        n = row["decisions_per_guise"]
        assert meet(100 * first / n, 100 * first / n, row["rate_aae_pct"], 1)
        assert meet(100 * second / n, 100 * second / n, row["rate_sae_pct"], 1)
        found.append(published_chi_square(first, second))
        assert meet(found[-1].statistic, found[-1].statistic, row["chi2"], 1), row["row"]
        fair = two_by_two(row["rate_aae_pct"], 100, row["rate_sae_pct"], 100).statistic * n / 100
        assert fair == pytest.approx(row["a_2x2_test_would_give"], rel=1e-3)
    for row, p in zip(rows, holm([chi.p for chi in found]), strict=True):
        low, high = row["holm_p_interval"]
        slack = 0.02 * high  # the interval holds for all pairs that fit, up to the rounding of its own digits
        assert low - slack <= p <= high + slack or (p < 5e-5 and row["p"] == 0), row["row"]


def test_chi_square_of_the_printed_feature_counts(printed: dict[str, Any]) -> None:
    rows = printed["Table 3 feature counts"]["rows"]
    found = [published_chi_square(row["f_aae"], row["f_sae"]) for row in rows]
    for row, chi, p in zip(rows, found, holm([chi.p for chi in found]), strict=True):
        assert meet(chi.statistic, chi.statistic, row["chi2"], 1)
        assert p == pytest.approx(row["holm_p"], rel=1e-4)


def test_decision_families_stored_in_the_notebooks(stored: dict[str, Any]) -> None:
    for experiment in ("conviction", "death"):
        for family, rate, reference, chi2, _, n in stored["decision_families"][experiment]:
            ends = [
                published_chi_square(a * n, b * n).statistic
                for a, b in zip(around(rate, 3), around(reference, 3)[::-1], strict=True)
            ]
            assert meet(min(ends), max(ends), chi2, 1), (experiment, family)
