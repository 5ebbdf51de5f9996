"""What a gap between groups in a model's labels does to a study that uses them, and the gold labels that correct it."""

from __future__ import annotations

import math

import pandas as pd

from markedness.records import AuditError

COLUMNS = ("quantity", "value", "meaning")


def downstream(
    share: float, base_rate: float, base_rate_reference: float, gap: float, disagreement: float, n: int,
    left: float = 0.5, confidence_level: float = 0.95,
) -> pd.DataFrame:  # fmt: skip
    """Bias of a regression of the label on the group, as a linear probability model and as a logit.

    Parameters
    ----------
    share
        Of the texts that are about the marked group, in (0, 1).
    base_rate, base_rate_reference
        True share of yes in the marked group and in the reference, in (0, 1).
    gap
        What the audit found: yes-rate of marked less unmarked texts of the same content.
    disagreement
        Share of labels that differ from gold ones, in either group; at least the size of the gap.
    n
        Texts of the study.
    left
        Share of the gap that the corrected coefficient may be off by, with probability ``confidence_level``.
    confidence_level
        Of the interval whose coverage is given, and of the correction.

    Returns
    -------
    DataFrame
        `COLUMNS`. The correction subtracts the difference between the groups in the mean error of labels, measured on
        gold labels drawn at random, as many in each group.

    Raises
    ------
    AuditError
        Where a number is out of range or the labelled rate would be.
    """
    from scipy.stats import norm

    labelled = base_rate + gap
    _check(share, base_rate, base_rate_reference, gap, disagreement, n, left, confidence_level)
    true = base_rate - base_rate_reference
    error = math.sqrt(
        labelled * (1 - labelled) / (n * share) + base_rate_reference * (1 - base_rate_reference) / (n * (1 - share))
    )
    z = float(norm.ppf((1 + confidence_level) / 2))
    coverage = float(norm.cdf(z - gap / error) - norm.cdf(-z - gap / error))
    variance = (disagreement - gap**2) + disagreement
    gold = math.ceil(z**2 * variance / (left * gap) ** 2) if gap else 0
    ratio = _logit(labelled) - _logit(base_rate)
    rows = (
        ("true_difference", true, "coefficient of the group with gold labels (linear probability)"),
        ("labelled_difference", true + gap, "the same with the model's labels"),
        ("bias", gap, "labelled less true difference"),
        ("log_odds_bias", ratio, "the same for a logit, in log-odds"),
        ("prevalence_bias", share * gap, "what the share of yes over all texts is off by"),
        ("standard_error", error, f"of the coefficient, with {n:,} texts"),
        ("coverage", coverage, f"how often its {confidence_level:.0%} interval holds the true difference"),
        ("gold_labels_per_group", gold, f"that leave less than {left:.0%} of the gap in {confidence_level:.0%}"),
    )
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _check(
    share: float, base_rate: float, base_rate_reference: float, gap: float, disagreement: float, n: int, left: float,
    confidence_level: float,
) -> None:  # fmt: skip
    inside = {
        "share": share, "base-rate": base_rate, "base-rate-reference": base_rate_reference, "left": left,
        "confidence-level": confidence_level, "base-rate plus gap": base_rate + gap,
    }  # fmt: skip
    for name, value in inside.items():
        if not 0 < value < 1:
            raise AuditError(f"downstream: {name} is {value:g}; it must be between 0 and 1")
    if 0 < abs(gap) < 1e-9:
        raise AuditError(f"downstream: gap is {gap:g}; it must be 0 or at least 1e-9 on either side")
    if not abs(gap) <= disagreement <= 1:
        raise AuditError(f"downstream: disagreement is {disagreement:g}; it must be from {abs(gap):g} (the gap) to 1")
    if n < 2:
        raise AuditError("downstream: n must be 2 or more")


def _logit(p: float) -> float:
    return math.log(p / (1 - p))
