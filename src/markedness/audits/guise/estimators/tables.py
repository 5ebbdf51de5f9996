"""The tables of evaluate: their columns, and Holm's correction within each family of tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from markedness.audits.guise.estimators.text_sets import Floats
from markedness.stats.multiplicity import holm
from markedness.stats.t_tests import pooled_t

Row = dict[str, str | float | bool]
COLUMNS = {
    "associations": "setting prompt attribute q task text_set control group reference n missing",
    "stereotypes": "task group reference rank attribute log_ratio ci_low ci_high p p_adjusted favorability n_prompts "
    "n_pairs",
    "agreement": "task group reference setting year agreement ci_low ci_high standard_error n_prompts chance t df p "
    "p_adjusted p_permutation null_mean p_swapped attributes human",
    "favorability": "task group source weighted ci_low ci_high unweighted null_mean p_swapped attributes n",
    "favorability_ranks": "task group source rho p p_adjusted n",
    "employability": "occupation log_ratio ci_low ci_high prestige task group reference",
    "employability_tests": "task group level item mean_log_ratio sd t df p p_adjusted n intercept slope slope_error "
    "r_squared f p_slope n_prestige",
    "decisions": "task rule level item group reference rate rate_reference difference ci_low ci_high increase count "
    "count_reference n n_reference chi2 p p_adjusted chi2_2x2 p_2x2 null_mean p_swapped ties smallest_margin missing",
    "features": "text_set setting control group strength ci_low ci_high sd n_prompts n_pairs t df p p_adjusted "
    "null_mean p_swapped",
    "contrasts": "measure first second group difference t df p p_adjusted n",
    "correlations": "task group level first second r p p_adjusted n",
    "perplexity": "text_set setting guise mean sd n missing estimator compared_with t df p p_adjusted",
}
"""Table -> its columns."""
FAMILIES = {
    "stereotypes": ["task", "group"],
    "agreement": ["task", "group", "setting"],
    "favorability_ranks": ["task", "group"],
    "employability_tests": ["task", "group", "level"],
    "decisions": ["rule", "level", "group"],
    "features": ["group", "control"],
    "contrasts": ["group", "measure"],
    "perplexity": ["guise"],
}
"""Table -> the columns that name the family of tests that ``p_adjusted`` corrects over; `correlations` has its own."""


def frames(rows: Mapping[str, Sequence[Row]]) -> dict[str, pd.DataFrame]:
    """All tables of `COLUMNS`, with p_adjusted; empty where there are no rows."""
    made = {}
    for name, columns in COLUMNS.items():
        table = pd.DataFrame(list(rows.get(name, ())), columns=columns.split())
        if name in FAMILIES and len(table):
            table["p_adjusted"] = np.nan
            for places in table.groupby(FAMILIES[name], sort=False).indices.values():
                table.loc[places, "p_adjusted"] = holm(table.loc[places, "p"])
        made[name] = table
    return made


def contrast(group: str, measure: str, first: tuple[str, Floats], second: tuple[str, Floats]) -> Row:
    """Published two-sided t test, pooled variance, of two named samples of scores."""
    test = pooled_t(first[1], second[1])
    return {
        "measure": measure, "first": first[0], "second": second[0], "group": group, "difference": test.mean,
        "t": test.t, "df": test.df, "p": test.p, "n": test.n,
    }  # fmt: skip
