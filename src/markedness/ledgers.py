"""The ledgers of a study: one database per model, entered from and written to the slices under data/ledger."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from markedness.credentials import carries_a_secret, hide
from markedness.files import atomic
from markedness.lm import served_by, slices
from markedness.lm.base import LanguageModel
from markedness.lm.config import CorpusModel, ModelConfig, OpenAIModel, ScriptedModel, TransformersModel
from markedness.lm.database import LedgerError
from markedness.lm.ledger import DIGEST, Ledger, summary
from markedness.lm.local import LocalModel
from markedness.lm.plan import Answers, Plan
from markedness.lm.progress import Report, tell
from markedness.params import Params
from markedness.store import Store
from markedness.working_tree import main_tree

FAULTS_SHOWN = 10
"""Rows that cannot be read and are named one by one."""
NOTHING = bytes.fromhex("d41d8cd98f00b204e9800998ecf8427e")
"""`slices.digest` of an empty slice."""
WEIGHTS_TRIED = 5
"""Sets of weights whose answers are looked through where the weights are not here."""


@contextmanager
def opened(params: Params, audit: str, model: str, say: Report = tell, part: str = "") -> Iterator[Ledger]:
    """The ledger of one model, with the slice of this audit entered.

    For generate, and for a featurize that asks a judge. A scorer or judge is a `markedness.lm.base.LanguageModel` like
    any other: its `request` is the whole request, its `served_by` the URL. So a stage asks it, with the ledger,
    retries and budget of `collect`, and leaves its own slice data/ledger/<audit>/<model>.judge.jsonl::

        with ledgers.opened(params, audit, model, say, part="judge") as ledger:
            answers = asyncio.run(collect(judge, prompts, ledger, counts))
            ledgers.write_slice(params, audit, model, ledger, [answers], part="judge")

    ``answers`` is read from the open ledger: use it within the block.
    """
    store, config = Store(params.root), params.model(model)
    path = store.ledger_path(audit, model, part)
    with Ledger(store.ledger_database(model)) as ledger:
        ledger.enroll()
        entered = slices.enter(ledger, path, _adopt(config))
        shown = path.relative_to(params.root)
        if entered.unknown and not isinstance(config, ScriptedModel):  # asking a rule again costs nothing
            raise LedgerError(
                f"{shown}: {entered.unknown:,} answers are of version 0.1, which does not say who gave them; if it was "
                f"{_server(config)}, run 'markedness ledger import {shown} --model {model}', else move the file away"
            )
        if not part and path.exists() and not path.stat().st_size:  # that of a judge is empty where none was asked
            say(
                f"{shown}: is empty, so that no answer is taken from it; where some were paid for, fetch it again "
                "('dvc checkout' or 'dvc pull') before they are asked for once more"
            )
        _say_faults(entered.faults, str(shown), say)
        yield ledger
        for fault in ledger.faults[:FAULTS_SHOWN]:
            say(fault)


def write_slice(
    params: Params, audit: str, model: str, ledger: Ledger, answers: Iterable[Answers], part: str = ""
) -> None:
    """Write the slice of these answers: a new file, so that one that DVC links to its cache is never written to."""
    path = Store(params.root).ledger_path(audit, model, part)
    keys = [one.keys for one in answers]
    with atomic(path) as written:
        slices.write(ledger, written, np.concatenate(keys) if keys else np.empty(0, dtype=DIGEST))
        ledger.note_entered(slices.digest(written))


def identify(model: LanguageModel, ledger: Ledger, complete: Callable[[], bool], say: Report = tell) -> None:
    """Find out who serves a local model; its weights are fetched only where the ledger alone does not suffice.

    Parameters
    ----------
    complete
        Whether the ledger has all that is asked, given ``model.served_by``.
    """
    if not model.served_by and not recall(model, ledger, complete, say):
        model.fetch(say)


def recall(model: LanguageModel, ledger: Ledger, complete: Callable[[], bool], say: Report = tell) -> bool:
    """Where the weights of a local model are not here: whether the ledger has all answers from one set of weights."""
    if model.served_by:
        return False
    for who in [one for one in ledger.served_by() if model.may_be(one)][:WEIGHTS_TRIED]:
        model.served_by = who
        if complete():
            say(f"the weights are not here: all answers are taken from the ledger, as given by {who}")
            return True
    model.served_by = ""
    return False


def tell_absent(params: Params, audit: str, model: str, ledger: Ledger, say: Report = tell, part: str = "") -> None:
    """Where dvc.lock names a slice that never came here, as after a `dvc pull` that failed or was forgotten."""
    path = Store(params.root).ledger_path(audit, model, part)
    shown = path.relative_to(params.root).as_posix()
    lock, here = params.root / "dvc.lock", slices.digest(path) if path.exists() else None
    try:
        content = yaml.safe_load(lock.read_bytes()) if lock.is_file() else None
    except (OSError, ValueError, yaml.YAMLError):  # a merge has left its marks in it
        say(f"dvc.lock: cannot be read, so that nothing says whether answers to {shown} are still to be fetched")
        return
    if all(one == here or ledger.has_entered(one) for one in _locked(content, shown)):
        return
    which = "is not the one that dvc.lock names, which was never here" if here else "is named by dvc.lock and not here"
    say(
        f"{shown}: {which}, so that no answer is taken from it; stop, and fetch it ('dvc pull {shown}'), where its "
        "answers shall not be paid for once more"
    )


def _locked(content: object, shown: str) -> Iterator[bytes]:
    """Hashes that dvc.lock, or a part of it, names for a file; of an empty one there is nothing to fetch."""
    if isinstance(content, dict) and content.get("path") == shown:
        with suppress(ValueError):
            if (found := bytes.fromhex(str(content.get("md5")))) != NOTHING:
                yield found
    elif isinstance(content, dict | list):
        for part in content.values() if isinstance(content, dict) else content:
            yield from _locked(part, shown)


def tell_others(plan: Plan, model: str, say: Report = tell) -> None:
    """Where the ledger has no answer that is asked for: who answered the same, and is not taken for this server.

    A judge's server is none of them: it was asked other questions.
    """
    asked, here = plan.model, plan.model.served_by
    for who in [one for one in plan.ledger.served_by() if one != here][:WEIGHTS_TRIED]:
        asked.served_by = who
        if count := Plan(asked, plan.prompts, plan.ledger).known:
            say(
                f"{model}: the ledger has {count:,} of these answers by {who}, which are not used for {here}; if both "
                f"serve the same model, set models.{model}.served_by to {who}"
            )
    asked.served_by = here


# ---------------------------------------------------------------- what `markedness ledger` does


def status(params: Params, say: Report = tell) -> None:
    """Report what each model's ledger holds, who answered, and how much of it each audit uses."""
    store = Store(params.root)
    for model in params.models:
        path = store.ledger_database(model)
        if not path.exists():
            continue
        with Ledger(path) as ledger:
            first, last = ledger.span()
            days = f", {first[:10]} to {last[:10]}" if first and last else ""
            size = sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*") if file.is_file())
            say(f"{model}: {len(ledger):,} answers, {size / 1e6:,.1f} MB{days}")
            if empty := ledger.count_empty():
                say(f"  {empty:,} of them without a text")
            for who, count in ledger.served_by().items():
                say(f"  {count:,} answered by {hide(who)}")
            for name, facts in ledger.batches().items():
                say(f"  batch {name} under way since {facts.get('at', 'an unknown time')}")
            for fault in ledger.faults:
                say(fault)
        for file in _slices(store, model):
            if found := summary(file):
                there = slices.length(file)
                damaged = "" if there == found.answers else f", which is damaged: it has {there:,} lines"
                say(f"  {found.answers:,} used by {file.relative_to(params.root)}{damaged}")
            elif file.exists() and not (file.is_file() and not file.stat().st_size):  # empty where nothing was asked
                say(f"  {file.relative_to(params.root)} cannot be read")


