"""The scorers of knowledge on its labelled test statements: the table that the package carries, and docs/scorers.md."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import pandas as pd

from markedness.audits.knowledge.estimators.classes import REGARD_VALUES
from markedness.audits.knowledge.estimators.scorer_error import scorer_errors
from markedness.audits.knowledge.language.choice import RegardParams, ToxicityParams, regard_scorer, toxicity_scorer
from markedness.audits.knowledge.language.scorers import MASK, held_out_statements

HEAD = """# Scorers of regard and toxicity

The knowledge audit is no better than the scorer of its triples. The project has {n} labelled test statements about the
42 subjects of the paper: six for each of {templates} templates, none of which a training statement shares, {hard} of
them hard for classifiers (sarcasm, dehumanising metaphors, statements about discrimination, negation, counter-speech),
{obscene} obscene. They were labelled before any scorer read them, by one author, who also wrote the training
statements: statements of other origin may be harder. `markedness scorers test --page docs/scorers.md` writes this page;
with a model of your own under `knowledge.featurize`, it measures that model, too.

Accuracy and F1 are those of regard (negative, neutral, positive). AUC is the probability that an insult gets a higher
toxicity than another statement. The error is the mean of the scorer less that of the labels: of regard, a negative
error is too harsh; of toxicity, a positive one is. In brackets: 95 % intervals, t over templates. A scorer with the
subject masked reads "They" for every subject, so that its errors by group are those of what is said of the group.

Do not read a gap between subjects that is smaller than the differences of these errors as one of the model; check it
with labels of your own triples: `markedness scorers validate labels.csv --model MODEL` (`--measure toxicity`).
"""
_TITLES = {"accuracy": "accuracy", "macro_f1": "macro F1", "auc": "AUC", "error": "error"}


def measured(regard: Sequence[RegardParams], toxicity: Sequence[ToxicityParams]) -> pd.DataFrame:
    """`scorer_errors` of these scorers, one after the other; of regard first.

    A scorer over HTTP and a judge are not asked: they are requests of the featurize stage, with ledger and budget.
    """
    statements = held_out_statements()
    asked = [("regard", regard_scorer(one)) for one in regard]
    asked += [("toxicity", toxicity_scorer(one)) for one in toxicity]
    made = []
    for measure, scorer in asked:
        subject = MASK if scorer.masked else statements["subject"]
        said = pd.Series(scorer((subject + " " + statements["predicate"] + " " + statements["object"]).tolist()))
        values = np.asarray(said.map(REGARD_VALUES) if measure == "regard" else said, dtype=np.float64)
        made.append(scorer_errors(statements, measure, values, scorer.name))
    return pd.concat(made, ignore_index=True)


def page(table: pd.DataFrame) -> str:
    """The page in Markdown."""
    statements = held_out_statements()
    hard = table.query("statements == 'hard'")["n"].iloc[0]
    head = HEAD.format(
        n=len(statements), templates=statements["predicate"].nunique(), hard=hard, obscene=statements["obscene"].sum()
    )
    parts = [head]
    for (measure, scorer), rows in table.groupby(["measure", "scorer"], sort=False):
        parts += [f"## {str(measure).capitalize()}: {scorer}\n"]
        for title, names in (("", ("all", "hard", "kind")), ("By group", ("class",)), ("By subject", ("subject",))):
            parts += [f"### {title}\n"] if title else []
            parts += [_table(rows[rows["statements"].isin(names)])]
    return "\n".join(parts)


def _table(rows: pd.DataFrame) -> str:
    """One line for each group of statements."""
    statistics = list(dict.fromkeys(rows["statistic"]))
    lines = ["| statements | n | " + " | ".join(_TITLES[name] for name in statistics) + " |"]
    lines += ["| --- " * (len(statistics) + 2) + "|"]
    for (kind, group), own in rows.groupby(["statements", "group"], sort=False):
        cells = " | ".join(_cell(row) for row in own.to_dict("records"))
        lines.append(f"| {group or kind} | {own['n'].iloc[0]} | {cells} |")
    return "\n".join([*lines, ""])


def _cell(row: Mapping[Hashable, float]) -> str:
    if np.isnan(row["estimate"]):
        return "not estimated"
    bounds = "" if np.isnan(row["ci_low"]) else f" [{row['ci_low']:.2f}, {row['ci_high']:.2f}]"
    differs = f" (differs, p = {row['p_adjusted']:.3f})" if row["p_adjusted"] <= 0.05 else ""
    return f"{row['estimate']:.2f}{bounds}{differs}"
