"""The tables of evaluate: their columns, and Holm's correction within each family of tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from markedness.audits.guise.estimators.text_sets import Floats
from markedness.stats.inference import benjamini_hochberg, holm
from markedness.stats.t_tests import pooled_t

Row = dict[str, str | float | bool]
COLUMNS = {
    "associations": "setting prompt attribute q task text_set control group reference n missing tokens shown",
    "stereotypes": "task group reference rank attribute log_ratio ci_low ci_high p p_adjusted favorability n_prompts "
    "n_pairs tokens human_rank shown",
    "agreement": "task group reference setting year agreement ci_low ci_high chance p p_adjusted standard_error "
    "n_prompts t df p_published p_adjusted_published attributes human",
    "agreement_prompts": "task group reference setting year prompt agreement chance",
    "favorability": "task group source weighted ci_low ci_high null_mean p unweighted attributes n",
    "favorability_ranks": "task group source rho p_published p_adjusted_published n",
    "employability": "occupation log_ratio ci_low ci_high prestige task group reference shown",
    "employability_tests": "task group level item mean_log_ratio sd t df p_published p_adjusted_published n intercept "
    "slope slope_error r_squared f p_slope_published n_prestige",
    "decisions": "task rule level item group reference rate rate_reference difference ci_low ci_high p p_adjusted "
    "increase increase_mean increase_error_published increase_cells increase_undefined count count_reference n "
    "n_reference chi2 p_published p_adjusted_published chi2_2x2 p_2x2 ties "
    "smallest_margin missing",
    "features": "text_set setting control group strength ci_low ci_high p p_adjusted sd n_prompts n_pairs t df "
    "p_published p_adjusted_published",
    "dialects": "task first second strength ci_low ci_high p p_adjusted t df p_published p_adjusted_published "
    "n_prompts",
    "contrasts": "measure first second group difference ci_low ci_high p p_adjusted t df p_published "
    "p_adjusted_published n",
    "correlations": "task group level first second r p_published p_adjusted_published n",
    "perplexity": "text_set setting guise mean sd n missing estimator compared_with t df p_published "
    "p_adjusted_published",
    "text_features": "text_set setting control group reference feature source count count_reference share "
    "share_reference difference ci_low ci_high p p_adjusted density density_reference chi2 p_published "
    "p_adjusted_published n n_reference words words_reference missing",
    "text_topics": "text_set group reference topic count count_reference share share_reference difference ci_low "
    "ci_high p_adjusted residual chi2 df p p_published n n_reference missing",
}
"""Table -> its columns."""
FAMILIES = {
    "stereotypes": ["task", "group"],
    "agreement": ["task", "group", "setting"],
    "decisions": ["rule", "level", "group"],
    "features": ["group", "control"],
    "text_features": ["text_set", "group"],
}
"""Table -> the columns that name the family of cells that ``p_adjusted`` (Benjamini-Hochberg) corrects over."""
PUBLISHED_FAMILIES = {
    "agreement": ["task", "group", "setting"],
    "favorability_ranks": ["task", "group"],
    "employability_tests": ["task", "group", "level"],
    "decisions": ["rule", "level", "group"],
    "features": ["group", "control"],
    "contrasts": ["group", "measure"],
    "dialects": ["task"],
    "perplexity": ["guise"],
    "text_features": ["text_set", "group", "source"],
}
"""Table -> the columns that name the family that ``p_adjusted_published`` (Holm) corrects over; `correlations` has its
own."""


def frames(rows: Mapping[str, Sequence[Row]]) -> dict[str, pd.DataFrame]:
    """All tables of `COLUMNS`, with adjusted p; empty where there are no rows."""
    made = {}
    for name, columns in COLUMNS.items():
        table = pd.DataFrame(list(rows.get(name, ())), columns=columns.split())
        if name in FAMILIES:
            _adjust(table, FAMILIES[name], "p", "p_adjusted", benjamini_hochberg)
        if name in PUBLISHED_FAMILIES:
            _adjust(table, PUBLISHED_FAMILIES[name], "p_published", "p_adjusted_published", holm)
        made[name] = table
    return made


def _adjust(
    table: pd.DataFrame, families: Sequence[str], p: str, adjusted: str, correction: Callable[[ArrayLike], Floats]
) -> None:
    """Fill a column with the p-values of another, corrected within each family."""
    table[adjusted] = np.nan
    for places in table.groupby(list(families), sort=False).indices.values():
        table.loc[places, adjusted] = correction(table.loc[places, p].astype(float))


def published_contrast(group: str, measure: str, first: tuple[str, Floats], second: tuple[str, Floats]) -> Row:
    """Two-sided t test, pooled variance, of two named samples of scores."""
    test = pooled_t(first[1], second[1])
    return {
        "measure": measure, "first": first[0], "second": second[0], "group": group, "difference": test.mean,
        "t": test.t, "df": test.df, "p_published": test.p, "n": test.n,
    }  # fmt: skip
