"""Generate as it runs: the audit's rounds of prompts, the model or corpus that answers, the ledger, the table."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from markedness import audits, ledgers, reads, unwatched
from markedness.leanings import own
from markedness.lm import served_by
from markedness.lm.backends import Setting, backend
from markedness.lm.base import LanguageModel
from markedness.lm.collect import ask
from markedness.lm.config import CorpusModel, ModelConfig, OpenAIModel, ScriptedModel, ServerModel
from markedness.lm.corpus import content_order, read_corpus
from markedness.lm.costs import BYTES_PER_TOKEN, BudgetTracker, cost, expected_tokens, price_of
from markedness.lm.ledger import DIGEST, Ledger
from markedness.lm.plan import Answers, Counts, Plan
from markedness.lm.progress import Progress, Report, tell
from markedness.params import Params
from markedness.records import FILE_ROW, UNSUPPORTED, AuditError, Completion, Prompt
from markedness.store import Store
from markedness.tables import completion_rows, generation_schema, unsupported_generations
from markedness.text.languages import COLUMN


def _silent(sentence: str) -> None:
    """Report nothing: for reading a corpus to check it."""


REASONS_SAID = 20
"""Reasons of failures that the output names."""


class StageError(AuditError):
    """A stage returned something that breaks the contract, or has nothing to work on."""


def generator(params: Params, audit: str, stage: str, *more: str) -> np.random.Generator:
    """The seeded generator of one stage: the same for every model, so that all are asked the same."""
    return own(params.seed, audit, stage, *more)


@reads.recorded()
def generate(params: Params, audit: str, model: str, say: Report = tell) -> Counts:
    """Ask the model, or read its corpus, and write data/generations/<audit>/<model>.parquet."""
    store = Store(params.root)
    config = params.model(model)
    unwatched.look_for_named(params, audit, model, "generate")
    if isinstance(config, CorpusModel):
        rows = corpus_rows(params, store, audit, model, say)
        store.write_table("generations", audit, model, rows)
        store.write_bytes(store.ledger_path(audit, model), b"")  # DVC expects the file of every model
        counts = _of_corpus(rows)
    else:
        with ledgers.opened(params, audit, model, say) as ledger:
            try:
                asked, counts = asyncio.run(ask_rounds(params, audit, model, ledger, say))
            except KeyboardInterrupt:
                say(f"{audit} {model}: interrupted; {len(ledger):,} answers are in the ledger, run again to go on")
                raise
            served: Counter[tuple[str | None, str | None]] = Counter()
            if counts.answered or not counts.failed:
                columns = generation_schema([prompt for prompts, _ in asked for prompt in prompts]) | {COLUMN: str}
                rows_of_all = _all_rows(asked, served, params.language(audit))
                store.write_rows("generations", audit, model, rows_of_all, columns)
                ledgers.write_slice(params, audit, model, ledger, [answers for _, answers in asked])
        _say_other_models(config, f"{audit} {model}", served, say)
        if len(served) > 1:
            versions = ", ".join(f"{name} {mark} {times:,} times" for (name, mark), times in served.most_common(5))
            say(f"{audit} {model}: the server changed, it reports {len(served)} fingerprints: {versions}")
    unwatched.tell(params, audit, model, "generate", say)
    say_counts(f"{audit} {model}", model, counts, say)
    if counts.failed and not counts.answered and not counts.of_log:
        raise StageError(
            f"{audit} {model}: all {counts.failed:,} requests failed, so that nothing was written and earlier results "
            "stay; remove the cause named above and run again"
        )
    return counts


def _of_corpus(rows: pd.DataFrame) -> Counts:
    """What a corpus has: texts, and failures with what the log says of them."""
    unsupported = rows["finish_reason"].eq(UNSUPPORTED).fillna(False)
    errors = rows.loc[~unsupported, "error"].dropna()
    requested = int((~unsupported).sum())
    counts = Counts(requested, requested - len(errors), len(errors), unsupported=int(unsupported.sum()), of_log=True)
    for reason, times in errors.value_counts().items():
        counts.because(" ".join(str(reason).split())[:300], int(times))
    return counts


def say_counts(title: str, model: str, counts: Counts, say: Report) -> None:
    """How the asking ended: counts, answers without a text, reasons of failures."""
    say(
        f"{title}: {counts.requested:,} requested, {counts.answered:,} answered "
        f"({counts.from_ledger:,} of them from the ledger), {counts.failed:,} failed"
        + (f", {counts.unsupported:,} unsupported" if counts.unsupported else "")
    )
    if counts.empty:
        say(
            f"{title}: {counts.empty:,} answers came without a text, paid for but empty or withheld by a filter "
            f"({counts.empty_from_ledger:,} of them earlier); they are in the ledger and not asked for again: raise "
            f"max_tokens where it is used up, or remove them by 'markedness ledger prune --model {model} --empty --yes'"
        )
    for reason, times in counts.reasons.most_common(REASONS_SAID):
        say(f"{title}: failed {times:,} times: {reason}")
    if len(counts.reasons) > REASONS_SAID:
        say(
            f"{title}: and for {len(counts.reasons) - REASONS_SAID} more reasons; generate has them in the column error"
        )


def _say_other_models(
    config: ModelConfig, title: str, served: Counter[tuple[str | None, str | None]], say: Report
) -> None:
    """Name the models that answered though another was asked."""
    if not isinstance(config, ServerModel):
        return
    others = Counter[str]()
    for (name, _), times in served.items():
        if name and served_by.is_other_model(config.model, name):
            others[name] += times
    for name, times in others.most_common(5):
        say(f"{title}: {config.model} was asked, but the server reports for {times:,} answers that {name} gave them")


def corpus_rows(params: Params, store: Store, audit: str, model: str, say: Report = _silent) -> pd.DataFrame:
    """Texts that exist already, as generations; says which groups were found.

    The order of rows in the file does not matter: they are put into one that their content decides, since stages number
    rows and draws go by them.
    """
    spec = audits.spec(audit)
    stage_params = params.stage(audit, "generate", model)
    source = params.model(model).source(audit)
    if source is None:
        return unsupported_generations(f"models.{model} names no texts for {audit}; add models.{model}.{audit}.path")
    axes = params.axes(audit)
    corpus = read_corpus(source, params.root, f"models.{model}.{audit}", axes, spec.corpus)
    order = content_order(corpus.rows, axes)
    rows = corpus.rows.iloc[order].reset_index(drop=True)
    rows[FILE_ROW] = order
    rows["sample"] = rows.groupby(["prompt_id", "group"], sort=False, dropna=False).cumcount()
    if spec.complete_corpus is not None:
        rows = spec.complete_corpus(rows, store.stimuli(audit, params.language(audit)), stage_params)
    groups = rows["group"].set_axis(pd.Index(order[rows.index])).sort_index()
    for sentence in corpus.summary(groups, axes):
        say(f"{audit} {model}: {sentence}")
    return rows.reset_index(drop=True).assign(**{COLUMN: params.language(audit)})


Rounds = list[tuple[Sequence[Prompt], Answers]]


def prompt_rounds(params: Params, store: Store, audit: str, model: str = "") -> Generator[list[Prompt], Any, None]:
    """The audit's rounds of prompts, as a model is asked them."""
    rng = generator(params, audit, "generate")
    stimuli = store.stimuli(audit, params.language(audit))
    return audits.spec(audit).prompts(stimuli, params.stage(audit, "generate", model), rng)


