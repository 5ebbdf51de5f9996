"""The process that has imported what stages need, and forks for each; see `markedness.warm`."""

from __future__ import annotations

import atexit
import ctypes
import gc
import io
import json
import os
import select
import signal
import socket
import struct
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from markedness.warm import LENGTH, STATUS, TAKEN, Stage, address, is_own

IDLE = 30.0
"""Seconds without a stage after which the process ends."""
OF_A_STAGE = frozenset({"DVC_STAGE", "_", "SHLVL", "OLDPWD", "PWD"})
"""Variables in which the stages of one run differ; no package reads them when it is imported."""
LEFT_OUT = frozenset({"markedness", "mlflow", "ray"})
"""Not imported as a fork does: ours are imported at the start, and two start threads or read settings made before."""
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)


@dataclass
class Imported:
    """What the stages of this process were imported from."""

    folder: str = field(default_factory=lambda: str(Path.cwd()))
    """Where a relative entry of PYTHONPATH leads from."""
    environment: dict[str, str] = field(default_factory=lambda: _lasting(os.environ))
    files: dict[str, tuple[int, int, int]] = field(default_factory=lambda: _states(_own_files()))
    """File of a module, or another one of this package -> time, size and number before it was imported."""

    def add(self, modules: Sequence[str]) -> None:
        """Import these, and keep the state of every file imported so far."""
        for name in modules:
            with suppress(Exception):  # a package that is not installed or is broken: the stage says so
                import_module(name)
        paths = {str(module.__file__) for module in list(sys.modules.values()) if vars(module).get("__file__")}
        self.files |= _states(paths - self.files.keys())

    def serves(self, stage: Stage) -> bool:
        """Whether a fork is what a new process would be."""
        same = stage.folder == self.folder and _lasting(stage.environment) == self.environment
        # a fork has no other thread, nor what one of them has locked
        return same and threading.active_count() == 1 and _states(self.files) == self.files


def _lasting(environment: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in environment.items() if key not in OF_A_STAGE}


def _own_files() -> list[str]:
    """Those of this package: what a module reads when it is imported counts as its source does."""
    return [str(path) for path in Path(__file__).parent.rglob("*") if path.is_file() and path.suffix != ".pyc"]


def _states(paths: Iterable[str]) -> dict[str, tuple[int, int, int]]:
    """File -> time, size and number, of the files that are there."""
    found = {}
    for path in paths:
        with suppress(OSError):
            state = Path(path).stat()
            found[path] = state.st_mtime_ns, state.st_size, state.st_ino
    return found


@dataclass
class Fork:
    """A stage that is running."""

    process: int
    ended: int  # a file descriptor that is readable when it has ended
    caller: socket.socket  # who waits for it
    imports: int  # a file descriptor from which the names of the packages that it imports can be read


@dataclass
class Server:
    """The warm process: it takes stages, forks, passes signals on, and says how each fork ended.

    It imports what a fork imports, at the same time, so that the next fork has it.
    """

    listener: socket.socket
    repro: int  # a file descriptor that is readable when the dvc process has ended
    imported: Imported
    forks: list[Fork] = field(default_factory=list)
    open: bool = True

    def serve(self) -> Stage | None:
        """Return, in a fork, the stage that it is to run; in this process None, when it is to end."""
        while self.open or self.forks:
            watched = [place for fork in self.forks for place in (fork.ended, fork.caller.fileno(), fork.imports)]
            watched += [self.listener.fileno(), self.repro] if self.open else []
            ready = set(select.select(watched, [], [], IDLE)[0])
            for fork in list(self.forks):
                if fork.ended in ready:
                    self._report(fork)
                elif fork.caller.fileno() in ready:
                    _pass_on(fork)
                elif fork.imports in ready:
                    self.imported.add(os.read(fork.imports, 1 << 16).decode().split())
            if self.open and (self.repro in ready or not (ready or self.forks)):
                self._close()
            elif self.open and self.listener.fileno() in ready and (stage := self._take()) is not None:
                return stage
        return None

    def _close(self) -> None:  # the next stage starts another process
        self.open = False
        self.listener.close()

    def _take(self) -> Stage | None:
        """Fork for the stage that is handed over; return it in the fork."""
        caller = self.listener.accept()[0]
        received = _received(caller) if is_own(caller) else None
        if received is None or not self.imported.serves(received[0]):
            caller.close()
            if received is not None:
                self._close()
            return None
        stage, files = received
        caller.sendall(TAKEN)
        imports, told = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        server = os.getpid()
        gc.freeze()  # a fork that went through these objects would copy their memory
        process = os.fork()
        if process:
            for file in (*files, told):
                os.close(file)
            self.forks.append(Fork(process, os.pidfd_open(process), caller, imports))
            return None
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != server:  # it was killed before this process asked to die with it
            os._exit(1)
        for other in (self.listener, caller, *(fork.caller for fork in self.forks)):
            other.close()
        for standard, file in enumerate(files):
            os.dup2(file, standard)
            os.close(file)
        sys.meta_path.insert(0, _Told(told))
        return stage

    def _report(self, fork: Fork) -> None:
        """Say how a fork ended: its exit status, or minus the signal."""
        self.forks.remove(fork)
        status = os.waitstatus_to_exitcode(os.waitpid(fork.process, 0)[1])
        with suppress(OSError), fork.caller:
            fork.caller.sendall(STATUS.pack(status))
        os.close(fork.ended)
        os.close(fork.imports)


