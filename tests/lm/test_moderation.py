"""Scores over HTTP through the featurize stage: what is sent, kept, retried and paid, and what each fault becomes."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.lm import triples
from tests.lm.triples import featurize
from typer.testing import CliRunner

from markedness import ledgers, pipeline
from markedness.cli import app
from markedness.lm.base import ModelError
from markedness.lm.moderation import TEST_TEXT
from markedness.lm.run import BudgetError
from markedness.params import Params, ParamsError
from markedness.records import AuditError

KEY = "sk-planted-0123456789"


class Service(BaseHTTPRequestHandler):
    """A moderation service: `state` of its server says what goes wrong."""

    def do_POST(self) -> None:
        assert isinstance(self.server, Running)
        state = self.server.state
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = body["comment"]["text"] if "comment" in body else body["input"]
        headers = {name.lower(): value for name, value in self.headers.items()}
        state["seen"].append((text, headers))
        status, location = state.get("status", 200), state.get("location")
        if state.get("busy"):
            state["busy"] -= 1
            status = 429
        if text in state.get("refused", ()):
            status = 400
        value = state.get("value", {}).get(text, 0.9 if "hate" in text else 0.1)
        answer: Any = {
            "attributeScores": {state.get("attribute", "IDENTITY_ATTACK"): {"summaryScore": {"value": value}}}
        }
        if "comment" not in body:
            models = state.get("models", ["mod-1"])
            answer = {
                "model": models[len(state["seen"]) % len(models)],
                "results": [{"category_scores": {"hate": value}}],
            }
        if text in state.get("expired", ()):
            status = state.get("expired_status", 400)
            answer = {"error": {"code": 400, "message": "API key expired. Please renew the API key."}}
        content = state.get("content", json.dumps(answer).encode())
        self.send_response(302 if location else status)
        if location:
            self.send_header("Location", location)
        if status == 429:
            self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


class Running(ThreadingHTTPServer):
    """The service and what it saw."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Service)
        self.state: dict[str, Any] = {"seen": []}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/analyze"

    @property
    def texts(self) -> list[str]:
        """What was scored, the test request left out."""
        return [text for text, _ in self.state["seen"] if text != TEST_TEXT]


@pytest.fixture
def service() -> Iterator[Running]:
    server = Running()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def study(folder: Path, url: str, **toxicity: Any) -> Params:
    """Published triples, whose toxicity comes from the service."""
    return triples.study(folder, {"toxicity": {"scorer": "http", "url": url, **toxicity}})


def by_text(table: pd.DataFrame, column: str) -> dict[str, list[Any]]:
    """Subject and verb -> the values of its rows, in whatever order the rows are."""
    named = table["subject"].astype(str) + " " + table["predicate"].astype(str)
    return {str(name): rows.tolist() for name, rows in table.groupby(named)[column]}


SCORED = {"Bakers love": [0.1, 0.1], "Bakers hate": [0.9], "Sailors love": [0.1], "Sailors hate": [0.9]}