def plans(
    params: Params, store: Store, audit: str, language_model: LanguageModel, ledger: Ledger, model: str = ""
) -> Iterator[Plan]:
    """The plan of each round; whoever takes the next one has seen to the answers of the one before."""
    rounds = prompt_rounds(params, store, audit, model)
    prompts = next(rounds, None)
    while prompts is not None:
        plan = Plan(language_model, prompts, ledger)
        yield plan
        try:
            prompts = rounds.send(Answers(plan))
        except StopIteration:
            return


def _complete(
    params: Params, store: Store, audit: str, language_model: LanguageModel, ledger: Ledger, model: str
) -> bool:
    """Whether the ledger has every answer of every round."""
    return all(not len(plan.missing) for plan in plans(params, store, audit, language_model, ledger, model))


async def ask_rounds(
    params: Params, audit: str, model: str, ledger: Ledger, say: Report, terminal: bool | None = None
) -> tuple[Rounds, Counts]:
    """Drive the audit's rounds of prompts through the model and the ledger; ``terminal`` as in `Progress`."""
    store, config = Store(params.root), params.model(model)
    meter = BudgetTracker.of(config, model, params.prices)
    language_model = load_model(params, audit, model)
    meter.sends_candidates = language_model.sends_candidates
    counts = Counts()
    asked: Rounds = []
    told = False
    complete = partial(_complete, params, store, audit, language_model, ledger, model)
    try:
        ledgers.identify(language_model, ledger, complete, say)
        with Progress(f"{audit} {model}", say, terminal) as progress:
            for plan in plans(params, store, audit, language_model, ledger, model):
                if not told and len(plan.missing) and not isinstance(config, ScriptedModel):
                    ledgers.tell_absent(params, audit, model, ledger, say)
                    told = True
                if not asked and not plan.known + plan.known_empty and isinstance(config, OpenAIModel):
                    ledgers.tell_others(plan, model, say)
                await ask(plan, counts, retry=config.limits.retry, meter=meter, progress=progress)
                asked.append((plan.prompts, Answers(plan)))
    finally:
        await language_model.close()
    if not any(prompts for prompts, _ in asked):
        raise StageError(f"{audit}.generate: no prompts; check the groups and samples in {params.path.name}")
    return asked, counts


