"""One process that has imported what the stages of a `dvc repro` need; a stage is a fork of it.

A default run has 63 stages. Half of its time goes into importing the same packages 63 times. With MARKEDNESS_WARM in
the environment, as `make repro` sets it, the first stage that DVC runs starts this process; several ``dvc`` share one
where it is the number of the process that started them all. Every later stage sends it arguments, folder, environment
and open files, waits, and exits as the fork exits. The fork runs the same code as a process of its own would: this
process imports and computes nothing.

It ends with the process that it serves, or after `IDLE` seconds without a stage. A stage runs on its own where
the folder, the environment or a file of an imported module has changed since, where there is an accelerator (its driver
does not survive a fork), and on systems other than Linux. Both ends of the socket answer to their own user alone.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

ACCELERATORS = ("/dev/nvidiactl", "/dev/kfd")
TAKEN = b"+"
LENGTH = struct.Struct("!I")
STATUS = struct.Struct("!i")
_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True)
class Stage:
    """What makes a fork the process that was started."""

    argv: list[str]
    folder: str
    environment: dict[str, str]


def hand_over(argv: Sequence[str]) -> int | None:
    """Run a stage of ``dvc repro`` as a fork of the warm process; start that process where there is none.

    Returns
    -------
    int or None
        The exit status. None where the caller has to run the stage.
    """
    wanted = sys.platform == "linux" and {"DVC_STAGE", "MARKEDNESS_WARM"} <= os.environ.keys()
    if not wanted or any(Path(device).exists() for device in ACCELERATORS):
        return None
    repro = _served()
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(address(repro))
        except OSError:
            _start(repro)
            return None
        if not is_own(connection) or not _taken(connection, argv):
            return None
        return _outcome(connection)


def _start(repro: int) -> None:
    """Start the warm process; the stage that does so does not wait for it."""
    command, none = [sys.executable, "-P", "-m", "markedness.warm_process", str(repro)], subprocess.DEVNULL
    with suppress(OSError):
        subprocess.Popen(command, start_new_session=True, stdin=none, stdout=none, stderr=none)


def _served() -> int:
    """The process that runs the stages: that which MARKEDNESS_WARM names, of several ``dvc``; else that of DVC.

    This one is our parent, or the parent of the shell that DVC starts a command with.
    """
    if (named := os.environ["MARKEDNESS_WARM"]).isdecimal() and int(named) > 1:
        return int(named)
    parent = os.getppid()
    with suppress(OSError, ValueError):
        name, _, rest = Path(f"/proc/{parent}/stat").read_text(encoding="utf-8").partition("(")[2].rpartition(")")
        if name in {"sh", "dash", "bash", Path(os.environ.get("SHELL", "sh")).name}:
            return int(rest.split()[1])
    return parent


def address(repro: int) -> str:
    """An abstract socket: no file, and gone with the process. Containers may share a network, but not these spaces."""
    spaces = "-".join(str(Path(f"/proc/self/ns/{kind}").stat().st_ino) for kind in ("pid", "mnt"))
    return f"\0markedness-{os.getuid()}-{spaces}-{repro}"


def is_own(connection: socket.socket) -> bool:
    """Whether a process of this user is at the other end."""
    peer = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return int(peer[1]) == os.getuid()


def _taken(connection: socket.socket, argv: Sequence[str]) -> bool:
    """Send the stage and the standard files; whether the warm process takes it."""
    content = json.dumps(asdict(Stage(list(argv), str(Path.cwd()), dict(os.environ)))).encode()
    try:
        socket.send_fds(connection, [LENGTH.pack(len(content))], [0, 1, 2])
        connection.sendall(content)
        return connection.recv(1) == TAKEN
    except OSError:
        return False


def _outcome(connection: socket.socket) -> int:
    """Wait for the fork, pass signals on to it, and end as it ended."""

    def pass_on(number: int, _: object) -> None:
        with suppress(OSError):
            connection.sendall(bytes([number]))

    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, pass_on)
    content = connection.recv(STATUS.size, socket.MSG_WAITALL)
    if len(content) < STATUS.size:
        print("error: the process that ran this stage is gone; run 'dvc repro' again", file=sys.stderr)
        return 1
    status = int(STATUS.unpack(content)[0])
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status
