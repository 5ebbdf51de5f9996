"""A study outside of the repository: set up from the installed package, run offline, and upgraded."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.documents import READER, small
from tests.servers.openai_server import Server
from typer.testing import CliRunner

from markedness import init_cli, params, pipeline, stage_code, studies
from markedness import study as study_of_now
from markedness.cli import app
from markedness.params import ParamsError
from markedness.records import AuditError
from markedness.store import Store

ROOT = Path(__file__).parents[1]


def invoke(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 0, done.output
    return done.output


def edited(package: Path, place: str) -> None:
    """Change the source of a module as another version of the package does."""
    file = package / place
    file.write_text(file.read_text(encoding="utf-8") + "\n_OTHER_VERSION = True\n", encoding="utf-8")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A study of the template texts."""
    studies.new_study(tmp_path / "study", "texts")
    return tmp_path / "study"


@pytest.mark.parametrize("template", studies.TEMPLATES)
def test_params_of_each_template_are_sound_and_name_every_key_that_dvc_reads(template: str, tmp_path: Path) -> None:
    folder = tmp_path / "a 'b\"; $(touch pwned) ü\n-x"
    studies.new_study(folder, template)
    loaded = params.load(folder / "params.yaml")
    stages = yaml.safe_load((folder / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    named = {key for stage in stages.values() for key in stage["params"] if isinstance(key, str) and "$" not in key}
    assert named <= set(loaded.raw)
    for audit in loaded.audits:
        assert {"axes", "generate", "clean", "featurize", "evaluate"} <= set(loaded.raw[audit])
    written = [
        path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts
    ]
    assert not [text for text in written if "pwned" in text or "- src/" in text]
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


def test_stages_of_a_study_depend_on_the_key_of_their_code() -> None:
    made = yaml.safe_load(studies.pipeline((ROOT / "dvc.yaml").read_text(encoding="utf-8")))["stages"]
    shipped = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    assert list(made) == list(stage_code.STAGES)
    for stage, content in made.items():
        key = f"stages.{stage}" + (".${item.audit}" if stage in ("generate", "clean", "featurize", "evaluate") else "")
        assert content["params"] == [{"markedness.yaml": [key]}, *shipped[stage].get("params", [])]
        assert content["deps"] == [dep for dep in shipped[stage]["deps"] if not dep.startswith("src/")]
        assert content["cmd"] == shipped[stage]["cmd"] and content.get("outs") == shipped[stage].get("outs")


def hashes_of(site: Path) -> dict[str, str | dict[str, str]]:
    """The hashes of a copy of the package."""
    code = "import json; from markedness import stage_code; print(json.dumps(stage_code.hashes()))"
    env = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    found: dict[str, str | dict[str, str]] = yaml.safe_load(done.stdout)
    return found


@pytest.mark.slow
def test_hash_of_a_stage_changes_with_the_code_that_it_computes_with_and_no_other(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "elsewhere")
    before, package = hashes_of(tmp_path / "elsewhere"), tmp_path / "elsewhere" / "markedness"
    assert before == stage_code.hashes()  # the same wherever it is installed
    edited(package, "audits/personas/estimators/marked_words.py")
    edited(package, "cli.py")  # carries, computes nothing
    after = hashes_of(tmp_path / "elsewhere")
    other = {(stage, audit) for stage, code in after.items() if isinstance(code, dict)
             for audit in code if code[audit] != before[stage][audit]}  # type: ignore[index]  # fmt: skip
    assert other == {("evaluate", "personas")}
    assert {stage for stage, code in after.items() if isinstance(code, str) and code != before[stage]} == {"compare"}


@pytest.mark.parametrize("content", ["file", "folder", "link", "dangling"])
def test_folder_in_use_is_refused_and_not_touched(content: str, tmp_path: Path) -> None:
    place = tmp_path / "study"
    if content == "file":
        place.write_text("mine", encoding="utf-8")
    elif content == "folder":
        place.mkdir()
        (place / "notes.txt").write_text("mine", encoding="utf-8")
    else:
        place.symlink_to(tmp_path / "nowhere" if content == "dangling" else tmp_path)
    before = sorted(path.name for path in tmp_path.rglob("*"))
    done = CliRunner().invoke(app, ["init", str(place)])
    assert isinstance(done.exception, ParamsError) and "is there already and not empty" in str(done.exception)
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["study", "--template", "nothing"], "'nothing' is not a template; one of embedded, api, texts"),
        (["x" * 300], "cannot be a folder"),
    ],
)
def test_template_or_folder_that_cannot_be_is_one_sentence(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["init", *arguments])
    assert isinstance(done.exception, ParamsError) and said in str(done.exception)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_template_of_a_server_runs_from_its_questions_to_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-" + "0123456789abcdef" * 2)
    studies.new_study(tmp_path / "study", "api")
    file = tmp_path / "study" / "params.yaml"
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    batches = {"names": {"iterations": 1, "pairs": 6}, "dialect": {"iterations": 1}}
    all_audits = {"audits": content["audits"], "annotation": {"generate": batches}}
    with Server() as server:
        file.write_text(yaml.safe_dump(small(content, server.url, all_audits)), encoding="utf-8")
        loaded = params.load(file)
        for audit in loaded.audits:
            for model in loaded.run:
                pipeline.run(loaded, audit, model, lambda _: None)
    study_of_now.report(loaded, lambda _: None)
    pages = {path.stem for path in (tmp_path / "study" / "reports").glob("*.html")}
    assert "my-model" in loaded.run and "annotation" in loaded.audits and pages == {*loaded.run, "index"}


