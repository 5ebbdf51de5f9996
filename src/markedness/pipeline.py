"""Each stage as it runs: read, call, check, write.

Alone joins the audits with models, files and params. One instance of the first four stages per
(audit, model).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from markedness import audits, kept, ledgers
from markedness.files import estimator_bytes
from markedness.judges import ServiceScores
from markedness.lm.backends import Setting, backend
from markedness.lm.base import LanguageModel, ModelError
from markedness.lm.collect import ask
from markedness.lm.config import CorpusModel, OpenAIModel, Price
from markedness.lm.corpus import read_corpus
from markedness.lm.costs import BYTES_PER_TOKEN, Meter, cost, expected_tokens
from markedness.lm.ledger import Ledger
from markedness.lm.plan import Answers, Counts, Plan
from markedness.lm.progress import Progress, tell
from markedness.params import Params
from markedness.records import (
    GENERATION_COLUMNS,
    UNSUPPORTED,
    AuditError,
    Completion,
    Features,
    Prompt,
    Status,
    Unsupported,
)
from markedness.results import Evaluation, metrics, not_estimated, score_table
from markedness.store import Store

Report = Callable[[str], None]


def _silent(sentence: str) -> None:
    """For who reads a corpus without telling anyone."""


REASONS_SAID = 20
"""Reasons of failures that the output names."""


class StageError(AuditError):
    """A stage returned something that breaks the contract, or has nothing to work on."""


def generator(params: Params, audit: str, stage: str, *more: str) -> np.random.Generator:
    """The seeded generator of one stage: the same for every model, so that all are asked the same."""
    label = "/".join((str(params.seed), audit, stage, *more))
    return np.random.default_rng(int.from_bytes(hashlib.sha256(label.encode()).digest()[:8], "big"))


# ---------------------------------------------------------------- generate


def generate(params: Params, audit: str, model: str, say: Report = tell) -> Counts:
    """Ask the model, or read its corpus, and write data/generations/<audit>/<model>.parquet."""
    store = Store(params.root)
    config = params.model(model)
    if isinstance(config, CorpusModel):
        rows = corpus_rows(params, store, audit, model, say)
        _say_unwatched(params, audit, model, say)
        store.write_table("generations", audit, model, rows)
        store.write_bytes(store.ledger_path(audit, model), b"")  # DVC expects the file of every model
        unsupported = int(rows["finish_reason"].eq(UNSUPPORTED).fillna(False).sum())
        counts = Counts(len(rows) - unsupported, len(rows) - unsupported, unsupported=unsupported)
    else:
        with ledgers.opened(params, audit, model, say) as ledger:
            try:
                asked, counts = asyncio.run(_ask(params, store, audit, model, ledger, say))
            except KeyboardInterrupt:
                say(f"{audit} {model}: interrupted; {len(ledger):,} answers are in the ledger, run again to go on")
                raise
            least = config.limits.min_coverage
            served: Counter[tuple[str | None, str | None]] = Counter()
            if counts.answered or not counts.failed:
                columns = _schema([prompt for prompts, _ in asked for prompt in prompts])
                store.write_rows("generations", audit, model, _all_rows(asked, least, served), columns)
                ledgers.write_slice(params, audit, model, ledger, [answers for _, answers in asked])
        if len(served) > 1:
            versions = ", ".join(f"{name} {mark} {times:,} times" for (name, mark), times in served.most_common(5))
            say(f"{audit} {model}: the server changed, it reports {len(served)} fingerprints: {versions}")
    say(
        f"{audit} {model}: {counts.requested:,} requested, {counts.answered:,} answered "
        f"({counts.from_ledger:,} of them from the ledger), {counts.failed:,} failed"
        + (f", {counts.unsupported:,} unsupported" if counts.unsupported else "")
    )
    if counts.empty:
        say(
            f"{audit} {model}: {counts.empty:,} answers were paid for but are empty ({counts.empty_from_ledger:,} of "
            "them earlier); they are in the ledger and not asked for again: raise max_tokens, or remove them by "
            f"'markedness ledger prune --model {model} --empty --yes'"
        )
    for reason, times in counts.reasons.most_common(REASONS_SAID):
        say(f"{audit} {model}: failed {times:,} times: {reason}")
    if len(counts.reasons) > REASONS_SAID:
        say(f"{audit} {model}: and for {len(counts.reasons) - REASONS_SAID} more reasons; see the column error")
    if counts.failed and not counts.answered:
        raise StageError(
            f"{audit} {model}: all {counts.failed:,} requests failed, so that nothing was written and earlier results "
            "stay; remove the cause named above and run again"
        )
    return counts


def corpus_rows(params: Params, store: Store, audit: str, model: str, say: Report = _silent) -> pd.DataFrame:
    """Texts that exist already, as generations; says which groups were found."""
    spec = audits.spec(audit)
    stage_params = params.stage(audit, "generate")
    source = params.model(model).source(audit)
    if source is None:
        return _unsupported(f"models.{model} names no texts for {audit}; add models.{model}.{audit}.path")
    axes = params.axes(audit)
    corpus = read_corpus(source, params.root, f"models.{model}.{audit}", axes, spec.corpus)
    rows = corpus.rows
    if spec.complete_corpus is not None:
        rows = spec.complete_corpus(rows, store.stimuli(audit), stage_params)
    for sentence in corpus.summary(rows["group"], axes):
        say(f"{audit} {model}: {sentence}")
    return rows


def _say_unwatched(params: Params, audit: str, model: str, say: Report) -> None:
    """DVC reruns a stage only for the files that dvc.yaml names: say so where a corpus is none of them."""
    source = params.model(model).source(audit)
    watched = params.root / "data" / "corpora" / "own"
    if source is None or "DVC_STAGE" not in os.environ or watched in (params.root / source.path).parents:
        return
    say(
        f"{audit} {model}: DVC does not watch {source.path}; after a change of it run 'dvc repro --force "
        f"generate@{audit}-{model}', or keep it under data/corpora/own"
    )


Rounds = list[tuple[Sequence[Prompt], Answers]]


def prompt_rounds(params: Params, store: Store, audit: str) -> Generator[list[Prompt], Any, None]:
    """The audit's rounds of prompts."""
    rng = generator(params, audit, "generate")
    return audits.spec(audit).prompts(store.stimuli(audit), params.stage(audit, "generate"), rng)


