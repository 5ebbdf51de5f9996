"""What charts of audits and of compare share: points with their intervals, and the line at the value of no effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

BOUNDS = ("ci_low", "ci_high")
"""Columns of the interval of an estimate."""


def line_at(data: pd.DataFrame, value: float = 0.0, vertical: bool = True) -> alt.Chart:
    """A dashed line across a whole panel, at the value of no effect; ``data`` are those of the panel's other layers."""
    import altair as alt

    at = {"x" if vertical else "y": alt.datum(value)}
    line: alt.Chart = alt.Chart(data).mark_rule(strokeDash=[3, 3]).encode(**at)
    return line


def interval(
    base: alt.Chart, bounds: tuple[str, str] = BOUNDS, horizontal: bool = True, color: Any = None, **position: Any
) -> alt.Chart:
    """A line from the lower to the upper bound of each row; ``position``: title, scale or axis of the bounds."""
    import altair as alt

    low, high = (f"{name}:Q" for name in bounds)
    ends = {"x": alt.X(low, **position), "x2": high} if horizontal else {"y": alt.Y(low, **position), "y2": high}
    line: alt.Chart = base.mark_rule(strokeWidth=2, **({} if color is None else {"color": color})).encode(**ends)
    return line


def estimates(
    base: alt.Chart,
    value: str,
    tooltip: Sequence[str],
    bounds: tuple[str, str] = BOUNDS,
    horizontal: bool = True,
    color: Any = None,
    encoding: Mapping[str, Any] | None = None,
    **position: Any,
) -> alt.LayerChart:
    """A point for each row over its `interval`.

    Parameters
    ----------
    base
        Data, and the encodings that points and intervals share.
    value
        Column of the estimates.
    color
        Of the intervals, where it is neither that of all rules nor encoded in ``base``.
    encoding
        Encodings of the points alone.
    position
        Title, scale or axis of the estimates.
    """
    import altair as alt

    at = {"x": alt.X(f"{value}:Q", **position)} if horizontal else {"y": alt.Y(f"{value}:Q", **position)}
    points = base.mark_point(filled=True).encode(**at, tooltip=list(tooltip), **(encoding or {}))
    return alt.LayerChart(layer=[interval(base, bounds, horizontal, color, **position), points])
