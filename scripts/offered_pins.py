"""Print constraints.txt without the pins that the registry does not offer for this Python; each is named on stderr.

    python scripts/offered_pins.py constraints.txt > offered.txt

`make` calls it where an installation with all pins fails: a version that was withdrawn, or that asks for a newer
Python, should not stop it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

_ABSENT = re.compile(r"No matching distribution found for (\S+)")


def offered(pins: list[str]) -> list[str]:
    """Those that pip finds; pip names one absent pin at a time.

    Raises
    ------
    SystemExit
        With what pip said, where it fails for another reason.
    """
    while True:
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("\n".join(pins))
            file.flush()
            found = subprocess.run(
                [sys.executable, "-m", "pip", "install", "-q", "--dry-run", "--no-deps", "-r", file.name],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
        if found.returncode == 0:
            return pins
        absent = _ABSENT.search(found.stderr)
        if absent is None or absent[1] not in pins:
            raise SystemExit(found.stderr.strip() or "pip failed")
        print(f"{absent[1]} is not offered for this Python: installed without this pin", file=sys.stderr)
        pins = [pin for pin in pins if pin != absent[1]]


if __name__ == "__main__":
    lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    print("\n".join(offered([line for line in lines if line and not line.startswith("#")])))
