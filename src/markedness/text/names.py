"""Choose names that stand for a group in an embedding space: distinctiveness, purity, diversity.

Method: Törnberg (2026), SI, "Name selection"; maximal marginal relevance: Carbonell & Goldstein (1998), SIGIR.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

Embed = Callable[[Sequence[str]], NDArray[Any]]
"""Texts -> unit rows, shape (n, d)."""

OPTIONAL = ("group", "gender")
"""Columns that a list of names may lack."""
TEMPERATURE = 0.5
"""Of the softmax whose entropy is the third purity."""
QUANTILES = {"gap": 0.60, "ratio": 0.60, "entropy": 0.70}
"""Thresholds of the three purities, as quantiles within the target group."""
LAMBDA = 0.85
"""Weight of relevance against nearness to what is chosen already."""


Phrases = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]


class _Block(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Control(_Block):
    margin: float
    phrases: Phrases


class _OfGroup(_Block):
    phrases: dict[str, Phrases]
    mandatory: str | None = None
    needed: int = Field(default=2, ge=1)


class _File(_Block):
    templates: Phrases
    groups: dict[str, tuple[str, ...]]
    controls: dict[str, dict[str, _Control]] = Field(default_factory=dict)
    facets: dict[str, _OfGroup] = Field(default_factory=dict)


@dataclass(frozen=True)
class Anchors:
    """What names are compared with."""

    templates: tuple[str, ...]
    """Contexts with {NAME}."""
    groups: Mapping[str, Sequence[str]]
    """Group -> indicator phrases."""
    controls: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    """Group -> control -> {margin, phrases}: the name must be nearer to its group by at least the margin (cosine)."""
    facets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Group -> {phrases: facet -> phrases, mandatory: a facet, needed: how many}: a name passes a facet where it is
    nearer to it than to any other group; it must pass the mandatory one, and at least ``needed`` (default 2)."""

    @classmethod
    def read(cls, content: Any) -> Anchors:
        """From the content of an anchors file; ValueError says what it lacks."""
        if not isinstance(content, dict) or not content.get("templates") or not content.get("groups"):
            raise ValueError("an anchors file has templates and groups")
        try:
            file = _File.model_validate(content)
        except ValidationError as error:
            first = error.errors()[0]
            raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
        if wrong := [template for template in file.templates if "{NAME}" not in template]:
            raise ValueError(f"the template '{wrong[0]}' lacks {{NAME}}")
        if len(file.groups) < 2 or not all(file.groups.values()):
            raise ValueError("groups: at least two groups, each with phrases")
        if unknown := [group for group in file.controls if group not in file.groups]:
            raise ValueError(f"controls: '{unknown[0]}' is no group")
        for group, own in file.facets.items():
            if group not in file.groups or not own.phrases or own.mandatory not in (None, *own.phrases):
                raise ValueError(f"facets: '{group}' must be a group, with phrases, and a mandatory facet among these")
        made = file.model_dump()
        return cls(file.templates, file.groups, made["controls"], made["facets"])


def check_listed(names: pd.DataFrame, file: str) -> None:
    """Refuse an empty name, and one that is listed twice for a group and gender: both copies could be chosen.

    A column ``group`` or ``gender`` in other capitals, which would not be read, is refused, too.

    A name without a group or gender is a candidate for any, so that it is twice beside any other row of the name.

    Raises
    ------
    ValueError
        With the file, the rows (the first under the header is 1) and the remedy.
    """
    strange = [name for name in map(str, names) if name not in OPTIONAL and name.casefold() in OPTIONAL]
    if strange:
        raise ValueError(f"{file}: the column '{strange[0]}' is read as '{strange[0].casefold()}'; write it so")
    seen: dict[str, list[tuple[int, tuple[str, ...]]]] = {}
    cells = names.reindex(columns=["name", "group", "gender"], fill_value="").fillna("").astype(str)
    for number, (name, *own) in enumerate(zip(*(cells[column].str.strip() for column in cells), strict=True), start=1):
        if not name:
            raise ValueError(f"{file} row {number}: an empty name; fill it in or remove the row")
        for earlier, other in seen.setdefault(name, []):
            if all(a == b or not a or not b for a, b in zip(own, other, strict=True)):
                raise ValueError(f"{file} row {number}: the name {name} is in row {earlier} too; keep one of them")
        seen[name].append((number, tuple(own)))