@dataclass(frozen=True)
class Forecast:
    """What generate would ask."""

    total: int = 0
    """Requests of the rounds that are known."""
    known: int = 0
    """Of these, in the ledger."""
    tokens_in: int = 0
    tokens_out: int = 0
    """At most."""
    money: str = "0"
    rounds: int = 0
    later_rounds: bool = False
    """Whether there may be rounds that depend on answers."""


def forecast(params: Params, audit: str, model: str, say: Report = tell) -> Forecast:
    """Report what generate would ask and what it would cost; nothing is asked or written."""
    store = Store(params.root)
    config = params.model(model)
    if isinstance(config, CorpusModel):
        say(f"{audit} {model}: 0 requests, the texts exist already")
        corpus_rows(params, store, audit, model, say)
        return Forecast()
    language_model = load_model(params, audit, model)
    total = known = unsupported = tokens_in = tokens_out = number = under_way = 0
    with ledgers.opened(params, audit, model, say) as ledger:
        handed_over = {key for facts in ledger.batches().values() for key in facts.get("keys", ())}
        complete = partial(_complete, params, store, audit, language_model, ledger, model)
        ledgers.recall(language_model, ledger, complete, say)
        for plan in plans(params, store, audit, language_model, ledger, model):
            number += 1
            total, known = total + len(plan), known + plan.known + plan.known_empty
            unsupported += sum(plan.prompts[index].samples for index in plan.unsupported)
            for distinct in plan.missing:
                if plan.keys[distinct : distinct + 1].tobytes().hex() in handed_over:
                    under_way += int(plan.copies[distinct])
                    continue
                tokens = expected_tokens(plan.prompt(int(distinct)), language_model.sends_candidates)
                tokens_in, tokens_out = tokens_in + tokens[0], tokens_out + tokens[1]
            if len(plan.missing):
                if not isinstance(config, ScriptedModel):
                    ledgers.tell_absent(params, audit, model, ledger, say)
                break
    price = price_of(config, model, params.prices)
    money = "unknown" if price is None else f"at most {cost(price, tokens_in, tokens_out):,.4f}"
    say(f"{audit} {model}: {total:,} requests, {known:,} of them in the ledger, {total - known:,} to be asked")
    if under_way:
        say(
            f"{audit} {model}: {under_way:,} of these were handed over to the Batch endpoint earlier: their answers "
            "are fetched and nothing is paid for them again; tokens and cost are of the rest"
        )
    if unsupported:
        say(f"{audit} {model}: {unsupported:,} unsupported by this backend")
    say(
        f"{audit} {model}: about {tokens_in:,} tokens in (UTF-8 bytes / {BYTES_PER_TOKEN}), at most {tokens_out:,} out "
        f"(max_tokens of every request); cost {money}"
    )
    if known < total:
        say(f"{audit} {model}: up to round {number}; prompts of later rounds, if any, depend on its answers")
    return Forecast(total, known, tokens_in, tokens_out, money, number, known < total)


def needed(params: Params, model: str, ledger: Ledger) -> np.ndarray:
    """Keys of what the params ask a model for, shape (n,), in no order.

    Of later rounds those that follow from the answers that are there. Where the weights of a local model are not, those
    of all weights that answered.
    """
    store, keys = Store(params.root), [np.empty(0, dtype=DIGEST)]
    for audit in () if isinstance(params.model(model), CorpusModel) else params.audits:
        asked = load_model(params, audit, model)
        for who in [asked.served_by] if asked.served_by else list(ledger.served_by()):
            asked.served_by = who
            for plan in plans(params, store, audit, asked, ledger, model):
                keys.append(plan.keys)
                plan.failures |= dict.fromkeys(plan.missing.tolist(), Completion(error="not asked"))
    return np.concatenate(keys)


def _all_rows(asked: Rounds, served: Counter[tuple[str | None, str | None]], language: str) -> Iterator[dict[str, Any]]:
    """The rows of all rounds; counts in ``served`` which model and fingerprint answered."""
    for prompts, answers in asked:
        for prompt, completions in zip(prompts, answers, strict=True):
            served.update((one.model, one.fingerprint) for one in completions if one.error is None)
            yield from (row | {COLUMN: language} for row in completion_rows(prompt, completions))


def load_model(params: Params, audit: str, model: str) -> LanguageModel:
    """The model of one block of params.yaml, opened by its backend."""
    config = params.model(model)
    setting = Setting(model, params.root, params.seed, lambda *control: audits.spec(audit).rule(*control))
    return backend(config.backend).open(config, setting)
