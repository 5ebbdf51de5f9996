"""The Batch endpoint: several batches, partial and expired ones, kills at every step, faults inside."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.cells import text
from tests.lm import toy_study
from tests.servers.openai_server import Server

from markedness import generation
from markedness.lm import batch as batches
from markedness.lm import batch_answers
from markedness.lm.base import ModelError
from markedness.lm.ledger import Ledger
from markedness.lm.plan import Counts
from markedness.lm.run import BudgetError
from markedness.store import Store

TEXTS = [f"text {i}" for i in range(7)]
BATCH: dict[str, Any] = {"batch_api": True, "batch_requests": 5, "batch_poll": 0.01, "max_wait": 0.01, "chat": True}


class Killed(BaseException):
    """Stands for SIGKILL at one place."""


def run(params: Any) -> tuple[pd.DataFrame, Counts]:
    counts = generation.generate(params, "toy", "toy", lambda line: None)
    assert counts.requested == counts.answered + counts.failed
    return pd.read_parquet(params.root / "data/generations/toy/toy.parquet"), counts


def under_way(params: Any) -> dict[str, dict[str, Any]]:
    with Ledger(Store(params.root).ledger_database("toy")) as ledger:
        return ledger.batches()


def test_batch_answers_are_those_of_single_requests(tmp_path: Path) -> None:
    with Server() as server:
        single = toy_study.study(tmp_path / "single", server.url, TEXTS, samples=2, chat=True)
        expected, _ = run(single)
        params = toy_study.study(tmp_path / "batch", server.url, TEXTS, samples=2, **BATCH)
        table, counts = run(params)
        assert len(server.batches) == 3  # 14 requests, at most 5 in one
        run(params)
        assert len(server.batches) == 3
    pd.testing.assert_frame_equal(table, expected)
    assert counts.answered == 14
    assert under_way(params) == {}


def test_batch_expired_half_way_is_merged_and_the_rest_handed_over_again(tmp_path: Path) -> None:
    with Server() as server:
        server.batch_plan = ["expired", "completed"]
        table, counts = run(toy_study.study(tmp_path, server.url, TEXTS, **BATCH))
        # 7 requests in 2 batches; the first of 5 brings 2, so 3 go into a third.
        assert len(server.batches) == 3 and server.stats()["repeated"] == 0
    assert counts.answered == 7 and table["text"].notna().all()


def test_batch_always_expiring_is_recorded_with_its_reason(tmp_path: Path) -> None:
    with Server() as server:
        server.batch_plan = ["expired"] * 9
        said: list[str] = []
        with pytest.raises(generation.StageError, match="all 1 requests failed"):
            params = toy_study.study(tmp_path, server.url, ["one"], max_attempts=3, **BATCH)
            generation.generate(params, "toy", "toy", said.append)
        assert len(server.batches) == 3
    assert any("batch_expired" in line and "3 batches" in line for line in said)


def test_batch_refused_is_recorded_with_its_reason(tmp_path: Path) -> None:
    with Server() as server:
        server.batch_plan = ["failed", "completed"]
        table, counts = run(toy_study.study(tmp_path, server.url, TEXTS, **BATCH))
    assert (counts.failed, counts.answered) == (5, 2)
    assert table["error"].dropna().str.contains("the file is not liked").all() and table["error"].notna().sum() == 5


def test_batch_fault_of_one_request_is_retried_or_recorded(tmp_path: Path) -> None:
    texts = ["fault:500*1", "fault:400", "fault:content-filter", "fault:empty", "fine"]
    with Server() as server:
        table, counts = run(toy_study.study(tmp_path, server.url, texts, **BATCH))
        assert len(server.batches) == 2
    assert (counts.answered, counts.failed) == (2, 3)
    table = table.set_index("prompt")
    assert table.loc[["fault:500*1", "fine"], "text"].notna().all()
    for fault, reason in (("400", "HTTP 400"), ("content-filter", "content filter"), ("empty", "empty")):
        assert reason in text(table, f"fault:{fault}", "error") and table["text"].isna()[f"fault:{fault}"]


MALFORMED = [
    "line-response-text", "line-response-list", "line-status-text", "line-status-huge", "line-error-text",
    "line-body-error-text", "line-code-list", "line-body-list",
]  # fmt: skip


@pytest.mark.parametrize("fault", MALFORMED)
def test_batch_malformed_answer_fails_alone_and_its_batch_is_merged(tmp_path: Path, fault: str) -> None:
    texts = [f"fault:{fault}*1", "fine"]
    with Server() as server:
        params = toy_study.study(tmp_path, server.url, texts, **BATCH)
        table, counts = run(params)
        assert (counts.answered, counts.failed) == (1, 1) and len(server.batches) == 1
        assert table["error"].notna().tolist() == [True, False]
        polls = [batch["polls"] for batch in server.batches.values()]
        table, counts = run(params)  # the batch is not looked at again; the request is asked anew
        assert counts.answered == 2 and len(server.batches) == 2
        assert server.batches["batch-1"]["polls"] == polls[0]


@pytest.mark.parametrize("fault", ["line-id-list", "line-list"])
def test_batch_line_of_no_request_is_a_failure_that_a_later_run_asks_again(tmp_path: Path, fault: str) -> None:
    with Server() as server:
        params = toy_study.study(tmp_path, server.url, [f"fault:{fault}*1", "fine"], **BATCH)
        table, counts = run(params)
        assert (counts.answered, len(server.batches)) == (1, 1)  # it may have been paid for: not handed over at once
        assert table["error"].dropna().item().startswith("its batch has ended, but has no line for it")
        _, counts = run(params)
        assert (counts.answered, counts.from_ledger, len(server.batches)) == (2, 1, 2)


def test_batch_output_that_is_gone_is_looked_for_again_before_it_is_paid_for_again(tmp_path: Path) -> None:
    with Server() as server:
        params = toy_study.study(tmp_path, server.url, ["one", "two"], **BATCH)
        server.lost_outputs = 1  # it comes late
        with pytest.raises(generation.StageError, match="all 2 requests failed"):
            run(params)
        _, counts = run(params)
        assert counts.answered == 2 and len(server.batches) == 1

        params = toy_study.study(tmp_path, server.url, ["three", "four"], **BATCH)
        server.lost_outputs = 2  # it is gone
        with pytest.raises(generation.StageError, match="all 2 requests failed"):
            run(params)
        assert len(server.batches) == 2
        _, counts = run(params)
        assert counts.answered == 2 and len(server.batches) == 3 and under_way(params) == {}


def test_batch_output_that_was_cut_off_is_read_again_before_the_rest_is_paid_for_again(tmp_path: Path) -> None:
    with Server() as server:
        params = toy_study.study(tmp_path, server.url, TEXTS[:4], **BATCH)
        server.cut_outputs = 1
        _, counts = run(params)
        assert 0 < counts.answered < 4
        _, counts = run(params)
        assert counts.answered == 4 and len(server.batches) == 1 and under_way(params) == {}
        assert server.stats()["answered"] == 4


@pytest.mark.parametrize("status", ["expired", "cancelled"])
@pytest.mark.parametrize("fault", ["lost_outputs", "cut_outputs"])
def test_batch_that_ended_early_is_looked_at_again_where_its_output_is_gone_or_cut_off(
    tmp_path: Path, status: str, fault: str
) -> None:
    with Server() as server:
        params = toy_study.study(tmp_path, server.url, TEXTS[:6], **BATCH)
        server.batch_plan = [status]
        setattr(server, fault, 1)
        try:
            run(params)
        except generation.StageError as error:
            assert "all 6 requests failed" in str(error)
        assert server.stats()["repeated"] == 0
        _, counts = run(params)
        assert counts.answered == 6 and under_way(params) == {}
        assert server.stats()["answered"] == 6 and server.stats()["repeated"] == 0


def test_batch_that_expired_with_half_of_its_output_and_no_counts_is_looked_at_again(tmp_path: Path) -> None:
    with Server() as server:
        server.batch_plan = ["expired"]
        server.batch_facts = {"request_counts": None, "output_file_id": None, "error_file_id": None}
        params = toy_study.study(tmp_path, server.url, TEXTS[:4], **BATCH)
        with pytest.raises(generation.StageError, match="all 4 requests failed"):
            run(params)
        assert server.stats()["repeated"] == 0 and len(server.batches) == 1
        server.batch_facts = {}
        _, counts = run(params)
        assert counts.answered == 4


ODD: list[dict[str, object]] = [
    {"request_counts": None}, {"request_counts": []}, {"request_counts": "six"},
    {"request_counts": {"completed": None}},
    {"error_file_id": ""}, {"error_file_id": 5}, {"errors": "x"}, {"metadata": []},
]  # fmt: skip


@pytest.mark.parametrize("facts", ODD)
def test_batch_of_which_odd_things_are_said_is_merged(tmp_path: Path, facts: dict[str, object]) -> None:
    with Server() as server:
        server.batch_facts = facts
        _, found = run(toy_study.study(tmp_path, server.url, TEXTS[:4], **BATCH))
        assert found.answered == 4 and len(server.batches) == 1


@pytest.mark.parametrize("damage", [b'{"custom_id": "nobody"}\n', b"{\n", b"\xff\xfe\n"])
def test_batch_that_expired_and_names_its_answers_to_nobody_is_looked_at_again(tmp_path: Path, damage: bytes) -> None:
    with Server() as server:
        server.batch_plan, server.batch_facts = ["expired"], {"request_counts": None}
        server.damaged_line = damage
        try:
            run(toy_study.study(tmp_path, server.url, TEXTS[:6], **BATCH))
        except generation.StageError as error:
            assert "requests failed" in str(error)
        assert server.stats()["repeated"] == 0


def test_batch_that_was_cancelled_and_names_no_output_of_its_answers_is_looked_at_again(tmp_path: Path) -> None:
    with Server() as server:
        server.batch_plan, server.batch_facts = ["cancelled"], {"output_file_id": None}
        params = toy_study.study(tmp_path, server.url, TEXTS[:2], **BATCH)
        with pytest.raises(generation.StageError, match="all 2 requests failed"):
            run(params)
        assert server.stats()["repeated"] == 0 and len(server.batches) == 1


def test_batch_output_with_a_byte_order_mark_and_refusals_before_an_answer_is_read_whole(tmp_path: Path) -> None:
    texts = ["fault:refused-too*1", "fine", "fault:400*1"]
    with Server() as server:
        server.before_output = b"\xef\xbb\xbf"
        table, counts = run(toy_study.study(tmp_path, server.url, texts, **BATCH))
        assert (counts.answered, counts.failed, len(server.batches)) == (2, 1, 1)
    assert table["error"].notna().tolist() == [False, False, True]


@pytest.mark.parametrize("batch_api", [True, False])
def test_batch_of_a_killed_run_whose_output_comes_late_is_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_api: bool
) -> None:
    with Server() as server:
        killed_while_waiting(tmp_path, server.url, monkeypatch, TEXTS[:2])
        server.lost_outputs = 1
        params = toy_study.study(tmp_path, server.url, TEXTS[:2], **{**BATCH, "batch_api": batch_api})
        with pytest.raises(generation.StageError, match="all 2 requests failed"):
            run(params)
        _, counts = run(params)
        assert counts.answered == 2 and len(server.batches) == 1
        assert server.stats()["answered"] == 2 and under_way(params) == {}


def test_batch_under_way_is_not_paid_again_by_single_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Server() as server:
        killed_while_waiting(tmp_path, server.url, monkeypatch, TEXTS[:5])
        said: list[str] = []
        params = toy_study.study(tmp_path, server.url, TEXTS[:6], **BATCH)
        generation.forecast(params, "toy", "toy", said.append)
        assert "5 of these were handed over to the Batch endpoint earlier" in said[1]
        assert "at most 9 out" in said[2]  # max_tokens of the sixth

        params = toy_study.study(tmp_path, server.url, TEXTS[:6], **{**BATCH, "batch_api": False})
        server.batch_polls = 99
        with pytest.raises(ModelError, match=r"5 of the requests were handed over .* under way there \(batch-1\)"):
            run(params)
        assert not server.answered
        server.batch_polls = 1
        table, counts = run(params)
        # 5 answers of the batch, and the sixth by a request of its own.
        assert counts.answered == 6 and len(server.batches) == 1 and server.stats()["answered"] == 6
        assert table["text"].notna().all() and under_way(params) == {}


def test_batch_of_an_endpoint_that_is_gone_does_not_keep_single_requests_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server() as server:
        killed_while_waiting(tmp_path, server.url, monkeypatch, TEXTS[:2])
        server.no_batches = True
        said: list[str] = []
        params = toy_study.study(tmp_path, server.url, TEXTS[:2], **{**BATCH, "batch_api": False})
        counts = generation.generate(params, "toy", "toy", said.append)
    assert counts.answered == 2
    assert any("what was handed over to it is asked for again" in line for line in said)


@pytest.mark.parametrize("answer", [b"[1]", b'"text"', b"{}", b'{"id": 7}', b'{"id": "../x", "status": "completed"}'])
def test_batch_endpoint_that_answers_nonsense_ends_with_a_sentence(tmp_path: Path, answer: bytes) -> None:
    with Server() as server:
        server.batch_answer = answer
        with pytest.raises(ModelError, match="the Batch endpoint refused: its answer cannot be read"):
            run(toy_study.study(tmp_path, server.url, ["one"], **BATCH))


def test_batch_endpoint_whose_id_holds_the_key_is_refused_and_the_key_is_kept_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "k3yzq8w1v7t5r9p2m4n6b0c8x1"
    monkeypatch.setenv("MY_KEY", key)
    with Server() as server:
        server.batch_answer = b'{"id": "batch_%s", "status": "in_progress"}' % key.encode()
        with pytest.raises(ModelError, match="an id holds the key") as caught:
            run(toy_study.study(tmp_path, server.url, ["one"], **BATCH, api_key_env="MY_KEY"))
    assert key not in str(caught.value)
    assert not any(key.encode() in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize("step", ["before upload", "before making", "before the id is written", "while waiting"])
def test_batch_killed_at_any_step_pays_for_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    with Server() as server:
        params = toy_study.study(tmp_path, server.url, TEXTS, **BATCH)
        with monkeypatch.context() as patch:
            kill_at(step, patch)
            with pytest.raises(Killed):
                run(params)
        table, counts = run(params)
        stats = server.stats()
    assert counts.answered == 7 and table["text"].notna().all()
    assert stats["answered"] == 7 and stats["repeated"] == 0
    _, counts = run(params)
    assert counts.from_ledger == 7


@pytest.mark.parametrize(("page", "more"), [(5, "said"), (5, "unsaid"), (100, "unsaid")])
def test_batch_without_an_id_is_found_behind_those_of_others_in_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: int, more: str
) -> None:
    with Server() as server:
        params = killed_before_the_id(tmp_path, server, monkeypatch)
        server.batch_page, server.batch_more = page, more
        _, counts = run(params)
        assert counts.answered == 2 and len(server.batches) == 31
        assert under_way(params) == {}


def test_batch_without_an_id_is_found_by_its_file_where_the_server_forgets_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server() as server:
        server.batch_names = False
        params = killed_before_the_id(tmp_path, server, monkeypatch)
        _, counts = run(params)
        assert counts.answered == 2 and len(server.batches) == 31


def test_batch_without_an_id_is_not_made_again_where_the_list_of_batches_does_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server() as server:
        params = killed_before_the_id(tmp_path, server, monkeypatch)
        for page, more, listed in ((5, "always", "5"), (1, "said", "3")):
            server.batch_page, server.batch_more = page, more
            monkeypatch.setattr(batch_answers, "MOST_PAGES", 3)
            with pytest.raises(ModelError, match=rf"batches of the list go on after {listed}\)"):
                run(params)
        assert len(server.batches) == 31 and len(under_way(params)) == 1


def killed_before_the_id(folder: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A study whose batch was made, its id not yet written, and then thirty of others."""
    params = toy_study.study(folder, server.url, TEXTS[:2], **BATCH)
    with monkeypatch.context() as patch:
        kill_at("before the id is written", patch)
        with pytest.raises(Killed):
            run(params)
    server.batches |= {f"other-{n}": {"id": f"other-{n}", "status": "completed"} for n in range(30)}
    return params


