"""Features of dialect and topics in the texts of a study: counted, tested, not measured where there is too little."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from tests.cells import number, row, text

from markedness.audits.guise.design.guises import RULES, pairs
from markedness.audits.guise.estimators.text_tables import published_two_counts, text_feature_rows, topic_rows
from markedness.audits.guise.language.features import counters
from markedness.audits.guise.language.texts import text_table
from markedness.audits.guise.language.topics import TOPICS, topics
from markedness.records import AuditError

ROOT = Path(__file__).parents[3]
VERBS = pd.read_csv(ROOT / "data" / "stimuli" / "guise" / "verbs.csv").astype(str)
ING = VERBS["ing"].tolist()


def texts_of(aae: list[str], sae: list[str], setting: str = "unmatched", by: str = "") -> pd.DataFrame:
    """The table of one set of texts."""
    rows = [
        {
            "text_set": "own", "setting": setting, "control": False, "pair": f"own/{number}", "group": guise,
            "marked": guise == "AAE", "utterance": one,
            "cluster": f"source {number}" if setting == "matched" else f"{guise} {one}",
        }
        for guise, texts in (("AAE", aae), ("SAE", sae))
        for number, one in enumerate(texts)
    ]  # fmt: skip
    return text_table(pd.DataFrame(rows), {}, ING, by)


def finna(table: pd.DataFrame, seed: int) -> float:
    """p of one feature alone."""
    kept = [name for name in table if not str(name).startswith("count ") or name == "count finna"]
    (only,) = text_feature_rows(table[kept], np.random.default_rng(seed))
    return float(only["p"])


def measured(table: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    return pd.DataFrame(text_feature_rows(table, np.random.default_rng(seed))).set_index("feature")


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("They bring it to the king again in the cabin within.", {}),
        ("Berlin, Martin and Robin begin to ruin it.", {}),
        ("she makin somethin' and talkin", {"in": 3, "zero_copula": 1}),
        ("We finna go, ain’t we? It aint so", {"finna": 1, "aint": 2}),
        ("he be singing while they been talkin", {"habitual_be": 1, "been": 1, "in": 1}),
        ("she stay working; it raining", {"stay": 1, "zero_copula": 1}),
        ("He is singing and they are being kind", {}),
        ("I'm fixin to leave and he am here", {"in": 1, "fixin_to": 1, "am": 1}),
    ],
)
def test_counters_find_features_and_no_words_that_look_alike(sentence: str, found: dict[str, int]) -> None:
    counted = {name: count(sentence) for name, count in counters({}, ING).items()}
    assert {name: n for name, n in counted.items() if n} == found


@pytest.mark.parametrize("rule", [name for name in RULES if name not in ("inflection", "g_dropping")])
def test_counters_find_the_form_of_each_rule_in_the_marked_guise_alone(rule: str) -> None:
    made = pairs(rule, [{str(k): str(v) for k, v in verb.items()} for verb in VERBS.to_dict("records")])
    count = counters({}, ING)[rule]
    assert all(count(marked) == 1 and count(unmarked) == 0 for marked, unmarked in made)


def test_counters_of_a_study_are_regular_expressions() -> None:
    assert counters({"yall": r"\by'?all\b"}, [])["yall"]("Y'all and yall") == 2
    with pytest.raises(AuditError, match=r"features\.bad: '\(' is no regular expression .*; correct it"):
        counters({"bad": "("}, [])
    with pytest.raises(AuditError, match="counted already"):
        counters({"finna": "x"}, [])


def test_published_two_counts_are_those_of_table_3() -> None:
    # (126 - 38)^2 / 164 = 47.2; (86 - 4)^2 / 90 = 74.7; 15^2 / 15 = 15.0, p = .0001
    assert published_two_counts(126, 38, 1000, 1000)[0] == pytest.approx(47.22, abs=0.01)
    assert published_two_counts(86, 4, 1000, 1000)[0] == pytest.approx(74.71, abs=0.01)
    assert published_two_counts(15, 0, 1000, 1000)[0] == pytest.approx(15.0)
    assert published_two_counts(15, 0, 1000, 1000)[1] == pytest.approx(0.0001, abs=5e-5)
    # twice as many texts have twice the occurrences: nothing; 4 and 4: fewer than 5 expected
    assert published_two_counts(20, 10, 200, 100) == (0.0, 1.0)
    assert np.isnan(published_two_counts(4, 4, 100, 100)[1])
    assert np.isnan(published_two_counts(0, 0, 100, 100)[0])


@pytest.mark.parametrize("setting", ["matched", "unmatched"])
def test_text_features_planted_feature_is_found(setting: str) -> None:
    aae = [f"we {'finna' if place % 2 else 'gonna'} go there {place}" for place in range(40)]
    sae = [f"we gonna go there {place}" for place in range(40)]
    found = measured(texts_of(aae, sae, setting))
    # 20 of 40 texts against none; 20 of 40 x 5 words
    assert row(found[["count", "count_reference", "share", "density"]], "finna").tolist() == [20, 0, 0.5, 10]
    assert number(found, "finna", "p") < 0.01 > number(found, "finna", "p_published")
    assert 0.2 < number(found, "finna", "ci_low") < 0.5 < number(found, "finna", "ci_high")
    assert text(found, "aint", "missing") == "does not occur"
    assert np.isnan(number(found, "aint", "p"))
    assert number(found, "all features", "count") == 20


def test_text_features_of_blind_texts_are_not_accused() -> None:
    accused = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        drawn = [[f"we {'finna' if rng.random() < 0.3 else 'gonna'} go {n}" for n in range(40)] for _ in range(2)]
        accused += finna(texts_of(drawn[0], drawn[1]), seed) <= 0.05
    assert accused <= 6  # binomial(40, .05): at most 6 in 99.8 %


def test_text_features_of_few_texts_are_not_measured() -> None:
    found = measured(texts_of(["we finna go"] * 3, ["we go"] * 3))
    assert text(found, "finna", "missing").startswith("not measured: fewer than 6 texts")
    assert found.loc["finna", ["p", "p_published", "ci_low"]].isna().all()


def topic_table(table: pd.DataFrame, labels: list[str], seed: int = 0) -> pd.DataFrame:
    rows = topic_rows(table.assign(topic=labels), np.random.default_rng(seed))
    return pd.DataFrame(rows).set_index("topic")


def test_topics_that_differ_are_found_with_their_residuals() -> None:
    table = texts_of([f"a {n}" for n in range(40)], [f"b {n}" for n in range(40)])
    found = topic_table(table, ["music"] * 30 + ["sports"] * 10 + ["music"] * 10 + ["sports"] * 30)
    # every expected count is 20: 4 x 10^2 / 20 = 20; df 1
    assert row(found[["chi2", "df"]], "all").tolist() == [20, 1]
    assert number(found, "all", "p") <= 0.01 and number(found, "all", "p_published") < 1e-4
    # (30 - 20) / sqrt(20 x 1/2 x 1/2) = 4.47
    assert number(found, "music", "residual") == pytest.approx(4.472, abs=1e-3)


def test_topics_blind_to_the_guise_are_not_accused() -> None:
    table = texts_of([f"a {n}" for n in range(40)], [f"b {n}" for n in range(40)])
    accused = 0
    for seed in range(40):
        labels = np.random.default_rng(seed).choice(list(TOPICS)[:8], 80).tolist()
        accused += number(topic_table(table, labels, seed), "all", "p") <= 0.05
    assert accused <= 6


def test_topics_of_copies_are_one_text() -> None:
    # eight texts of AAE, six of them on music, ten copies of each, against 40 of 80 of SAE
    table = texts_of([f"a {n}" for n in range(8)] * 10, [f"s {n}" for n in range(80)])
    found = topic_table(table, (["music"] * 6 + ["sports"] * 2) * 10 + ["music", "sports"] * 40)
    assert number(found, "all", "p_published") < 0.005
    assert number(found, "all", "p") > 0.05


def authored(rng: np.random.Generator, setting: str, planted: bool) -> tuple[pd.DataFrame, list[str]]:
    """Texts of 12 sources in each guise, 20 of each, and their topics; every source has habits of its own.

    Matched: the same sources in both guises, each version with habits of its own. Planted: AAE says "finna" in 60 % of
    the texts and speaks of music in 70 %, SAE in 10 % and in 15 %, whatever the source.
    """
    rows, labels = [], []
    for guise in ("AAE", "SAE"):
        for source in range(12):
            share = 1 / (1 + np.exp(-rng.normal(0, 2)))
            of_topics = rng.dirichlet(np.full(4, 0.3))
            if planted:
                share = 0.6 if guise == "AAE" else 0.1
                of_topics = np.array([0.7, 0.1, 0.1, 0.1] if guise == "AAE" else [0.15, 0.55, 0.15, 0.15])
            for place in range(20):
                said = "finna" if rng.random() < share else "gonna"
                rows.append(
                    {
                        "text_set": "own", "setting": setting, "control": False, "pair": f"own/{source}-{place}",
                        "group": guise, "marked": guise == "AAE", "utterance": f"we {said} go {source} {place}",
                        "cluster": f"source {source}" if setting == "matched" else f"{guise} {source}",
                    }
                )  # fmt: skip
            labels += [list(TOPICS)[place] for place in rng.choice(4, size=20, p=of_topics)]
    return text_table(pd.DataFrame(rows), {}, ING, ""), labels


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["matched", "unmatched"])
def test_features_and_topics_of_sources_with_habits_are_not_accused_and_planted_ones_are_found(setting: str) -> None:
    # Counting texts as independent, half of the blind worlds are accused of a feature; exchanging the topics that a
    # source has at all, no planted world is found.
    p: dict[str, list[float]] = {"finna": [], "topics": [], "covered": []}
    for seed in range(100):
        table, labels = authored(np.random.default_rng(31_000 + seed), setting, planted=False)
        p["finna"].append(finna(table, seed))
        if setting == "unmatched":
            topics_found = topic_table(table, labels, seed)
            p["topics"].append(number(topics_found, "all", "p"))
            first = topics_found.drop("all").iloc[0]
            p["covered"].append(float(first["ci_low"] <= 0 <= first["ci_high"]))
    for kind in ("finna", "topics"):
        found = sum(value <= 0.05 for value in p[kind])
        assert not p[kind] or stats.binomtest(found, 100, 0.05, alternative="greater").pvalue > 0.01, (kind, found)
    held = int(sum(p["covered"]))
    assert not p["covered"] or stats.binomtest(held, 100, 0.93, alternative="less").pvalue > 0.01, held
    for seed in range(10):
        table, labels = authored(np.random.default_rng(32_000 + seed), setting, planted=True)
        assert finna(table, seed) < 0.01
        if setting == "unmatched":
            topics_found = topic_table(table, labels, seed)
            assert number(topics_found, "all", "p") < 0.01
            assert number(topics_found, next(iter(TOPICS)), "p_adjusted") < 0.05
            assert number(topics_found, next(iter(TOPICS)), "ci_low") > 0.3


def test_features_and_topics_of_few_sources_say_that_they_are_not_tested() -> None:
    # three authors with ten texts each in either guise
    table, labels = authored(np.random.default_rng(1), "unmatched", planted=True)
    few = table["cluster"].isin([f"{guise} {source}" for guise in ("AAE", "SAE") for source in range(3)]).to_numpy()
    found = measured(table[few])
    assert np.isnan(number(found, "finna", "p")) and number(found, "finna", "p_published") < 0.01
    assert text(found, "finna", "missing").startswith("not tested: the texts of a guise come from 3 verbs or sources")
    topic = topic_table(table[few], [one for one, kept in zip(labels, few, strict=True) if kept])
    assert np.isnan(number(topic, "all", "p")) and "come from 3 verbs" in text(topic, "all", "missing")


def test_topics_that_are_not_measured_say_how() -> None:
    (only,) = topic_rows(texts_of(["a"] * 9, ["b"] * 9), np.random.default_rng(0))
    assert only["topic"] == "all" and only["missing"] == "not measured: set guise.featurize.topics"
    few = topic_table(texts_of(["a", "b"], ["c", "d"]), ["music", "film"] * 2)
    assert text(few, "all", "missing").startswith("not measured: fewer than 6")
    assert np.isnan(number(few, "all", "p"))


@pytest.mark.slow
def test_topics_nearest_description_and_unknown_classifier() -> None:
    pytest.importorskip("sentence_transformers")
    said = ["the team won the match last night", "this song is on repeat, what a concert", "my exam is due in class"]
    assert topics(said, "embeddings")[:2] == ["sports", "music"]
    with pytest.raises(AuditError, match="neither a folder nor on the hub"):
        topics(said, "/no/such/folder")
