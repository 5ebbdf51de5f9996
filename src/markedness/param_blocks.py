"""The blocks of params.yaml that are no audit's and no model's: compare, report, track, gate."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from markedness.records import Strict


class CompareParams(Strict):
    """``compare``: pairs of models on the same audit."""

    confidence_level: float = Field(default=0.95, gt=0, lt=1)
    correction: Literal["holm", "fdr_bh"] = "holm"
    """Over all pairs of models and headline scores of one audit, scripted controls apart."""


class ReportParams(Strict):
    """``report``: the pages."""

    table_rows: int = Field(default=500, ge=1)
    """Rows of a table on a page; the CSV file has all."""
    examples: int = Field(default=4, ge=0)
    """Example texts per group."""


class TrackParams(Strict):
    """``track``: what MLflow is told."""

    experiment: str = "markedness"
    samples: int = Field(default=0, ge=0)
    """Texts of each group that are logged as a table of each audit's run, in the order of the card."""


class GateParams(Strict):
    """``gate``: which models may take the place of which."""

    baseline: str = Field(min_length=1)
    """A key of models, a git revision or a DVC experiment."""
    models: list[str] = Field(default_factory=list)
    """Candidates; empty: all of run but the baseline and the scripted controls."""
    audits: list[str] = Field(default_factory=list)
    """Empty: all of the study."""
    margins: dict[str, dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]]] = Field(default_factory=dict)
    """Audit -> headline score -> by how much it may be worse, in the unit of the score; the others: no new finding."""
    without: dict[str, list[str]] = Field(default_factory=dict)
    """Audit -> headline scores that are not looked at."""
    looks: int | None = Field(default=None, ge=1, le=100)
    """How often this gate may look at growing data: each look is corrected for all, counted, and none beyond counts."""
