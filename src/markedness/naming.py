"""Names that a user gives to models, axes and values: they become columns, group names, files and DVC paths."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice, product

from markedness.axes import Axes, Axis, Value, group_name, key_part
from markedness.records import FILE_ROW, GENERATION_COLUMNS, CorpusColumns, composed
from markedness.results import SCORE_COLUMNS

LONGEST = 100
"""Characters of a name: file systems take 255 bytes for a file's name, of which tables and figures need some."""
MOST_GROUPS = 100_000
"""Groups whose names are compared; a study of more cannot be asked."""
RESERVED_COLUMNS = frozenset(
    (
        *GENERATION_COLUMNS, *SCORE_COLUMNS, "served_model", "fingerprint", "candidate", "log_prob", "reason",
        "estimator", "coverage", "cut_tokens", "candidate_tokens", "status", "answer", "kind", "marked", "duplicate",
        "dropped", "cluster", "missing", "included", "unsupported", "model", "audit", "axis", "comparison", "rank",
        "word", "index", "level_0", "level_1", "language", "difference", FILE_ROW,
    )
)  # fmt: skip
"""Columns of the tables of every audit; an axis is a column too."""
RESERVED_VALUES = ("all", "marked", "difference", "names", "dialect")
"""Ends of the keys of Scores over several groups, "pd_difference.marked"; those of one group end in its name."""
RESERVED_MODELS = ("index",)
"""Pages of reports/ that are not a model's."""

_MODEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_AXIS = re.compile(r"[^\W\d_]\w*(?:[ -]\w+)*")


def model_fault(name: str) -> str | None:
    """Why a model cannot have this key; None when it can."""
    if not _MODEL.fullmatch(name):
        return (
            f"{_shown(name)}: a model key has letters, digits, '-' and '_' only and does not begin with '-' "
            "(DVC splits at dots)"
        )
    if len(name) > LONGEST:
        return f"{_shown(name)}: a model key has at most {LONGEST} characters; this has {len(name)}"
    if name.casefold() in RESERVED_MODELS:
        return f"'{name}': reports/{name}.html is the page over all models; choose another key"
    return None


def repeated(names: Iterable[str]) -> list[str]:
    """The names that stand more than once, in order."""
    return [name for name, times in Counter(names).items() if times > 1]


def axes_faults(axes: Axes, columns: CorpusColumns) -> Iterator[str]:
    """What is wrong with the names of axes and values of one audit, each with its place below ``axes``."""
    written = (column.format(axis=axis) for column in columns.written for axis in axes)
    reserved = RESERVED_COLUMNS.union(columns.required, columns.optional, written) - {*columns.may_be_axis}
    for name, axis in axes.items():
        plain = "".join(c for c in name if unicodedata.category(c)[0] != "M")  # vowel signs and accents of any script
        if not _AXIS.fullmatch(plain) or len(name) > LONGEST:
            yield (
                f"{_shown(name)}: an axis name begins with a letter and has letters, digits, '_', and single spaces or "
                f"'-' between them, at most {LONGEST} characters"
            )
        elif name in reserved:
            yield f"{name}: is the name of a column of the tables; choose another, such as '{name}_group'"
        yield from (f"{_shown(name)}.{fault}" for fault in _value_faults(axis))
    keys = {name: key_part(name).casefold() for name in axes}
    for alike in repeated(keys.values()):
        both = " and ".join(_shown(name) for name, key in keys.items() if key == alike)
        yield f"{both}: are written alike in keys and file names; rename one"
    yield from _collisions(axes)


def _value_faults(axis: Axis) -> Iterator[str]:
    """Faults of the values of one axis."""
    for key, words in axis.values.items():
        if key in RESERVED_VALUES:
            yield f"values.{key}: is the name of what is of several groups; choose another key, and label it '{key}'"
        elif not key.strip():
            yield "values: a value has an empty key; name it, and leave cells of a corpus empty instead"
        elif len(key) > LONGEST:
            yield f"values.{_shown(key)}: has more than {LONGEST} characters; shorten the key and put the text in label"
        elif any(c in "/\\" or unicodedata.category(c)[0] == "C" for c in key) or key != " ".join(key.split()):
            yield (
                f"values.{_shown(key)}: a value's key has no '/', '\\', control character or space at its ends; "
                "change the key and put the text in label"
            )
        for field, text in _words(words).items():
            if text is not None and not text.strip():
                yield f"values.{_shown(key)}.{field}: is empty; leave it out or write a text"
    for field in ("label", "phrase", "noun"):
        texts = {
            key: composed(_words(words)[field] or (key if field == "label" else "")).strip().casefold()
            for key, words in axis.values.items()
        }
        for text in repeated(filter(None, texts.values())):
            same = [key for key, other in texts.items() if other == text]
            yield (
                f"values: {' and '.join(_shown(key) for key in same)} have the same {field} '{text[:LONGEST]}', so "
                "that nobody can tell them apart; change one"
            )


def _words(value: Value) -> dict[str, str | None]:
    return {"label": value.label, "phrase": value.phrase, "noun": value.noun}


def _collisions(axes: Axes) -> Iterator[str]:
    """Two groups with one name, such as "a b" + "c" and "a" + "b c"; the first such pair."""
    values = [composed(value) for axis in axes.values() for value in axis.values]
    if len(set(values)) == len(values) and not any(" " in value for value in values):
        return
    seen: dict[tuple[int, str], tuple[str | None, ...]] = {}
    crossed = product(*((None, *axis.values) for axis in axes.values()))
    for group in islice(crossed, MOST_GROUPS):
        written = group_name(dict(zip(axes, group, strict=True)), axes)
        for order, name in enumerate((composed(written), composed(" ".join(filter(None, group))))):
            other = seen.setdefault((order, name), group)  # the second: groups_in_one_order
            if name and other != group:
                yield (
                    f"the groups {_described(other, axes)} and {_described(group, axes)} both have the name '{name}'; "
                    "change the key of a value"
                )
                return


def _described(group: tuple[str | None, ...], axes: Axes) -> str:
    return " + ".join(f"{axis} '{value}'" for axis, value in zip(axes, group, strict=True) if value is not None)


def _shown(name: str) -> str:
    """A name as it can be printed: quoted, cut, without control characters."""
    return f"'{name if len(name) <= LONGEST else name[:40] + '...'}'" if name.isprintable() else ascii(name[:40])


def judge_faults(
    asked: Mapping[str, Sequence[str]], models: Collection[str], corpora: Collection[str]
) -> Iterator[str]:
    """Judges of an audit that are no models, or answer no questions."""
    for audit, name in [(audit, name) for audit, names in asked.items() for name in names]:
        if name not in models:
            yield f"{audit}.featurize: the judge '{name}' is not defined under models; known: {', '.join(models)}"
        elif name in corpora:
            yield f"{audit}.featurize: the judge '{name}' is a corpus, which answers nothing; name another model"
