"""params.yaml -> Params: read once, checked whole, every error named by its path."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from markedness import strict_yaml
from markedness.audits import AUDITS, STAGES, spec
from markedness.audits.base import AuditSpec
from markedness.axes import Axes
from markedness.credentials import carries_a_secret, hide, secret_places
from markedness.files import reads
from markedness.lm import backends
from markedness.lm.config import LARGEST_SEED, CorpusModel, ModelConfig, Price, ScriptedModel, TransformersModel
from markedness.naming import axes_faults, judge_faults, model_fault, repeated
from markedness.param_blocks import CompareParams, GateParams, ReportParams, TrackParams
from markedness.records import FIELD_FAULT, AuditError, Strict
from markedness.sizes import AuditSize, filled, sized
from markedness.store import Store

_BLOCK = ("size", "language", "axes", *STAGES)
"""Keys of an audit's block."""


class ParamsError(AuditError):
    """Everything wrong with a params file, one line per fault."""


class _Study(Strict):
    """The top level of params.yaml but for the audits' own blocks."""

    model_config = ConfigDict(defer_build=True)

    audits: list[str] = Field(default_factory=lambda: list(AUDITS), min_length=1)
    run: list[str] = Field(default_factory=list)
    size: Literal["quick", "standard", "paper"] | None = None
    """What the generate blocks leave out is as this size says; null: as their own defaults say."""
    models: dict[str, backends.AnyModel] = Field(min_length=1)
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED)
    tolerated_failures: float = Field(default=0.0, ge=0, le=1)
    """Share of the requests of one generate that may fail without exit status 1, so without stopping `dvc repro`."""
    prices: dict[str, Price] = Field(default_factory=dict)
    report: ReportParams = Field(default_factory=ReportParams)
    compare: CompareParams = Field(default_factory=CompareParams)
    track: TrackParams = Field(default_factory=TrackParams)
    gate: GateParams | None = None

    @field_validator("models")
    @classmethod
    def _names(cls, models: dict[str, ModelConfig]) -> dict[str, ModelConfig]:
        if faults := [fault for name in models if (fault := model_fault(name))]:
            raise ValueError("; ".join(faults))
        return models

    @field_validator("audits", "run")
    @classmethod
    def _each_once(cls, names: list[str]) -> list[str]:
        if again := repeated(names):
            raise ValueError(f"{', '.join(repr(name) for name in again)} is named twice; name each once")
        return names


@dataclass(frozen=True)
class Params:
    """A checked params file."""

    path: Path
    root: Path
    """Folder of the file: every path in it is relative to this."""
    audits: tuple[str, ...]
    run: tuple[str, ...]
    models: dict[str, ModelConfig]
    """Key -> its block."""
    seed: int
    tolerated_failures: float
    prices: dict[str, Price]
    report: ReportParams
    compare: CompareParams
    track: TrackParams
    gate: GateParams | None
    """None: the file has no such block."""
    stages: dict[tuple[str, str], Any]
    """(audit, stage) -> the stage module's Params; (audit, "generate@model") where a model is asked otherwise."""
    sizes: dict[str, AuditSize]
    """Audit -> its size."""
    languages: dict[str, str]
    raw: dict[str, Any]
    """The file as it stands."""

    def stage(self, audit: str, name: str, model: str = "") -> Any:
        """Params of one stage of one audit; those of a model that is asked otherwise, where it is named."""
        return self.stages.get((audit, f"{name}@{model}"), self.stages[audit, name])

    @property
    def levels(self) -> dict[str, float]:
        """Audit -> confidence level of its intervals, where its evaluate has one."""
        found = ((audit, dict(self.stage(audit, "evaluate")).get("confidence_level")) for audit in self.audits)
        return {audit: level for audit, level in found if level is not None}

    def language(self, audit: str) -> str:
        """The language that an audit is asked in."""
        return self.languages.get(audit, "en")

    def axes(self, audit: str) -> Axes:
        """The groups that an audit asks about, its own where params.yaml names none; {} where it has no axes."""
        found: Axes = dict(self.stage(audit, "generate")).get("axes", {})
        return found

    def model(self, name: str) -> ModelConfig:
        """Config of one model; ParamsError names the known ones."""
        if name not in self.models:
            known = ", ".join(self.models)
            raise ParamsError(f"{self.path.name}: models: '{name}' is not defined; known: {known}")
        return self.models[name]

    @property
    def controls(self) -> set[str]:
        """The scripted models to run."""
        return {name for name in self.run if isinstance(self.model(name), ScriptedModel)}


def load(path: Path | str = "params.yaml") -> Params:
    """Read and check a params file; ParamsError has a line per fault: file, place, what is wrong, what is expected."""
    path = Path(path)
    if not path.exists():
        raise ParamsError(f"{path}: no such file; run in the folder of params.yaml or name one with --params")
    try:
        raw = strict_yaml.read(path)
    except strict_yaml.YamlFileError as error:
        raise ParamsError(str(error)) from error
    return _checked(path, raw)


