"""How much a group difference varies with the wording, the cue, the names and the answers: variance components.

Brittleness in one table: a finding that holds for one wording or one cue alone has its variance there. A description,
without a test. Source of the sums of squares: two-way analysis of variance without replication, corrected for the
sampling error of its cells (Searle, Casella & McCulloch 1992, Variance Components, chapter 4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from markedness.audits.homogeneity.estimators.group_differences import PairCounts
from markedness.audits.homogeneity.estimators.groups import AxisLabels
from markedness.stats.inference import Codes, Floats

COLUMNS = ("comparison", "component", "variance", "share", "levels")
N_SPLITS = 8
"""Random halves of the answers, from which their variance comes."""

Study = tuple[PairCounts, Sequence[AxisLabels]]


def variance_components(studies: Mapping[str, Study], rng: np.random.Generator) -> pd.DataFrame:
    """Components of the difference in P_d, unmarked minus marked group, of one cue in one wording.

    Parameters
    ----------
    studies
        Wording -> kept answers and the axes' labels; only cues that all have count.
    rng
        Splits the answers in halves.

    Returns
    -------
    DataFrame
        `COLUMNS`; one row per comparison and component. ``wording``, ``cue``, ``cue x wording``: variance of the true
        differences (with one wording: cue alone, which then holds both). ``name``, ``sample``: what the draw of this
        number of names, and of answers, adds to one cell. Estimates may be below 0 where nothing varies; ``share``
        counts these as 0. ``levels``: wordings, cues, names, answers. NaN with fewer than two cues.
    """
    first = next(iter(studies.values()))
    rows: list[tuple[object, ...]] = []
    for one in first[1]:
        for value in one.values[1:]:
            own = {
                wording: study for wording, study in studies.items() if _labels(study[1], one.axis, value) is not None
            }
            rows += _components(own, one.axis, value, f"{one.values[0]} v. {value}", rng)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _labels(axes: Sequence[AxisLabels], axis: str, value: str) -> Codes | None:
    """0 for a name of the unmarked value, 1 for one of the marked value, else -1; None without either."""
    found = next((one for one in axes if one.axis == axis and value in one.values), None)
    if found is None:
        return None
    chosen = np.select([found.codes == 0, found.codes == found.values.index(value)], [0, 1], -1)
    return np.asarray(chosen, dtype=np.intp)


def _components(
    studies: Mapping[str, Study], axis: str, value: str, name: str, rng: np.random.Generator
) -> list[tuple[object, ...]]:
    """The rows of one comparison."""
    cells = {wording: _cells(study, axis, value) for wording, study in studies.items()}
    cues = [cue for cue in next(iter(cells.values())).index if all(cue in table.index for table in cells.values())]
    n_names = max(table.shape[1] - 1 for table in cells.values())
    answers = sum(cue.matrix.sum() for counts, _ in studies.values() for cue in counts.cues if cue.name in cues)
    levels = {"wording": len(studies), "cue": len(cues), "cue x wording": len(studies) * len(cues)}
    if len(cues) < 2:
        return [(name, component, np.nan, np.nan, levels[component]) for component in levels]
    names = list(dict.fromkeys((str(key[0]), str(key[1])) for table in cells.values() for key in table.columns[1:]))
    whole = np.array([table.loc[cues, ("", "")] for table in cells.values()])
    left = np.array([_aligned(table.loc[cues], names) for table in cells.values()]).transpose(2, 0, 1)
    error = [_deviations(left[[key[0] == side for key in names]]) for side in ("0", "1")]
    corrected = _mean_squares(whole) - sum(
        (len(part) - 1) / len(part) * sum((_mean_squares(one) for one in part), np.zeros(3)) for part in error
    )
    sampled = sum((len(part) - 1) / len(part) * np.square(part).sum(axis=0).mean() for part in error)
    halves = [[_cells((half, axes), axis, value)[("", "")].reindex(cues) for half in counts.thinned(rng)]
              for counts, axes in studies.values() for _ in range(N_SPLITS)]  # fmt: skip
    drawn = float(np.nanmean([np.square(a - b).mean() / 4 for a, b in halves]))
    n_wordings, n_cues = whole.shape
    both = corrected[2] if n_wordings > 1 else 0.0
    found = {"cue": (corrected[0] - both) / n_wordings, "name": sampled - drawn, "sample": drawn}
    if n_wordings > 1:
        found |= {"wording": (corrected[1] - both) / n_cues, "cue x wording": both}
    total = sum(max(0.0, variance) for variance in found.values())
    levels |= {"name": n_names, "sample": int(answers)}
    return [
        (name, component, variance, max(0.0, variance) / total if total else np.nan, levels[component])
        for component, variance in found.items()
    ]


def _cells(study: Study, axis: str, value: str) -> pd.DataFrame:
    """The difference in each cue (column "", "") and without each name (column: side, name); no cue without one."""
    counts, axes = study
    codes = _labels(axes, axis, value)
    if codes is None:
        return pd.DataFrame()
    whole, left = counts.differences(codes[None, :], 2)
    used = np.flatnonzero(codes >= 0)
    keys = [("", ""), *((str(codes[place]), str(counts.names[place])) for place in used.tolist())]
    table = pd.DataFrame(np.column_stack([whole[0, 0], left[0, 0][:, used]]), [cue.name for cue in counts.cues])
    return table.set_axis(pd.MultiIndex.from_tuples(keys), axis=1).dropna()


def _aligned(table: pd.DataFrame, names: Sequence[tuple[str, str]]) -> Floats:
    """The difference without each of these names, (cues, names): the whole one without a name that is not here."""
    known = table.reindex(columns=pd.MultiIndex.from_tuples(names))
    values = known.to_numpy(dtype=float)
    return np.asarray(np.where(np.isnan(values), table[[("", "")]].to_numpy(dtype=float), values))


def _deviations(left: Floats) -> Floats:
    """Differences without each name from their mean, (names, wordings, cues)."""
    return np.asarray(left - left.mean(axis=0))


def _mean_squares(cells: Floats) -> Floats:
    """Mean squares of cue, wording, and cue x wording, of cells (wordings, cues); 0 with one wording."""
    n_wordings, n_cues = cells.shape
    by_cue, by_wording = cells.mean(axis=0), cells.mean(axis=1)
    rest = cells - by_cue - by_wording[:, None] + cells.mean()
    several = max(1, n_wordings - 1)
    return np.array([
        n_wordings * by_cue.var(ddof=1), n_cues * np.square(by_wording - cells.mean()).sum() / several,
        np.square(rest).sum() / (several * (n_cues - 1)),
    ])  # fmt: skip


def across(found: Mapping[str, Study], versions: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """`variance_components` over the models of one family that were asked in several wordings: family, models, ...

    Parameters
    ----------
    found
        Model -> its answers and labels.
    versions
        Columns model and family. A model that shares fewer than two cues with the first of its family is left out.
    """
    made = []
    for family, own in versions.dropna(subset=["family"]).groupby("family", sort=False):
        models = [model for model in own["model"] if model in found]
        cues = {model: {cue.name for cue in found[model][0].cues} for model in models}
        kept = [model for model in models if len(cues[model] & cues[models[0]]) > 1]
        if len(kept) > 1:
            parts = variance_components({model: found[model] for model in kept}, rng)
            made.append(parts.assign(family=str(family), models=", ".join(kept)))
    return pd.concat(made, ignore_index=True) if made else pd.DataFrame(columns=["family", "models", *COLUMNS])