def enter(params: Params, model: str, file: Path, who: str | None = None, say: Report = tell) -> int:
    """Enter a slice, or a ledger of version 0.1, whose answers are taken as given by ``who``; how many were faulty.

    Parameters
    ----------
    who
        Who answered where the file does not say; None: whoever serves the model now.
    """
    if not file.is_file():
        fault = "is no file" if file.exists() else "no such file"
        raise LedgerError(f"{file}: {fault}; name a slice, such as data/ledger/personas/{model}.jsonl")
    config, store = params.model(model), Store(params.root)
    if isinstance(config, ScriptedModel | CorpusModel):
        raise LedgerError(
            f"{model}: its backend is {config.backend}, which asks nobody; import into a model that is asked"
        )
    if who is not None and carries_a_secret(who):
        raise LedgerError(
            "--served-by: looks like a credential; it would stand in every answer: name the server plainly"
        )
    if who is None and isinstance(config, TransformersModel):
        who = LocalModel(config, params.root, params.seed).served_by
    elif who is None and isinstance(config, OpenAIModel):
        who = _server(config)
    with Ledger(store.ledger_database(model)) as ledger:
        before = len(ledger)
        entered = slices.enter(ledger, file, lambda request: who or None)
        if entered.unknown:
            raise LedgerError(
                f"{file}: {entered.unknown:,} answers do not say who gave them, and the weights of {model} are not "
                "here; say it with --served-by, in the words of 'markedness ledger status'"
            )
        ledger.note_entered(slices.digest(file))  # what is faulty in it stays so
        new = len(ledger) - before
        known = entered.rows - new
        there = f"; {known:,} were there, and of two answers to one request the earlier is kept" if known else ""
        say(f"{model}: {new:,} new answers, {len(ledger):,} in all{there}")
    _say_faults(entered.faults, str(file), say)
    return len(entered.faults)


