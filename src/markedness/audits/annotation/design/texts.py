"""Texts to be judged: how names are dealt to pairs, and how the texts of a batch are written in columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

import numpy as np
import pandas as pd

from markedness.audits.annotation.design.vignettes import Vignette
from markedness.axes import Axis
from markedness.records import Scalar
from markedness.templates import fill

T = TypeVar("T")
TEXT_COLUMNS = ("group", "pair", "vignette", "name", "gender", "marked")
"""What is known of one text; dialect texts have neither name nor gender."""


@dataclass(frozen=True, slots=True)
class Text:
    """One text to be judged."""

    text: str
    group: str
    columns: Mapping[str, Scalar]
    """`TEXT_COLUMNS` without the group."""


def batch_columns(texts: Sequence[Text]) -> dict[str, Scalar]:
    """The columns of a batch: ``n_texts``, and each text column with the number of the text: "group_1", "pair_1"."""
    numbered = {
        f"{name}_{number}": value
        for number, text in enumerate(texts, 1)
        for name, value in {"group": text.group, **text.columns}.items()
    }
    return {"n_texts": len(texts), **numbered}


def texts_of_prompt(columns: Mapping[str, Scalar]) -> list[dict[str, Scalar]]:
    """The text columns of each text of one batch, in the order of the numbers."""
    return [
        {name: columns[f"{name}_{number}"] for name in TEXT_COLUMNS if f"{name}_{number}" in columns}
        for number in range(1, int(columns["n_texts"] or 0) + 1)
    ]


def texts_of_batches(batches: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Batches without their numbered columns, and the texts of all batches in one table.

    Parameters
    ----------
    batches
        One row per batch, with the columns of `batch_columns`; columns above ``n_texts`` of a batch are missing.

    Returns
    -------
    batches, texts
        ``batches`` keeps ``n_texts``; ``texts`` has `TEXT_COLUMNS`, where the batches have them, and ``position``,
        from 1; ordered by batch and position.
    """
    sizes = batches["n_texts"].to_numpy(dtype=np.int64)
    numbers = range(1, int(sizes.max()) + 1)
    within = np.asarray(numbers) <= sizes[:, None]
    numbered = {name: [f"{name}_{number}" for number in numbers] for name in TEXT_COLUMNS}
    texts = pd.DataFrame(
        {
            name: batches.reindex(columns=columns).to_numpy(dtype=object)[within]
            for name, columns in numbered.items()
            if not batches.columns.intersection(columns).empty
        }
    ).infer_objects()
    texts["position"] = np.nonzero(within)[1].astype("int32") + 1
    return batches.drop(columns=[name for names in numbered.values() for name in names], errors="ignore"), texts


def name_texts(
    names: Mapping[str, Mapping[str, Sequence[str]]],
    axis: Axis,
    vignettes: Sequence[Vignette],
    n_pairs: int,
    rng: np.random.Generator,
) -> Iterator[list[Text]]:
    """The texts of one iteration after another, without end.

    The texts of a pair have the same vignette and gender. Marked groups take turns; names and vignettes come from
    shuffled decks, which are shuffled again when they are used up.

    Parameters
    ----------
    names
        Group -> gender -> names.
    axis
        Groups, one of them unmarked.
    vignettes
        Texts with a place for the name.
    n_pairs
        Pairs of one iteration.
    rng
        Shuffles the decks.
    """
    name_decks = {
        (group, gender): _deck(listed, rng) for group, genders in names.items() for gender, listed in genders.items()
    }
    vignette_deck, groups = _deck(vignettes, rng), _deck(axis.marked, rng)
    genders_of = {group: _deck(sorted(set(names[group]) & set(names[axis.unmarked])), rng) for group in axis.marked}
    for iteration in count():
        texts = []
        for pair in range(n_pairs):
            marked, vignette = next(groups), next(vignette_deck)
            gender = next(genders_of[marked])
            for group in (marked, axis.unmarked):
                name = next(name_decks[group, gender])
                about: dict[str, Scalar] = {"pair": f"{iteration}-{pair}", "vignette": vignette.vignette, "name": name}
                about |= {"gender": gender, "marked": group == marked}
                texts.append(Text(fill(vignette.text, {"NAME": name}), group, about))
        yield texts


def _deck(items: Sequence[T], rng: np.random.Generator) -> Iterator[T]:
    """The items in random order, shuffled again each time all were dealt."""
    while True:
        yield from (items[place] for place in rng.permutation(len(items)))