@pytest.mark.parametrize(("template", "first"), [("embedded", True), ("texts", False)])
def test_init_names_the_extras_that_a_template_lacks(
    template: str, first: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(init_cli, "find_spec", lambda name: None if name == "bertopic" else name)
    said = invoke("init", str(tmp_path / "study"), "--template", template)
    assert ("not installed: bertopic; first run: pip install 'markedness[embedded,text]'" in said) is first


def test_init_needs_a_folder_or_an_audit_and_not_a_template_of_an_audit() -> None:
    assert CliRunner().invoke(app, ["init"]).exit_code == 2
    assert CliRunner().invoke(app, ["init", "--audit", "coin", "--template", "texts"]).exit_code == 2


def record(study: Path, **changes: object) -> None:
    file = study / studies.FILE
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    file.write_text(yaml.safe_dump({**content, **changes}), encoding="utf-8")


def test_stage_whose_code_is_another_refuses_and_one_of_another_version_says_so(study: Path) -> None:
    said: list[str] = []
    studies.check_code(study, "evaluate", "personas", said.append)
    assert not said
    record(study, version="0.0.9")
    studies.check_code(study, "evaluate", "personas", said.append)
    assert len(said) == 1 and "0.0.9" in said[0] and "the same in both" in said[0]
    stages = yaml.safe_load((study / studies.FILE).read_text(encoding="utf-8"))["stages"]
    record(study, stages={**stages, "evaluate": {"personas": "0" * 32}})
    for arguments in (["evaluate", "personas", "--model", "my-texts"], ["run", "personas", "--model", "my-texts"]):
        done = CliRunner().invoke(app, [*arguments, "--params", str(study / "params.yaml")])
        assert isinstance(done.exception, AuditError), done.output
        assert "stage evaluate of personas" in str(done.exception) and "run 'markedness upgrade'" in str(done.exception)
    assert not Store(study).results("personas", "my-texts").exists()


def test_stage_of_an_unchanged_installation_is_checked_by_the_seal_without_a_syntax_tree(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []

    def code_hash(stage: str, audit: str = "") -> str:
        parsed.append(f"{stage} {audit}")
        return str(content["stages"][stage][audit])

    content = yaml.safe_load((study / studies.FILE).read_text(encoding="utf-8"))
    monkeypatch.setattr(stage_code, "code_hash", code_hash)
    studies.check_code(study, "evaluate", "personas")
    assert parsed == []
    for other in ({"seal": ""}, {"seal": "0" * 32}, {"stages": {**content["stages"], "compare": "0"}}):
        record(study, **{**content, **other})
        studies.check_code(study, "evaluate", "personas")
    assert parsed == ["evaluate personas"] * 3  # no seal, that of another installation, and one of other stages
    record(study, **{**content, "stages": {**content["stages"], "evaluate": {"personas": "0"}}})
    with pytest.raises(AuditError, match="stage evaluate of personas"):
        studies.check_code(study, "evaluate", "personas")


def test_seal_is_another_when_a_file_of_the_package_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "module.py").write_text("a = 1\n", encoding="utf-8")
    monkeypatch.setattr(stage_code, "PACKAGE", tmp_path)
    before = stage_code.seal({})
    assert before == stage_code.seal({}) != stage_code.seal({"compare": "0"})
    (tmp_path / "module.py").write_text("a = 2\n", encoding="utf-8")
    stage_code._digests.cache_clear()  # of one process, which has loaded the code before
    assert stage_code.seal({}) != before


def test_upgrade_says_what_reruns_and_refreshes_what_nobody_edited(study: Path) -> None:
    file = str(study / "params.yaml")
    assert "nothing reruns" in invoke("upgrade", "--params", file)
    content = yaml.safe_load((study / studies.FILE).read_text(encoding="utf-8"))
    stimuli = Store(study).stimuli_folder("personas")
    old = {"evaluate": {**content["stages"]["evaluate"], "personas": "0", "guise": "0"}, "compare": "0"}
    edits = {stimuli / "prompts.yaml": "edited\n", stimuli / "removed_strings.csv": "of the old version\n"}
    files = dict(content["files"])
    for path, text in edits.items():
        path.write_text(text, encoding="utf-8")
        files[path.relative_to(study).as_posix()] = "0"  # the package had another
    lexicon = (stimuli / "removed_strings.csv").relative_to(study).as_posix()
    files[lexicon] = studies._hashed({"": b"of the old version\n"})[""]
    gone = stimuli / "gone.csv"
    gone.write_text("of the old version\n", encoding="utf-8")
    files[gone.relative_to(study).as_posix()] = "0"
    record(study, version="0.0.9", stages={**content["stages"], **old}, files=files)
    before = {path: path.read_bytes() for path in study.rglob("*") if path.is_file() and ".git" not in path.parts}
    dry = invoke("upgrade", "--dry-run", "--params", file)
    assert before == {path: path.read_bytes() for path in before}
    done = invoke("upgrade", "--params", file)
    for output in (dry, done):
        assert [line for line in output.splitlines() if line.startswith("reruns")] == [
            "reruns: generate of personas", "reruns: featurize of personas", "reruns: evaluate of personas",
            "reruns: compare",
        ]  # fmt: skip
        assert "0.0.9 -> 0.1.0" in output and "prompts.yaml: edited here and changed" in output
        assert "gone.csv: is no longer part of markedness 0.1.0; it stays" in output and gone.exists()
    assert (stimuli / "prompts.yaml").read_text(encoding="utf-8") == "edited\n"
    assert (stimuli / "removed_strings.csv").read_bytes() != b"of the old version\n"
    studies.check_code(study, "evaluate", "personas")


@pytest.mark.parametrize("content", [None, "- a list", "version: 1", "a: ["])
def test_upgrade_without_a_sound_file_is_one_sentence(content: str | None, study: Path) -> None:
    if content is None:
        (study / studies.FILE).unlink()
    else:
        (study / studies.FILE).write_text(content, encoding="utf-8")
    done = CliRunner().invoke(app, ["upgrade", "--params", str(study / "params.yaml")])
    assert isinstance(done.exception, ParamsError) and len(str(done.exception).splitlines()) == 1
    assert ("only a study that 'markedness init' made" if content is None else "restore it") in str(done.exception)


def wheel(source: Path, target: Path) -> Path:
    """The package of a source tree, built as a wheel and installed into a folder."""
    pip = [sys.executable, "-m", "pip", "--quiet"]
    offline = ["--no-deps", "--no-index"]
    built = target.with_name(f"{target.name}-wheel")
    for command in (
        [*pip, "wheel", *offline, "--no-build-isolation", "--wheel-dir", str(built), str(source)],
        [*pip, "install", *offline, "--find-links", str(built), "--target", str(target), "markedness"],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return target


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """This version, and the next one, in which one estimator of personas is another; each installed from its wheel."""
    pytest.importorskip("hatchling", reason="skipped: hatchling is not installed (pip install 'markedness[test]')")
    folder = tmp_path_factory.mktemp("versions")
    source = folder / "source"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    first = wheel(source, folder / "first")
    edited(source / "src" / "markedness", "audits/personas/estimators/marked_words.py")
    for file in (source / "pyproject.toml", source / "src" / "markedness" / "__init__.py"):
        text = file.read_text(encoding="utf-8")
        assert 'version = "0.1.0"' in text or '__version__ = "0.1.0"' in text
        file.write_text(text.replace('version = "0.1.0"', 'version = "0.1.1"')
                        .replace('__version__ = "0.1.0"', '__version__ = "0.1.1"'), encoding="utf-8")  # fmt: skip
    return first, wheel(source, folder / "second")


def run(version: Path, folder: Path, *command: str, code: int = 0) -> str:
    """What a command prints, offline, with this version of the package; it must end with ``code``."""
    offline = {f"{scheme}_proxy": "http://127.0.0.1:9" for scheme in ("http", "https", "HTTP", "HTTPS")}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**kept, **READER, **offline, "PATH": path, "no_proxy": "", "PYTHONPATH": str(version)}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_upgrade_to_a_version_with_one_more_option_asks_anew_what_each_audit_asks(
    versions: tuple[Path, Path], tmp_path: Path
) -> None:
    """The settings were of the old version for ever: "params.yaml was edited", and nobody had edited it."""
    next_version = tmp_path / "next"
    shutil.copytree(versions[0], next_version)
    module = next_version / "markedness" / "audits" / "personas" / "generate.py"
    text, option = module.read_text(encoding="utf-8"), "    temperature: float = Field("
    assert option in text
    module.write_text(text.replace(option, f"    presence_penalty: float = 0.0\n{option}"), encoding="utf-8")
    run(versions[0], tmp_path, "markedness", "init", "study", "--template", "texts")
    stage = ("dvc", "repro", "clean@personas-my-texts")
    run(versions[0], tmp_path / "study", *stage)
    assert "reruns: settings" in run(next_version, tmp_path / "study", "markedness", "upgrade")
    said = run(next_version, tmp_path / "study", *stage)
    assert "Running stage 'settings'" in said and "Running stage 'generate@personas-my-texts'" in said
    assert "presence_penalty" in (tmp_path / "study" / "data/settings/personas.yaml").read_text(encoding="utf-8")


@pytest.mark.slow
def test_study_of_an_installed_wheel_runs_offline_and_an_upgrade_reruns_what_changed(
    versions: tuple[Path, Path], tmp_path: Path
) -> None:
    first, second = versions
    run(first, tmp_path, "markedness", "init", "my-study", "--template", "texts")
    folder = tmp_path / "my-study"
    file = folder / "params.yaml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("run: [my-texts, control-none, control-planted]", "run: [my-texts]"), encoding="utf-8")
    run(first, folder, "dvc", "repro")
    assert (folder / "reports" / "my-texts.html").is_file()
    assert "up to date" in run(first, folder, "dvc", "repro")

    assert "up to date" in run(second, folder, "dvc", "status")
    said = run(second, folder, "markedness", "evaluate", "personas", "--model", "my-texts", code=1)
    assert "markedness.yaml is of markedness 0.1.0" in said and "run 'markedness upgrade'" in said
    said = run(second, folder, "markedness", "upgrade")
    assert "markedness 0.1.0 -> 0.1.1" in said
    assert [line for line in said.splitlines() if "reruns:" in line] == [
        "reruns: evaluate of personas", "reruns: compare", "reruns: report",  # the report names the version
    ]  # fmt: skip
    said = run(second, folder, "dvc", "repro")
    ran = [line.split("'")[1] for line in said.splitlines() if line.startswith("Running stage")]
    assert ran[:3] == ["evaluate@personas-my-texts", "compare", "report"] and set(ran[3:]) <= {"track"}, said
    assert "up to date" in run(second, folder, "dvc", "repro")
