"""Each stage as it runs: read, call, check, write.

Alone joins the audits with models, files and params. One instance of the first four stages per
(audit, model).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from markedness import audits
from markedness.lm.base import LanguageModel, ModelError
from markedness.lm.cache import Ledger
from markedness.lm.collect import Counts, collect
from markedness.lm.config import CorpusModel, OpenAIModel, ScriptedModel, TransformersModel
from markedness.lm.corpus import read_corpus
from markedness.params import Params
from markedness.records import (
    ESTIMATE_COLUMNS,
    GENERATION_COLUMNS,
    UNSUPPORTED,
    AuditError,
    Completion,
    Evaluation,
    Features,
    Prompt,
    Status,
)
from markedness.store import Store

Report = Callable[[str], None]


class StageError(AuditError):
    """A stage returned something that breaks the contract, or has nothing to work on."""


def generator(params: Params, audit: str, stage: str, *more: str) -> np.random.Generator:
    """The seeded generator of one stage: the same for every model, so that all are asked the same."""
    label = "/".join((str(params.seed), audit, stage, *more))
    return np.random.default_rng(int.from_bytes(hashlib.sha256(label.encode()).digest()[:8], "big"))


# ---------------------------------------------------------------- generate


def generate(params: Params, audit: str, model: str, say: Report = print) -> Counts:
    """Ask the model, or read its corpus, and write data/generations/<audit>/<model>.parquet."""
    store = Store(params.root)
    config = params.model(model)
    module = audits.stage(audit, "generate")
    stage_params = params.stage(audit, "generate")
    ledger_path = store.ledger_path(audit, model)
    ledger_path.parent.mkdir(parents=True, exist_ok=True)
    ledger_path.touch()
    counts = Counts()
    if isinstance(config, CorpusModel):
        source = getattr(config, audit)
        if source is None:
            reason = f"models.{model} names no texts for {audit}; add models.{model}.{audit}.path"
            rows = _unsupported(reason)
        else:
            columns = module.CORPUS
            rows = read_corpus(
                source, params.root, f"models.{model}.{audit}", getattr(stage_params, "axes", None) or {},
                columns.required, columns.optional,
            )  # fmt: skip
            if hasattr(module, "complete_corpus"):
                rows = module.complete_corpus(rows, store.stimuli(audit), stage_params)
        counts.requested = counts.answered = len(rows)
    else:
        rows, counts = asyncio.run(_ask(params, store, audit, model))
    store.write_table("generations", audit, model, rows)
    say(
        f"{audit} {model}: {counts.requested} requested, {counts.answered} answered "
        f"({counts.from_ledger} of them from the ledger), {counts.failed} failed"
    )
    return counts


async def _ask(params: Params, store: Store, audit: str, model: str) -> tuple[pd.DataFrame, Counts]:
    """Drive the audit's rounds of prompts through the model and the ledger."""
    module = audits.stage(audit, "generate")
    rounds = module.prompts(store.stimuli(audit), params.stage(audit, "generate"), generator(params, audit, "generate"))
    language_model = load_model(params, audit, model)
    counts = Counts()
    rows: list[dict[str, Any]] = []
    try:
        with Ledger(store.ledger_path(audit, model)) as ledger:
            prompts = next(rounds, None)
            while prompts is not None:
                answers = await collect(language_model, prompts, ledger, counts)
                for prompt, completions in zip(prompts, answers, strict=True):
                    rows += _rows(prompt, completions)
                try:
                    prompts = rounds.send(answers)
                except StopIteration:
                    prompts = None
    finally:
        await language_model.close()
    if not rows:
        raise StageError(f"{audit}.generate: no prompts; check the groups and samples in {params.path.name}")
    return pd.DataFrame(rows), counts


def _rows(prompt: Prompt, completions: Sequence[Completion]) -> list[dict[str, Any]]:
    """One row per sample, or per sample and candidate; a perplexity has one row without candidate."""
    rows = []
    for sample, completion in enumerate(completions, start=prompt.first_sample):
        row = {
            "prompt_id": prompt.prompt_id, "group": prompt.group, "sample": sample, "prompt": prompt.text,
            "text": completion.text, "finish_reason": completion.finish_reason, "error": completion.error,
            **prompt.columns, "served_model": completion.model, "fingerprint": completion.fingerprint,
        }  # fmt: skip
        candidates: tuple[str | None, ...] = (None,) if prompt.perplexity else prompt.candidates
        if not candidates:
            rows.append(row)
            continue
        log_probs = completion.log_probs or (None,) * len(candidates)
        reasons = completion.reasons or (None,) * len(candidates)
        scored = {
            "estimator": completion.estimator, "coverage": completion.coverage, "cut_tokens": completion.cut_tokens,
        }  # fmt: skip
        rows += [
            row | {"candidate": candidate, "log_prob": log_prob, "reason": reason} | scored
            for candidate, log_prob, reason in zip(candidates, log_probs, reasons, strict=True)
        ]
    return rows


def _unsupported(reason: str) -> pd.DataFrame:
    row = dict.fromkeys(GENERATION_COLUMNS, None) | {"prompt_id": "", "group": "", "sample": 0, "prompt": ""}
    return pd.DataFrame([row | {"finish_reason": UNSUPPORTED, "error": reason}])