def kill_at(step: str, patch: pytest.MonkeyPatch) -> None:
    run_class = batches.BatchRun

    def die(*args: Any, **more: Any) -> Any:
        raise Killed

    if step == "before upload":
        call, calls = run_class._call, []

        async def first_only(self: Any, what: Any) -> Any:
            calls.append(what)
            return await call(self, what) if len(calls) > 1 else die()

        patch.setattr(run_class, "_call", first_only)
    elif step == "before making":
        patch.setattr(run_class, "_make", die)
    elif step == "before the id is written":
        make = run_class._make

        async def make_and_die(self: Any, name: str, file: str) -> str:
            await make(self, name, file)
            raise Killed

        patch.setattr(run_class, "_make", make_and_die)
    else:
        patch.setattr(run_class, "_merged", die)


def killed_while_waiting(folder: Path, url: str, monkeypatch: pytest.MonkeyPatch, texts: list[str] = TEXTS) -> Any:
    """A study whose batch the endpoint has, and whose run was killed before the answers came."""
    params = toy_study.study(folder, url, texts, **BATCH)
    with monkeypatch.context() as patch:
        kill_at("while waiting", patch)
        with pytest.raises(Killed):
            run(params)
    return params


def test_batch_of_other_params_is_kept_for_the_run_that_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server() as server:
        killed_while_waiting(tmp_path, server.url, monkeypatch)
        other = toy_study.study(tmp_path, server.url, ["another text"], **BATCH)
        _, counts = run(other)
        assert counts.answered == 1
        _, counts = run(toy_study.study(tmp_path, server.url, TEXTS, **BATCH))
        assert counts.answered == 7 and server.stats()["answered"] == 8