def _pass_on(fork: Fork) -> None:
    """Send the fork a signal that its caller got; a caller that was killed takes the fork with it."""
    with suppress(OSError):
        number = os.read(fork.caller.fileno(), 1)
        os.kill(fork.process, number[0] if number else signal.SIGKILL)


class _Told:
    """Finds no module; writes to a file which packages are looked for, to the first level below their own."""

    def __init__(self, file: int) -> None:
        self.file = file

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        steps = name.split(".")
        if len(steps) < 3 and "_" not in {step[:1] for step in steps} and steps[0] not in LEFT_OUT:
            with suppress(OSError):  # full while the other process is importing: this one is not told
                os.write(self.file, f"{name}\n".encode())


def _received(caller: socket.socket) -> tuple[Stage, list[int]] | None:
    """The stage and the three standard files; None where they do not arrive."""
    caller.settimeout(5)
    try:
        length, files, _, _ = socket.recv_fds(caller, LENGTH.size, 3)
        content = caller.recv(LENGTH.unpack(length)[0], socket.MSG_WAITALL)
        return Stage(**json.loads(content)), files
    except (OSError, ValueError, TypeError, struct.error):
        return None
    finally:
        caller.settimeout(None)


def _of_every_stage() -> list[str]:
    """Our modules that every stage imports: it reads params.yaml, so also the Params of all audits."""
    from markedness.audits import AUDITS, STAGES
    from markedness.audits.base import spec

    params = [spec(audit).params(stage).__module__ for audit in AUDITS for stage in STAGES]
    ours = ("cli", "params", "pipeline", "stale", "studies")
    return [*(f"markedness.{name}" for name in ours), "pyarrow.dataset", "pyarrow.pandas_compat", *params]


def _become(stage: Stage) -> None:
    """Take on the arguments, folder, environment and files of the process that was started."""
    sys.argv = list(stage.argv)
    os.chdir(stage.folder)
    os.environ.clear()
    os.environ.update(stage.environment)
    unbuffered = "PYTHONUNBUFFERED" in stage.environment
    sys.stdin = open(0, closefd=False, encoding=sys.stdin.encoding)  # noqa: SIM115
    for name, number in (("stdout", 1), ("stderr", 2)):
        earlier = vars(sys)[name]
        stream = io.TextIOWrapper(
            open(number, "wb", closefd=False), earlier.encoding, earlier.errors,  # noqa: SIM115
            line_buffering=number == 2 or os.isatty(number), write_through=unbuffered,
        )  # fmt: skip
        setattr(sys, name, stream)


def main(repro: int) -> None:
    """Serve the stages of one dvc process; in a fork, run one."""
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(address(repro))
            ended = os.pidfd_open(repro)
        except OSError:  # another process serves already, or dvc has ended
            return
        listener.listen()
        imported = Imported()
        imported.add(_of_every_stage())
        stage = Server(listener, ended, imported).serve()
    if stage is not None:
        _become(stage)
        _run()


def _run() -> None:
    """The command line, to its end.

    The interpreter holds thousands of modules and is not taken apart at the end: that takes longer than most stages.
    """
    from markedness.cli import main as command_line

    status: object = 0
    try:
        command_line()
    except SystemExit as end:
        status = end.code or 0
    if isinstance(status, int) and threading.active_count() == 1:
        atexit._run_exitfuncs()
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status & 0xFF)
    sys.exit(str(status) if not isinstance(status, int) else status)


if __name__ == "__main__":
    main(int(sys.argv[1]))
