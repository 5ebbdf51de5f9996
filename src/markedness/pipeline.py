"""Each stage as it runs: read, call, check, write.

Alone joins the audits with models, files and params. One instance of the first four stages per
(audit, model).
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from markedness import audits
from markedness.lm.base import LanguageModel, ModelError
from markedness.lm.cache import Ledger
from markedness.lm.collect import Answers, Counts, Patience, Plan, collect
from markedness.lm.config import CorpusModel, OpenAIModel, Price, ScriptedModel, TransformersModel
from markedness.lm.corpus import read_corpus
from markedness.lm.costs import BYTES_PER_TOKEN, Meter, cost, expected_tokens
from markedness.lm.progress import Progress
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

REASONS_SAID = 20
"""Reasons of failures that the output names."""


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
    ledger_path = store.ledger_path(audit, model)
    if isinstance(config, CorpusModel):
        rows = _corpus_rows(params, store, audit, model)
        _say_unwatched(params, audit, model, say)
        store.write_table("generations", audit, model, rows)
        with Ledger(ledger_path):
            pass  # DVC expects the file of every model
        unsupported = int(rows["finish_reason"].eq(UNSUPPORTED).fillna(False).sum())
        counts = Counts(len(rows) - unsupported, len(rows) - unsupported, unsupported=unsupported)
    else:
        with Ledger(ledger_path) as ledger:
            for fault in ledger.faults[:10]:
                say(fault)
            try:
                asked, counts = asyncio.run(_ask(params, store, audit, model, ledger, say))
            except KeyboardInterrupt:
                say(f"{audit} {model}: interrupted; {len(ledger):,} answers are in the ledger, run again to go on")
                raise
            least = getattr(config, "min_coverage", 0.0)
            served: Counter[tuple[str | None, str | None]] = Counter()
            columns = _schema([prompt for prompts, _ in asked for prompt in prompts])
            store.write_rows("generations", audit, model, _all_rows(asked, least, served), columns)
        if len(served) > 1:
            versions = ", ".join(f"{name} {mark} {times:,} times" for (name, mark), times in served.most_common(5))
            say(f"{audit} {model}: the server changed, it reports {len(served)} fingerprints: {versions}")
    say(
        f"{audit} {model}: {counts.requested:,} requested, {counts.answered:,} answered "
        f"({counts.from_ledger:,} of them from the ledger), {counts.failed:,} failed"
        + (f", {counts.unsupported:,} unsupported" if counts.unsupported else "")
    )
    for reason, times in counts.reasons.most_common(REASONS_SAID):
        say(f"{audit} {model}: failed {times:,} times: {reason}")
    if len(counts.reasons) > REASONS_SAID:
        say(f"{audit} {model}: and for {len(counts.reasons) - REASONS_SAID} more reasons; see the column error")
    return counts


def _corpus_rows(params: Params, store: Store, audit: str, model: str) -> pd.DataFrame:
    """Texts that exist already, as generations."""
    module = audits.stage(audit, "generate")
    stage_params = params.stage(audit, "generate")
    source = getattr(params.model(model), audit)
    if source is None:
        return _unsupported(f"models.{model} names no texts for {audit}; add models.{model}.{audit}.path")
    columns = module.CORPUS
    rows = read_corpus(
        source, params.root, f"models.{model}.{audit}", getattr(stage_params, "axes", None) or {},
        columns.required, columns.optional,
    )  # fmt: skip
    if hasattr(module, "complete_corpus"):
        rows = module.complete_corpus(rows, store.stimuli(audit), stage_params)
    return rows


def _say_unwatched(params: Params, audit: str, model: str, say: Report) -> None:
    """DVC reruns a stage only for the files that dvc.yaml names: say so where a corpus is none of them."""
    source = getattr(params.model(model), audit)
    watched = params.root / "data" / "corpora" / "own"
    if source is None or "DVC_STAGE" not in os.environ or watched in (params.root / source.path).parents:
        return
    say(
        f"{audit} {model}: DVC does not watch {source.path}; after a change of it run 'dvc repro --force "
        f"generate@{audit}-{model}', or keep it under data/corpora/own"
    )


Rounds = list[tuple[Sequence[Prompt], Answers]]


def _rounds(params: Params, store: Store, audit: str) -> Generator[list[Prompt], Any, None]:
    """The audit's rounds of prompts."""
    module = audits.stage(audit, "generate")
    rng = generator(params, audit, "generate")
    rounds: Generator[list[Prompt], Any, None] = module.prompts(
        store.stimuli(audit), params.stage(audit, "generate"), rng
    )
    return rounds