def load_model(params: Params, audit: str, model: str) -> LanguageModel:
    """The backend of one model; its packages are imported only here."""
    config = params.model(model)
    if isinstance(config, ScriptedModel):
        from markedness.lm.scripted import ScriptedModel as Scripted

        controls = audits.stage(audit, "controls")
        return Scripted(model, controls.rule(config.rule, config.strength), config.seed)
    if isinstance(config, TransformersModel):
        from markedness.lm.local import LocalModel  # type: ignore[import-not-found]

        return LocalModel(config, params.root, seed=params.seed)
    if isinstance(config, OpenAIModel):
        from markedness.lm.openai_api import OpenAIServer

        return OpenAIServer(config, seed=params.seed)
    raise ModelError(f"models.{model}: a {config.backend} model answers no requests")


# ---------------------------------------------------------------- clean, featurize, evaluate


def clean(params: Params, audit: str, model: str, say: Report = print) -> None:
    """Parse and label: data/responses/<audit>/<model>.parquet; no row is dropped."""
    store = Store(params.root)
    generations = store.read_table("generations", audit, model)
    if _all_unsupported(generations):
        responses = generations.assign(answer=None, status=Status.UNSUPPORTED.value)
    else:
        responses = audits.stage(audit, "clean").clean(generations, params.stage(audit, "clean"))
    if "status" not in responses or len(responses) < len(generations):
        raise StageError(f"{audit}.clean: dropped rows or wrote no status; a clean keeps every row")
    store.write_table("responses", audit, model, responses)
    shares = ", ".join(f"{count} {status}" for status, count in responses["status"].value_counts().items())
    say(f"{audit} {model}: {shares}")


def featurize(params: Params, audit: str, model: str, say: Report = print) -> None:
    """Units of analysis: data/features/<audit>/<model>.parquet; fitted models to models/<audit>/<model>/."""
    store = Store(params.root)
    responses = store.read_table("responses", audit, model)
    folder = store.models(audit, model)
    store.clear(folder)
    if _nothing_to_measure(responses):
        made = Features(pd.DataFrame({"unsupported": [_reason(responses)]}))
    else:
        made = audits.stage(audit, "featurize").featurize(responses, params.stage(audit, "featurize"))
        made = made if isinstance(made, Features) else Features(made)
    store.write_table("features", audit, model, made.table)
    folder.mkdir(parents=True, exist_ok=True)
    for name, fitted in made.models.items():
        import skops.io

        store.write_bytes(folder / f"{name}.skops", skops.io.dumps(fitted))
    for name, content in made.files.items():
        store.write_bytes(folder / name, content)
    say(f"{audit} {model}: {len(made.table)} units")


def evaluate(params: Params, audit: str, model: str, say: Report = print) -> None:
    """Estimates with intervals, tables, metrics and figures."""
    store = Store(params.root)
    features = store.read_table("features", audit, model)
    if "unsupported" in features.columns:
        empty = pd.DataFrame({column: pd.Series(dtype="object") for column in ESTIMATE_COLUMNS})
        made = Evaluation(estimates=empty, notes=[str(features["unsupported"].iloc[0])])
    else:
        rng = generator(params, audit, "evaluate")
        made = audits.stage(audit, "evaluate").evaluate(features, params.stage(audit, "evaluate"), rng)
    missing = [column for column in ESTIMATE_COLUMNS if column not in made.estimates]
    if missing:
        raise StageError(f"{audit}.evaluate: estimates lack the column '{missing[0]}'")
    if len(made.metrics) > 30:
        raise StageError(f"{audit}.evaluate: {len(made.metrics)} metrics; metrics.json holds at most 30")
    folder = store.results(audit, model)
    store.clear(folder)
    for part in ("tables", "figures"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for name, table in made.tables.items():
        store.write_csv(folder / "tables" / f"{name}.csv", table)
    for name, content in made.files.items():
        store.write_bytes(folder / "tables" / name, content)
    if made.figures:
        from markedness.reporting.figures import save

        for name, chart in made.figures.items():
            save(chart, folder / "figures" / name)
    store.write_json(folder / "notes.json", list(made.notes))
    store.write_table("estimates", audit, model, made.estimates)
    store.write_json(folder / "metrics.json", dict(made.metrics))
    say(f"{audit} {model}: {len(made.tables)} tables, {len(made.metrics)} metrics in {folder.relative_to(store.root)}")


def _all_unsupported(generations: pd.DataFrame) -> bool:
    return bool(generations["finish_reason"].eq(UNSUPPORTED).fillna(False).all())


def _nothing_to_measure(responses: pd.DataFrame) -> bool:
    """Whether every row is without an answer."""
    return bool(responses["status"].isin([Status.UNSUPPORTED.value, Status.FAILED.value]).all())


def _reason(responses: pd.DataFrame) -> str:
    """The most frequent reason there is no answer."""
    reasons = responses["error"].dropna()
    return str(reasons.mode().iloc[0]) if len(reasons) else "no answer"


STAGES: dict[str, Callable[..., Any]] = {
    "generate": generate,
    "clean": clean,
    "featurize": featurize,
    "evaluate": evaluate,
}
