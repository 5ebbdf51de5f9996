"""The tables of one class, from its estimates; and what was asked of every subject."""

from __future__ import annotations

import numpy as np
import pandas as pd

from markedness.audits.knowledge.estimators.classes import MEASURES, REGARD_VALUES, ClassEstimates, analysed
from markedness.audits.knowledge.estimators.gaps import two_sided_p
from markedness.stats.multiplicity import holm
from markedness.stats.resampling import percentile_interval

REASONS = ("refusal", "empty answer", "no predicate", "no object", "cut off", "failed", "unsupported")
"""Why an answer is not a triple."""


def triples_table(triples: pd.DataFrame) -> pd.DataFrame:
    """The analysed triples, regard in words."""
    columns = [
        "class", "subject", "predicate", "object", "round", "strategy", "regard", "toxicity", "topic", "topic_words",
        "regard_scorer", "toxicity_scorer", "cut", "duplicate",
    ]  # fmt: skip
    return triples.loc[analysed(triples).index, columns].reset_index(drop=True)


def crawl_table(triples: pd.DataFrame) -> pd.DataFrame:
    """What was asked and what became of it, per subject and arm."""
    rows = []
    for (name, subject, arm), asked in triples.groupby(["class", "subject", "arm"], sort=False):
        valid = int(asked["status"].eq("ok").sum())
        planned = int(asked["planned"].iloc[0])
        reasons = asked["reason"].value_counts()
        rows.append(
            {
                "class": name, "subject": subject, "arm": arm, "analysed": bool(asked["analysed"].iloc[0]),
                "planned": planned, "asked": len(asked), "valid": valid, "invalid": len(asked) - valid,
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


def regard_table(one: ClassEstimates, confidence_level: float) -> pd.DataFrame:
    """Counts, score and share of each subject; the interval resamples prompts."""
    counts = pd.crosstab(one.rows["subject"], one.rows["regard"]).reindex(
        index=one.subjects, columns=list(REGARD_VALUES.values()), fill_value=0
    )
    counts = counts.set_axis(list(REGARD_VALUES), axis=1)
    means = one.means["regard"]
    low, high = percentile_interval(means.resampled, confidence_level)
    answered = one.rows.groupby("subject").size().reindex(one.subjects, fill_value=0).to_numpy()
    table = counts[["positive", "neutral", "negative"]].assign(
        score=published_regard_score(counts["positive"], counts["negative"], means.n), share=means.estimate,
        ci_low=low, ci_high=high, n=means.n, missing=answered - means.n, scorer=one.scorer("regard"),
    )  # fmt: skip
    return _named(table, one)


def toxicity_table(one: ClassEstimates, confidence_level: float) -> pd.DataFrame:
    """Quartiles and mean of each subject; the interval of the mean resamples prompts."""
    by_subject = one.rows.groupby("subject")["toxicity"]
    quartiles = by_subject.quantile(np.array([0.25, 0.5, 0.75])).unstack()
    quartiles = quartiles.reindex(index=one.subjects, columns=[0.25, 0.5, 0.75]).astype(float)
    means = one.means["toxicity"]
    low, high = percentile_interval(means.resampled, confidence_level)
    answered = by_subject.size().reindex(one.subjects, fill_value=0).to_numpy()
    table = quartiles.assign(
        median=quartiles[0.5], q1=quartiles[0.25], q3=quartiles[0.75], iqr=quartiles[0.75] - quartiles[0.25],
        mean=means.estimate, ci_low=low, ci_high=high, n=means.n, missing=answered - means.n,
        scorer=one.scorer("toxicity"),
    )  # fmt: skip
    return _named(table.drop(columns=[0.25, 0.5, 0.75]), one)


def _named(table: pd.DataFrame, one: ClassEstimates) -> pd.DataFrame:
    """With the class and, from the index, the subject as first columns."""
    named = table.rename_axis("subject").rename_axis(None, axis=1).reset_index()
    named.insert(0, "class", one.name)
    return named


def gaps_table(one: ClassEstimates, confidence_level: float) -> pd.DataFrame:
    """Each marked subject less the reference, for regard and toxicity."""
    rows = []
    for measure in MEASURES:
        n, of_measure = one.means[measure].n, []
        for place in one.marked:
            gap = one.gap(measure, [place])
            ci_low, ci_high = percentile_interval(gap.resampled, confidence_level)
            null_low, null_high = percentile_interval(gap.permuted, confidence_level)
            of_measure.append(
                {
                    "class": one.name, "subject": one.subjects[place], "reference": one.reference, "measure": measure,
                    "gap": gap.estimate, "ci_low": ci_low, "ci_high": ci_high, "null_low": null_low,
                    "null_high": null_high, "p": two_sided_p(gap.estimate, gap.permuted), "n": int(n[place]),
                    "n_reference": int(n[one.unmarked]), "scorer": one.scorer(measure),
                }
            )  # fmt: skip
        adjusted = holm([row["p"] for row in of_measure])
        rows += [{**row, "p_adjusted": p} for row, p in zip(of_measure, adjusted, strict=True)]
    return pd.DataFrame(rows)


def relative_entropy_table(one: ClassEstimates) -> pd.DataFrame:
    """Relative entropy of each subject's topics from those of its class, with its permutation null."""
    columns = ["kl", "null_mean", "excess", "null_low", "null_high", "p", "n"]
    if one.divergence is None:
        table = pd.DataFrame({"subject": one.subjects, **dict.fromkeys(columns, np.nan)}).assign(n=0)
        n_topics, stability, model = 0, float("nan"), ""
    else:
        table = one.divergence.groups.rename(columns={"group": "subject"})
        with_topic = one.rows[one.rows["topic"].notna()]
        n_topics = int(with_topic.loc[with_topic["topic"].ge(0), "topic"].nunique())
        stability, model = float(with_topic["topic_stability"].iloc[0]), str(with_topic["topic_model"].iloc[0])
    table = table.assign(p_adjusted=holm(table["p"]), topics=n_topics, stability=stability, topic_model=model)
    table.insert(0, "class", one.name)
    return table[["class", "subject", *columns, "p_adjusted", "topics", "stability", "topic_model"]]


def topics_table(one: ClassEstimates) -> pd.DataFrame:
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
