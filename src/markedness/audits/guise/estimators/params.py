"""The params of evaluate."""

from __future__ import annotations

from pydantic import Field

from markedness.audits.guise.estimators.agreement import DEPTH
from markedness.audits.guise.estimators.decisions import Rule
from markedness.records import Strict


class Params(Strict):
    """``guise.evaluate``."""

    main: tuple[str, ...] = ()
    """The text sets that the main analyses average over; all that are not controls unless given."""
    marked: str = ""
    """The marked guise that the headline is about; the first of the axis unless given."""
    base: float = Field(default=10.0, gt=1)
    """Base of the logarithm of the probability ratios; the published scores have base 10."""
    top: int = Field(default=DEPTH, ge=1)
    """How many of the highest attributes count."""
    stereotypes: tuple[str, ...] = ()
    """The stereotypical attributes; the human top of ``stereotype_year`` unless given."""
    stereotype_year: str = "1933"
    prestige: str = "prestige"
    """prestige: mean of all titles that start or end with the occupation, as published; prestige_exact: the title."""
    rule: Rule = "ratio"
    """How decisions are calibrated in the metrics; the table has both rules."""
    contrasts: tuple[tuple[str, str], ...] = (("finna", "fixin_to"), ("habitual_be", "noise"))
    """Pairs of text sets whose strength is compared, if the study has both."""
    confidence_level: float = Field(default=0.95, gt=0, lt=1)
    n_orders: int = Field(default=10_000, ge=100)
    """Random orders of the attributes: the chance sample of the paper."""