def _plans(params: Params, store: Store, audit: str, language_model: LanguageModel, ledger: Ledger) -> Iterator[Plan]:
    """The plan of each round; whoever takes the next one has seen to the answers of the one before."""
    rounds = prompt_rounds(params, store, audit)
    prompts = next(rounds, None)
    while prompts is not None:
        plan = Plan(language_model, prompts, ledger)
        yield plan
        try:
            prompts = rounds.send(Answers(plan))
        except StopIteration:
            return


def _complete(params: Params, store: Store, audit: str, language_model: LanguageModel, ledger: Ledger) -> bool:
    """Whether the ledger has every answer of every round."""
    return all(not len(plan.missing) for plan in _plans(params, store, audit, language_model, ledger))


async def _ask(
    params: Params, store: Store, audit: str, model: str, ledger: Ledger, say: Report
) -> tuple[Rounds, Counts]:
    """Drive the audit's rounds of prompts through the model and the ledger."""
    config = params.model(model)
    price = price_of(params, model)
    limits = config.limits
    if limits.max_cost is not None and price is None:
        raise ModelError(f"models.{model}.max_cost: the price of {config.priced_as} is unknown; add it under prices")
    meter = Meter(price, limits.max_requests, limits.max_cost)
    language_model = load_model(params, audit, model)
    counts = Counts()
    asked: Rounds = []
    try:
        ledgers.identify(language_model, ledger, lambda: _complete(params, store, audit, language_model, ledger), say)
        with Progress(f"{audit} {model}", say) as progress:
            for plan in _plans(params, store, audit, language_model, ledger):
                if not asked and not plan.known + plan.known_empty and isinstance(config, OpenAIModel):
                    ledgers.tell_others(config, model, ledger, say)
                await ask(plan, counts, retry=limits.retry, meter=meter, progress=progress)
                asked.append((plan.prompts, Answers(plan)))
    finally:
        await language_model.close()
    if not any(prompts for prompts, _ in asked):
        raise StageError(f"{audit}.generate: no prompts; check the groups and samples in {params.path.name}")
    return asked, counts


def price_of(params: Params, model: str) -> Price | None:
    """By the served model's name, or by the key in params.yaml; what has no price costs nothing."""
    name = params.model(model).priced_as
    return Price(input=0, output=0) if name is None else params.prices.get(name) or params.prices.get(model)


