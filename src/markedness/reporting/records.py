"""Results as records of the Every Eval Ever schema (version 0.3.0), one file for each audit of a model."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markedness import __version__, audits
from markedness.cards import label
from markedness.lm.config import CorpusModel, ModelConfig, OpenAIModel, TransformersModel
from markedness.params import Params
from markedness.records import AuditError
from markedness.reporting.results import Result, read
from markedness.results import Score, verdict
from markedness.stale import older, stale
from markedness.store import Store

SCHEMA_VERSION = "0.3.0"
_ID = re.compile(r"[^/\\<>:\"|?*\s]+(?:/[^/\\<>:\"|?*\s]+)+")
"""Parts of a folder name on every system."""


@dataclass(frozen=True)
class Evaluator:
    """Who ran the study."""

    organization: str
    relationship: str
    """To the developer of the model: first_party, third_party, collaborative or other."""
    time: int
    """When the records are written, in seconds since 1970."""


def model_id(config: ModelConfig, root: Path) -> str:
    """``developer/model`` of a model as params.yaml names it; "" where it names no developer."""
    if isinstance(config, OpenAIModel):
        named = config.model if config.base_url or "/" in config.model else f"openai/{config.model}"
    elif isinstance(config, TransformersModel):
        named = "" if (root / config.path).exists() else config.path
    else:
        named = ""
    return named if _is_id(named) else ""


def _is_id(named: str) -> bool:
    return _ID.fullmatch(named) is not None and all(part.strip(".") and part[-1] != "." for part in named.split("/"))


def write_records(
    params: Params, folder: Path, evaluator: Evaluator, ids: Mapping[str, str]
) -> tuple[list[Path], list[str]]:
    """Write data/markedness-<audit>/<developer>/<model>/<uuid>.json under a folder.

    Parameters
    ----------
    params
        The params; controls are no models and have no record.
    folder
        Where to.
    evaluator
        Who ran the study.
    ids
        Key of models -> ``developer/model``, instead of what `model_id` finds.

    Returns
    -------
    tuple
        The files, and a sentence for each model without an id and each result that is not of now, which have none.

    Raises
    ------
    AuditError
        When an id is not of the form ``developer/model``, or is that of no model.
    """
    if unknown := [name for name in ids if name not in params.models]:
        raise AuditError(
            f"--id {unknown[0]}: is no key of models; known: {', '.join(params.models)}; write "
            "--id MODEL=developer/name"
        )
    for name, given in ids.items():
        if not _is_id(given):
            raise AuditError(f"--id {name}={given}: expected developer/model, as google/gemma-3-270m")
    store, made, left_out = Store(params.root), [], []
    models = [name for name in params.run if name not in params.controls]
    others = stale(params, [(audit, name) for audit in params.audits for name in models])
    for name in models:
        config = params.model(name)
        found = [r for audit in params.audits if (r := read(store, audit, name, audits.spec(audit).card))]
        if not (named := ids.get(name) or model_id(config, params.root)):
            why = "params.yaml does not say whose model it is"
            left_out.append(f"{name}: no record: {why}; name it with --id {name}=developer/model")
            continue
        for result in found:
            if changed := others.get((result.audit, name)):
                left_out.append(f"{result.audit}: no record: {older(name, changed)}")
                continue
            content = _record(params, result, config, named, evaluator)
            developer, _, model = named.partition("/")
            digest = hashlib.sha256(f"{result.audit}/{named}/{name}".encode()).digest()
            file = f"{uuid.UUID(bytes=digest[:16], version=4)}.json"
            place = ("data", f"markedness-{result.audit}", developer, model.replace("/", "_"), file)  # of the schema
            path = folder.joinpath(*place)
            store.write_json(path, content)
            made.append(path)
    return made, left_out


def _record(params: Params, result: Result, config: ModelConfig, named: str, evaluator: Evaluator) -> dict[str, Any]:
    measured = [score for score in result.scores if not score.missing]
    missing = {f"not measured: {score.key}": verdict(score).sentence for score in result.scores if score.missing}
    notes = {f"note {place}": note for place, note in enumerate(result.notes, 1)}
    generation = _generation(params, result, config)
    # texts that exist already are as many as they are
    size = (
        {} if isinstance(config, CorpusModel) else {"size": f"{params.sizes[result.audit]}{config.own(result.audit)}"}
    )
    level = {name: value for name, value in params.stage(result.audit, "evaluate") if name == "confidence_level"}
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"markedness-{result.audit}/{named}/{evaluator.time}",
        "retrieved_timestamp": str(evaluator.time),
        "source_metadata": {
            "source_name": "markedness",
            "source_type": "evaluation_run",
            "source_organization_name": evaluator.organization,
            "evaluator_relationship": evaluator.relationship,
            "additional_details": size | {"seed": str(params.seed)} | notes | missing,
        },
        "model_info": _model_info(result.model, config, named),
        "eval_library": {"name": "markedness", "version": __version__},
        "evaluation_results": [
            {
                "evaluation_result_id": f"{result.audit}/{score.key}",
                "evaluation_name": f"markedness {result.audit}",
                "source_data": {"dataset_name": f"markedness stimuli: {result.audit}", "source_type": "other"},
                "metric_config": _metric(score, result),
                "score_details": _details(score, level),
                **generation,
            }
            for score in measured
        ],
    }  # fmt: skip


def _model_info(name: str, config: ModelConfig, named: str) -> dict[str, Any]:
    """What params.yaml says of a model; "unknown" where it does not."""
    local = isinstance(config, TransformersModel)
    hosted = isinstance(config, OpenAIModel) and config.base_url is None
    details = {
        "deployment_type": "self_deployed" if local else "externally_managed" if hosted else "unknown",
        "model_availability": "open_weights" if local else "unknown",
        "backend": config.backend,
    }
    if isinstance(config, TransformersModel) and config.revision:
        details["revision"] = config.revision
    if isinstance(config, CorpusModel):
        details["texts"] = "existed before the study"
    return {"name": name, "id": named, "additional_details": details}


def _metric(score: Score, result: Result) -> dict[str, Any]:
    """The schema knows one direction alone: where a score has none, or two, its description says so."""
    if score.worse:
        direction = ""
    elif score.null_mean == score.null_mean:
        direction = "Away from the null on either side is worse: lower_is_better is true of the distance alone. "
    else:
        direction = "A description: neither direction is worse, whatever lower_is_better says. "
    return {
        "evaluation_description": f"{direction}Above the null: {score.positive or 'nothing is claimed'}.",
        "metric_id": f"markedness.{result.audit}.{score.key}",
        "metric_name": label(score.key, result.card),
        "lower_is_better": score.worse >= 0,
    }


def _details(score: Score, level: Mapping[str, float]) -> dict[str, Any]:
    said = verdict(score)
    texts = {
        "verdict": str(said.kind), "sentence": said.sentence, "caveat": score.caveat, "group": score.group,
        "reference": score.reference, "over": score.over, "unit": score.unit, "method": score.method,
        "clusters": "; ".join(f"{factor} {number}" for factor, number in score.clusters.items()),
    }  # fmt: skip
    numbers = {
        "n_missing": score.n_missing, "p": score.p, "p_adjusted": score.p_adjusted, "null_mean": score.null_mean,
        "null_low": score.null_low, "null_high": score.null_high, "worst_low": score.worst_low,
        "worst_high": score.worst_high, "detectable": score.detectable,
    }  # fmt: skip
    texts |= {name: str(value) for name, value in numbers.items() if value == value}
    found: dict[str, Any] = {"score": score.estimate, "details": {name: text for name, text in texts.items() if text}}
    uncertainty: dict[str, Any] = {"num_samples": score.n}
    if score.standard_error == score.standard_error:
        uncertainty["standard_error"] = {"value": score.standard_error, "method": score.method}
    if score.ci_low == score.ci_low and score.ci_high == score.ci_high:
        bounds = {"lower": score.ci_low, "upper": score.ci_high}
        uncertainty["confidence_interval"] = {**bounds, **level, "method": score.method}
    return found | {"uncertainty": uncertainty}


def _generation(params: Params, result: Result, config: ModelConfig) -> dict[str, Any]:
    """How answers were drawn, where the study drew them."""
    if isinstance(config, CorpusModel):
        return {}
    stage = dict(params.stage(result.audit, "generate", result.model))
    made = {
        name: stage[name] for name in ("temperature", "top_p", "max_tokens") if isinstance(stage.get(name), int | float)
    }
    return {"generation_config": {"generation_args": made}} if made else {}
