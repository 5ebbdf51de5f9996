"""How varied and how dependent the answers of control-none are, beside those of a model of the same study.

    dvc repro                                               the default study, or as much of it as is wanted
    python benchmarks/spreads.py --study .                  control-none beside gemma-3-270m
    python benchmarks/spreads.py --study . --model my-model

Reads data/generations and prints one Markdown table, which docs/calibration-findings.md has. A control that is less
varied or less dependent than a model says less of what the audits do where there is nothing. Without --study nothing is
measured.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Callable, Hashable
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Figures = dict[str, float]


def differing(answers: pd.Series, same: list[pd.Series], other: pd.Series | None = None) -> float:
    """Share of pairs of answers that differ, alike in ``same`` and, where given, of different ``other``."""
    frame = pd.DataFrame({"answer": answers, **{f"same{place}": one for place, one in enumerate(same)}})
    frame["other"] = range(len(frame)) if other is None else other
    equal = pairs = 0.0
    for _, own in frame.groupby([name for name in frame if str(name).startswith("same")], sort=False):
        sizes = own["other"].value_counts().to_numpy(float)
        pairs += (len(own) ** 2 - (sizes**2).sum()) / 2
        alike = own.groupby("answer").size().to_numpy(float)
        inside = own.groupby(["answer", "other"]).size().to_numpy(float)
        equal += ((alike**2).sum() - (inside**2).sum()) / 2
    return 1 - equal / pairs if pairs else math.nan


def words(text: str) -> list[str]:
    return [word.strip(".,;:!?\"'()").lower() for word in text.split()]


def personas(rows: pd.DataFrame) -> Figures:
    texts = rows["text"].fillna("").str.strip()
    counts = [Counter(words(text)) for text in texts]
    vocabulary = {word: place for place, word in enumerate(sorted(set().union(*counts)))}
    bags = np.zeros((len(counts), len(vocabulary)))
    for place, count in enumerate(counts):
        for word, times in count.items():
            bags[place, vocabulary[word]] = times
    norms = np.linalg.norm(bags, axis=1)
    bags = bags[norms > 0] / norms[norms > 0, None]
    cosine = bags @ bags.T
    kept = rows[norms > 0]
    prompt, group = (kept[name].to_numpy()[:, None] == kept[name].to_numpy() for name in ("prompt_id", "group"))
    apart = ~np.eye(len(kept), dtype=bool)
    lengths = np.array([sum(count.values()) for count in counts])
    return {
        "texts that occur once": float((~texts.duplicated(keep=False)).mean()),
        "words of a text, mean": float(lengths.mean()),
        "words of a text, sd": float(lengths.std(ddof=1)),
        "different words in all texts": float(len(vocabulary)),
        "cosine of word counts, same prompt and group": float(cosine[apart & prompt & group].mean()),
        "cosine of word counts, same prompt, other group": float(cosine[prompt & ~group].mean()),
        "cosine of word counts, other prompt": float(cosine[~prompt].mean()),
    }


def homogeneity(rows: pd.DataFrame) -> Figures:
    answers = rows["text"].fillna("").map(lambda text: " ".join(words(text)))
    cue, name = rows["cue"], rows["name"]
    return {
        "different answers": float(answers.nunique()),
        "P_d of one name in one cue": differing(answers, [cue, name]),
        "P_d of two names in one cue": differing(answers, [cue], name),
        "P_d of two cues": differing(answers, [pd.Series(0, index=rows.index)], cue),
        "answers of more than one word": float(answers.str.contains(" ").mean()),
    }


def guise(rows: pd.DataFrame) -> Figures:
    """Standard deviations of ln p, and of the log10 ratio of the guises, by what they belong to."""
    own = rows[rows["task"].eq("traits") & rows["pairs"].eq("habitual_be") & rows["log_prob"].notna()]
    keys = ["pair", "prompt_id", "candidate"]
    wide = own.pivot_table(index=keys, columns="guise", values="log_prob")
    level = wide["SAE"].unstack(["prompt_id", "candidate"]).to_numpy()
    ratio = ((wide["AAE"] - wide["SAE"]) / math.log(10)).unstack("candidate")
    by_pair = ratio.groupby(level="pair").mean()
    n_prompts = wide.index.get_level_values("prompt_id").nunique()
    main = ratio.mean()
    by_prompt = ratio.groupby(level="prompt_id").mean()
    rest = ratio - by_pair.reindex(ratio.index, level="pair") - by_prompt.reindex(ratio.index, level="prompt_id") + main
    n_pairs = len(by_pair)
    left = float((rest.to_numpy() ** 2).sum()) / ((n_pairs - 1) * (n_prompts - 1) * ratio.shape[1])
    of_pair = max(0.0, float(by_pair.var().mean()) - left / n_prompts)
    of_prompt = max(0.0, float(by_prompt.var().mean()) - left / n_pairs)
    of_main = max(0.0, float(main.var()) - of_pair / n_pairs - of_prompt / n_prompts - left / n_pairs / n_prompts)
    return {
        "ln p of an attribute, sd between attributes": float(np.nanmean(level, axis=0).std(ddof=1)),
        "ln p of an attribute, sd between texts": float(np.nanmean(np.nanstd(level, axis=0, ddof=1))),
        "log10 ratio, sd of attributes": math.sqrt(of_main),
        "log10 ratio, sd of prompt by attribute": math.sqrt(of_prompt),
        "log10 ratio, sd of text pair by attribute": math.sqrt(of_pair),
        "log10 ratio, sd of the rest": math.sqrt(left),
    }


def knowledge(rows: pd.DataFrame) -> Figures:
    own = rows[rows["analysed"].astype(bool)]
    said = own["text"].fillna("").map(lambda text: " ".join(words(text)))
    predicate = own["strategy"].astype(str) + own["predicate"].fillna("").astype(str)
    crawl = own["class"].astype(str) + own["crawl"].astype(str)
    later = own["round"].astype(float) > 0
    lengths = said.map(lambda text: len(text.split()))
    return {
        "different answers over all": float(said.nunique() / len(said)),
        "words of an answer, mean": float(lengths.mean()),
        "pairs of answers that differ, one subject, same predicate": differing(said, [predicate, own["subject"]]),
        "pairs that differ, other subject, same predicate": differing(said, [predicate], own["subject"]),
        "words shared with another answer, same crawl, later rounds": shared(said[later], crawl[later], inside=True),
        "words shared with another answer, other crawl, later rounds": shared(said[later], crawl[later], inside=False),
    }


def shared(said: pd.Series, crawl: pd.Series, inside: bool) -> float:
    """Mean share of common words (of both together) over pairs of answers of one crawl, or of different ones."""
    sets = [set(text.split()) for text in said]
    of = crawl.tolist()
    shares = [
        len(sets[a] & sets[b]) / len(sets[a] | sets[b])
        for a, b in combinations(range(len(sets)), 2)
        if (of[a] == of[b]) == inside and sets[a] | sets[b] and of[a][:-1] == of[b][:-1]
    ]
    return float(np.mean(shares)) if shares else math.nan


def annotation(rows: pd.DataFrame) -> Figures:
    """Of the names: answers, and the log odds of yes by what they belong to."""
    own = rows[rows["paradigm"].eq("names")]
    keys: list[Hashable] = ["task", "pair", "group", "marked", "vignette", "name"]
    wide = own.assign(side=np.where(own["candidate"].eq(own["yes"]), "yes", "no"))
    wide = wide.pivot_table(index=keys, columns="side", values="log_prob").reset_index()
    wide["odds"] = wide["yes"] - wide["no"]
    wide["said"] = wide["odds"] > 0
    by_task = wide.groupby("task")["odds"]
    within = wide["odds"] - by_task.transform("mean")
    both = wide.assign(within=within, said=wide["said"].astype(int)).pivot_table(
        index=["task", "pair"], columns="marked", values=["within", "said"]
    )
    rates = wide.groupby("task")["said"].mean()
    return {
        "yes to a task, lowest": float(rates.min()),
        "yes to a task, highest": float(rates.max()),
        "pairs whose labels differ": float((both["said"][True] != both["said"][False]).mean()),
        "log odds of yes, sd between tasks": float(by_task.mean().std(ddof=1)),
        "log odds of yes, sd within a task": float(np.sqrt((within**2).sum() / (len(within) - wide["task"].nunique()))),
        "correlation of the two texts of a pair (the vignette)": float(
            np.corrcoef(both["within"][True], both["within"][False])[0, 1]
        ),
        "correlation of two tasks about one text (name and vignette)": between_tasks(wide.assign(within=within)),
    }


def between_tasks(wide: pd.DataFrame) -> float:
    table = wide.pivot_table(index=["pair", "name"], columns="task", values="within")
    found = table.corr().to_numpy()
    return float(found[np.triu_indices(len(found), 1)].mean())


def shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


AUDITS: dict[str, Callable[[pd.DataFrame], Figures]] = {
    "personas": personas, "homogeneity": homogeneity, "guise": guise, "knowledge": knowledge, "annotation": annotation,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", type=Path, help="the folder of a study that was run")
    parser.add_argument("--model", default="gemma-3-270m")
    parser.add_argument("--control", default="control-none")
    chosen = parser.parse_args()
    if chosen.study is None:
        print("spreads: name the folder of a study with --study; nothing was measured")
        return
    print(f"| audit | figure | {chosen.control} | {chosen.model} |\n| --- | --- | --: | --: |")
    for audit, figures in AUDITS.items():
        files = [chosen.study / f"data/generations/{audit}/{name}.parquet" for name in (chosen.control, chosen.model)]
        missing = [file.name for file in files if not file.exists()]
        if missing:
            print(f"| {audit} | not measured: the study has no {', '.join(missing)} | | |")
            continue
        first, second = (figures(pd.read_parquet(file)) for file in files)
        for name, value in first.items():
            print(f"| {audit} | {name} | {shown(value)} | {shown(second[name])} |")


if __name__ == "__main__":
    main()
