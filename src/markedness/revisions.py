"""The same models compared at two git revisions or DVC experiments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatch
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import ValidationError

from markedness import audits, reads
from markedness.asked import NOT_ASKED, WHO, Asked
from markedness.audits.base import AuditSpec
from markedness.compare import DIFFERENCE_COLUMNS, FAMILY, MODELS
from markedness.files import StoreError
from markedness.lm.progress import tell
from markedness.params import Params
from markedness.records import FeatureTables, Unsupported
from markedness.revision import CODE, MEASURING, WORKSPACE, Revision, RevisionError, filled_as_known
from markedness.sizes import differences
from markedness.stale import older, stale
from markedness.store import Store
from markedness.study import differences_of


def asked_of(sides: Sequence[Revision], audit: str, file: str, model: str) -> tuple[dict[str, Asked], str]:
    """Name of a revision -> what the model was asked there; nothing, and why, where params cannot be read."""
    try:
        return {side.name: side.asked(audits.spec(audit), file, model) for side in sides}, ""
    except RevisionError as error:
        return {}, str(error)


def measured_otherwise(spec: AuditSpec, file: str, first: Revision, second: Revision) -> str:
    """Why the features of two revisions cannot be compared; "" where params, stimuli and code are read and alike."""
    try:
        return _measured_otherwise(spec, file, first, second)
    except RevisionError as error:
        return str(error)


def _measured_otherwise(spec: AuditSpec, file: str, first: Revision, second: Revision) -> str:
    between = f"differs between {first.name} and {second.name}"
    made = [
        {stage: filled_as_known(spec.params(stage), side.section(file, spec.name, stage)) for stage in MEASURING}
        for side in (first, second)
    ]
    for stage in MEASURING:
        a, b = made[0][stage], made[1][stage]
        if key := next(chain(differences(a, b), differences(b, a)), ""):
            return f"measured otherwise: {spec.name}.{stage}.{key} {between}; make both by the same params"
    for judge in _judges(spec, made[0]["featurize"]):
        a, b = ({k: v for k, v in side.section(file, "models", judge).items() if k in WHO or k not in NOT_ASKED}
                for side in (first, second))  # fmt: skip
        if key := next(chain(differences(a, b), differences(b, a)), ""):
            return f"measured otherwise: models.{judge}.{key}, of the judge, {between}; make both by the same params"
    files, others = first.stimuli(spec.name), second.stimuli(spec.name)
    if files and others and (name := next((n for n in sorted({*files, *others}) if files.get(n) != others.get(n)), "")):
        return f"asked or measured otherwise: data/stimuli/{spec.name}/{name} {between}; make both by the same files"
    for stage in MEASURING:
        one, other = (side.section(CODE, "stages", stage).get(spec.name) for side in (first, second))
        if one and other and one != other:
            return f"measured otherwise: the code of {stage} {between} ({CODE}); make both by the same version"
    return ""


def read_otherwise(spec: AuditSpec, file: str, model: str, first: Revision, second: Revision) -> str:
    """Which file beside stimuli two revisions read otherwise, that DVC does not watch; "" where none or not known.

    Texts of the model itself may be others in each.
    """
    texts = [text for side in (first, second) for text in reads.texts(side.section(file, "models", model))]
    for stage in ("generate", "featurize"):
        one, other = (side.read_there(spec.name, model, stage) for side in (first, second))
        for name in sorted({*one, *other}):
            own = any(fnmatch(name, text) or name.startswith(f"{text.rstrip('/')}/") for text in texts)
            if one and other and not own and one.get(name, "") != other.get(name, ""):
                between = f"differs between {first.name} and {second.name}"
                return f"asked or measured otherwise: {name} {between}; make both by the same files"
    return ""


def _judges(spec: AuditSpec, featurize: dict[str, Any]) -> tuple[str, ...]:
    try:
        return spec.judges(spec.params("featurize").model_validate(featurize))
    except ValidationError:
        return ()


def compare(
    params: Params, first: str, second: str, to: Path | None = None, say: Callable[[str], None] = tell
) -> pd.DataFrame:
    """The same models at two git revisions or DVC experiments, printed, and written as CSV where asked.

    Features are read from DVC's cache and scored by the code and params of now. Where the cache lacks them, the
    metrics of the two revisions stand side by side without an interval.

    Raises
    ------
    StoreError
        When both names are the same, a revision holds no results of the models to run, or the two hold none of the
        same model and audit.
    """
    if first == second:
        raise StoreError(f"compare: both revisions are {first}; name two")
    sides = {name: Revision(params.root, name) for name in (first, second)}
    frames = []
    held: dict[str, set[tuple[str, str]]] = {name: set() for name in sides}
    file = params.path.name
    every = {(audit, model) for audit in params.audits for model in params.run}
    now = stale(params, every) if WORKSPACE in sides else {}
    why_not = cache(lambda audit: measured_otherwise(audits.spec(audit), file, *sides.values()))
    for model in params.run:
        features: dict[str, dict[str, FeatureTables | Unsupported]] = {}
        asked: dict[str, dict[str, Asked]] = {}
        for audit in params.audits:
            tables = {name: side.features(audit, model) for name, side in sides.items()}
            known = {
                name: found if isinstance(found, Unsupported) else found.tables
                for name, found in tables.items()
                if found is not None
            }
            metrics = {name: side.metrics(audit, model) for name, side in sides.items()} if len(known) < 2 else {}
            for name in sides:
                if name in known or metrics[name] is not None:
                    held[name].add((audit, model))
            if len(known) == 2:
                asked[audit], unread = asked_of(list(sides.values()), audit, file, model)
                old = _older(sides.values(), now, file, audit, model)
                spec = audits.spec(audit)
                why = "" if old else why_not(audit) or unread or read_otherwise(spec, file, model, *sides.values())
                features[audit] = dict.fromkeys(known, Unsupported(why)) if why else {**known, **old}
            elif None not in metrics.values():
                frames.append(_plain(audit, model, metrics))
        frames.append(_of_model(differences_of(params, features, asked), model))
    if not (frames := [frame for frame in frames if len(frame)]):
        _refuse_nothing_held(held)
        say(f"compare: no headline score was measured in both {first} and {second}; see the notes of their results")
    table = pd.concat(frames or [pd.DataFrame(columns=["model", *DIFFERENCE_COLUMNS])], ignore_index=True)
    table = table[["model", *(column for column in table if column != "model")]]
    if frames:
        say(table_text(table))
        for note, rows in table[table["note"].ne("")].groupby("note", sort=False):
            places = dict.fromkeys(zip(rows["model"], rows["audit"], strict=True))
            say(f"compare: {', '.join(f'{model} {audit}' for model, audit in places)}: {note}")
    if to is not None:
        Store(params.root).write_csv(to, table)
        say(f"compare: {len(table)} differences in {to}")
    return table


def _older(
    sides: Iterable[Revision], now: Mapping[tuple[str, str], str], file: str, audit: str, model: str
) -> dict[str, Unsupported]:
    """Side -> why the features that it holds are not those of its params, data and code, where they are not.

    ``now``: what differs of the results in the workspace, where that is a side.
    """
    what = now.get((audit, model), "")
    why = {
        side.name: (older(model, what) if what else "")
        if side.name == WORKSPACE
        else side.older(audits.spec(audit), file, model)
        for side in sides
    }
    return {name: Unsupported(reason) for name, reason in why.items() if reason}


def _of_model(differences: pd.DataFrame, model: str) -> pd.DataFrame:
    """The differences of one model, whose correction is over its scores alone."""
    pair = FAMILY.format(MODELS)  # the two revisions
    over = differences["correction"].astype(str).str.replace(pair, f"all scores of this audit of {model}", regex=False)
    return differences.assign(model=model, correction=over)


def _plain(audit: str, model: str, metrics: dict[str, dict[str, float] | None]) -> pd.DataFrame:
    """Headline metrics of two revisions, a minus b, without an interval."""
    (first, a), (second, b) = metrics.items()
    if a is None or b is None:
        return pd.DataFrame()
    keys = [key for key in audits.spec(audit).headline if key in a and key in b]
    note = "features are not in the cache: run 'dvc fetch'; whether both were asked and measured alike was not checked"
    rows = [
        {"audit": audit, "score": key, "model_a": first, "model_b": second, "a": a[key], "b": b[key],
         "difference": a[key] - b[key], "method": "none", "note": note}
        for key in keys
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=list(DIFFERENCE_COLUMNS)).assign(model=model)


def table_text(table: pd.DataFrame) -> str:
    """Differences for a terminal."""
    columns = ["model", "audit", "score", "a", "b", "difference", "ci_low", "ci_high", "p_adjusted"]
    return table[columns].to_string(index=False, float_format=lambda value: f"{value:.3g}", na_rep="")


def _refuse_nothing_held(held: dict[str, set[tuple[str, str]]]) -> None:
    """Say which revision holds no results, or that two hold none of the same (audit, model)."""
    lacking = [name for name, found in held.items() if not found]
    if lacking:
        which = f"neither {' nor '.join(lacking)} holds" if len(lacking) == 2 else f"{lacking[0]} holds no"
        raise StoreError(f"{which} results of the models to run; see 'dvc exp show', or run 'dvc fetch'")
    if not set.intersection(*held.values()):
        raise StoreError(f"{' and '.join(held)} hold results of no audit and model in common; see 'dvc exp show'")
