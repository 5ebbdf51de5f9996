"""Run the stages of the controls beside those of the models, as two `dvc repro` at a time.

`dvc repro` runs one stage after another, and a model that answers on this machine, or over a network, leaves the other
cores idle. Both runs share DVC's lock and wait for it. `make repro` runs a plain `dvc repro` after this, for the stages
that see all models. It ends when both runs have ended, also after an interrupt, with the exit status of the one that
failed: nothing goes on behind a message that the run has failed.

    python scripts/controls_beside.py
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterable

from markedness.audits import STAGES
from markedness.params import load

DVC = ("dvc", "--wait-for-lock", "repro", "--single-item")
"""Without the stage `settings`, which both runs would look at and lock."""


def instances(audits: Iterable[str], models: Iterable[str]) -> list[str]:
    """All stages of each audit and model, in their order, as DVC names the instances of a matrix."""
    return [f"{stage}@{audit}-{model}" for model in models for audit in audits for stage in STAGES]


def main() -> int:
    """Run both, where there are both; exit status 0 where all stages went well."""
    params = load()
    models = [name for name in params.run if name not in params.controls]
    if not models or not params.controls:
        return 0
    runs: list[subprocess.Popen[bytes]] = []

    def stop(number: int, _: object) -> None:
        for run in runs if number == signal.SIGTERM else ():  # a terminal interrupts all of its processes itself
            run.send_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    runs.append(subprocess.Popen((*DVC, "settings")))
    if failed := runs[0].wait():
        return failed
    beside = (*DVC, *instances(params.audits, sorted(params.controls)))
    runs[:] = [
        subprocess.Popen((*DVC, *instances(params.audits, models))),
        subprocess.Popen(beside, stdout=subprocess.DEVNULL),
    ]
    first, second = (run.wait() for run in runs)
    return first or second


if __name__ == "__main__":
    sys.exit(main())
