"""`dvc repro`, with stages that do not need one another beside each other.

`dvc repro` runs one stage after another, and a model that answers on this machine, or over a network, leaves the other
cores idle. Here one `dvc repro` asks for all answers, and beside it others run the stages of the controls and those
that read what the models have answered, two runs at a time; they share DVC's lock and wait for it. A plain `dvc repro`
ends it, for what is left: what reads the last answers, and the stages that see all models. This ends when all runs have
ended, also after an interrupt, with the exit status of the first that failed: nothing goes on behind a message that the
run has failed.

    python scripts/side_by_side.py
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from markedness.audits import STAGES
from markedness.params import load

DVC = ("dvc", "--wait-for-lock", "repro")
ALONE = "--single-item"
"""Without the stage `settings`, which all runs would look at and lock."""
AT_A_TIME = 2
"""Runs."""
ASKS, *READ = STAGES
LOCK = Path("dvc.lock")
PAUSE = 0.3
"""Seconds between two looks at dvc.lock and at the runs."""


def instances(stages: Iterable[str], of: Sequence[tuple[str, str]]) -> list[str]:
    """All stages of each (audit, model), in their order, as DVC names the instances of a matrix."""
    stages = list(stages)
    return [f"{stage}@{audit}-{model}" for audit, model in of for stage in stages]


def recorded() -> Mapping[str, Any]:
    """What dvc.lock says of each stage; nothing where it is not there, or is being written at this moment."""
    try:
        return _stages(LOCK.read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError, KeyError, yaml.YAMLError):
        return {}


@lru_cache(maxsize=1)
def _stages(content: str) -> Mapping[str, Any]:
    """Parsed once while the file stays as it is: it is looked at for as long as a model answers."""
    return dict(yaml.load(content, yaml.CSafeLoader)["stages"])


class Runs:
    """The runs of DVC that are going on, and whether they are to end."""

    def __init__(self) -> None:
        self.going: list[subprocess.Popen[bytes]] = []
        self.stopped = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)

    def _stop(self, number: int, _: object) -> None:
        self.stopped = True
        for run in self.going if number == signal.SIGTERM else ():  # a terminal interrupts all its processes itself
            run.send_signal(number)

    def start(self, *arguments: str, quiet: bool = False) -> subprocess.Popen[bytes]:
        """Start one run."""
        run = subprocess.Popen((*DVC, *arguments), stdout=subprocess.DEVNULL if quiet else None)
        self.going.append(run)
        return run

    def count(self) -> int:
        """How many are going on."""
        return sum(run.poll() is None for run in self.going)

    def failed(self) -> int:
        """The exit status of the first run that ended with one; 0 where there is none."""
        return next(filter(None, (run.poll() for run in self.going)), 0) or int(self.stopped)

    def wait(self, room: int) -> int:
        """Wait until so many runs may start; what `failed` says."""
        while self.count() > AT_A_TIME - room:
            time.sleep(PAUSE)
        return self.failed()

    def answered(
        self, waiting: Sequence[tuple[str, str]], before: Mapping[str, Any], asking: subprocess.Popen[bytes]
    ) -> Sequence[tuple[str, str]]:
        """Wait until some of the models' answers are there; none when no more will come.

        They come in their order, so that those before one that DVC has written into dvc.lock are there, too.
        """
        seen: Mapping[str, Any] = {}
        while not self.stopped:
            ended, now = asking.poll(), recorded()
            if ended == 0:
                return waiting
            written = [now.get(name) != before.get(name) for name in instances([ASKS], waiting)]
            if now == seen and now.keys() >= before.keys() and any(written):  # not while DVC is writing it
                return waiting[: len(written) - written[::-1].index(True)]
            if now == seen and ended is not None:
                break
            seen = now
            time.sleep(PAUSE)
        return ()


def main() -> int:
    """Run all, where there are models; exit status 0 where all stages went well."""
    params = load()
    waiting = [(audit, name) for name in params.run if name not in params.controls for audit in params.audits]
    controls = [(audit, name) for name in sorted(params.controls) for audit in params.audits]
    if "MARKEDNESS_WARM" in os.environ:
        os.environ["MARKEDNESS_WARM"] = str(os.getpid())
    runs = Runs()
    runs.start(ALONE, "settings")
    if failed := runs.wait(AT_A_TIME):
        return failed
    before = recorded()
    if waiting:
        asking = runs.start(ALONE, *instances([ASKS], waiting))
    if controls:
        runs.start(ALONE, *instances(STAGES, controls), quiet=True)
    while waiting and not runs.wait(1) and (ready := runs.answered(waiting, before, asking)) and runs.count():
        runs.start(ALONE, *instances(READ, ready))
        waiting = waiting[len(ready) :]
    if not (failed := runs.wait(AT_A_TIME)):
        runs.start()
    return failed or runs.wait(AT_A_TIME)


if __name__ == "__main__":
    sys.exit(main())
