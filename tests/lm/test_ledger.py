"""The ledger after kills and damage, on full disks, and between processes."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from markedness.lm import ledger as ledgers
from markedness.lm.base import Draw
from markedness.lm.database import LedgerError
from markedness.lm.ledger import DIGEST, Ledger
from markedness.lm.plan import Answers, Plan
from markedness.lm.scripted import ScriptedModel
from markedness.records import Completion, Prompt

PROMPT = Prompt("p", "g", completion="Say")


def draw(sample: int, served_by: str = "here") -> Draw:
    return Draw(PROMPT, sample, {"model": "toy", "text": "Say"}, served_by)


def keys(*samples: int) -> np.ndarray:
    return np.frombuffer(b"".join(bytes.fromhex(draw(sample).key) for sample in samples), dtype=DIGEST)


def filled(path: Path, n: int = 3) -> Path:
    with Ledger(path) as ledger:
        for sample in range(n):
            ledger.append(draw(sample), Completion(text=f"answer {sample}", finish_reason="stop", prompt_tokens=0))
    return path


def texts(path: Path, n: int = 3) -> list[str | None]:
    with Ledger(path) as ledger:
        found = [ledger.get(draw(sample).key) for sample in range(n)]
    return [completion.text if completion else None for completion in found]


def execute(path: Path, statement: str, *values: Any) -> None:
    with contextlib.closing(sqlite3.connect(path)) as base:
        base.execute(statement, values)
        base.commit()


def in_child(work: Callable[[], None]) -> int:
    """Run in a forked process; its number."""
    child = os.fork()
    if not child:
        try:
            work()
        except BaseException as error:
            print(repr(error))
            os._exit(3)
        os._exit(0)
    return child


def ended(child: int) -> int:
    return os.waitpid(child, 0)[1]


def test_ledger_keeps_each_sample_of_one_request(tmp_path: Path) -> None:
    path = filled(tmp_path / "a" / "m.sqlite")
    assert texts(path, 4) == ["answer 0", "answer 1", "answer 2", None]
    with Ledger(path) as ledger:
        assert len(ledger) == 3
        assert ledger.get(draw(0).key) == Completion(text="answer 0", finish_reason="stop", prompt_tokens=0)
        assert list(ledger.keys()) == [draw(sample).key for sample in range(3)]


def test_ledger_never_gives_the_answer_of_another_server(tmp_path: Path) -> None:
    path = filled(tmp_path / "m.sqlite")
    with Ledger(path) as ledger:
        assert ledger.get(draw(0, served_by="there").key) is None
        assert ledger.served_by() == {"here": 3}


def test_ledger_find_matches_keys_with_zero_bytes_exactly(tmp_path: Path) -> None:
    asked = np.frombuffer(bytes(range(16)) + bytes(16) + bytes(15) + b"\x01", dtype=DIGEST)
    with Ledger(tmp_path / "m.sqlite") as ledger:
        moment = "2026-01-01T00:00:00.000+00:00"
        ledger.add([(bytes(16), "here", 0, "{}", '{"text":"zero"}', moment, moment)])
        assert ledger.find(asked).tolist() == [False, True, False]


def test_ledger_find_of_more_keys_than_one_query_takes_finds_all(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(ledgers, "KEYS_AT_ONCE", 3)
    path = filled(tmp_path / "m.sqlite", 10)
    with Ledger(path) as ledger:
        assert ledger.find(keys(*range(12))).tolist() == [True] * 10 + [False] * 2
        assert [ledger.read(keys(i).tobytes()).text for i in range(10)] == [f"answer {i}" for i in range(10)]


def test_ledger_completion_is_stored_as_it_came(tmp_path: Path) -> None:
    text = f"{Path.home()} \x00 \x1b[31m key sk-1 wörd " * 3_000
    with Ledger(tmp_path / "m.sqlite") as ledger:
        ledger.append(draw(0), Completion(text=text, log_probs=(-1.5, None), reasons=(None, "no")))
        found = ledger.get(draw(0).key)
    assert found == Completion(text=text, log_probs=(-1.5, None), reasons=(None, "no"))


@pytest.mark.parametrize("answer", [{"text": "x" * 1_000_001}, {"text": "\ud800"}, {"log_probs": (-1.0,) * 300_000}])
def test_ledger_answer_that_cannot_be_kept_is_refused_with_the_reason(tmp_path: Path, answer: dict[str, Any]) -> None:
    with Ledger(tmp_path / "m.sqlite") as ledger:
        with pytest.raises(ValueError, match=r"at most 1,000,000 are accepted|cannot be stored as UTF-8"):
            ledger.append(draw(0), Completion(**answer))
        assert len(ledger) == 0


def test_ledger_answer_with_a_text_is_never_counted_or_removed_as_empty(tmp_path: Path) -> None:
    path = filled(tmp_path / "m.sqlite", 4)
    execute(path, "UPDATE answers SET answer = ? WHERE sample = 1", '{"note":{"error":1},"text":"a \\"error\\":"}')
    execute(path, "UPDATE answers SET answer = ? WHERE sample = 2", '{"error": no JSON')
    execute(path, "UPDATE answers SET answer = ? WHERE sample = 3", b'{"error":"bytes"}')
    with Ledger(path) as ledger:
        assert ledger.count_empty() == ledger.drop_empty() == 0 and len(ledger) == 4


def test_ledger_without_its_table_is_damaged_in_one_sentence(tmp_path: Path) -> None:
    path = filled(tmp_path / "m.sqlite")
    execute(path, "DROP TABLE answers")
    with (
        Ledger(path) as ledger,
        pytest.raises(LedgerError, match=r"is damaged \(no such table: answers\); move it away"),
    ):
        len(ledger)


@pytest.mark.parametrize(
    "answer",
    [
        '{"log_probs": 5}', '{"log_probs": ["a"]}', '{"text": 3}', '{"text": "a", "prompt_tokens": "many"}', "{}",
        "[1]", "7", '{"text": "to', "", '{"text": "a", "error": "late"}',
    ],
)  # fmt: skip
def test_ledger_malformed_answer_is_named_and_asked_again(tmp_path: Path, answer: str) -> None:
    path = filled(tmp_path / "m.sqlite")
    execute(path, "UPDATE answers SET answer = ? WHERE sample = 1", answer)
    with Ledger(path) as ledger:
        assert ledger.find(keys(0, 1, 2)).tolist() == [True, False, True]
        assert len(ledger.faults) == 1 and draw(1).key in ledger.faults[0]
        ledger.append(draw(1), Completion(text="again"))
    assert texts(path) == ["answer 0", "again", "answer 2"]


@pytest.mark.parametrize("column", ["asked", "answered"])
@pytest.mark.parametrize("moment", ['"},{', "2026-01-01\n", "", "yesterday"])
def test_ledger_row_with_a_time_that_is_none_is_asked_again(tmp_path: Path, column: str, moment: str) -> None:
    path = filled(tmp_path / "m.sqlite")
    execute(path, f"UPDATE answers SET {column} = ? WHERE sample = 1", moment)
    with Ledger(path) as ledger:
        assert ledger.find(keys(0, 1, 2)).tolist() == [True, False, True]
        assert len(ledger.faults) == 1 and draw(1).key in ledger.faults[0]


def test_ledger_that_is_no_database_says_so_and_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite"
    path.write_bytes(b"no database at all" * 500)
    with pytest.raises(LedgerError, match=r"is damaged .* move it away, the slices under data/ledger are read again"):
        Ledger(path).__enter__()
    assert path.read_bytes().startswith(b"no database")


def test_ledger_of_a_newer_version_is_not_touched(tmp_path: Path) -> None:
    path = filled(tmp_path / "m.sqlite")
    execute(path, "PRAGMA user_version = 9")
    with pytest.raises(LedgerError, match="version 9, this markedness reads version 2"):
        Ledger(path).__enter__()


def test_ledger_held_for_long_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = filled(tmp_path / "m.sqlite")
    monkeypatch.setattr("markedness.lm.database.BUSY_TIMEOUT", 0.05)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other, Ledger(path) as ledger:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match=r"another process has been writing it for 0\.05 s"):
            ledger.append(draw(3), Completion(text="x"))
        other.execute("ROLLBACK")
        ledger.append(draw(3), Completion(text="x"))
    assert texts(path, 4)[3] == "x"


def test_ledger_unwritable_folder_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(LedgerError, match=r"cannot be opened .* make its folder writable"):
        Ledger(tmp_path / "file" / "m.sqlite").__enter__()


def test_ledger_full_disk_is_one_sentence_and_loses_nothing(tmp_path: Path) -> None:
    path = filled(tmp_path / "m.sqlite")
    ready, said = os.pipe()

    def fill() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
        with Ledger(path) as ledger:
            sample = 3
            try:
                while True:
                    ledger.append(draw(sample), Completion(text="x" * 10_000))
                    sample += 1
            except LedgerError as error:
                assert "free some space; what it holds is kept, what is on the wire is asked again" in str(error)
                os.write(said, b"%d" % sample)

    assert ended(in_child(fill)) == 0
    kept = int(os.read(ready, 100))
    assert kept > 5
    assert None not in texts(path, kept) and texts(path, kept + 1)[kept] is None


@pytest.mark.slow
def test_ledger_killed_at_any_moment_has_every_answer_that_was_appended(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite"
    rng = np.random.default_rng(3)
    kept = 0
    for _ in range(20):
        ready, said = os.pipe()

        def write(start: int = kept, said: int = said) -> None:
            with Ledger(path) as ledger:
                for sample in range(start, start + 100_000):
                    ledger.append(draw(sample), Completion(text=f"answer {sample}"))
                    os.write(said, b"%d\n" % sample)

        child = in_child(write)
        os.close(said)
        stop = kept + int(rng.integers(1, 60))
        seen = b""
        while f"{stop}\n".encode() not in seen:
            seen += os.read(ready, 4096)
        os.kill(child, signal.SIGKILL)
        assert os.WIFSIGNALED(ended(child))
        while piece := os.read(ready, 4096):
            seen += piece
        os.close(ready)
        last = int(seen.split(b"\n")[-2])
        found = texts(path, last + 1)
        assert found == [f"answer {sample}" for sample in range(last + 1)]
        kept = last + 1


def test_ledger_of_two_writers_at_once_has_the_answers_of_both(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite"

    def write(first: int) -> None:
        with Ledger(path) as ledger:
            for sample in range(first, first + 500):
                ledger.append(draw(sample), Completion(text=f"answer {sample}"))

    children = [in_child(partial(write, first)) for first in (0, 250)]
    assert [ended(child) for child in children] == [0, 0]
    assert texts(path, 751) == [*(f"answer {sample}" for sample in range(750)), None]


def test_ledger_keeps_the_first_of_two_answers_to_one_request(tmp_path: Path) -> None:
    with Ledger(tmp_path / "m.sqlite") as ledger:
        key = keys(0).tobytes()
        ledger.append(draw(0), Completion(text="first"))
        ledger.append(draw(0), Completion(text="second"))
        assert ledger.read(key).text == "first"
        row = next(ledger.rows(keys(0)))
        ledger.add([(*row[:4], '{"text":"earlier"}', "2020-01-01T00:00:00.000+00:00", "2020-01-01T00:00:00.000+00:00")])
        assert ledger.read(key).text == "earlier"
        ledger.add([row])
        assert ledger.read(key).text == "earlier"


# ---------------------------------------------------------------- claims


def test_ledger_answer_with_a_text_is_kept_before_one_that_is_empty(tmp_path: Path) -> None:
    early, late = "2026-01-01T00:00:00.000+00:00", "2026-01-02T00:00:00.000+00:00"
    empty, text = '{"completion_tokens":9,"error":"the answer is empty"}', '{"text":"says \\"error\\":"}'
    with Ledger(tmp_path / "m.sqlite") as ledger:
        for number, pair in enumerate([((empty, early), (text, late)), ((text, late), (empty, early))]):
            for answer, moment in pair:
                ledger.add([(bytes([number] * 16), "here", 0, "{}", answer, moment, moment)])
        asked = np.frombuffer(bytes(16) + bytes([1] * 16), dtype=DIGEST)
        assert [ledger.read(asked[i : i + 1].tobytes()).text for i in range(2)] == ['says "error":'] * 2
        assert ledger.count_empty() == 0


def test_ledger_key_is_claimed_by_one_process_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite"
    with Ledger(path) as first, Ledger(path) as second:
        assert first.claim(keys(0, 1)).tolist() == [True, True]
        assert second.claim(keys(1, 2)).tolist() == [False, True]
        assert second.claimed(keys(0, 1)).tolist() == [True, True]
        first.release()
        assert second.claim(keys(0, 1)).tolist() == [True, True]
    assert not list(tmp_path.glob("*.runs/*"))


def test_ledger_claims_of_a_killed_process_are_void(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite"

    def hold() -> None:
        with Ledger(path) as ledger:
            ledger.claim(keys(0))
            time.sleep(600)

    child = in_child(hold)
    with Ledger(path) as ledger:
        while not ledger.claimed(keys(0)).any():
            time.sleep(0.01)
        assert ledger.claim(keys(0)).tolist() == [False]
        os.kill(child, signal.SIGKILL)
        ended(child)
        assert ledger.claim(keys(0)).tolist() == [True]


def test_ledger_place_of_a_removed_answer_is_never_read_as_another_answer(tmp_path: Path) -> None:
    model = ScriptedModel("toy", lambda prompt, rng: "any")
    with Ledger(tmp_path / "m.sqlite") as ledger:
        asked = [Prompt("p", "g", completion=text) for text in ("one", "two")]
        draws = [Draw(prompt, 0, model.request(prompt), model.served_by) for prompt in asked]
        ledger.append(draws[0], Completion(text="to one"))
        answers = Answers(Plan(model, asked[:1], ledger))
        execute(ledger.path, "DELETE FROM answers")
        ledger.append(draws[1], Completion(text="to two"))  # SQLite gives the number of the removed row again
        with pytest.raises(LedgerError, match="an answer was removed or damaged during the run"):
            answers[0]
        with pytest.raises(LedgerError, match="removed or damaged"):
            ledger.read(bytes.fromhex(draws[0].key))


def test_ledger_with_a_run_that_has_it_open_is_not_pruned(tmp_path: Path) -> None:
    path = filled(tmp_path / "m.sqlite")
    with Ledger(path) as running, Ledger(path) as other:
        running.enroll()
        for remove in (other.drop_empty, lambda: other.keep(keys(1))):
            with pytest.raises(LedgerError, match="a run is asking this model; wait until it ends"):
                remove()
    assert texts(path) == ["answer 0", "answer 1", "answer 2"]


def test_ledger_keep_removes_the_rest_but_not_while_a_run_is_asking(tmp_path: Path) -> None:
    path = filled(tmp_path / "m.sqlite")
    with Ledger(path) as ledger:
        with Ledger(path) as asking:
            asking.claim(keys(7))
            with pytest.raises(LedgerError, match="a run is asking this model; wait until it ends"):
                ledger.keep(keys(1))
        assert ledger.keep(keys(1)) == 2
    assert texts(path) == [None, "answer 1", None]
