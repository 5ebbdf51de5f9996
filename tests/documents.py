"""The blocks of README.md and the tutorials, and a small study in which they are run as they are printed.

A page's `yaml` blocks are merged into params.yaml, its `sh` blocks run by a shell, in order, in the folder that the
last one ended in. `<!-- name: value -->` above a block chooses among alternatives. What makes the study small is a
commit of params; the commands are never changed.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    *(ROOT / "docs" / name for name in ("index.md", "sizes.md")),
    *sorted((ROOT / "docs" / "tutorials").glob("*.md")),
]
BLOCK = re.compile(
    r"(?:^ *<!-- *(?P<mark>[\w-]+): *(?P<value>.+?) *-->\n)?"
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
NOT_RUN = {"make test": "it is what runs these tests"}
"""Lines of a block that are not run, and why."""

READER = {
    "DVC_NO_ANALYTICS": "1", "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "1", "DVC_PAGER": "cat",
    "COLUMNS": "120", "PYTHONDONTWRITEBYTECODE": "",
    "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_AUTHOR_NAME": "reader", "GIT_COMMITTER_NAME": "reader",
    "GIT_AUTHOR_EMAIL": "reader@localhost", "GIT_COMMITTER_EMAIL": "reader@localhost",
}  # fmt: skip
"""The environment of the reader who follows a page."""

AXES = {
    "race": {"unmarked": "White", "values": {"White": {}, "Black": {}}},
    "gender": {
        "unmarked": "man",
        "values": {
            "man": {"noun": "man", "pronouns": ["he", "him", "his"]},
            "woman": {"noun": "woman", "pronouns": ["she", "her", "her"]},
        },
    },
}
SMALL: dict[str, Any] = {
    "audits": ["personas"],
    "run": ["my-model"],
    "personas": {
        "axes": AXES,
        "generate": {"prompts": ["imagine_yourself"], "samples": 4},
        "featurize": {"embeddings": None, "svm": {"enabled": False}},
        "evaluate": {"n_permutations": 20, "n_resamples": 100},
    },
    "homogeneity": {
        "generate": {"cues": ["sports"], "names_per_group": 2, "samples": 2},
        "evaluate": {"n_permutations": 20, "n_resamples": 50},
    },
}


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: str
    line: int
    language: str
    text: str
    mark: str
    """name: value of the comment above it; empty where there is none."""


def blocks(page: Path) -> list[Block]:
    """Every fenced block of a page, in order, without the indentation of a list item."""
    content = page.read_text(encoding="utf-8")
    found = []
    for match in BLOCK.finditer(content):
        indent = match["indent"]
        text = "".join(line.removeprefix(indent) for line in match["text"].splitlines(keepends=True))
        mark = f"{match['mark']}: {match['value']}" if match["mark"] else ""
        line = content.count("\n", 0, match.start()) + 1
        found.append(Block(page.name, line, match["language"], text, mark))
    return found


def merged(base: Mapping[str, Any], more: Mapping[str, Any], path: tuple[str, ...] = ()) -> dict[str, Any]:
    """Params with those of a block in them: models, axes and the keys of a stage are put in whole."""
    made = dict(base)
    for key, value in more.items():
        whole = path[:1] == ("models",) or key == "axes" or len(path) == 2 or not isinstance(value, Mapping)
        old = made.get(key)
        made[key] = value if whole or not isinstance(old, Mapping) else merged(old, value, (*path, key))
    return made


class Study:
    """A repository with everything that Git would clone from this one, and its params."""

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.cwd = folder
        self.environment = dict(environment or {})

    @classmethod
    def create(cls, folder: Path, params: Mapping[str, Any], environment: Mapping[str, str]) -> Study:
        """Copy what is committed here or would be, and commit it with these params."""
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
            cwd=ROOT, check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, folder / name)
        venv = folder.parent / "venv"
        venv.mkdir()
        for part in Path(sys.prefix).iterdir():
            if part.name != "installed":
                (venv / part.name).symlink_to(part)
        (venv / "installed").touch()  # what `make` asks before it runs a command: this environment is installed
        study = cls(folder, {"VENV": str(venv), **environment})
        study.write(params)
        study.sh("git init --quiet --initial-branch main\ngit add .\ngit commit --quiet --message 'Set up the study'")
        return study

    def copy(self, folder: Path) -> Study:
        """The same study elsewhere, with its results and cache."""
        shutil.copytree(self.folder, folder, symlinks=True)
        return Study(folder, self.environment)

    @property
    def params(self) -> dict[str, Any]:
        """params.yaml as it is."""
        content: dict[str, Any] = yaml.safe_load((self.folder / "params.yaml").read_text(encoding="utf-8"))
        return content

    def write(self, params: Mapping[str, Any]) -> None:
        """Write params.yaml."""
        text = yaml.safe_dump(dict(params), sort_keys=False, allow_unicode=True)
        (self.folder / "params.yaml").write_text(text, encoding="utf-8")

    def sh(self, text: str, **environment: str) -> str:
        """Run a block as printed; AssertionError shows it with its output where it does not exit with 0."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
        env = inherited | READER | {"PYTHONPATH": str(self.folder / "src"), "PATH": path}
        env |= self.environment | environment
        lines = [line for line in text.splitlines() if line.split("#")[0].strip() not in NOT_RUN]
        output = ""
        for line in [line for line in lines if line.strip() == "make ui"]:
            lines.remove(line)
            output += self._serve(line, env)
        place = self.folder.parent / f".{self.folder.name}.cwd"
        script = "\n".join([*lines, f"pwd > {place}"])
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", script],
            cwd=self.cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, f"{text}\nexit {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        self.cwd = Path(place.read_text(encoding="utf-8").strip())
        return output + done.stdout + done.stderr

    def _serve(self, command: str, env: dict[str, str]) -> str:
        """Run a command that serves until it is stopped; stop it once it answers."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        log = self.folder.parent / f".{self.folder.name}.log"
        with log.open("w") as output:
            running = subprocess.Popen(
                ["bash", "-e", "-c", command], cwd=self.cwd, env={**env, "PORT": str(port)}, stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            try:
                while not _answers(f"http://127.0.0.1:{port}/health"):
                    assert running.poll() is None, f"{command}\n{log.read_text()[-4000:]}"
                    time.sleep(0.2)
            finally:
                os.killpg(running.pid, signal.SIGTERM)
                running.wait()
        return log.read_text()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def small(params: Mapping[str, Any], url: str, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Params whose served models are the loopback server, in sizes that a test can run."""
    made = merged(merged(params, SMALL), more or {})
    for name, model in made["models"].items():
        if model.get("backend") == "openai":
            made["models"][name] = {**model, "base_url": url, "api_key_env": "OPENAI_API_KEY"}
    return made
