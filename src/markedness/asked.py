"""Whether two sides were asked alike, by their params: each changes what is asked, with three exceptions.

- What a size sets says how much is asked (samples, cues, crawls), unless it is a field of `Sampling`: what both sides
  were asked is compared, so that the other rows are left out. So is an entry that one side alone has: a group, text set
  or task.
- Of a model's block, what says who answers, how it is reached and what it may cost (`NOT_ASKED`).
- Texts that exist already were not drawn with the params of `Sampling`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.audits.base import AuditSpec
from markedness.in_common import row_codes
from markedness.lm.config import CorpusModel, CorpusSource, ModelConfig
from markedness.records import Sampling
from markedness.stats import inference

WHO = frozenset(
    ("backend", "model", "path", "revision", "gguf_package", "trust_remote_code", "dtype_text", "dtype_scores",
     "served_by", "base_url", "rule", "strength", "seed", "family", "n_parameters")
)  # fmt: skip
"""Fields of a model's block that say who answers, and which draw of it."""
NOT_ASKED = WHO | frozenset(
    ("generate", "api_key_env", "concurrency", "min_concurrency", "timeout", "max_attempts", "max_wait", "max_requests",
     "max_cost", "device", "batch_size", "workers", "max_tokens_parameter", "batch_api", "batch_requests", "batch_poll")
)  # fmt: skip
"""Fields that change no question: a field that is not named here, also one of a backend of another package, does."""
OTHERWISE = "asked otherwise, so that what differs may be the asking"
"""What a comparison's note says of two sides whose questions or sampling differ."""
SAMPLING = frozenset(one.name for one in fields(Sampling))
GROUP = "group"
"""The column of features with the group that an answer is about."""
_NAMED = 3
_LONGEST = 40


@dataclass(frozen=True)
class Asked:
    """What one side was asked."""

    audit: str
    generate: Mapping[str, Any]
    """The filled generate block, with the axes."""
    settings: Mapping[str, Any]
    """What the model's block says of how it is asked."""
    amounts: frozenset[tuple[str, str]]
    """First and last key of each param that a size sets."""
    worded: tuple[str, ...] = ()
    """The axes in whose order a person is worded; none for texts that exist already."""

    @classmethod
    def of(cls, spec: AuditSpec, generate: Mapping[str, Any], config: ModelConfig | Mapping[str, Any]) -> Asked:
        """Of a filled generate block and the model's block; a mapping is one that this version cannot check."""
        block = config.model_dump(mode="json") if isinstance(config, ModelConfig) else config
        sources = {key for key, value in dict(config).items() if isinstance(value, CorpusSource)}
        if isinstance(config, CorpusModel):
            generate = {key: value for key, value in generate.items() if key not in SAMPLING}
            sources = set(block)
        settings = {key: value for key, value in block.items() if key not in NOT_ASKED | sources}
        paths = (path for size in spec.sizes.values() for path in _leaves(size))
        amounts = frozenset((path[0], path[-1]) for path in paths if path[-1] not in SAMPLING)
        worded = () if isinstance(config, CorpusModel) else tuple(_worded(generate.get("axes")))
        return cls(spec.name, generate, settings, amounts, worded)


@dataclass(frozen=True)
class Unlike:
    """How two sides were asked unlike, each a sentence without a full stop, "" where they were not."""

    otherwise: str = ""
    """Questions differ: the difference may be one of the questions."""
    more: str = ""
    """One side was asked more of the same."""

    def __str__(self) -> str:
        return ". ".join(filter(None, (self.otherwise, self.more)))


