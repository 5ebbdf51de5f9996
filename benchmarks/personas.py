"""CPU of the marked words of all groups, from cleaned texts to z, beside a plain loop over Counters.

    python benchmarks/personas.py                     1,350 texts of the project's own, and a million
    python benchmarks/personas.py --corpus FILE.csv   the text, race and gender columns of a published file instead
    python benchmarks/personas.py --texts 100000      a smaller second part

The loop does what a script does: it tokenises and counts each comparison's texts anew. Prints seconds of CPU (goals:
0.3 for 1,350 texts, 120 for a million), the ratio to the loop, and the peak of resident memory (goal: 6 GB).
"""

from __future__ import annotations

import argparse
import resource
import time
from collections import Counter
from collections.abc import Callable
from itertools import product
from math import log, sqrt
from typing import Any

import numpy as np
import pandas as pd
from ratios import held

from markedness.audits.personas import AXES
from markedness.audits.personas.controls import rule
from markedness.audits.personas.language.contrasts import LogOddsPrior, contrast_log_odds, marked
from markedness.audits.personas.language.groups import Grouping
from markedness.audits.personas.language.tokens import tokenize
from markedness.audits.personas.language.word_counts import WordCounts, count_words
from markedness.records import Prompt

VALUES = {name: list(axis.values) for name, axis in AXES.items()}
UNMARKED = {name: axis.unmarked for name, axis in AXES.items()}
SYLLABLES = "ba be bi bo bu da de di do du ka ke ki ko ku la le li lo lu ma me mi mo mu na ne ni no nu".split()  # noqa: SIM905


def written(n_texts: int, seed: int = 0) -> pd.DataFrame:
    """Texts of about 120 words: what the planted control writes, and words from a vocabulary of 80,000."""
    rng = np.random.default_rng(seed)
    author = rule("planted")
    vocabulary = np.array(["".join(parts) for parts in product(SYLLABLES, repeat=4)][:80_000], dtype=object)
    groups = [dict(zip(VALUES, values, strict=True)) for values in product(*VALUES.values())]
    openings = {}
    for place, group in enumerate(groups):
        planted = ", ".join(value for axis, value in group.items() if value != UNMARKED[axis])
        prompt = Prompt("p", "", columns={"marked": planted})
        openings[place] = [author(prompt, rng) for _ in range(200)]
    texts = []
    for number in range(n_texts):
        words = vocabulary[rng.zipf(1.25, 60) % len(vocabulary)]
        texts.append(f"{openings[number % len(groups)][rng.integers(200)]} {' '.join(words)}")
    table = pd.DataFrame([groups[number % len(groups)] for number in range(n_texts)])
    return table.assign(text=pd.Series(texts, dtype="str"), prompt_id="p")


def published(path: str) -> pd.DataFrame:
    """A published file, its codes mapped to ours by the last word."""
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    genders = {"M": "man", "W": "woman", "N": "nonbinary"}
    return pd.DataFrame(
        {"race": table["race"].str.split().str[-1], "gender": table["gender"].map(genders), "text": table["text"],
         "prompt_id": "p"}
    )  # fmt: skip


def marked_words(table: pd.DataFrame) -> dict[str, set[str]]:
    """What the audit does: every text once, its bag of words as the table that featurize writes."""
    grouping = Grouping(table, AXES)
    bag = count_words(tokenize(table["text"])).table()
    counts = WordCounts.of_texts(bag, np.arange(len(table)))
    pooled = counts.pooled(grouping.combination, grouping.n_combinations)
    z = contrast_log_odds(pooled, grouping.contrasts, LogOddsPrior()).z
    listed = marked(z, grouping.contrasts, 1.96)
    found = zip(grouping.compared, listed, strict=True)
    return {group.name: set(counts.words[row]) - {""} for group, row in found if group.marked}


def plain_loop(table: pd.DataFrame) -> dict[str, set[str]]:
    """What a script does: every comparison's texts again."""

    def count(rows: pd.DataFrame) -> Counter[str]:
        words: Counter[str] = Counter()
        for text in rows["text"]:
            words.update("".join(c for c in word if "a" <= c <= "z") for word in text.lower().split())
        return words

    def fitting(fixed: Any) -> pd.DataFrame:
        rows = table
        for axis, value in fixed.items():
            rows = rows[rows[axis] == value]
        return rows

    found: dict[str, set[str]] = {}
    for group in Grouping(table, AXES).compared:
        if not group.marked:
            continue
        significant: list[set[str]] = []
        for _, reference in group.references:
            y1, y2, prior = count(fitting(group.fixed)), count(fitting(reference)), count(table)
            n1, n2, a0 = y1.total(), y2.total(), prior.total()
            listed = set()
            for word, a in prior.items():
                first, second = y1[word] + a, y2[word] + a
                delta = log(first / (n1 + a0 - first)) - log(second / (n2 + a0 - second))
                if delta / sqrt(1 / first + 1 / second) > 1.96:
                    listed.add(word)
            significant.append(listed)
        found[group.name] = set.intersection(*significant) - {""}
    return found


def cpu(function: Callable[[pd.DataFrame], Any], table: pd.DataFrame, repeats: int = 1) -> tuple[float, Any]:
    """Least seconds of CPU, and the result."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        result = function(table)
        times.append(time.process_time() - start)
    return min(times), result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", help="a published personas file")
    parser.add_argument("--texts", type=int, default=1_000_000, help="texts of the second part; 0: none")
    options = parser.parse_args()
    table = published(options.corpus) if options.corpus else written(1350)
    ours, lists = cpu(marked_words, table, repeats=5)
    loop, same = cpu(plain_loop, table)
    contrasts = len(Grouping(table, AXES).contrasts.group)
    print(f"{len(table):,} texts, {contrasts} comparisons: {ours:.3f} s of CPU (goal 0.3); plain loop {loop:.1f} s, "
          f"{loop / ours:.0f} times that; same lists: {lists == same}")  # fmt: skip
    ratio = loop / ours
    if options.texts:
        table = written(options.texts)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        ours, lists = cpu(marked_words, table)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(f"{len(table):,} texts: {ours:.1f} s of CPU (goal 120), peak memory {peak:.2f} GB, {before:.2f} GB of it "
              f"before (goal 6); {sum(map(len, lists.values()))} marked words")  # fmt: skip
    held("personas", ratio)


if __name__ == "__main__":
    main()
