"""Two Ray workers on this machine: the same table and the same ledger as one process."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import yaml
from tests.lm.tiny_models import tiny_gpt2

from markedness import audits, generation
from markedness import params as params_file
from markedness.lm import cluster
from markedness.lm.base import ModelError
from markedness.lm.ledger import Ledger
from markedness.records import Prompt, Sampling

pytestmark = pytest.mark.slow

TEXTS = ("the person is", "they are always", "a person who is kind tends to be", "she says she is", "he says")
PACKAGE = str(Path(__file__).parents[2] / "src")


def prompts(stimuli: Any, params: Any, rng: Any) -> Iterator[list[Prompt]]:
    sampling = Sampling(top_p=0.9, max_tokens=8)
    written = [Prompt(f"w{i}", "g", completion=text, samples=4, sampling=sampling) for i, text in enumerate(TEXTS)]
    scored = [Prompt(f"s{i}", "g", completion=text, candidates=("kind", "zzz")) for i, text in enumerate(TEXTS)]
    yield written + scored
    yield [Prompt("p", "g", completion=text, perplexity=True) for text in TEXTS]


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """One tiny model under two names: "one" process, "two" workers."""
    pytest.importorskip("torch", reason="skipped: torch is not installed (pip install 'markedness[local]')")
    tiny_gpt2(tmp_path / "tiny")
    model = {
        "backend": "transformers", "path": "tiny", "dtype_text": "float64", "dtype_scores": "float64", "batch_size": 3,
    }  # fmt: skip
    models = {"one": model, "two": model | {"workers": 2}}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump({"models": models}))
    monkeypatch.setattr(audits, "spec", lambda audit: SimpleNamespace(prompts=prompts))
    return dataclasses.replace(params_file.load(tmp_path / "params.yaml"), stages={("toy", "generate"): None})


def table(study: Any, model: str) -> pd.DataFrame:
    return pd.read_parquet(study.root / "data" / "generations" / "toy" / f"{model}.parquet")


def test_two_workers_write_the_table_of_one_process(study: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason="skipped: Ray is not installed (pip install 'markedness[cluster]')")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([PACKAGE, os.environ.get("PYTHONPATH", "")]))
    one = generation.generate(study, "toy", "one")
    assert (one.requested, one.answered, one.failed) == (30, 30, 0)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        two = generation.generate(study, "toy", "two")
        assert (two.answered, two.from_ledger) == (30, 0)
        pd.testing.assert_frame_equal(table(study, "one"), table(study, "two"), check_exact=True)
    finally:
        ray.shutdown()
    ledgers = study.root / ".markedness" / "ledger"
    with Ledger(ledgers / "one.sqlite") as first, Ledger(ledgers / "two.sqlite") as second:
        assert set(first.keys()) == set(second.keys())
    # nothing is asked, and no Ray started, where the ledger has it all
    again = generation.generate(study, "toy", "two")
    assert again.from_ledger == 30 and not ray.is_initialized()


class Dying(cluster.Worker):
    """A worker that is killed while it loads its model, as for want of memory."""

    def __init__(self, *settings: Any) -> None:
        os._exit(137)


def test_workers_that_die_again_and_again_end_the_run_with_a_sentence(
    study: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray", reason="skipped: Ray is not installed (pip install 'markedness[cluster]')")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([PACKAGE, str(Path(__file__).parents[2])]))
    monkeypatch.setattr(cluster, "Worker", Dying)
    monkeypatch.setattr(cluster, "RESTARTS", 1)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        with pytest.raises(ModelError, match="tiny: a Ray worker failed"):
            generation.generate(study, "toy", "two")
    finally:
        ray.shutdown()


class Stuck(cluster.Worker):
    """A worker that loads its model for an hour."""

    def __init__(self, *settings: Any) -> None:
        Path(os.environ["LOADING"]).touch()
        time.sleep(3600)


RUN = """
import contextlib, dataclasses, pathlib, types
from markedness import audits, generation, params
from markedness.lm import cluster
from tests.lm import test_cluster
audits.spec = lambda audit: types.SimpleNamespace(prompts=test_cluster.prompts)
cluster.Worker = test_cluster.Stuck
loaded = params.load(pathlib.Path("params.yaml"))
with contextlib.suppress(KeyboardInterrupt):
    generation.generate(dataclasses.replace(loaded, stages={("toy", "generate"): None}), "toy", "two")
"""


def test_an_interrupted_run_does_not_wait_for_workers_that_load_their_model(study: Any) -> None:
    pytest.importorskip("ray", reason="skipped: Ray is not installed (pip install 'markedness[cluster]')")
    loading, said = study.root / "loading", study.root / "said"
    here = os.pathsep.join([PACKAGE, str(Path(__file__).parents[2])])
    with said.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", RUN], cwd=study.root, stdout=output, stderr=output,
            env=os.environ | {"PYTHONPATH": here, "LOADING": str(loading)},
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        try:
            while not loading.exists() and process.poll() is None:
                time.sleep(0.1)
            process.send_signal(signal.SIGINT)
            process.wait(300)
        finally:
            process.kill()
    text = said.read_text(encoding="utf-8")
    assert "toy two: interrupted; 0 answers are in the ledger, run again to go on" in text
    assert "Traceback" not in text


def test_a_complete_ledger_needs_no_model(study: Any) -> None:
    generation.generate(study, "toy", "one")
    before = table(study, "one")
    shutil.rmtree(study.root / "tiny")
    again = generation.generate(study, "toy", "one")
    assert (again.answered, again.from_ledger) == (30, 30)
    pd.testing.assert_frame_equal(before, table(study, "one"), check_exact=True)


def test_more_than_one_worker_without_ray_is_one_sentence(study: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ModelError, match=r"pip install 'markedness\[cluster\]' or set workers: 1"):
        generation.generate(study, "toy", "two")