def unlike(first: Asked, second: Asked, names: tuple[str, str]) -> Unlike:
    """How two sides were asked unlike.

    Parameters
    ----------
    first, second
        The sides, on one audit.
    names
        What to call them.
    """
    how: list[str] = []
    much: list[str] = []
    for path, a, b in _differing(*_of_both(first.generate, second.generate)):
        entry = (a is _NONE or b is _NONE) and isinstance(b if a is _NONE else a, Mapping)
        amount = entry or (path[0], path[-1]) in first.amounts & second.amounts
        where = ".".join((first.audit, *(() if path[0] == "axes" else ("generate",)), *path))
        (much if amount else how).append(f"{where} is {_shown(a)} in {names[0]}, {_shown(b)} in {names[1]}")
    orders = [
        [axis for axis in one.worded if axis in other.worded] for one, other in ((first, second), (second, first))
    ]
    if orders[0] != orders[1]:
        said = " and ".join(f"{', '.join(order)} in {name}" for order, name in zip(orders, names, strict=True))
        how.append(f"{first.audit}.axes word persons in the order {said}")
    for path, a, b in _differing(*_of_both(first.settings, second.settings)):
        how.append(f"{'.'.join(path)} of the model is {_shown(a)} in {names[0]}, {_shown(b)} in {names[1]}")
    return Unlike(
        f"{OTHERWISE}: {_listed(how)}; ask both alike" if how else "",
        f"not asked the same amount: {_listed(much)}; what both were asked is compared" if much else "",
    )


_NONE = object()
"""A key that a side does not have."""


def _of_both(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """What both have: backends differ in their settings."""
    return {k: v for k, v in one.items() if k in other}, {k: v for k, v in other.items() if k in one}


def _differing(one: object, other: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """(path, value, other value) of what differs, as deep as both are mappings."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in dict.fromkeys((*one, *other)):
            yield from _differing(one.get(key, _NONE), other.get(key, _NONE), (*path, str(key)))
    elif one != other:
        yield path, one, other


def _worded(axes: object) -> list[str]:
    """The axes in the order of params, without the one whose noun is last in any order."""
    if not isinstance(axes, Mapping):
        return []
    values = {name: list(axis["values"].values()) for name, axis in axes.items() if _has_values(axis)}
    nouns = [name for name, of_axis in values.items() if any(value.get("noun") for value in of_axis)]
    last = nouns if len(nouns) == 1 and all(value.get("noun") for value in values[nouns[0]]) else []
    return [name for name in values if name not in last]


def _has_values(axis: object) -> bool:
    """Whether this is an axis with words, as a block that this version has filled holds it."""
    values = axis.get("values") if isinstance(axis, Mapping) else None
    return isinstance(values, Mapping) and all(isinstance(value, Mapping) for value in values.values())


def _leaves(block: Mapping[str, object], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in block.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key)


def _shown(value: object) -> str:
    if value is _NONE or isinstance(value, Mapping):
        return "not there" if value is _NONE else "there"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _listed(found: list[str]) -> str:
    more = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return "; ".join(found[:_NAMED]) + more


def first_asked(rows: pd.DataFrame) -> NDArray[np.bool_]:
    """Which rows ask something for the first time: a question that had no answer is asked again (``attempt``)."""
    return ~rows.reindex(columns=["attempt"])["attempt"].gt(0).to_numpy(dtype=bool)


def unlike_shares(tables: Sequence[pd.DataFrame], columns: Sequence[str], counts: str = "") -> float:
    """How unlike the shares are in which two models have the values of columns, by the worst column and by all.

    Of all answers, and of those about the worst group, so that a small group is no small share.

    Parameters
    ----------
    tables
        Of each model.
    columns
        Of both tables; a missing value is a value of its own.
    counts
        The column with the number of answers of each row; "": 1.

    Returns
    -------
    float
        The share of the answers of one model that would have to have other values, from 0 to 1, less what chance makes
        of it; see `markedness.stats.inference.unlike_shares`. 0 where one of the tables has no answer.
    """
    times = [rows[counts].fillna(0).to_numpy(int) if counts else np.ones(len(rows), dtype=int) for rows in tables]
    if any(not n.any() for n in times):
        return 0.0
    side = np.repeat([0, 1], [n.sum() for n in times])

    def coded(names: Sequence[str]) -> NDArray[np.int64]:
        codes = row_codes([[table[name] for table in tables] for name in names])
        return np.concatenate([np.repeat(code, n) for code, n in zip(codes, times, strict=True)])

    strata = [coded(columns), *(coded([name]) for name in columns)]
    found = [inference.unlike_shares(side, stratum) for stratum in strata]
    if GROUP in columns:
        group = strata[1 + list(columns).index(GROUP)]
        found += [inference.unlike_shares(side, stratum, group) for stratum in strata]
    return max(found)
