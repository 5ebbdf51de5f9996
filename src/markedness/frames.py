"""A DataFrame as the corpus of an audit: the same four stages as ``markedness run``, in a temporary folder."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import yaml

from markedness import audits, params, pipeline
from markedness.audits.annotation.language.judgments import binary
from markedness.axes import Axis, Value
from markedness.naming import axes_faults
from markedness.notebook import AuditResult, NotebookError, result_of
from markedness.records import AuditError
from markedness.reporting.results import read
from markedness.store import Store

MODEL = "texts"
"""The model that the texts of a frame are of; its file's stem is the cue where the frame has none, as for a corpus."""
ONE_AXIS = ("guise", "annotation")
"""Audits whose groups are the values of one column."""
EMPTY = {"homogeneity": "is an answer: all empty ones are one category, as published"}
"""Audit -> what becomes of an empty answer, where it is not missing."""
MEASURED = ("text", "log_prob", "y")
"""Our columns that hold what is measured."""
CUES = ("names", "dialect")
NESTED = (list, dict, tuple, set, bytes, np.ndarray)
Groups = str | Sequence[str]
Unmarked = str | Mapping[str, str]
Settings = Mapping[str, Mapping[str, Any]]
"""Stage -> its params, as in the block of the audit in params.yaml: ``{"featurize": {"embeddings": None}}``."""


def marked_words(
    df: pd.DataFrame, text: str, groups: Groups, unmarked: Unmarked, *, prompt: str | None = None,
    kind: str | None = None, cluster: str | None = None, seed: int = 0, settings: Settings | None = None,
) -> AuditResult:  # fmt: skip
    """Which words distinguish the texts of marked groups: the audit personas.

    Parameters
    ----------
    df
        One text a row.
    text, prompt, kind, cluster
        Columns: the text; the prompt it answers, within which labels are exchanged; persona or story; which texts
        belong together.
    groups
        The column of the group, or one for each axis.
    unmarked
        The value that the others are compared with; for several columns, column -> value.
    seed
        Of everything that is drawn.
    settings
        See `Settings`.

    Raises
    ------
    NotebookError
        When the frame cannot be read, in one sentence.
    """
    columns = {"prompt": prompt, "kind": kind, "cluster": cluster}
    return _audited("personas", df, groups, unmarked, {"text": text}, columns, seed, settings)


def probability_of_differentiation(
    df: pd.DataFrame, text: str, groups: Groups, unmarked: Unmarked, *, cue: str | None = None,
    name: str | None = None, seed: int = 0, settings: Settings | None = None,
) -> AuditResult:  # fmt: skip
    """Whether answers about marked groups vary less: the audit homogeneity.

    ``text``, ``cue`` and ``name`` are columns: the answer, the situation it is about, and the name that signals the
    group, which is the cluster; an answer without a name is a cluster of its own. Empty answers are one category, as
    published, and not missing. The rest is as in `marked_words`.
    """
    columns = {"cue": cue, "name": name}
    return _audited("homogeneity", df, groups, unmarked, {"text": text}, columns, seed, settings)


def matched_guise(
    df: pd.DataFrame, log_prob: str, groups: str, unmarked: str, *, candidate: str, prompt: str,
    task: str | None = None, pair: str | None = None, text: str | None = None, verb: str | None = None,
    seed: int = 0, settings: Settings | None = None,
) -> AuditResult:  # fmt: skip
    """What a model associates with a guise, from stored scores: the audit guise.

    ``log_prob``, ``candidate``, ``prompt``, ``task``, ``pair``, ``text`` and ``verb`` are columns: ln of the
    probability of a word, the word, the id of the prompt (T1, ...), the task where that is no prompt of ours (traits,
    ...), which two texts mean the same, the text, and the cluster of texts. ``estimator``, ``reason`` and ``coverage``
    are read where the frame has them: whether a server showed the probability. The rest is as in `marked_words`.
    """
    columns = {"task": task, "pair": pair, "utterance": text, "verb": verb}
    needed = {"prompt_id": prompt, "candidate": candidate, "log_prob": log_prob}
    taken = {*columns.values(), *needed.values(), *([groups] if isinstance(groups, str) else groups)}
    if isinstance(df, pd.DataFrame):
        columns |= {name: name for name in ("estimator", "reason", "coverage") if name in df and name not in taken}
    return _audited("guise", df, groups, unmarked, needed, columns, seed, settings)