def score(names: pd.DataFrame, anchors: Anchors, embed: Embed, top: int = 20) -> pd.DataFrame:
    """Score candidate names and choose the best of each group and gender.

    Parameters
    ----------
    names
        Column ``name``; optional ``group``, the group it is a candidate for (empty: the nearest), and ``gender``.
    anchors
        Templates, phrases and controls.
    embed
        The embedding model.
    top
        Names chosen per group and gender.

    Returns
    -------
    DataFrame, one row per name, in the order of group, gender and rank
        ``name``, ``group``, ``gender``, ``selected``, ``rank`` (order of choice, <NA> if not chosen);
        ``distinctiveness``: cosine to the group minus the highest other, in [-2, 2]; ``nearest``, ``second``: the
        two nearest groups; the purities ``gap`` (first minus second cosine), ``ratio`` (first over second),
        ``entropy`` (nats, of softmax(cosines / 0.5); low is pure) and ``pure``, how many of the three reach their
        threshold within the group (gap and ratio at least the 0.60 quantile, entropy at most the 0.70 quantile);
        ``clears_controls``; ``facets`` passed (<NA> for a group without) and ``clears_facets``; ``similarity_<group>``.

    Notes
    -----
    A name is eligible with ``pure`` >= 2, ``clears_controls``, ``clears_facets`` and a distinctiveness above 0 (the
    paper does not say what becomes of names nearer to another group; here they are out). Eligible names are chosen by
    maximal marginal relevance with lambda = 0.85, relevance being the distinctiveness scaled to [0, 1] within group and
    gender, because cosines between names are an order larger than distinctiveness.
    """
    table = pd.DataFrame({"name": names["name"].astype(str).str.strip()}).reset_index(drop=True)
    for column in ("group", "gender"):
        given = names[column] if column in names else pd.Series("", index=names.index)
        table[column] = given.fillna("").astype(str).str.strip().to_numpy()
    groups = list(anchors.groups)
    vectors = name_vectors(table["name"].tolist(), anchors.templates, embed)
    cosines = vectors @ np.stack([anchor(phrases, embed) for phrases in anchors.groups.values()]).T
    order = np.argsort(-cosines, axis=1, kind="stable")
    table["group"] = table["group"].where(table["group"] != "", np.asarray(groups, dtype=object)[order[:, 0]])
    if unknown := sorted(set(table["group"]) - set(groups)):
        raise ValueError(f"'{unknown[0]}' is no group of the anchors; they have {', '.join(groups)}")
    target = np.array([groups.index(group) for group in table["group"]])
    table = table.assign(
        distinctiveness=distinctiveness(cosines, target),
        nearest=np.asarray(groups, dtype=object)[order[:, 0]], second=np.asarray(groups, dtype=object)[order[:, 1]],
        **purity(cosines), clears_controls=_clears(table["group"], cosines, vectors, anchors, embed),
    )  # fmt: skip
    table["facets"], table["clears_facets"] = _facets(table["group"], cosines, vectors, anchors, embed)
    table["pure"] = _reached(table)
    for place, group in enumerate(groups):
        table[f"similarity_{group}"] = cosines[:, place]
    clear = table["clears_controls"] & table["clears_facets"]
    eligible = (table["pure"] >= 2) & clear & (table["distinctiveness"] > 0)
    table["rank"] = pd.array([None] * len(table), dtype="Int64")
    for _, rows in table[eligible].groupby(["group", "gender"], sort=False):
        relevance = rows["distinctiveness"].to_numpy()
        spread = np.ptp(relevance)
        scaled = (relevance - relevance.min()) / spread if spread > 0 else np.ones(len(rows))
        chosen = maximal_marginal_relevance(scaled, vectors[rows.index], top)
        table.loc[rows.index[chosen], "rank"] = np.arange(1, len(chosen) + 1)
    table["selected"] = table["rank"].notna()
    first = ["name", "group", "gender", "selected", "rank"]
    table = table[[*first, *(column for column in table if column not in first)]]
    return table.sort_values(
        ["group", "gender", "rank", "distinctiveness"], ascending=[True, True, True, False], ignore_index=True
    )


def name_vectors(names: Sequence[str], templates: Sequence[str], embed: Embed) -> NDArray[np.float64]:
    """Unit vector of each name: the mean of its templates' embeddings."""
    texts = [template.replace("{NAME}", name) for template in templates for name in names]
    stacked = np.asarray(embed(texts), dtype=float).reshape(len(templates), len(names), -1)
    return _unit(stacked.mean(axis=0))


def anchor(phrases: Sequence[str], embed: Embed) -> NDArray[np.float64]:
    """Unit vector of a group: the mean of its phrases' embeddings."""
    return _unit(np.asarray(embed(list(phrases)), dtype=float).mean(axis=0))


