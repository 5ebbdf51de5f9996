"""Three servers filled at a time, beside the same three filled one after another.

    python benchmarks/filling.py                480 requests a server, 500 ms latency, 16 in flight: a minute
    python benchmarks/filling.py --requests 3000

The servers run on loopback in processes of their own and answer after a fixed time, so that they are the limit and not
this machine. A study of one audit and three models, one a server, is filled in both ways, each into ledgers of its own.
Prints the seconds and requests a second of both, and their ratio (at least 2.5; 3 is what there is to gain).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import yaml
from ratios import held

from markedness import fill
from markedness import params as params_file

SERVER = Path(__file__).parents[1] / "tests" / "servers" / "openai_server.py"
GROUPS = 15
"""Of the personas audit, whose prompt is asked of each."""


def study(folder: Path, urls: Sequence[str], options: argparse.Namespace) -> params_file.Params:
    """The params of a study with a model for each server."""
    models = {
        f"m{place}": {"backend": "openai", "model": "toy", "base_url": url, "concurrency": options.in_flight}
        for place, url in enumerate(urls)
    }
    samples = max(1, options.requests // GROUPS)
    asked = {"prompts": ["imagine_yourself"], "samples": samples, "max_tokens": 20}
    folder.mkdir()
    content = {"audits": ["personas"], "models": models, "personas": {"generate": asked}}
    (folder / "params.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return params_file.load(folder / "params.yaml")


def timed(params: params_file.Params, turns: Sequence[Sequence[str]]) -> float:
    """Seconds to fill the models of each turn, turn after turn."""
    start = time.perf_counter()
    for models in turns:
        assert fill.fill(params, models, say=lambda line: None)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=480, help="of each server")
    parser.add_argument("--in-flight", type=int, default=16)
    parser.add_argument("--latency", type=float, default=0.5)
    options = parser.parse_args()
    command = [sys.executable, str(SERVER), "--latency", str(options.latency), "--no-count"]
    servers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    try:
        urls = []
        for server in servers:
            assert server.stdout is not None
            urls.append(f"http://127.0.0.1:{int(server.stdout.readline())}/v1")
        with tempfile.TemporaryDirectory() as folder:
            compare(urls, Path(folder), options)
    finally:
        for server in servers:
            server.kill()
            server.wait()


def compare(urls: Sequence[str], folder: Path, options: argparse.Namespace) -> None:
    small = argparse.Namespace(requests=GROUPS, in_flight=options.in_flight)
    first = study(folder / "first", urls[:1], small)
    timed(first, [first.run])  # imports and first connections
    apart, together = (study(folder / name, urls, options) for name in ("apart", "together"))
    requests = GROUPS * max(1, options.requests // GROUPS) * len(urls)
    one = timed(apart, [[model] for model in apart.run])
    all_at_once = timed(together, [together.run])
    for name, seconds in (("one after another", one), ("all at a time", all_at_once)):
        print(f"{name + ':':18} {seconds:6.1f} s, {requests / seconds:6.0f} requests/s", flush=True)
    held("filling", one / all_at_once)


if __name__ == "__main__":
    main()
