"""Params of evaluate, apart from it because its estimators read them."""

from __future__ import annotations

from pydantic import Field

from markedness.audits.homogeneity import DEFAULT_AXES
from markedness.axes import Axes
from markedness.records import Strict


class Params(Strict):
    """``homogeneity.evaluate``."""

    axes: Axes = DEFAULT_AXES
    n_resamples: int = Field(default=1000, ge=2)
    """Bootstrap replicates R of the published tables; the published interval of d depends on it."""
    n_permutations: int | None = Field(default=None, ge=1)
    """At most so many exchanges of labels; by default as many as the corrected level needs."""
    confidence_level: float = Field(default=0.95, gt=0, lt=1)
