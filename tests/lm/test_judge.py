"""A model of params as judge of regard and toxicity: what it is asked, kept, retried and paid, and its own triples."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from tests.cells import number
from tests.lm import triples
from tests.lm.triples import featurize
from tests.servers.openai_server import Server
from typer.testing import CliRunner

from markedness import audits, pipeline
from markedness import params as params_file
from markedness.cli import app
from markedness.compare import Comparison, Paired
from markedness.judges import ServiceScores
from markedness.lm.run import BudgetError
from markedness.params import Params, ParamsError
from markedness.planning import plan
from markedness.records import AuditError
from markedness.results import JUDGE

RNG = np.random.default_rng(0)


class JudgeServer(Server):
    """Judges statements by a word in them; `odd`: what it answers where a statement has a word."""

    def __init__(self) -> None:
        super().__init__()
        self.questions: list[str] = []
        self.odd: dict[str, str] = {}

    def reply(
        self, path: str, request: dict[str, Any], prompt: str, fault: str | None, headers: dict[str, str]
    ) -> dict[str, Any]:
        made = super().reply(path, request, prompt, fault, headers)
        statement = prompt.splitlines()[-1]
        if "connection test" not in prompt:
            self.questions.append(prompt)
        kind = "hate" in statement
        said = ("4" if kind else "0") if "from 0" in prompt else ("negative" if kind else "Positive.")
        said = next((answer for word, answer in self.odd.items() if word in statement), said)
        made["choices"][0]["message"]["content"] = said
        return made


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer() as running:
        assert isinstance(running, JudgeServer)
        yield running


JUDGED = {"regard": {"scorer": "judge", "model": "judge"}, "toxicity": {"scorer": "judge", "model": "judge"}}


def study(
    folder: Path, server: Server, featurize: dict[str, Any] | None = None, rows: tuple[str, ...] = (), **judge: Any
) -> Params:
    """Published triples; a model of another key judges them."""
    asked = {"backend": "openai", "base_url": server.url, "model": "judge-1", "max_wait": 0.05, **judge}
    return triples.study(folder, JUDGED if featurize is None else featurize, {"judge": asked}, rows or triples.ROWS)


def test_judge_is_asked_of_regard_and_toxicity_once_and_a_second_run_asks_nothing(
    tmp_path: Path, server: JudgeServer
) -> None:
    params = study(tmp_path, server)
    table, said = featurize(params)
    hates = table["predicate"].eq("hate")
    assert table.loc[hates, "regard"].eq("negative").all() and table.loc[~hates, "regard"].eq("positive").all()
    assert table.loc[hates, "toxicity"].eq(1).all() and table.loc[~hates, "toxicity"].eq(0).all()
    name = rf"judge judge: judge-1 by {server.url}, settings [0-9a-f]{{8}} \(judge-1-served\)"
    assert table["regard_scorer"].str.fullmatch(name).all()
    assert table["toxicity_scorer"].str.fullmatch(name).all()
    # four different triples, two questions about each: one slice has all eight answers
    assert len(server.questions) == len(set(server.questions)) == 8 and "4 answered (0 of them from the ledger)" in said
    slice_ = tmp_path / "data/ledger/knowledge/m.judge.jsonl"
    before = slice_.read_bytes()
    assert before.count(b"How is the group spoken of") == before.count(b"How insulting or demeaning") == 4
    assert "4 answered (4 of them from the ledger)" in featurize(params)[1]
    assert len(server.questions) == 8 and slice_.read_bytes() == before


def test_dry_run_and_plan_name_the_requests_to_judges_and_their_cost(tmp_path: Path, server: JudgeServer) -> None:
    params = study(tmp_path, server)
    content = yaml.safe_load(params.path.read_text(encoding="utf-8"))
    content["prices"] = {"judge-1": {"input": 0, "output": 1_000_000}}  # a token of output costs 1
    params.path.write_text(yaml.safe_dump(content), encoding="utf-8")

    def dry_run(model: str) -> list[str]:
        asked = ["generate", "knowledge", "--model", model, "--dry-run", "--params", str(params.path)]
        made = CliRunner().invoke(app, asked)
        assert made.exit_code == 0, made.output
        return [line for line in made.output.splitlines() if "the judge judge" in line]

    def fill_dry_run() -> list[str]:
        made = CliRunner().invoke(app, ["fill", "--dry-run", "--params", str(params.path)])
        assert made.exit_code == 0, made.output
        return [line for line in made.output.splitlines() if "the judge judge" in line]

    # Four different triples, about each of which two judgments of at most 8 tokens are asked.
    judged = dry_run("m")
    assert len(judged) == 2 and not server.questions
    assert all("4 requests to the judge judge, 0 of them in the ledger, 4 to be asked" in line for line in judged)
    assert all(line.endswith("at most 32 out; cost at most 32.0000") for line in judged)
    assert fill_dry_run() == [f"{line} (left to 'dvc repro')" for line in judged] and not server.questions
    featurize(params_file.load(params.path))
    assert all("4 of them in the ledger, 0 to be asked" in line and "cost 0" in line for line in dry_run("m"))
    content["models"]["new"] = {"backend": "scripted"}
    content["knowledge"]["generate"] = {"predicates": ["are", "have"], "completions": 3, "rounds": 1, "draws": 2}
    content["knowledge"]["generate"] |= {"crawls": 2, "arms": ["both", "none"]}
    params.path.write_text(yaml.safe_dump(content), encoding="utf-8")
    # 2 subjects x (2 predicates x 3 + 2 strategies x 1 round x 2) x 2 arms x 2 crawls = 80
    said: list[str] = []
    plan(params_file.load(params.path), "new", sizes=["quick"], say=said.append)
    bound = "knowledge new: requests to the judge judge: not known before the answers exist: at most 80"
    assert [line.strip() for line in said].count(bound) == 2
    assert any(bound in line for line in dry_run("new"))
    asked = {"backend": "openai", "base_url": server.url, "model": "asked-1"}
    content |= {"run": ["asked"], "models": {**content["models"], "asked": asked}}
    params.path.write_text(yaml.safe_dump(content), encoding="utf-8")
    assert fill_dry_run() == [f"{bound.replace('new', 'asked')} (left to 'dvc repro')"] * 2


def test_judgments_of_a_pulled_slice_are_not_asked_for_again(tmp_path: Path, server: JudgeServer) -> None:
    first = study(tmp_path / "a", server)
    featurize(first)
    second = study(tmp_path / "b", server)
    target = tmp_path / "b/data/ledger/knowledge/m.judge.jsonl"
    target.write_bytes((tmp_path / "a/data/ledger/knowledge/m.judge.jsonl").read_bytes())
    table, _ = featurize(second)
    assert len(server.questions) == 8 and table["regard"].notna().all()


def test_judgments_that_dvc_names_and_are_not_here_are_told_once_before_they_are_asked_for_again(
    tmp_path: Path, server: JudgeServer
) -> None:
    params, shown = study(tmp_path, server), "data/ledger/knowledge/m.judge.jsonl"
    (tmp_path / "dvc.lock").write_text(f"    - path: {shown}\n      hash: md5\n      md5: {'ab' * 16}\n")
    told = f"{shown}: is named by dvc.lock and not here, so that no answer is taken from it; stop, and fetch it"
    made = CliRunner().invoke(app, ["generate", "knowledge", "--model", "m", "--dry-run", "--params", str(params.path)])
    assert told in made.output and not server.questions
    said = featurize(params)[1]
    assert said.count(told) == 1 and said.index(told) < said.index("asking 4 questions")
    assert told not in featurize(params)[1]


@pytest.mark.parametrize("edit", [{"model": "judge-2"}, {"served_by": "there"}, {"extra_body": {"top_k": 1}}])
def test_another_judge_under_the_same_key_is_not_compared_with_the_first(
    tmp_path: Path, server: JudgeServer, edit: dict[str, Any]
) -> None:
    server.served_model = "local"  # what it reports says nothing
    tables = []
    same_judge = {"timeout": 9, "max_tokens_parameter": "max_completion_tokens"}
    for folder, config in (("a", {}), ("again", same_judge), ("b", edit)):
        params = study(tmp_path / folder, server, **config)
        tables.append({"triples": featurize(params)[0]})
    spec, block = audits.spec("knowledge"), params.stage("knowledge", "evaluate", "m")
    made = Comparison(
        "knowledge", dict(zip("abc", tables, strict=True)), lambda found: spec.evaluate(found, block, RNG).scores,
        spec.table, spec.cluster, spec.headline,
    )  # fmt: skip
    same, other = made.paired("a", "b"), made.paired("a", "c")
    assert isinstance(same, Paired) and isinstance(other, Paired)
    for key in ("regard_gap.marked", "toxicity_gap.marked"):
        assert "not read alike" not in same.unlike.get(key, "")
        assert re.match("not read alike: by judge judge: .* in a, by judge judge: .* in c", other.unlike[key])


def test_judge_that_is_busy_is_asked_again(tmp_path: Path, server: JudgeServer) -> None:
    rows = ("Bakers,love,fault:429*2", "Sailors,hate,tea")
    table, said = featurize(study(tmp_path, server, rows=rows))
    assert table["regard"].tolist() == ["positive", "negative"] and "0 missing" in said
    assert server.faults["429"] == 4  # twice for each of the two questions


def test_answers_that_are_no_judgment_are_missing_and_counted(tmp_path: Path, server: JudgeServer) -> None:
    server.odd = {"Bakers hate": "I would rather not say.", "Sailors hate": "7"}
    params = study(tmp_path, server)
    table, _ = featurize(params)
    assert table["regard"].isna().sum() == 2 and table["toxicity"].isna().sum() == 2
    assert set(table["toxicity_reason"].dropna()) == {"no rating in the answer"}
    pipeline.evaluate(params, "knowledge", "m", say=lambda _: None)
    notes = json.loads((tmp_path / "results/knowledge/m/notes.json").read_text(encoding="utf-8"))
    assert any(note.startswith("2 of 5 triples have no regard") for note in notes)
    assert any("error by group of judge judge: judge-1 by" in note and "not known" in note for note in notes)


def test_judge_that_never_judges_leaves_the_old_features(tmp_path: Path, server: JudgeServer) -> None:
    params = study(tmp_path, server)
    before, _ = featurize(params)
    other = study(tmp_path, server, served_by="elsewhere")
    server.odd = {"": "As a language model, I cannot."}
    with pytest.raises(AuditError, match=r"the judge judge gave no regard for any of 5 triples; its first answer"):
        featurize(other)
    after = pd.read_parquet(tmp_path / "data/features/knowledge/m/triples.parquet")
    pd.testing.assert_frame_equal(after, before)


def test_budget_of_the_judge_stops_and_the_next_run_goes_on(tmp_path: Path, server: JudgeServer) -> None:
    with pytest.raises(BudgetError):
        featurize(study(tmp_path, server, max_requests=3, concurrency=1))
    assert len(server.questions) == 3
    params = study(tmp_path, server)
    prune = ["ledger", "prune", "--model", "m", "--params", str(params.path)]
    for more, said in (([], "0 of 3 answers are in none of 1 slices"), (["--yes"], "0 answers removed, 3 kept")):
        made = CliRunner().invoke(app, prune + more)  # no slice of the judge has them yet
        assert made.exit_code == 0 and said in made.output, made.output
    featurize(params)
    assert len(server.questions) == 8
    with pytest.raises(AuditError, match=r"models.judge.max_cost: the price of judge-1 is unknown"):
        featurize(study(tmp_path / "priced", server, max_cost=1))


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "found"), [("planted", True), ("none", False)])
def test_judge_finds_a_planted_stereotype_and_none_where_there_is_none(tmp_path: Path, rule: str, found: bool) -> None:
    content = {
        "audits": ["knowledge"],
        "run": ["m"],
        "models": {"m": {"backend": "scripted", "rule": rule}, "judge": {"backend": "scripted"}},
        "knowledge": {
            "axes": {"trade": {"unmarked": "Bakers", "values": {"Bakers": {}, "Sailors": {}, "Millers": {}}}},
            "generate": {"completions": 2, "rounds": 1, "draws": 4, "crawls": 8},
            "featurize": JUDGED,
        },
    }
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    params = params_file.load(tmp_path / "params.yaml")
    assert pipeline.run(params, "knowledge", "m", say=lambda _: None)
    scores = pd.read_csv(tmp_path / "results/knowledge/m/scores.csv").set_index("key")
    for key, sign in (("regard_gap.marked", -1), ("toxicity_gap.marked", 1)):
        p = number(scores, key, "p_adjusted")
        assert (p <= 0.05 and sign * number(scores, key, "estimate") > 0) if found else not p <= 0.05, key
    (name,) = set(pd.read_csv(tmp_path / "results/knowledge/m/tables/regard.csv")["scorer"])
    assert name.startswith("judge judge: judge by rule:") and name.endswith("(judge)")


@pytest.mark.parametrize(
    ("key", "said"),
    [("nobody", r"the judge 'nobody' is not defined under models; known: judge, m"), ("m", r"'m' is a corpus")],
)
def test_judge_that_is_no_model_is_named_before_anything_is_asked(
    tmp_path: Path, server: JudgeServer, key: str, said: str
) -> None:
    with pytest.raises(ParamsError, match=said):
        study(tmp_path, server, {"regard": {"scorer": "judge", "model": key}})


def test_judge_params_that_do_not_fit_are_refused(tmp_path: Path, server: JudgeServer) -> None:
    for block in ({"toxicity": {"scorer": "judge"}}, {"regard": {"scorer": "offline", "model": "judge"}}):
        with pytest.raises(ParamsError, match="model: "):
            study(tmp_path, server, block)


def test_audited_model_that_judges_itself_under_another_key_is_warned_of(tmp_path: Path, server: JudgeServer) -> None:
    params = study(tmp_path, server)
    content = yaml.safe_load(params.path.read_text(encoding="utf-8"))
    generate = {"completions": 1, "rounds": 0, "crawls": 1}
    content["models"]["m"] = {**content["models"]["judge"], "max_requests": 50}
    content["knowledge"]["generate"] = generate
    params.path.write_text(yaml.safe_dump(content), encoding="utf-8")
    params = params_file.load(params.path)
    server.odd = {"missing": "x"}
    for stage in ("generate", "clean", "featurize", "evaluate"):
        pipeline.STAGES[stage](params, "knowledge", "m", say=lambda _: None)
    table = pd.read_parquet(tmp_path / "data/features/knowledge/m/triples.parquet")
    assert table["regard_scorer"].eq(JUDGE).all() and table["toxicity_scorer"].eq(JUDGE).all()
    notes = json.loads((tmp_path / "results/knowledge/m/notes.json").read_text(encoding="utf-8"))
    warned = [note for note in notes if note.startswith("Warning: the audited model judged its own triples")]
    assert len(warned) == 2 and "knowledge.featurize.toxicity.model" in warned[1]


def test_judge_changes_settings_and_so_what_dvc_runs_again(tmp_path: Path, server: JudgeServer) -> None:
    params = study(tmp_path / "a", server)
    other = study(tmp_path / "b", server, {})
    changed = study(tmp_path / "c", server, seed=True)
    assert b"judges:" in pipeline.settings(params, "knowledge") and b"judges" not in pipeline.settings(
        other, "knowledge"
    )
    assert pipeline.settings(params, "knowledge") != pipeline.settings(changed, "knowledge")


SERVED = {"backend": "openai", "model": "x", "base_url": "http://h/v1"}
LOCAL = {"backend": "transformers", "path": "weights"}


@pytest.mark.parametrize(
    ("audited", "judge", "same"),
    [
        (SERVED, {**SERVED, "max_requests": 5, "base_url": "http://H:80/v1/"}, True),
        (SERVED, {**SERVED, "served_by": "http://h/v1"}, True),
        ({**SERVED, "served_by": "gpu"}, {**SERVED, "base_url": "http://other/v1", "served_by": "gpu"}, True),
        (SERVED, {**SERVED, "model": "y"}, False),
        (SERVED, {**SERVED, "base_url": "http://h:81/v1"}, False),
        (LOCAL, {**LOCAL, "path": "./weights/", "revision": "label"}, True),
        (LOCAL, {**LOCAL, "path": "others"}, False),
        (LOCAL, SERVED, False),
    ],
)
def test_audited_model_is_known_as_its_own_judge_however_it_is_written(
    tmp_path: Path, audited: dict[str, Any], judge: dict[str, Any], same: bool
) -> None:
    for name in ("weights", "others"):
        (tmp_path / name).mkdir()
    content = {"audits": ["knowledge"], "run": ["m"], "models": {"m": audited, "judge": judge}}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    scores = ServiceScores(params_file.load(tmp_path / "params.yaml"), "knowledge", "m")
    assert scores._is_audited("judge") is same