def _say_faults(faults: Sequence[str], where: str, say: Report) -> None:
    for fault in faults[:FAULTS_SHOWN]:
        say(fault)
    if len(faults) > FAULTS_SHOWN:
        say(f"{where}: and {len(faults) - FAULTS_SHOWN:,} more lines cannot be read")


def prune(
    params: Params,
    model: str,
    yes: bool,
    say: Report = tell,
    empty: bool = False,
    needed: Sequence[Callable[[Ledger], np.ndarray]] = (),
) -> None:
    """Remove the answers that no slice of the study uses and its params do not ask for; without ``yes`` say how many.

    Parameters
    ----------
    empty
        Remove in their place those without a text: the next generate asks for them again.
    needed
        Each gives the keys of what the params ask for: what ``fill`` or a run that was stopped brought is in no slice.
    """
    store = Store(params.root)
    trees = {params.root, main_tree(params.root)}
    path = store.ledger_database(model)
    if not path.exists():
        raise LedgerError(f"{model}: has no ledger here; 'markedness ledger status' lists those there are")
    with Ledger(path) as ledger:
        if empty:
            removed = ledger.drop_empty() if yes else ledger.count_empty()
            done = "removed; the next generate asks for them again" if yes else "found; run with --yes to remove them"
            say(f"{model}: {removed:,} answers without a text {done}")
            return
        used = [slices.keys(file) for tree in trees for file in _slices(Store(tree), model)]
        keys = np.unique(np.concatenate([np.empty(0, dtype=DIGEST), *used, *(of(ledger) for of in needed)]))
        if yes:
            say(f"{model}: {ledger.keep(keys):,} answers removed, {len(ledger):,} kept")
            return
        count = len(ledger)
        kept = int(ledger.find(keys).sum())
    say(
        f"{model}: {count - kept:,} of {count:,} answers are in none of {len(used)} slices under data/ledger, and not "
        f"what {params.path.name} asks for; other branches and experiments may use them, and would pay for them again: "
        "run with --yes to remove them"
    )


def _slices(store: Store, model: str) -> list[Path]:
    """The slices of one model that are in this working tree."""
    folder = store.ledger_path("audit", model).parents[1]
    return sorted([*folder.glob(f"*/{model}.jsonl"), *folder.glob(f"*/{model}.*.jsonl")])


def _server(config: ModelConfig) -> str:
    """Who answers today, in words."""
    if isinstance(config, OpenAIModel):
        return config.served_by or served_by.server(config.url)
    place = config.path if isinstance(config, TransformersModel) else f"the backend {config.backend}"
    return f"the model that is now in {place}"


def _adopt(config: ModelConfig) -> slices.Adopt:
    """Version 0.1 says of the models of the hub alone who answered, where they were pinned to a commit."""

    def adopt(request: Mapping[str, Any]) -> str | None:
        revision = str(request.get("revision") or "")
        if not isinstance(config, TransformersModel) or not re.fullmatch("[0-9a-f]{40}", revision):
            return None
        return served_by.hub(config.path, revision) if request.get("model") == config.path else None

    return adopt
