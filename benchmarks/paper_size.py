"""CPU and memory of each audit at the size of its paper, stage by stage; a process for each audit.

    python benchmarks/paper_size.py                                     all five audits
    python benchmarks/paper_size.py --audits personas guise --log FILE  some, and each line also into a file at once
    python benchmarks/paper_size.py --served                            ask a server: 50 ms latency, 256 in flight
    python benchmarks/paper_size.py --size quick                        to try the script

The planted control answers, so that all answers are read and measured; its answers cost next to nothing. With --served,
generate alone runs, and asks the loopback server in a process of its own, whose CPU does not count. Printed: seconds of
CPU and wall, and the peak of resident memory so far. Goals: 10 minutes of CPU in all, generate as served, and 4 GB.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from markedness import params as params_file
from markedness import pipeline
from markedness.audits import AUDITS, STAGES

SERVER = Path(__file__).parents[1] / "tests" / "servers" / "openai_server.py"
LATENCY, IN_FLIGHT = 0.05, 256


def study(folder: Path, audit: str, size: str, url: str) -> params_file.Params:
    """The params of a study of one audit and one model."""
    model: dict[str, object] = {"backend": "scripted", "rule": "planted"}
    if url:
        model = {"backend": "openai", "model": "toy", "base_url": url, "concurrency": IN_FLIGHT, "top_logprobs": 20}
    content = {"audits": [audit], "run": ["model"], "models": {"model": model}, "size": size, "seed": 2026}
    (folder / "params.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return params_file.load(folder / "params.yaml")


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(audit: str, options: argparse.Namespace, url: str = "") -> None:
    """All stages of one audit, or its generate where a server is asked; a line for each stage."""
    with tempfile.TemporaryDirectory() as folder:
        params = study(Path(folder), audit, options.size, url)
        total = 0.0
        for stage in STAGES[:1] if url else STAGES:
            begun, wall = cpu(), time.perf_counter()
            pipeline.stage(stage, params, audit, "model", lambda line: None)
            took = cpu() - begun
            total += took
            told(options, audit, f"{stage}, served" if url else stage, took, time.perf_counter() - wall)
        told(options, audit, "all", total, 0.0)


def told(options: argparse.Namespace, audit: str, stage: str, took: float, wall: float) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    line = f"{audit:12} {stage:16} {took:8.1f} s of CPU {wall:8.1f} s wall {peak:7.0f} MiB at most"
    print(line, flush=True)
    if options.log:
        with Path(options.log).open("a", encoding="utf-8") as file:
            print(line, file=file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--audits", nargs="+", choices=AUDITS, default=list(AUDITS))
    parser.add_argument("--size", choices=("quick", "standard", "paper"), default="paper")
    parser.add_argument("--served", action="store_true")
    parser.add_argument("--log")
    options = parser.parse_args()
    if len(options.audits) > 1:
        more = [*(["--served"] if options.served else []), *(["--log", options.log] if options.log else [])]
        failed = [
            audit
            for audit in options.audits
            if subprocess.run(
                [sys.executable, __file__, "--audits", audit, "--size", options.size, *more], check=False
            ).returncode
        ]
        sys.exit(f"failed: {', '.join(failed)}" if failed else 0)
    (audit,) = options.audits
    if not options.served:
        measure(audit, options)
        return
    command = [sys.executable, str(SERVER), "--latency", str(LATENCY), "--no-count"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        measure(audit, options, f"http://127.0.0.1:{int(server.stdout.readline())}/v1")
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    main()
