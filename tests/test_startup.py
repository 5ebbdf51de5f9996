"""A stage loads what it computes with and no more: each of the 63 processes of a default `dvc repro` pays for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

HEAVY = {
    "altair", "bertopic", "matplotlib", "mlflow", "networkx", "nltk", "numpy.f2py", "openai", "scipy.optimize",
    "scipy.sparse", "scipy.special", "scipy.stats", "sentence_transformers", "simplemma", "sklearn", "skops",
    "statsmodels", "torch", "transformers", "umap", "vl_convert",
}  # fmt: skip
RUN = """
import json, sys
from markedness.cli import app
app(sys.argv[2:], standalone_mode=False)
print(json.dumps(sorted(sys.modules)), file=open(sys.argv[1], "w"))
"""
PARAMS = """
audits: [personas, annotation]
run: [control-none]
models: {control-none: {backend: scripted, rule: none}}
size: quick
personas:
  generate: {samples: 1}
"""


def loaded(study: Path, *command: str) -> set[str]:
    """The modules of `HEAVY` that a command has loaded when it ends."""
    seen = study / "modules.json"
    arguments = [sys.executable, "-c", RUN, str(seen), *command, "--params", str(study / "params.yaml")]
    done = subprocess.run(arguments, env={**os.environ}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return HEAVY & set(json.loads(seen.read_text(encoding="utf-8")))


def test_stages_that_compute_no_statistic_load_no_package_for_it(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text(PARAMS, encoding="utf-8")
    assert loaded(tmp_path, "params", "resolve") == set()
    for audit in ("personas", "annotation"):
        for stage in ("generate", "clean"):
            assert loaded(tmp_path, stage, audit, "--model", "control-none") == set(), (stage, audit)
    assert loaded(tmp_path, "featurize", "annotation", "--model", "control-none") == set()
