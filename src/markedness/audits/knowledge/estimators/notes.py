"""The sentences that a reader of the results must see."""

from __future__ import annotations

import pandas as pd

from markedness.audits.knowledge.estimators.classes import MEASURES, Measure, SubjectClass, has_crawls, not_measured
from markedness.audits.knowledge.estimators.scorer_error import error_notes
from markedness.audits.knowledge.estimators.tables import REASONS
from markedness.audits.knowledge.language.choice import SEVERAL_MODELS
from markedness.results import JUDGE
from markedness.stats.inference import MIN_CLUSTERS

_WHAT = {"Regard is": "regard_scorer", "Toxicity is": "toxicity_scorer", "Topics are": "topic_model"}
_JUDGE = (
    "Warning: the audited model judged its own triples ({}): it may be kinder to its own words than others are, and "
    "compare does not compare what each model judged itself; name another model as "
    "knowledge.featurize.{}.model."
)


def notes(
    triples: pd.DataFrame, classes: list[SubjectClass], tables: dict[str, pd.DataFrame], copies: str = ""
) -> list[str]:
    """Exclusions, small n, what was not estimated and why, and who scored; each sentence once."""
    crawl = tables["crawl"]
    found = [*_arm_notes(crawl), *_crawl_notes(crawl[crawl["analysed"]])]
    found += [copies] if copies else []
    whys = {what: not_measured(triples, column) for what, column in _WHAT.items()}
    found += [f"{what} not measured: {why}." for what, why in whys.items() if why]
    for one in classes:
        if one.topic_counts is None and len(one.rows) and not whys["Topics are"]:
            found.append(
                f"{one.name}: {len(one.rows)} triples are too few or too alike for topics: no relative entropy."
            )
    for row in tables["relative_entropy"].drop_duplicates("class").to_dict("records"):
        if row["stability"] < 0.5:
            found.append(
                f"{row['class']}: the topics depend on the seed (mean adjusted Rand index {row['stability']:.2f}); "
                "other seeds give other topics."
            )
    if not has_crawls(triples):
        found.append("The data have no column 'crawl' that says which triples were drawn together: no p, no intervals.")
    elif (n_crawls := triples["crawl"].nunique()) < MIN_CLUSTERS:
        found.append(
            f"Too little data for p and intervals: {n_crawls} of the {MIN_CLUSTERS} crawls that they need "
            "(knowledge.generate.crawls)."
        )
    for measure in MEASURES:
        found += _unscored_notes(classes, measure) if not not_measured(triples, f"{measure}_scorer") else []
    for measure in ("regard", "toxicity"):
        for scorer in map(str, triples[f"{measure}_scorer"].dropna().unique()):
            if scorer == JUDGE:
                found.append(_JUDGE.format(measure, measure))
            elif SEVERAL_MODELS in scorer:
                found.append(f"Not one model scored the {measure}, so that a gap may be one between them: {scorer}.")
    return list(dict.fromkeys([*found, *error_notes(triples)]))


def _unscored_notes(classes: list[SubjectClass], measure: Measure) -> list[str]:
    """How many triples the scorer left without a value, of whom, and the commonest reason."""
    rows = pd.concat([one.rows for one in classes]) if classes else pd.DataFrame()
    lacking = rows[measure].isna() if len(rows) else pd.Series(dtype=bool)
    if not lacking.any():
        return []
    marked = rows["subject"] != rows["reference"]
    parts = [
        f"{int(lacking[side].sum())} of {int(side.sum())} of {whose}"
        for side, whose in ((marked, "marked subjects"), (~marked, "the unmarked"))
    ]
    reasons = rows.loc[lacking, "toxicity_reason"].dropna() if measure == "toxicity" else pd.Series(dtype="str")
    why = f" ({reasons.mode().iloc[0]})" if len(reasons) else ""
    return [f"{int(lacking.sum())} of {len(rows)} triples have no {measure}: {', '.join(parts)}{why}."]


def _arm_notes(crawl: pd.DataFrame) -> list[str]:
    """Which arm the Scores are of, where there are several."""
    arms = crawl.groupby("arm", sort=True)["asked"].sum()
    analysed = sorted(crawl.loc[crawl["analysed"], "arm"].unique())
    others = [f"{arm} ({asked})" for arm, asked in arms.items() if arm not in analysed]
    if not others:
        return []
    return [
        f"The arm analysed is {', '.join(analysed)}, the first of knowledge.generate.arms; answers of other arms are "
        f"in the comparison of arms alone: {', '.join(others)}."
    ]


def _crawl_notes(crawl: pd.DataFrame) -> list[str]:
    """What was asked for, what is missing, and where refusals are unequal."""
    found = [
        f"{crawl['valid'].sum()} of {crawl['planned'].sum()} planned triples after {crawl['asked'].sum()} requests "
        f"({crawl['resampled'].sum()} of them redraws of invalid answers); {crawl['included'].sum()} are analysed."
    ]
    if (unanswered := int(crawl["unanswered"].sum())) > 0:
        why = {reason: int(crawl[reason.replace(" ", "_")].sum()) for reason in REASONS}
        listed = ", ".join(f"{count} {reason}" for reason, count in why.items() if count)
        found.append(f"{unanswered} planned triples stayed unanswered; invalid answers: {listed or 'none'}.")
    for row in crawl[crawl["valid"].eq(0)].to_dict("records"):
        found.append(
            f"{row['subject']} ({row['class']}) has no valid triple in {row['asked']} requests: not estimated."
        )
    for name, of_class in crawl.assign(share=crawl["refusal"] / crawl["asked"]).groupby("class", sort=False):
        by_share = of_class.sort_values("share").to_dict("records")
        least, most = by_share[0], by_share[-1]
        if most["share"] - least["share"] >= 0.1:
            found.append(
                f"{name}: refusals are unequal: {most['share']:.0%} for {most['subject']}, {least['share']:.0%} for "
                f"{least['subject']}; the measures read only answers that are triples."
            )
    return found
