"""The params of evaluate."""

from __future__ import annotations

from pydantic import Field

from markedness.records import Strict


class Params(Strict):
    """``annotation.evaluate``."""

    confidence_level: float = Field(default=0.95, gt=0, lt=1)
    """Of all intervals; 1 minus it is the level of the tables' tests."""