def forecast(params: Params, audit: str, model: str, say: Report = tell) -> None:
    """Say what generate would ask and what that would cost, before any request; no output is written."""
    store = Store(params.root)
    config = params.model(model)
    if isinstance(config, CorpusModel):
        say(f"{audit} {model}: 0 requests, the texts exist already")
        corpus_rows(params, store, audit, model, say)
        return
    language_model = load_model(params, audit, model)
    total = known = unsupported = tokens_in = tokens_out = number = 0
    with ledgers.opened(params, audit, model, say) as ledger:
        ledgers.recall(language_model, ledger, lambda: _complete(params, store, audit, language_model, ledger), say)
        for plan in _plans(params, store, audit, language_model, ledger):
            number += 1
            total, known = total + len(plan), known + plan.known + plan.known_empty
            unsupported += sum(plan.prompts[index].samples for index in plan.unsupported)
            for distinct in plan.missing:
                tokens = expected_tokens(plan.prompt(int(distinct)))
                tokens_in, tokens_out = tokens_in + tokens[0], tokens_out + tokens[1]
            if len(plan.missing):
                break
    price = price_of(params, model)
    money = "unknown" if price is None else f"at most {cost(price, tokens_in, tokens_out):,.4f}"
    say(f"{audit} {model}: {total:,} requests, {known:,} of them in the ledger, {total - known:,} to be asked")
    if unsupported:
        say(f"{audit} {model}: {unsupported:,} unsupported by this backend")
    say(
        f"{audit} {model}: about {tokens_in:,} tokens in (UTF-8 bytes / {BYTES_PER_TOKEN}), at most {tokens_out:,} out "
        f"(max_tokens of every request); cost {money}"
    )
    if known < total:
        say(f"{audit} {model}: up to round {number}; prompts of later rounds, if any, depend on its answers")


def _all_rows(
    asked: Rounds, min_coverage: float, served: Counter[tuple[str | None, str | None]]
) -> Iterator[dict[str, Any]]:
    """The rows of all rounds; counts in ``served`` which model and fingerprint answered."""
    for prompts, answers in asked:
        for prompt, completions in zip(prompts, answers, strict=True):
            served.update((one.model, one.fingerprint) for one in completions if one.error is None)
            yield from completion_rows(prompt, completions, min_coverage)


def completion_rows(
    prompt: Prompt, completions: Sequence[Completion], min_coverage: float = 0.0
) -> Iterator[dict[str, Any]]:
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
    """The columns of `completion_rows` and their types, known before the first row: the table is written in pieces."""
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
    """The model of one block of params.yaml, opened by its backend."""
    config = params.model(model)
    setting = Setting(model, params.root, params.seed, lambda name, strength: audits.spec(audit).rule(name, strength))
    return backend(config.backend).open(config, setting)


# ---------------------------------------------------------------- clean, featurize, evaluate


def clean(params: Params, audit: str, model: str, say: Report = tell) -> None:
    """Parse and label: data/responses/<audit>/<model>.parquet; no row is dropped."""
    store = Store(params.root)
    generations = store.read_table("generations", audit, model)
    if _all_unsupported(generations):
        responses = generations.assign(answer=None, status=Status.UNSUPPORTED.value)
    else:
        responses = audits.spec(audit).clean(generations, params.stage(audit, "clean"))
    if "status" not in responses or len(responses) < len(generations):
        raise StageError(f"{audit}.clean: dropped rows or wrote no status; a clean keeps every row")
    store.write_table("responses", audit, model, responses)
    shares = ", ".join(f"{count} {status}" for status, count in responses["status"].value_counts().items())
    say(f"{audit} {model}: {shares}")


def featurize(params: Params, audit: str, model: str, say: Report = tell) -> None:
    """Units of analysis: data/features/<audit>/<model>/; fitted models to models/<audit>/<model>/."""
    store = Store(params.root)
    responses = store.read_table("responses", audit, model)
    folder = store.models(audit, model)
    earlier = _own_files(folder)
    scores = ServiceScores(params, audit, model, say)
    made: Features | Unsupported = Unsupported(_reason(responses))
    if not _nothing_to_measure(responses):
        audit_spec, stage_params, stimuli = audits.spec(audit), params.stage(audit, "featurize"), store.stimuli(audit)
        if (featurize_scored := audit_spec.featurize_scored) is not None:
            made = featurize_scored(responses, stage_params, stimuli, scores)
        else:
            made = audit_spec.featurize(responses, stage_params, stimuli)
    scores.forget()
    fitted_files = [] if isinstance(made, Unsupported) else [*(f"{name}.skops" for name in made.models), *made.files]
    files = sorted(fitted_files)
    store.write_json(folder / "index.json", sorted({*earlier, *files}))  # a killed run leaves no file of unknown origin
    for name in earlier:
        (folder / name).unlink(missing_ok=True)
    store.write_features(audit, model, made)
    if isinstance(made, Unsupported):
        store.write_json(folder / "index.json", files)
        say(f"{audit} {model}: nothing to measure: {made.reason}")
        return
    for name, fitted in made.models.items():
        store.write_bytes(folder / f"{name}.skops", estimator_bytes(fitted))
    for name, content in made.files.items():
        store.write_bytes(folder / name, content)
    store.write_json(folder / "index.json", files)
    say(f"{audit} {model}: " + ", ".join(f"{len(table):,} {name}" for name, table in made.tables.items()))