def resized(params: Params, audit: str, size: str) -> Params:
    """The same params with one audit at another size; what its generate block says still wins."""
    block = params.raw.get(audit) or {}
    return _checked(params.path, {**params.raw, audit: {**block, "size": size}})


def _checked(path: Path, raw: dict[str, Any]) -> Params:
    """Params from the content of the file; ParamsError with one line per fault."""
    faults: list[str] = []
    top = {key: value for key, value in raw.items() if key not in AUDITS}
    unknown = [key for key in top if key not in _Study.model_fields]
    if unknown:
        known = ", ".join([*_Study.model_fields, *AUDITS])
        faults += [f"unknown key '{key}'; known: {known}" for key in unknown]
    study: _Study | None = None
    try:
        study = _Study.model_validate({key: value for key, value in top.items() if key not in unknown})
    except ValidationError as error:
        faults += _lines(error, (), _Study)
    if study is not None:
        faults += [
            f"audits: '{a}' is not an audit; known: {', '.join(AUDITS)}" for a in study.audits if a not in AUDITS
        ]
        faults += [
            f"run: model '{name}' is not defined under models; known: {', '.join(study.models)}"
            for name in study.run
            if name not in study.models
        ]
        faults += _replaced_by_stages(study.models, path.resolve().parent)
        faults += _gate_faults(study)
    stages: dict[tuple[str, str], Any] = {}
    sizes: dict[str, AuditSize] = {}
    languages: dict[str, str] = {}
    for audit in AUDITS:
        block = {} if raw.get(audit) is None else raw[audit]
        if not isinstance(block, dict):
            faults.append(f"{audit}: expected a mapping with {', '.join(_BLOCK)}")
            continue
        block, sizes[audit], fault = sized(audit, block, raw.get("size"), spec(audit))
        faults += [fault] if fault else []
        languages[audit] = "en" if block.get("language") is None else block["language"]
        there = Store(path.resolve().parent).languages(audit)
        faults += filter(None, [_language_fault(audit, languages[audit], spec(audit), there)])
        faults += _audit(audit, block, stages)
    faults += _asked_otherwise(study.models, stages) if study is not None else []
    if study is not None:
        asked = {a: spec(a).judges(stages[a, "featurize"]) for a in AUDITS if (a, "featurize") in stages}
        corpora = [name for name, config in study.models.items() if isinstance(config, CorpusModel)]
        faults += judge_faults(asked, study.models, corpora)
    if not faults:
        faults += [
            f"{place}: has a user name, password or key; this file is versioned and logged: remove it"
            for place in secret_places(raw, path.resolve().parent)
        ]
    if faults or study is None:
        raise ParamsError(hide("\n".join(f"{path.name}: {fault}" for fault in faults)))
    return Params(
        path=path, root=path.resolve().parent, audits=tuple(study.audits), run=tuple(study.run or study.models),
        models=study.models, seed=study.seed, tolerated_failures=study.tolerated_failures, prices=study.prices,
        report=study.report, compare=study.compare, track=study.track, gate=study.gate, stages=stages, sizes=sizes,
        languages=languages, raw=raw,
    )  # fmt: skip


def _gate_faults(study: _Study) -> Iterator[str]:
    """Names in the gate block that are nowhere defined."""
    if (gate := study.gate) is None:
        return
    for name in gate.models:
        if name not in study.models:
            yield f"gate.models: '{name}' is not defined under models; known: {', '.join(study.models)}"
        elif name == gate.baseline:
            yield f"gate.models: '{name}' is the baseline; name others"
    if again := repeated([*gate.models]) or repeated([*gate.audits]):
        yield f"gate: {', '.join(repr(name) for name in again)} is named twice; name each once"
    in_gate = gate.audits or study.audits
    for place, names in (("audits", gate.audits), ("margins", [*gate.margins]), ("without", [*gate.without])):
        known = study.audits if place == "audits" else in_gate
        yield from (
            f"gate.{place}: '{a}' is not an audit of it; known: {', '.join(known)}" for a in names if a not in known
        )
    for place, scores in (("margins", gate.margins), ("without", gate.without)):
        for audit, keys in scores.items():
            headline = spec(audit).headline if audit in AUDITS else tuple(keys)
            yield from (
                f"gate.{place}.{audit}: '{key}' is not a headline score; known: {', '.join(headline)}"
                for key in keys
                if key not in headline
            )
    for audit, keys in gate.margins.items():
        if both := [key for key in keys if key in gate.without.get(audit, [])]:
            yield f"gate.without.{audit}: {', '.join(both)} has a margin, too; take it out of one of the two"


def _replaced_by_stages(models: dict[str, ModelConfig], root: Path) -> Iterator[str]:
    """Weights and texts where a stage writes: DVC and featurize empty these folders."""
    store = Store(root)
    places = [place for audit in AUDITS for model in models for place in store.written(audit, model)]
    written = {
        Path(os.path.realpath(place)): place.relative_to(root).as_posix()
        for place in (*places, *store.written_by_all())
    }
    for name, config in models.items():
        weights = config.path if isinstance(config, TransformersModel) else None
        real = Path(os.path.realpath(root / weights)) if weights is not None else None
        if inner := next((place for output, place in written.items() if real in output.parents), None):
            yield f"models.{name}.path: {weights} is a folder around {inner}, which a stage writes; move the weights"
        sources = {audit: config.source(audit) for audit in AUDITS}
        paths = {f"{audit}.path": source.path for audit, source in sources.items() if source is not None}
        paths |= {"path": weights} if weights is not None else {}
        for field, path in paths.items():
            if place := next((place for output, place in written.items() if reads(root / path, output)), None):
                yield f"models.{name}.{field}: {path} is in {place}, which a stage replaces; move it to another folder"


