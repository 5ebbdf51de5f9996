"""The loopback servers."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from markedness import audits

SERVER = Path(__file__).parents[1] / "servers" / "openai_server.py"


@pytest.fixture(autouse=True)
def _restore_audits() -> Iterator[None]:
    """`toy_study.study` puts its own audit in place of all; undone after each test."""
    spec = audits.spec
    yield
    audits.spec = spec


@dataclass
class RunningServer:
    """A server in a process of its own."""

    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def stats(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/stats") as answer:
            counts: dict[str, Any] = json.load(answer)
        return counts


@pytest.fixture
def start_server() -> Iterator[Callable[..., RunningServer]]:
    """Start a server with these options in a process of its own."""
    running: list[subprocess.Popen[str]] = []

    def start(*options: str) -> RunningServer:
        process = subprocess.Popen([sys.executable, str(SERVER), *options], stdout=subprocess.PIPE, text=True)
        running.append(process)
        assert process.stdout is not None
        return RunningServer(int(process.stdout.readline()))

    yield start
    for process in running:
        process.kill()
        process.communicate()