def _own_files(folder: Path) -> list[str]:
    """The files of models/<audit>/<model> that an earlier featurize wrote; StageError names one that it did not."""
    found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())
    try:
        listed = set(json.loads((folder / "index.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):  # none, or not ours
        listed = set()
    strange = next((name for name in found if name not in {*listed, "index.json"} and not _unfinished(name)), None)
    if strange is not None:
        raise StageError(
            f"{folder / strange}: is not a file that featurize wrote, and featurize replaces this folder; move it to "
            "another one"
        )
    return [name for name in found if name != "index.json"]


def _unfinished(name: str) -> bool:
    """Whether this is a file that a killed run was writing."""
    return name.rpartition("/")[2].startswith(".")


def evaluate(params: Params, audit: str, model: str, say: Report = tell) -> bool:
    """Scores, tables and figures; returns whether there is a score with a number."""
    store = Store(params.root)
    spec = audits.spec(audit)
    features = store.read_features(audit, model)
    folder = store.results(audit, model)
    with store.renewed(folder, ("tables", "figures")) as new:
        if isinstance(features, Unsupported):
            made = Evaluation([not_estimated(key) for key in spec.headline], notes=[features.reason])
        else:
            rng = generator(params, audit, "evaluate")
            made = spec.evaluate(features.tables, params.stage(audit, "evaluate"), rng)
            made = replace(made, notes=[*features.notes, *made.notes])
        scores = score_table(made.scores, spec.headline)
        measured = any(np.isfinite(score.estimate) for score in made.scores)
        if not measured and _measured(folder):
            raise StageError(
                f"{audit} {model}: nothing could be measured ({'; '.join(made.notes[:1]) or 'no score has a number'}), "
                f"and the earlier results stay in {folder.relative_to(store.root)}; remove that folder to give them up"
            )
        for name, table in made.tables.items():
            store.write_csv(new / "tables" / f"{name}.csv", table)
        for name, content in made.files.items():
            store.write_bytes(new / "tables" / name, content)
        if made.figures:
            from markedness.reporting.figures import save

            for name, chart in made.figures.items():
                save(chart, new / "figures" / name)
        store.write_json(new / "notes.json", list(made.notes))
        store.write_table("estimates", audit, model, scores)
        store.write_csv(new / "scores.csv", scores)
        store.write_json(new / "metrics.json", metrics(made.scores, spec.headline))
    for note in made.notes:
        say(f"{audit} {model}: note: {note}")
    say(f"{audit} {model}: {len(made.tables)} tables, {len(scores)} scores in {folder.relative_to(store.root)}")
    return measured


def _measured(folder: Path) -> bool:
    """Whether the results in this folder have a score with a number."""
    try:
        metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):  # none yet, or of a killed run
        return False
    return isinstance(metrics, dict) and any(value is not None for value in metrics.values())


def run(params: Params, audit: str, model: str, say: Report = tell) -> bool:
    """All four stages; whatever an earlier run left is put back where this one ends without results.

    Returns
    -------
    bool
        Whether every request was answered and something was measured; an audit that the backend cannot serve is no
        failure.
    """
    store = Store(params.root)
    with _alone(store, audit, model, say), kept.earlier(store.kept(audit, model), _outputs(store, audit, model)):
        counts = generate(params, audit, model, say)
        clean(params, audit, model, say)
        featurize(params, audit, model, say)
        measured = evaluate(params, audit, model, say)
    if not measured and counts.answered:
        say(f"{audit} {model}: no score could be estimated; see the notes above")
    return not counts.failed and (measured or not counts.answered)


def stage(name: str, params: Params, audit: str, model: str, say: Report = tell) -> Any:
    """One stage by its name, while no other run works on this audit and model."""
    with _alone(Store(params.root), audit, model, say):
        return STAGES[name](params, audit, model, say)


@contextlib.contextmanager
def _alone(store: Store, audit: str, model: str, say: Report) -> Iterator[None]:
    """Keep other runs of this audit and model out; put back what a killed run had kept aside."""
    with store.locked(f"{audit} {model}"):
        if kept.left_over(store.kept(audit, model)):
            kept.put_back(store.kept(audit, model), _outputs(store, audit, model))
            say(f"{audit} {model}: a run was killed before it had results; the files of the one before are back")
        yield


def _outputs(store: Store, audit: str, model: str) -> dict[str, Path]:
    """What the four stages write for one audit and model."""
    places = {kind: store.table_path(kind, audit, model) for kind in ("generations", "responses", "estimates")}
    places |= {"features": store.features_path(audit, model), "results": store.results(audit, model)}
    return places | {"models": store.models(audit, model)}


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