def _language_fault(audit: str, language: object, spec: AuditSpec, known: Collection[str]) -> str:
    """Why an audit cannot be asked in a language; "" where it can.

    ``known``: the languages that it has stimuli in.
    """
    if language in known and not (spec.english_only and language != "en"):
        return ""
    if spec.english_only:
        return f"{audit}.language: '{language}' is not possible: {spec.english_only}; remove the line"
    return (
        f"{audit}.language: there are no stimuli in '{language}'; known: {', '.join(known)}; another language needs a "
        f"folder data/stimuli/{audit}/<language>, made like that of a known one"
    )


def _audit(audit: str, block: dict[str, Any], stages: dict[tuple[str, str], Any]) -> list[str]:
    """Check one audit's block into ``stages``; return its faults."""
    faults = [f"{audit}: unknown key '{key}'; known: {', '.join(_BLOCK)}" for key in block if key not in _BLOCK]
    axes: Axes | None = None
    own = spec(audit).params("generate").model_fields.get("axes")
    if block.get("axes") == {} and own is not None and own.default:
        faults.append(f"{audit}.axes: names no axis; write null for the audit's own, or name one")
    elif block.get("axes") is not None:
        try:
            axes = TypeAdapter(Axes).validate_python(block["axes"])
        except ValidationError as error:
            faults += _lines(error, (audit, "axes"), None)
        else:
            faults += [f"{audit}.axes.{fault}" for fault in axes_faults(axes, spec(audit).corpus)]
    for name in STAGES:
        kind = spec(audit).params(name)
        given = {} if block.get(name) is None else block[name]
        if not isinstance(given, dict):
            faults.append(f"{audit}.{name}: expected a mapping; known: {', '.join(_known(kind))}")
            continue
        if "axes" in given:
            faults.append(f"{audit}.{name}: unknown key 'axes'; axes belong to {audit}.axes")
            continue
        if axes is not None and "axes" in kind.model_fields:
            given = {**given, "axes": axes}
        try:
            stages[audit, name] = kind.model_validate(given)
        except ValidationError as error:
            faults += _lines(error, (audit, name), kind)
    return faults


def _asked_otherwise(models: dict[str, ModelConfig], stages: dict[tuple[str, str], Any]) -> Iterator[str]:
    """Check what models.<model>.generate sets for one model, into ``stages``; its faults."""
    for model, audit, own in [(name, *block) for name, one in models.items() for block in one.generate.items()]:
        base = stages.get((audit, "generate"))
        if base is None or "axes" in own:
            yield f"models.{model}.generate.{audit}: names an audit and what it asks, but no axes"
            continue
        try:
            made = type(base).model_validate(filled(own, base.model_dump(), type(base)))
            stages[audit, f"generate@{model}"] = made
        except ValidationError as error:
            yield from _lines(error, ("models", model, "generate", audit), type(base))


def _known(kind: type[BaseModel]) -> Iterator[str]:
    return (field for field in kind.model_fields if field != "axes")


def _lines(error: ValidationError, prefix: tuple[str, ...], kind: type[BaseModel] | None) -> Iterator[str]:
    """One line per fault: where, what, what is expected."""
    tags = backends.names()
    for fault in error.errors(include_url=False):
        steps = [str(step) for step in fault["loc"]]
        if len(steps) > 2 and steps[0] == "models" and steps[2] in tags:
            steps.pop(2)  # pydantic names the backend as a step of its own
        if fault["type"] == "extra_forbidden":
            where = ".".join((*prefix, *steps[:-1]))
            known = f"; known: {', '.join(_known(kind))}" if kind is not None and len(fault["loc"]) == 1 else ""
            yield f"{where}: unknown key '{steps[-1]}'{known}"
            continue
        where = ".".join((*prefix, *steps))
        if steps[-1:] == ["[key]"]:
            where = ".".join((*prefix, *steps[:-2]))
            yield f"{where}: the key {fault['input']!r} is no text; put it in quotes (YAML reads no and off as False)"
            continue
        if fault["type"] == "union_tag_not_found":
            yield f"{where}.backend: is missing; one of {', '.join(sorted(tags))}"
            continue
        message, given = fault["msg"].removeprefix("Value error, "), fault["input"]
        if fault["type"] == FIELD_FAULT:
            where, given = ".".join((*prefix, *steps, fault["ctx"]["field"])), fault["ctx"]["given"]
        secret = isinstance(given, str) and carries_a_secret(given)
        shown = f" (given: {given!r})" if isinstance(given, str | int | float | bool) and not secret else ""
        yield f"{where}: {message}{shown}" if where else message