@pytest.mark.slow
def test_scores_each_different_text_is_asked_once_and_a_second_run_asks_nothing(
    tmp_path: Path, service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_KEY", KEY)
    params = study(tmp_path, service.url, api_key_env="SERVICE_KEY")
    table, said = featurize(params)
    assert by_text(table, "toxicity") == SCORED
    assert table["toxicity_scorer"].eq(f"127.0.0.1:{service.server_port}/analyze: IDENTITY_ATTACK").all()
    assert len(service.texts) == len(set(service.texts)) == 4 and "4 scored (0 of them from the ledger)" in said
    assert all(head["x-goog-api-key"] == KEY and "authorization" not in head for _, head in service.state["seen"])
    slice_ = tmp_path / "data/ledger/knowledge/m.judge.jsonl"
    before = slice_.read_bytes()
    assert before.count(b'"attribute":"IDENTITY_ATTACK"') == 4
    seen = len(service.state["seen"])
    monkeypatch.delenv("SERVICE_KEY")
    again, said = featurize(params)
    pd.testing.assert_frame_equal(again, table)
    assert len(service.state["seen"]) == seen and "4 of them from the ledger" in said and slice_.read_bytes() == before
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"planted" not in path.read_bytes()


def test_scores_of_a_pulled_slice_are_not_asked_for_again(tmp_path: Path, service: Running) -> None:
    params = study(tmp_path / "a", service.url)
    table, _ = featurize(params)
    there = study(tmp_path / "b", service.url)
    (tmp_path / "b/data/ledger/knowledge/m.judge.jsonl").write_bytes(
        (tmp_path / "a/data/ledger/knowledge/m.judge.jsonl").read_bytes()
    )
    seen = len(service.state["seen"])
    pd.testing.assert_frame_equal(featurize(there)[0], table)
    assert len(service.state["seen"]) == seen


def test_scores_of_the_openai_form_send_a_bearer_and_read_the_category(
    tmp_path: Path, service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_KEY", KEY)
    params = study(tmp_path, service.url, protocol="openai", attribute="hate", api_key_env="SERVICE_KEY")
    table, _ = featurize(params)
    assert by_text(table, "toxicity") == SCORED
    assert table["toxicity_scorer"].eq(f"127.0.0.1:{service.server_port}/analyze: hate (mod-1)").all()
    assert all(head["authorization"] == f"Bearer {KEY}" for _, head in service.state["seen"])


def test_scores_of_a_service_that_changes_its_model_name_each(tmp_path: Path, service: Running) -> None:
    service.state["models"] = ["mod-1", "mod-2"]
    params = study(tmp_path, service.url, protocol="openai", attribute="hate", concurrency=1)
    for _ in range(2):  # asked, and from the ledger
        named = featurize(params)[0]["toxicity_scorer"].unique().tolist()
        assert len(named) == 1
        assert named[0].startswith(f"127.0.0.1:{service.server_port}/analyze: hate (several models: mod-1 ")
        assert ", mod-2 " in named[0]


def test_scores_name_of_a_model_is_kept_without_key_and_control_characters(
    tmp_path: Path, service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_KEY", KEY)
    service.state["models"] = [f"mod\x1b[31m of {KEY}"]
    params = study(tmp_path, service.url, protocol="openai", attribute="hate", api_key_env="SERVICE_KEY")
    named = featurize(params)[0]["toxicity_scorer"].unique().tolist()
    slice_ = (tmp_path / "data/ledger/knowledge/m.judge.jsonl").read_text(encoding="utf-8")
    assert len(named) == 1 and ": hate (mod" in named[0]
    for text in (named[0], slice_):
        assert KEY not in text and "\x1b" not in text and "u001b" not in text


def test_scores_of_a_busy_service_are_asked_again(tmp_path: Path, service: Running) -> None:
    service.state["busy"] = 3
    assert featurize(study(tmp_path, service.url))[0]["toxicity"].notna().all()


@pytest.mark.parametrize("value", [57, -0.1, float("nan"), True, "0.5", None, [0.5], 10**400])
def test_score_outside_0_to_1_is_missing_with_its_reason(tmp_path: Path, service: Running, value: Any) -> None:
    service.state["value"] = {"Sailors hate tea": value}
    table, said = featurize(study(tmp_path, service.url))
    assert table.loc[table["toxicity"].isna(), ["subject", "predicate"]].to_numpy().tolist() == [["Sailors", "hate"]]
    reason = table["toxicity_reason"].dropna().tolist()
    assert len(reason) == 1 and ("is not in [0, 1]" in reason[0] or "is not JSON" in reason[0]) and "1 missing" in said


@pytest.mark.parametrize("fault", [{"value": {"Sailors hate tea": 7}}, {"refused": ["Sailors hate tea"]}])
def test_scores_that_a_service_did_not_give_are_not_asked_again_until_pruned(
    tmp_path: Path, service: Running, fault: dict[str, Any]
) -> None:
    service.state |= fault
    params = study(tmp_path, service.url)
    table, said = featurize(params)
    assert "asking 4 texts to 127.0.0.1" in said and "4 requested" not in said and "; 0 are in the ledger" in said
    again = "they are in the ledger and not asked for again: 'markedness ledger prune --model m --empty --yes'"
    assert "1 of the missing were answered without a score or withheld (0 of them earlier)" in said and again in said
    asked = len(service.texts)
    other, said = featurize(params)
    assert len(service.texts) == asked and "(1 of them earlier)" in said and "asking" not in said
    pd.testing.assert_frame_equal(other, table)
    ledgers.prune(params, "m", True, lambda _: None, empty=True)
    service.state |= {"value": {}, "refused": []}
    made, said = featurize(params)
    assert "asking 1 texts" in said and "; 3 are in the ledger" in said and made["toxicity"].notna().all()


@pytest.mark.parametrize("status", [400, 200])
def test_scores_refused_for_the_account_are_asked_again(tmp_path: Path, service: Running, status: int) -> None:
    service.state |= {"expired": ["Sailors hate tea"], "expired_status": status}
    params = study(tmp_path, service.url)
    table, _ = featurize(params)
    assert table["toxicity"].isna().any()
    service.state["expired"] = []
    made, said = featurize(params)
    assert "asking 1 texts" in said and made["toxicity"].notna().all()


def test_scores_that_failed_end_the_stage_with_a_fault_unless_so_many_are_tolerated(
    tmp_path: Path, service: Running
) -> None:
    service.state |= {"expired": ["Sailors hate tea"]}
    params = study(tmp_path, service.url)
    said: list[str] = []
    assert not pipeline.featurize(params, "knowledge", "m", said.append)
    assert "1 of 4 scores failed, more than tolerated_failures (0) allows; run again to ask for them" in said[-1]
    path = str(tmp_path / "params.yaml")
    assert CliRunner().invoke(app, ["featurize", "knowledge", "--model", "m", "--params", path]).exit_code == 1
    assert pipeline.featurize(dataclasses.replace(params, tolerated_failures=0.25), "knowledge", "m", lambda _: None)
    service.state |= {"expired": [], "refused": ["Sailors hate tea"]}  # not to be had: asked again in vain
    assert pipeline.featurize(params, "knowledge", "m", lambda _: None)


def test_scores_redirect_is_not_followed(tmp_path: Path, service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_KEY", KEY)
    elsewhere = Running()
    service.state["location"] = elsewhere.url
    threading.Thread(target=elsewhere.serve_forever, daemon=True).start()
    with pytest.raises(ModelError, match=f"redirects to 127.0.0.1:{elsewhere.server_port}, and redirects are not"):
        featurize(study(tmp_path, service.url, api_key_env="SERVICE_KEY"))
    elsewhere.shutdown()
    elsewhere.server_close()
    assert not elsewhere.state["seen"] and len(service.state["seen"]) == 1


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({"status": 403}, "HTTP 403 from http://127.0.0.1"),
        ({"content": b"<html>"}, "is not JSON"),
        ({"attribute": "OTHER"}, "without a score for 'IDENTITY_ATTACK'; check attribute and protocol"),
    ],
)
def test_scores_service_that_refuses_is_asked_once_and_named(
    tmp_path: Path, service: Running, state: dict[str, Any], reason: str
) -> None:
    service.state |= state
    with pytest.raises(ModelError, match=r"knowledge\.featurize\.toxicity: ") as failed:
        featurize(study(tmp_path, service.url))
    assert reason in str(failed.value) and len(service.state["seen"]) == 1


def test_scores_all_missing_leave_the_old_features(tmp_path: Path, service: Running) -> None:
    params = study(tmp_path, service.url)
    featurize(params)
    path = tmp_path / "data/features/knowledge/m/triples.parquet"
    before = path.read_bytes()
    params = study(tmp_path, service.url, attribute="X")
    service.state |= {"attribute": "X", "value": dict.fromkeys(service.texts, 2)}
    with pytest.raises(AuditError, match=r"gave no score for any of 5 texts: .* which is not in"):
        featurize(params)
    assert path.read_bytes() == before


def test_scores_budget_stops_and_the_next_run_goes_on(tmp_path: Path, service: Running) -> None:
    with pytest.raises(BudgetError, match="max_requests reached: stopped after 3 requests"):
        featurize(study(tmp_path, service.url, max_requests=3))
    assert len(service.texts) == 3
    featurize(study(tmp_path, service.url))
    assert len(service.texts) == 4


def test_scores_missing_key_and_unsafe_url_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    with pytest.raises(ModelError, match="set the environment variable NO_SUCH_KEY"):
        featurize(study(tmp_path, "http://127.0.0.1:9", api_key_env="NO_SUCH_KEY"))
    for settings in ({"url": f"http://host/?key={KEY}"}, {"url": "http://host", "api_key_env": KEY}):
        with pytest.raises(ParamsError, match=r"knowledge\.featurize\.toxicity: ") as refused:
            study(tmp_path, **settings)
        assert "planted" not in str(refused.value)