def test_batch_that_the_endpoint_forgot_is_forgotten_with_a_sentence_and_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server() as server:
        params = killed_while_waiting(tmp_path, server.url, monkeypatch)
        del server.batches["batch-1"]
        said: list[str] = []
        counts = generation.generate(params, "toy", "toy", said.append)
    assert counts.answered == 7 and counts.failed == 0
    assert under_way(params) == {}
    (sentence,) = (line for line in said if "batch-1" in line)
    assert "5 requests are asked again" in sentence and "may be paid for twice" in sentence


def test_batch_endpoint_that_is_gone_itself_keeps_its_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Server() as server:
        params = killed_while_waiting(tmp_path, server.url, monkeypatch)
        server.no_batches = True
        with pytest.raises(ModelError, match="the Batch endpoint refused"):
            run(params)
    assert len(under_way(params)) == 2


def test_batch_budget_stops_the_handing_over(tmp_path: Path) -> None:
    with Server() as server:
        params = toy_study.study(tmp_path, server.url, TEXTS, max_requests=4, **BATCH)
        with pytest.raises(BudgetError, match=r"max_requests reached: stopped after 4 requests .* 3 not asked"):
            run(params)
        _, counts = run(dataclasses.replace(params))
        assert counts.answered == 7 and server.stats()["answered"] == 7