async def _ask(
    params: Params, store: Store, audit: str, model: str, ledger: Ledger, say: Report
) -> tuple[Rounds, Counts]:
    """Drive the audit's rounds of prompts through the model and the ledger."""
    config = params.model(model)
    price = _price(params, model)
    if getattr(config, "max_cost", None) is not None and price is None:
        raise ModelError(f"models.{model}.max_cost: the price of {_priced(config)} is unknown; add it under prices")
    meter = Meter(price, getattr(config, "max_requests", None), getattr(config, "max_cost", None))
    patience = Patience(
        **{name: getattr(config, name) for name in ("max_attempts", "max_wait") if hasattr(config, name)}
    )
    rounds = _rounds(params, store, audit)
    language_model = load_model(params, audit, model)
    counts = Counts()
    asked: Rounds = []
    try:
        with Progress(f"{audit} {model}", say) as progress:
            prompts = next(rounds, None)
            while prompts is not None:
                answers = await collect(
                    language_model, prompts, ledger, counts, patience=patience, meter=meter, progress=progress
                )
                asked.append((prompts, answers))
                try:
                    prompts = rounds.send(answers)
                except StopIteration:
                    prompts = None
    finally:
        await language_model.close()
    if not any(prompts for prompts, _ in asked):
        raise StageError(f"{audit}.generate: no prompts; check the groups and samples in {params.path.name}")
    return asked, counts


def _priced(config: Any) -> str:
    """The name under which a model's price stands."""
    return str(getattr(config, "model", None) or getattr(config, "path", ""))


def _price(params: Params, model: str) -> Price | None:
    """By the served model's name, or by the key in params.yaml; local and scripted models cost nothing."""
    config = params.model(model)
    if not isinstance(config, OpenAIModel):
        return Price(input=0, output=0)
    return params.prices.get(_priced(config)) or params.prices.get(model)


def forecast(params: Params, audit: str, model: str, say: Report = print) -> None:
    """Say what generate would ask and what that would cost, before any request; nothing is written."""
    store = Store(params.root)
    config = params.model(model)
    if isinstance(config, CorpusModel):
        say(f"{audit} {model}: 0 requests, the texts exist already")
        return
    language_model = load_model(params, audit, model)
    rounds = _rounds(params, store, audit)
    total = known = unsupported = tokens_in = tokens_out = number = 0
    with Ledger(store.ledger_path(audit, model), read_only=True) as ledger:
        prompts = next(rounds, None)
        while prompts is not None:
            number += 1
            plan = Plan(language_model, prompts, ledger)
            total += len(plan)
            known += int(plan.copies[plan.places >= 0].sum())
            unsupported += sum(prompts[index].samples for index in plan.unsupported)
            for distinct in plan.missing:
                tokens = expected_tokens(plan.prompt(int(distinct)))
                tokens_in, tokens_out = tokens_in + tokens[0], tokens_out + tokens[1]
            if len(plan.missing):
                break
            try:
                prompts = rounds.send(Answers(plan))
            except StopIteration:
                prompts = None
    price = _price(params, model)
    money = "unknown" if price is None else f"at most {cost(price, tokens_in, tokens_out):,.4f}"
    say(f"{audit} {model}: {total:,} requests, {known:,} of them in the ledger, {total - known:,} to be asked")
    if unsupported:
        say(f"{audit} {model}: {unsupported:,} unsupported by this backend")
    say(
        f"{audit} {model}: about {tokens_in:,} tokens in (UTF-8 bytes / {BYTES_PER_TOKEN}), at most {tokens_out:,} out "
        f"(max_tokens of every request); cost {money}"
    )
    if prompts is not None and number:
        say(f"{audit} {model}: up to round {number}; prompts of later rounds, if any, depend on its answers")


def _all_rows(asked: Rounds, min_coverage: float, served: Counter[tuple[str | None, str | None]]) -> Iterator[dict]:
    """The rows of all rounds; counts in ``served`` which model and fingerprint answered."""
    for prompts, answers in asked:
        for prompt, completions in zip(prompts, answers, strict=True):
            served.update((one.model, one.fingerprint) for one in completions if one.error is None)
            yield from _rows(prompt, completions, min_coverage)


