"""The ledger after kills, torn and corrupt lines, and between two processes."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from markedness.lm.base import Draw
from markedness.lm.cache import Ledger, LedgerError
from markedness.records import Completion, Prompt

PROMPT = Prompt("p", "g", completion="Say")


def draw(sample: int) -> Draw:
    return Draw(PROMPT, sample, {"model": "toy", "text": "Say"})


def filled(path: Path, n: int = 3) -> Path:
    with Ledger(path) as ledger:
        for sample in range(n):
            ledger.append(draw(sample), Completion(text=f"answer {sample}", finish_reason="stop", prompt_tokens=0))
    return path


def texts(path: Path, n: int = 3) -> list[str | None]:
    with Ledger(path) as ledger:
        found = [ledger.get(draw(sample).key) for sample in range(n)]
    return [completion and completion.text for completion in found]


def test_ledger_keeps_each_sample_of_one_request(tmp_path: Path) -> None:
    path = filled(tmp_path / "a" / "m.jsonl")
    assert texts(path, 4) == ["answer 0", "answer 1", "answer 2", None]
    with Ledger(path) as ledger:
        assert len(ledger) == 3
        assert ledger.get(draw(0).key) == Completion(text="answer 0", finish_reason="stop", prompt_tokens=0)
        assert list(ledger.keys()) == [draw(sample).key for sample in range(3)]


def test_ledger_find_matches_keys_with_zero_bytes_exactly(tmp_path: Path) -> None:
    keys = np.frombuffer(bytes(range(16)) + bytes(16) + bytes(15) + b"\x01", dtype="S16")
    with Ledger(tmp_path / "m.jsonl") as ledger:
        ledger._add(bytes(16), 7)
        assert ledger.find(keys).tolist() == [-1, 7, -1]


def test_ledger_torn_at_any_byte_loses_at_most_the_last_answer(tmp_path: Path) -> None:
    whole = filled(tmp_path / "m.jsonl").read_bytes()
    second = whole.index(b"\n") + 1
    third = whole.index(b"\n", second) + 1
    for cut in range(third, len(whole)):
        torn = tmp_path / "torn.jsonl"
        torn.write_bytes(whole[:cut])
        kept = texts(torn)
        # the line is whole even where only its end-of-line is missing
        assert kept == ["answer 0", "answer 1", "answer 2" if cut == len(whole) - 1 else None]
        with Ledger(torn) as ledger:
            assert ledger.faults == []
            ledger.append(draw(2), Completion(text="again"))
        assert torn.read_bytes().endswith(b"\n")
        assert texts(torn)[:2] == ["answer 0", "answer 1"] and texts(torn)[2] is not None


@pytest.mark.parametrize(
    "corrupt", [b"\xff\xfe\x00", b"{}", b"[1]", b'{"key": "zz", "answer": {}}', b"\x00" * 40, b"7"]
)
def test_ledger_corrupt_line_in_the_middle_is_reported_and_loses_no_later_line(tmp_path: Path, corrupt: bytes) -> None:
    path = filled(tmp_path / "m.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + corrupt + b"\n" + lines[2])
    assert texts(path) == ["answer 0", None, "answer 2"]
    with Ledger(path) as ledger:
        assert len(ledger.faults) == 1 and "line 2 cannot be read" in ledger.faults[0]


def test_ledger_held_by_another_run_says_so(tmp_path: Path) -> None:
    path = filled(tmp_path / "m.jsonl")
    with Ledger(path), pytest.raises(LedgerError, match="another run is writing this ledger"), Ledger(path):
        pass
    with Ledger(path) as first, Ledger(path, read_only=True) as second:
        assert len(first) == len(second) == 3


def test_ledger_read_only_makes_and_changes_nothing(tmp_path: Path) -> None:
    with Ledger(tmp_path / "none.jsonl", read_only=True) as ledger:
        assert ledger.get(draw(0).key) is None
    assert not (tmp_path / "none.jsonl").exists()
    path = filled(tmp_path / "m.jsonl")
    path.write_bytes(path.read_bytes() + b'{"torn')
    before = path.read_bytes()
    with Ledger(path, read_only=True) as ledger:
        assert len(ledger) == 3
    assert path.read_bytes() == before


def test_ledger_long_answer_is_read_back(tmp_path: Path) -> None:
    with Ledger(tmp_path / "m.jsonl") as ledger:
        ledger.append(draw(0), Completion(text="wörd " * 30_000, log_probs=(-1.5, None), reasons=(None, "no")))
        found = ledger.get(draw(0).key)
    assert found is not None and found.text == "wörd " * 30_000
    assert found.log_probs == (-1.5, None) and found.reasons == (None, "no")


def test_ledger_full_disk_is_one_sentence_and_leaves_whole_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = filled(tmp_path / "m.jsonl")
    write = os.write

    def full(file: int, line: bytes) -> int:
        if len(line) < 40:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, line[:-30])

    with Ledger(path) as ledger, monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(LedgerError, match="cannot be written"):
            ledger.append(draw(3), Completion(text="x"))
    assert texts(path, 4) == ["answer 0", "answer 1", "answer 2", None]
    assert path.read_bytes().endswith(b"\n")