def paired_gaps(
    df: pd.DataFrame, label: str, groups: str, unmarked: str, *, task: str, pair: str | None = None,
    vignette: str | None = None, name: str | None = None, gender: str | None = None, iteration: str | None = None,
    valence: str | None = None, cue: Literal["names", "dialect"] = "names", seed: int = 0,
    settings: Settings | None = None,
) -> AuditResult:  # fmt: skip
    """Whether labels of matched texts differ by group: the audit annotation.

    ``label``, ``task``, ``pair``, ``vignette``, ``name``, ``gender``, ``iteration`` and ``valence`` are columns: the
    label (1 or 0; empty: missing), what was asked, which texts are matched, the text without its name, the name, its
    gender, the run, and whether the label is favorable (1, -1 or 0). ``cue``: what tells the group, a name or the
    dialect of the text. The rest is as in `marked_words`.
    """
    columns = {
        "pair": pair, "vignette": vignette, "name": name, "gender": gender, "iteration": iteration, "valence": valence,
    }  # fmt: skip
    if cue not in CUES:
        raise NotebookError(f"cue: {cue!r:.60} is none; write {' or '.join(CUES)}")
    axis = "dialect" if cue == "dialect" else "group"
    return _audited("annotation", df, groups, unmarked, {"task": task, "y": label}, columns, seed, settings, axis)


# ---------------------------------------------------------------- from a frame to a study


def _audited(
    audit: str, df: pd.DataFrame, groups: Groups, unmarked: Unmarked, needed: Mapping[str, str],
    optional: Mapping[str, str | None], seed: int, settings: Settings | None, axis: str = "",
) -> AuditResult:  # fmt: skip
    """Write the columns as the corpus of a study in a temporary folder, run it, and read its results."""
    if not isinstance(df, pd.DataFrame):
        raise NotebookError(f"{type(df).__name__} is no DataFrame; make one with pandas.DataFrame(...)")
    if df.empty:
        raise NotebookError("the frame has no rows; give it one row a text")
    named = list(groups) if isinstance(groups, Iterable) and not isinstance(groups, str) else [groups]
    if not named or len(set(named)) < len(named) or (len(named) > 1 and audit in ONE_AXIS):
        raise NotebookError(f"groups: name one column{'' if audit in ONE_AXIS else ', or several different ones'}")
    chosen = {**needed, **{ours: theirs for ours, theirs in optional.items() if theirs is not None}}
    _check_roles(chosen, named)
    empty = EMPTY.get(audit, "is counted as missing by group")
    corpus = pd.DataFrame({ours: _cells(df, theirs, ours, empty) for ours, theirs in chosen.items()})
    values = {column: _cells(df, column, "groups") for column in named}
    axes: dict[str, Axis] = {}
    for column, cells in values.items():
        name = axis or _axis_name(column, audit, {*axes, *map(str, named)})
        axes[name] = _axis(column, cells, _unmarked_of(column, named, unmarked))
    if faults := list(axes_faults(axes, audits.spec(audit).corpus)):
        raise NotebookError(f"groups: {faults[0]}; rename it in the frame, for example with df.replace")
    corpus = corpus.assign(**dict(zip(axes, values.values(), strict=True)))
    block = _settings(settings)
    block["axes"] = {
        name: {"unmarked": one.unmarked, "values": {key: {} for key in one.values}} for name, one in axes.items()
    }
    content = {
        "audits": [audit], "seed": int(seed) if isinstance(seed, np.integer) else seed, audit: block,
        "models": {MODEL: {"backend": "corpus", audit: {"path": f"{MODEL}.parquet"}}},
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="markedness-") as folder:
        return _run(Path(folder).resolve(), audit, corpus, content)


def _run(root: Path, audit: str, corpus: pd.DataFrame, content: Mapping[str, Any]) -> AuditResult:
    """Run the study of one frame in a folder of its own."""
    said: list[str] = []
    try:
        try:
            written = yaml.safe_dump(dict(content), allow_unicode=True, sort_keys=False)
        except yaml.YAMLError as error:
            raise NotebookError(
                f"settings: {error.args[-1]!r:.60} is no value of params.yaml; write a plain one"
            ) from None
        (root / "params.yaml").write_text(written, encoding="utf-8")
        corpus.to_parquet(root / f"{MODEL}.parquet", index=False)
        pipeline.run(params.load(root / "params.yaml"), audit, MODEL, said.append)
        result = read(Store(root), audit, MODEL, audits.spec(audit).card)
    except AuditError as error:
        sentence = str(error).replace(f"{root}/", "").replace(f"models.{MODEL}.{audit}.", "")
        raise NotebookError(sentence.replace("params.yaml: ", "settings: ")) from None
    assert result is not None  # pipeline.run has written it
    notes = [sentence.partition("note: ")[2] for sentence in said if "note: " in sentence]
    return result_of(result, {name: result.table(name) for name in result.tables}, notes)


def _check_roles(chosen: Mapping[str, str], groups: Sequence[str]) -> None:
    """Refuse a column that is measured and says at the same time of what."""
    for measured in (ours for ours in MEASURED if ours in chosen):
        others = [*groups, *(theirs for ours, theirs in chosen.items() if ours != measured)]
        if chosen[measured] in others:
            raise NotebookError(
                f"{'label' if measured == 'y' else measured}: the column '{chosen[measured]}' is named for something "
                "else as well; name the column that holds what is measured"
            )