def _rows(prompt: Prompt, completions: Sequence[Completion], min_coverage: float = 0.0) -> Iterator[dict[str, Any]]:
    """One row per sample, or per sample and candidate; a perplexity has one row without candidate."""
    for sample, completion in enumerate(completions, start=prompt.first_sample):
        row = {
            "prompt_id": prompt.prompt_id, "group": prompt.group, "sample": sample, "prompt": prompt.text,
            "text": completion.text, "finish_reason": completion.finish_reason, "error": completion.error,
            **prompt.columns, "served_model": completion.model, "fingerprint": completion.fingerprint,
        }  # fmt: skip
        candidates: tuple[str | None, ...] = (None,) if prompt.perplexity else prompt.candidates
        if not candidates:
            yield row
            continue
        log_probs = completion.log_probs or (None,) * len(candidates)
        reasons = completion.reasons or (None,) * len(candidates)
        if completion.coverage is not None and completion.coverage < min_coverage:
            log_probs = (None,) * len(candidates)
            reasons = (f"coverage {completion.coverage:.3g} is below min_coverage {min_coverage:g}",) * len(candidates)
        scored = {
            "estimator": completion.estimator, "coverage": completion.coverage, "cut_tokens": completion.cut_tokens,
        }  # fmt: skip
        for candidate, log_prob, reason in zip(candidates, log_probs, reasons, strict=True):
            known = dict(prompt.candidate_columns.get(candidate or "", {}))
            yield row | {"candidate": candidate, "log_prob": log_prob, "reason": reason} | scored | known


def _schema(prompts: Sequence[Prompt]) -> dict[str, type]:
    """The columns of `_rows` and their types, known before the first row so that the table is written in pieces."""
    kinds: dict[str, set[type]] = {}
    for prompt in prompts:
        for columns_of in (prompt.columns, *prompt.candidate_columns.values()):
            for name, value in columns_of.items():
                kinds.setdefault(name, set()).add(type(value))
    columns: dict[str, type] = dict.fromkeys(GENERATION_COLUMNS, str) | {"sample": int}
    columns |= {name: _common(found - {type(None)}) for name, found in kinds.items()}
    columns |= {"served_model": str, "fingerprint": str}
    if any(prompt.candidates or prompt.perplexity for prompt in prompts):
        columns |= {"candidate": str, "log_prob": float, "reason": str}
        columns |= {"estimator": str, "coverage": float, "cut_tokens": int}
    return columns


def _common(kinds: set[type]) -> type:
    """The type that holds values of all these types."""
    for kind in (bool, int, float):
        if kinds and all(issubclass(found, kind) or (kind is float and found is int) for found in kinds):
            return kind
    return str


def _unsupported(reason: str) -> pd.DataFrame:
    row = dict.fromkeys(GENERATION_COLUMNS, None) | {"prompt_id": "", "group": "", "sample": 0, "prompt": ""}
    return pd.DataFrame([row | {"finish_reason": UNSUPPORTED, "error": reason}])


def load_model(params: Params, audit: str, model: str) -> LanguageModel:
    """The backend of one model; its packages are imported only here."""
    config = params.model(model)
    if isinstance(config, ScriptedModel):
        from markedness.lm.scripted import ScriptedModel as Scripted

        controls = audits.stage(audit, "controls")
        settings = config.model_dump(include={"rule", "strength"}, exclude_defaults=True)
        return Scripted(model, controls.rule(config.rule, config.strength), config.seed, settings)
    if isinstance(config, TransformersModel):
        from markedness.lm.local import LocalModel

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
        module, stage_params = audits.stage(audit, "featurize"), params.stage(audit, "featurize")
        # word lists are stimuli: an audit that counts words of lists asks for them by a third parameter
        wants_stimuli = "stimuli" in inspect.signature(module.featurize).parameters
        more = {"stimuli": store.stimuli(audit)} if wants_stimuli else {}
        made = module.featurize(responses, stage_params, **more)
        made = made if isinstance(made, Features) else Features(made)
    store.write_table("features", audit, model, made.table)
    for name, fitted in made.models.items():
        import skops.io

        store.write_bytes(folder / f"{name}.skops", skops.io.dumps(fitted))
    for name, content in made.files.items():
        store.write_bytes(folder / name, content)
    store.write_json(folder / "index.json", sorted([*(f"{name}.skops" for name in made.models), *made.files]))
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
    store.clear(folder, ("tables", "figures"))
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
    for note in made.notes:
        say(f"{audit} {model}: note: {note}")
    say(f"{audit} {model}: {len(made.tables)} tables, {len(made.metrics)} metrics in {folder.relative_to(store.root)}")


def _all_unsupported(generations: pd.DataFrame) -> bool:
    return bool(generations["finish_reason"].eq(UNSUPPORTED).fillna(False).all())


def _nothing_to_measure(responses: pd.DataFrame) -> bool:
    """Whether every row is without an answer."""
    return bool(responses["status"].isin([Status.UNSUPPORTED.value, Status.FAILED.value]).all())


def _reason(responses: pd.DataFrame) -> str:
    """The most frequent reason there is no answer."""
    reasons = responses["error"].dropna()
    return str(reasons.mode().iloc[0]) if len(reasons) else "none of the rows has a text"


STAGES: dict[str, Callable[..., Any]] = {
    "generate": generate,
    "clean": clean,
    "featurize": featurize,
    "evaluate": evaluate,
}
