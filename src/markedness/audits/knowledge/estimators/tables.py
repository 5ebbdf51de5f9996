"""The tables of one class, from its estimates; and what was asked of every subject."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from markedness.audits.knowledge.estimators.classes import (
    MEASURES,
    REGARD_VALUES,
    Cells,
    Measure,
    SubjectClass,
    not_measured,
)
from markedness.audits.knowledge.estimators.gaps import CLAIMS, Crawls
from markedness.audits.knowledge.estimators.topic_divergence import (
    CLAIM,
    expected_relative_entropy,
    published_relative_entropy,
)
from markedness.results import NAN, Score, not_estimated
from markedness.stats.inference import Null

REASONS = ("refusal", "empty answer", "no predicate", "no object", "cut off", "failed", "unsupported")
"""Why an answer is not a triple."""


def triples_table(triples: pd.DataFrame) -> pd.DataFrame:
    """The analysed triples, regard in words."""
    columns = [
        "class", "subject", "predicate", "object", "crawl", "round", "strategy", "regard", "toxicity", "topic",
        "topic_words", "regard_scorer", "toxicity_scorer", "cut", "duplicate",
    ]  # fmt: skip
    read = triples["included"].astype(bool) & triples["analysed"].astype(bool)
    return triples.loc[read, columns].reset_index(drop=True)


def crawl_table(triples: pd.DataFrame) -> pd.DataFrame:
    """What was asked and what became of it, per subject and arm."""
    rows = []
    for (name, subject, arm), asked in triples.groupby(["class", "subject", "arm"], sort=False):
        valid = int(asked["status"].eq("ok").sum())
        planned = int(asked.drop_duplicates("crawl")["planned"].sum())
        reasons = asked["reason"].value_counts()
        rows.append(
            {
                "class": name, "subject": subject, "arm": arm, "analysed": bool(asked["analysed"].iloc[0]),
                "crawls": asked["crawl"].nunique(dropna=False), "planned": planned,
                "asked": len(asked), "valid": valid, "invalid": len(asked) - valid,
                **{reason.replace(" ", "_"): int(reasons.get(reason, 0)) for reason in REASONS},
                "resampled": int(asked["attempt"].gt(0).sum()), "unanswered": planned - valid,
                "duplicates": int(asked["duplicate"].sum()), "cut": int(asked["cut"].sum()),
                "included": int(asked["included"].sum()),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def published_regard_score(positive: pd.Series, negative: pd.Series, n: np.ndarray) -> pd.Series:
    """Positive less negative triples (section 6.2, equation 2); NaN for a subject with no scored triple."""
    return (positive - negative).astype(float).where(n > 0)


def regard_table(one: SubjectClass, crawls: Crawls) -> pd.DataFrame:
    """Counts, score and share of each subject; the interval is that of the share over crawls."""
    counts = pd.crosstab(one.rows["subject"], one.rows["regard"]).reindex(
        index=one.subjects, columns=list(REGARD_VALUES.values()), fill_value=0
    )
    counts = counts.set_axis(list(REGARD_VALUES), axis=1)
    n = one.cells("regard").n
    table = counts[["positive", "neutral", "negative"]].assign(
        score=published_regard_score(counts["positive"], counts["negative"], n),
        **_means(one, "regard", crawls, "share"), scorer=one.scorer("regard"),
    )  # fmt: skip
    return _named(table, one)


def toxicity_table(one: SubjectClass, crawls: Crawls) -> pd.DataFrame:
    """Quartiles and mean of each subject; the interval is that of the mean over crawls."""
    by_subject = one.rows.groupby("subject")["toxicity"]
    quartiles = by_subject.quantile(np.array([0.25, 0.5, 0.75])).unstack()
    quartiles = quartiles.reindex(index=one.subjects, columns=[0.25, 0.5, 0.75]).astype(float)
    table = quartiles.assign(
        median=quartiles[0.5], q1=quartiles[0.25], q3=quartiles[0.75], iqr=quartiles[0.75] - quartiles[0.25],
        **_means(one, "toxicity", crawls, "mean"), scorer=one.scorer("toxicity"),
    )  # fmt: skip
    return _named(table.drop(columns=[0.25, 0.5, 0.75]), one)


def _means(one: SubjectClass, measure: Measure, crawls: Crawls, name: str) -> dict[str, np.ndarray]:
    """Mean of each subject with its interval over crawls, the triples with a value, and those without."""
    cells = one.cells(measure)
    made = []
    for place in range(len(one.subjects)):
        alone = Cells(cells.sums[:, [place]], cells.counts[:, [place]])
        made.append(crawls.claim(name, alone.mean, alone.counts.T, 1, Null))
    answered = one.rows.groupby("subject").size().reindex(one.subjects, fill_value=0).to_numpy()
    return {
        name: np.array([score.estimate for score in made]), "ci_low": np.array([score.ci_low for score in made]),
        "ci_high": np.array([score.ci_high for score in made]), "n": cells.n, "missing": answered - cells.n,
    }  # fmt: skip


def _named(table: pd.DataFrame, one: SubjectClass) -> pd.DataFrame:
    """With the class and, from the index, the subject as first columns."""
    named = table.rename_axis("subject").rename_axis(None, axis=1).reset_index()
    named.insert(0, "class", one.name)
    return named


def gaps_table(one: SubjectClass, scores: Mapping[str, Score]) -> pd.DataFrame:
    """Each marked subject less the reference, for regard and toxicity, from the Scores by key."""
    rows = []
    for measure in MEASURES:
        n = one.cells(measure).n
        for place in one.marked:
            score = _of_subject(scores, CLAIMS[measure].key, one, place)
            rows.append(
                {
                    "class": one.name, "subject": one.subjects[place], "reference": one.reference, "measure": measure,
                    "gap": score.estimate, "ci_low": score.ci_low, "ci_high": score.ci_high, "p": score.p,
                    "p_adjusted": score.p_adjusted, "n": int(n[place]), "n_reference": int(n[one.unmarked]),
                    "crawls": score.clusters.get("crawl", 0), "scorer": one.scorer(measure),
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def _of_subject(scores: Mapping[str, Score], measure: str, one: SubjectClass, place: int) -> Score:
    key = f"{measure}.{one.key}: {one.subjects[place]}"
    return scores.get(key) or not_estimated(key)


def relative_entropy_table(one: SubjectClass, scores: Mapping[str, Score]) -> pd.DataFrame:
    """Relative entropy of each subject's topics from those of its class, as published, and its topic divergence."""
    by_crawl = one.topic_counts
    why = not_measured(one.asked, "topic_model")
    n_topics, stability, model = 0, NAN, f"not measured: {why}" if why else ""
    blank = np.full(len(one.subjects), np.nan)
    kl, expected, sizes = blank, blank, np.zeros(len(one.subjects), dtype=int)
    if by_crawl is not None:
        counts = by_crawl.sum(axis=0)
        kl, expected = published_relative_entropy(counts, counts.sum(axis=0)), expected_relative_entropy(counts)
        sizes = counts.sum(axis=1).astype(int)
        with_topic = one.rows[one.rows["topic"].notna()]
        n_topics = int(with_topic.loc[with_topic["topic"].ge(0), "topic"].nunique())
        stability, model = float(with_topic["topic_stability"].iloc[0]), str(with_topic["topic_model"].iloc[0])
    found = [_of_subject(scores, CLAIM.key, one, place) for place in range(len(one.subjects))]
    return pd.DataFrame(
        {
            "class": one.name, "subject": one.subjects, "kl": kl, "null_mean": expected, "excess": kl - expected,
            "topic_divergence": [score.estimate for score in found], "ci_low": [score.ci_low for score in found],
            "ci_high": [score.ci_high for score in found], "p": [score.p for score in found],
            "p_adjusted": [score.p_adjusted for score in found], "n": sizes, "topics": n_topics,
            "stability": stability, "topic_model": model,
        }
    )  # fmt: skip


def topics_table(one: SubjectClass) -> pd.DataFrame:
    """One row per topic and subject, including subjects without a triple of the topic."""
    columns = ["class", "topic", "words", "subject", "count", "share", "class_share", "n", "stability", "topic_model"]
    rows = one.rows[one.rows["topic"].notna()]
    if rows.empty:
        return pd.DataFrame(columns=columns)
    words = rows.drop_duplicates("topic").set_index("topic")["topic_words"]
    counts = pd.crosstab(rows["topic"], rows["subject"]).reindex(columns=one.subjects, fill_value=0).sort_index()
    table = counts.reset_index().melt("topic", var_name="subject", value_name="count")
    table["n"] = table["subject"].map(counts.sum())
    table["share"] = table["count"] / table["n"].where(table["n"] > 0)
    table["class_share"] = table["topic"].map(counts.sum(axis=1) / counts.to_numpy().sum())
    table["words"] = table["topic"].map(words)
    table["stability"], table["topic_model"] = rows["topic_stability"].iloc[0], rows["topic_model"].iloc[0]
    table["class"] = one.name
    return table[columns]
