"""A collaborator reproduces a study with no key and no request, and asks only for what a change adds.

Two clones, a remote between them (a folder, then a real S3 server), and a model server that counts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.servers.openai_server import Server

ROOT = Path(__file__).parents[1]
AXES = {
    "race": {"unmarked": "White", "values": {"White": {}, "Black": {}}},
    "gender": {"unmarked": "man", "values": {"man": {}, "woman": {"pronouns": ["she", "her", "her"]}}},
}


def run(folder: Path, *command: str, **environment: str) -> str:
    """Run a command as a person in this folder would; its output, and a failure that shows it."""
    env = {**os.environ, "DVC_NO_ANALYTICS": "1", "CI": "true", "PYTHONPATH": str(folder / "src"), **environment}
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    done = subprocess.run(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def study(url: str) -> dict[str, Any]:
    """Personas of four groups, asked of one served model."""
    shipped = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    shipped["audits"], shipped["run"] = ["personas"], ["served"]
    shipped["models"]["served"] = {"backend": "openai", "model": "test-model", "base_url": url}
    shipped["personas"]["axes"] = AXES
    shipped["personas"]["generate"] |= {"samples": 4}
    shipped["personas"]["featurize"] |= {"embeddings": None, "svm": {"enabled": False}}  # not what is shared
    shipped["personas"]["evaluate"] |= {"n_permutations": 20, "n_resamples": 100}
    return shipped


def write(folder: Path, params: dict[str, Any]) -> None:
    (folder / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False), encoding="utf-8")


def tables(folder: Path) -> dict[str, bytes]:
    results = folder / "results" / "personas" / "served"
    return {path.name: path.read_bytes() for path in sorted(results.rglob("*.csv"))}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Server]]:
    """The first clone, with the study run and committed."""
    if not (ROOT / ".git").exists():
        pytest.skip("skipped: this is not a git checkout, so there is nothing to clone")
    folder = tmp_path_factory.mktemp("sharing") / "first"
    run(ROOT, "git", "clone", "--quiet", str(ROOT), str(folder))
    # uncommitted work is part of what is tested
    shutil.copytree(ROOT / "src", folder / "src", dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "dvc.yaml", folder / "dvc.yaml")
    with Server() as server:
        write(folder, study(server.url))
        run(folder, "dvc", "repro", "evaluate", OPENAI_API_KEY="sk-test-of-the-first-clone")
        run(folder, "git", "add", "-A")
        run(folder, "git", "-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-qm", "Run the study")
        yield folder, server


def share(first: Path, second: Path, remote: list[list[str]]) -> None:
    """Push from the first clone; clone and pull as the second person."""
    for command in remote:
        run(first, "dvc", *command)
    run(first, "dvc", "push", "--quiet")
    run(first, "git", "clone", "--quiet", str(first), str(second))
    for command in remote:
        run(second, "dvc", *command)
    run(second, "dvc", "pull", "--quiet", "--allow-missing")


def without_key() -> dict[str, str]:
    return {"OPENAI_API_KEY": ""}


def test_second_clone_through_a_folder_needs_no_request_and_a_change_asks_only_for_what_is_new(
    first: tuple[Path, Server], tmp_path: Path
) -> None:
    folder, server = first
    asked = sum(server.answered.values())
    assert asked > 0
    second = tmp_path / "second"
    share(folder, second, [["remote", "add", "--local", "--force", "--default", "here", str(tmp_path / "remote")]])
    # every table is there, and nothing is left to do: with the server's key gone, not one request
    assert tables(second) == tables(folder)
    assert tables(second)
    run(second, "dvc", "repro", "evaluate", **without_key())
    assert sum(server.answered.values()) == asked
    # lost tables are made again from the shared ledger, still without a request
    shutil.rmtree(second / "results" / "personas")
    shutil.rmtree(second / "data" / "generations")
    run(second, "dvc", "repro", "--force", "evaluate", **without_key())
    assert tables(second) == tables(folder)
    assert sum(server.answered.values()) == asked
    # one more sample of each prompt is all that a changed parameter asks for: 4 -> 5 samples
    changed = study(server.url)
    changed["personas"]["generate"]["samples"] = 5
    write(second, changed)
    run(second, "dvc", "repro", "evaluate", OPENAI_API_KEY="sk-test-of-the-second-clone")
    assert sum(server.answered.values()) == asked + asked // 4


def test_second_clone_through_s3_has_every_table(first: tuple[Path, Server], tmp_path: Path) -> None:
    moto = pytest.importorskip("moto.server", reason="skipped: moto's S3 server is not installed")
    pytest.importorskip("dvc_s3", reason="skipped: dvc-s3 is not installed (pip install 'markedness[s3]')")
    import boto3

    folder, server = first
    asked = sum(server.answered.values())
    s3 = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    s3.start()
    try:
        host, port = s3.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
        boto3.client("s3", endpoint_url=endpoint, **keys).create_bucket(Bucket="study")
        remote = [
            ["remote", "add", "--local", "--force", "--default", "s3", "s3://study/data"],
            ["remote", "modify", "--local", "s3", "endpointurl", endpoint],
            ["remote", "modify", "--local", "s3", "access_key_id", "test"],
            ["remote", "modify", "--local", "s3", "secret_access_key", "test"],
        ]
        second = tmp_path / "second"
        share(folder, second, remote)
        assert tables(second) == tables(folder)
        run(second, "dvc", "repro", "evaluate", **without_key())
        assert sum(server.answered.values()) == asked
    finally:
        s3.stop()