def distinctiveness(cosines: NDArray[Any], target: NDArray[Any]) -> NDArray[np.float64]:
    """Cosine to the target group minus the highest other: shape (n, n_groups), (n,) -> (n,)."""
    rows = np.arange(len(cosines))
    others = cosines.astype(float).copy()
    others[rows, target] = -np.inf
    margins: NDArray[np.float64] = cosines[rows, target] - others.max(axis=1)
    return margins


def purity(cosines: NDArray[Any]) -> dict[str, NDArray[np.float64]]:
    """Gap and ratio of the two highest cosines, and the entropy (nats) of softmax(cosines / 0.5), per row.

    The ratio is NaN where the second cosine is not positive, because it then has no meaning.
    """
    ordered = np.sort(cosines.astype(float), axis=1)[:, ::-1]
    first, second = ordered[:, 0], ordered[:, 1]
    weights = np.exp((ordered - first[:, None]) / TEMPERATURE)
    shares = weights / weights.sum(axis=1, keepdims=True)
    ratio = np.divide(first, second, out=np.full(len(first), np.nan), where=second > 0)
    return {"gap": first - second, "ratio": ratio, "entropy": -(shares * np.log(shares)).sum(axis=1)}


def maximal_marginal_relevance(
    relevance: NDArray[Any], vectors: NDArray[Any], k: int, weight: float = LAMBDA
) -> NDArray[np.int64]:
    """Places of up to ``k`` items, in the order of choice.

    Each step takes the item with the highest weight * relevance - (1 - weight) * (highest cosine to what is chosen);
    the first is the most relevant. Equal scores go to the earlier item.

    Parameters
    ----------
    relevance
        Shape (n,).
    vectors
        Shape (n, d), unit rows.
    k
        Items wanted.
    weight
        lambda in [0, 1]; 1 is relevance alone.
    """
    chosen: list[int] = []
    nearest = np.zeros(len(relevance))
    free = np.ones(len(relevance), dtype=bool)
    for _ in range(min(k, len(relevance))):
        value = np.where(free, weight * np.asarray(relevance) - (1 - weight) * nearest, -np.inf)
        best = int(np.argmax(value))
        similarity = vectors @ vectors[best]
        nearest = np.maximum(nearest, similarity) if chosen else similarity
        chosen.append(best)
        free[best] = False
    return np.array(chosen, dtype=np.int64)


def _reached(table: pd.DataFrame) -> pd.Series:
    """How many of the three purities reach their threshold within the group."""
    passed = []
    for name, quantile in QUANTILES.items():
        threshold = table.groupby("group")[name].transform("quantile", quantile)
        passed.append(table[name] <= threshold if name == "entropy" else table[name] >= threshold)
    return sum(column.astype(int) for column in passed)  # type: ignore[return-value]


def _clears(
    group: pd.Series, cosines: NDArray[Any], vectors: NDArray[Any], anchors: Anchors, embed: Embed
) -> NDArray[np.bool_]:
    """Whether each name is nearer to its group than to the group's controls, by their margins."""
    clears = np.ones(len(group), dtype=bool)
    places = list(anchors.groups)
    for of, controls in anchors.controls.items():
        rows = (group == of).to_numpy()
        for control in controls.values():
            far = vectors[rows] @ anchor(control["phrases"], embed)
            clears[rows] &= cosines[rows, places.index(of)] - far >= float(control.get("margin", 0.0))
    return clears


def _facets(
    group: pd.Series, cosines: NDArray[Any], vectors: NDArray[Any], anchors: Anchors, embed: Embed
) -> tuple[pd.api.extensions.ExtensionArray, NDArray[np.bool_]]:
    """How many facets of its group each name passes, <NA> where the group has none, and whether that is enough."""
    passed = pd.array([None] * len(group), dtype="Int64")
    clears = np.ones(len(group), dtype=bool)
    for of, own in anchors.facets.items():
        rows = np.flatnonzero(group == of)
        others = np.delete(cosines[rows], list(anchors.groups).index(of), axis=1).max(axis=1, initial=-1)
        near = {name: vectors[rows] @ anchor(phrases, embed) > others for name, phrases in own["phrases"].items()}
        count = np.sum(list(near.values()), axis=0)
        passed[rows] = count
        clears[rows] = (count >= int(own.get("needed", 2))) & near.get(own.get("mandatory"), np.True_)
    return passed, clears


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    made: NDArray[np.float64] = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return made
