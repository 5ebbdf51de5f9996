"""The tutorial on sharing, run as it is printed: two clones, a folder or a real S3 server between them.

A model server on loopback counts what is asked; nothing else of the tutorial is replaced.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import yaml
from tests.documents import ROOT, Study, blocks, small
from tests.servers.openai_server import Server

pytestmark = pytest.mark.slow

PAGE = ROOT / "docs" / "tutorials" / "share-a-study.md"
KEY = "sk-of-the-first-clone"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(scope="module")
def study(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Study:
    """The study of the first clone, run once."""
    if shutil.which("git") is None:
        pytest.skip("skipped: git is not installed (apt-get install git)")
    params = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    params["models"] = {"my-model": {"backend": "openai", "model": "test-model"}}
    study = Study.create(
        tmp_path_factory.mktemp("sharing") / "study", small(params, server.url), {"OPENAI_API_KEY": KEY}
    )
    study.sh("dvc repro")
    assert asked(server) == 16  # 4 groups, one prompt, 4 samples
    return study


def asked(server: Server) -> int:
    return sum(server.answered.values())


def tables(folder: Path) -> dict[str, bytes]:
    results = folder / "results"
    return {str(path.relative_to(results)): path.read_bytes() for path in sorted(results.rglob("*.csv"))}


@pytest.fixture(params=["folder", "s3"])
def remote(request: pytest.FixtureRequest) -> Iterator[tuple[str, dict[str, str]]]:
    """The remote of the page's alternatives, and the environment that its users set."""
    if request.param == "folder":
        yield "folder", {}
        return
    moto = pytest.importorskip(
        "moto.server", reason="skipped: moto's S3 server is not installed (make test installs it)"
    )
    pytest.importorskip("dvc_s3", reason="skipped: dvc-s3 is not installed (pip install 'markedness[s3]')")
    import boto3

    s3 = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    s3.start()
    try:
        host, port = s3.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
        boto3.client("s3", endpoint_url=endpoint, **keys).create_bucket(Bucket="study")
        variables = {name.upper(): value for name, value in keys.items() if name != "region_name"}
        yield "s3", {**variables, "AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": endpoint}
    finally:
        s3.stop()


def test_tutorial_on_sharing_runs_as_printed_and_the_second_clone_asks_nothing(
    study: Study, server: Server, remote: tuple[str, dict[str, str]], tmp_path: Path
) -> None:
    kind, variables = remote
    before = asked(server)
    owner = study.copy(tmp_path / "study")
    owner.environment |= variables
    person, colleague, shown = owner, None, ""
    for block in blocks(PAGE):
        if block.mark.startswith("remote: ") and block.mark != f"remote: {kind}":
            continue
        if block.mark == "clone: second":  # another person, without the key
            colleague = person = Study(tmp_path / "colleague", {**owner.environment, "OPENAI_API_KEY": ""})
            person.cwd = owner.folder
        shown += person.sh(block.text)
        if block.mark == "clone: second":
            assert tables(tmp_path / "colleague") == tables(owner.folder)
    assert colleague is not None and "WARNING" not in shown
    assert tables(colleague.folder) == tables(owner.folder) and tables(colleague.folder)
    assert asked(server) == before
    paper = tmp_path / "paper"
    assert (paper / "tables" / "marked_words.csv").is_file() and (paper / "stimuli" / "prompts.yaml").is_file()
    for name in ("my-model.parquet", "generations.parquet"):
        assert len(pd.read_parquet(paper / name)) == 16
    # one more sample of each prompt is all that a changed parameter asks for: 4 -> 5 samples
    changed = colleague.params
    changed["personas"]["generate"]["samples"] = 5
    colleague.write(changed)
    colleague.cwd = colleague.folder
    colleague.sh("dvc repro", OPENAI_API_KEY="sk-of-the-second-clone")
    assert asked(server) == before + 4


def test_pins_that_were_never_fetched_disturb_no_command(study: Study, tmp_path: Path) -> None:
    copy = study.copy(tmp_path / "study")
    assert list((copy.folder / "data" / "corpora").rglob("*.csv.dvc"))
    copy.sh('dvc remote add --default storage "$PWD/../storage"\ngit add dvc.lock .dvc/config\ngit commit -m "Run"')
    assert "WARNING" not in copy.sh("dvc status\ndvc data status\ndvc push\ndvc checkout\ndvc pull\ndvc metrics diff")
    assert "Data and pipelines are up to date" in copy.sh("dvc status")


def test_shipped_study_has_no_remote() -> None:
    assert "remote" not in (ROOT / ".dvc" / "config").read_text(encoding="utf-8")


def test_an_edited_guise_estimator_reruns_guise_evaluate_and_compare_alone(study: Study, tmp_path: Path) -> None:
    copy = study.copy(tmp_path / "study")
    estimator = copy.folder / "src/markedness/audits/guise/estimators/favorability.py"
    estimator.write_text(estimator.read_text(encoding="utf-8") + "\n# edited\n", encoding="utf-8")
    changed = yaml.safe_load(copy.sh("dvc status --json"))
    # Report and track follow evaluate anyway; they order the texts they show by the estimator.
    assert {stage.split("-")[0] for stage in changed} <= {"evaluate@guise", "compare", "report", "track"}
    assert "compare" in changed


def test_what_python_compiles_beside_the_sources_reruns_nothing(study: Study, tmp_path: Path) -> None:
    copy = study.copy(tmp_path / "study")
    for folder in {path.parent for path in (copy.folder / "src").rglob("*.py")}:
        (folder / "__pycache__").mkdir(exist_ok=True)
        (folder / "__pycache__" / "module.cpython-399.pyc").write_bytes(b"of another machine")
    assert "Data and pipelines are up to date" in copy.sh("dvc status")