def _cells(df: pd.DataFrame, column: str, ours: str, empty: str = "") -> pd.Series:
    """A column as text, "" where it is missing; NotebookError where it is not there or no text.

    ``empty``: what becomes of an empty answer.
    """
    if column not in df:
        raise NotebookError(f"{ours}: the frame has no column '{column}'; it has {', '.join(map(str, df.columns))}")
    cells = df[column]
    if isinstance(cells, pd.DataFrame):
        raise NotebookError(f"{ours}: the frame has several columns '{column}'; rename all but one")
    cells = cells.reset_index(drop=True).astype(object)
    nested = cells.map(lambda cell: isinstance(cell, NESTED)).to_numpy(dtype=bool)
    if nested.any():
        row = int(nested.argmax())
        remedy = f"df.explode('{column}') makes a row of each"
        if isinstance(cells[row], bytes):
            remedy = f"df['{column}'].str.decode('utf-8') makes texts"
        elif isinstance(cells[row], dict):
            remedy = f"pandas.json_normalize(df['{column}']) makes columns"
        kind = type(cells[row]).__name__
        raise NotebookError(
            f"{ours}: row {row + 1} of the column '{column}' holds a {kind}; write one text a cell ({remedy})"
        )
    missing = cells.isna().to_numpy(dtype=bool)
    if ours in ("text", "log_prob") and missing.any():
        raise NotebookError(
            f"{ours}: {int(missing.sum()):,} of {len(cells):,} cells of the column '{column}' are missing (first: row "
            f"{int(missing.argmax()) + 1}); leave these rows out (df.dropna(subset=['{column}'])), or write '' for "
            + (f"an empty answer, which {empty}" if ours == "text" else "a missing score, which is counted as such")
        )
    try:
        made = cells.map(str).mask(missing, "").astype("str")
    except UnicodeEncodeError as error:
        raise NotebookError(
            f"{ours}: the column '{column}' has half of a surrogate pair, which is no character; remove it"
        ) from error
    if ours == "y":
        _check_labels(made, column)
    return made


def _check_labels(cells: pd.Series, column: str) -> None:
    """Refuse what annotation would count as missing, as it is neither a judgment nor empty."""
    for row, cell in enumerate(cells, start=1):
        if cell.strip() and binary(cell) is None:
            raise NotebookError(
                f"label: row {row} of the column '{column}' has '{cell[:40]}'; a label is 1, 0 or empty (missing)"
            )


def _settings(settings: Settings | None) -> dict[str, Any]:
    """The block of the audit in params.yaml, without axes."""
    if settings is not None and not isinstance(settings, Mapping):
        raise NotebookError("settings: write stage -> its params, such as {'featurize': {'embeddings': None}}")
    for stage, given in (settings or {}).items():
        if stage == "axes":
            raise NotebookError("settings: axes are made of groups and unmarked; leave them out")
        if not isinstance(given, Mapping):
            raise NotebookError(f"settings: {stage} is {given!r:.60}; write its params as a dict, {{NAME: VALUE}}")
    return {stage: dict(given) for stage, given in (settings or {}).items()}


def _axis_name(column: str, audit: str, taken: Collection[str]) -> str:
    """The name of the axis of a column: its own, unless tables have a column of that name."""
    two = Axis(unmarked="a", values={"a": Value(), "b": Value()})
    if not any(axes_faults({str(column): two}, audits.spec(audit).corpus)):
        return str(column)
    return next(name for place in count(1) if (name := f"groups {place}") not in taken)


def _unmarked_of(column: str, named: Sequence[str], unmarked: Unmarked) -> str:
    if isinstance(unmarked, Mapping):
        if column not in unmarked:
            raise NotebookError(f"unmarked: has no value of the column '{column}'; write {{'{column}': VALUE}}")
        return str(unmarked[column])
    if len(named) > 1:
        raise NotebookError(
            f"unmarked: say which value of each column: {{{', '.join(f'{one!r}: VALUE' for one in named)}}}"
        )
    return str(unmarked)


def _axis(column: str, cells: pd.Series, unmarked: str) -> Axis:
    """The axis of a column: the unmarked value first, then the others, sorted."""
    found = sorted(set(cells) - {""})
    if len(found) < 2:
        raise NotebookError(
            f"groups: the column '{column}' has one group only ({', '.join(found) or 'none'}); a comparison needs two"
        )
    if unmarked not in found:
        raise NotebookError(
            f"unmarked: '{unmarked}' is no value of the column '{column}', which has {', '.join(found)}"
        )
    return Axis(unmarked=unmarked, values={value: Value() for value in [unmarked, *found]})
