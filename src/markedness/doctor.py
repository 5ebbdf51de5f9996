"""`markedness doctor`: can this study be run? Files, prompts, prices, disk, and one test request per server."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd
import yaml

from markedness import generation
from markedness.credentials import hide
from markedness.lm import gguf
from markedness.lm.backends import OWN
from markedness.lm.base import Draw, LanguageModel, ModelError, RequestFailed, RetryLater
from markedness.lm.config import CorpusModel, OpenAIModel, ServerModel, TransformersModel
from markedness.lm.costs import price_of
from markedness.lm.local import LocalModel
from markedness.params import Params
from markedness.records import UNSUPPORTED, AuditError, Completion, Sampling
from markedness.store import Store
from markedness.text.languages import ENGLISH
from markedness.tracking_store import unfit

LITTLE_SPACE = 2_000_000_000
"""Bytes; fewer are a warning."""
NO_SPACE = 100_000_000
"""Bytes; fewer are a fault."""
SAMPLED_TEXTS = 40
"""Texts of a corpus whose language is looked at."""
MOSTLY_ENGLISH = 0.5
"""Share of words that an English dictionary knows, below which a corpus is said to be in another language."""
Level = Literal["ok", "warning", "fault"]


@dataclass(frozen=True)
class Finding:
    """One line of the answer."""

    level: Level
    subject: str
    """Place in params.yaml, or what was looked at."""
    sentence: str
    """What was found; of a warning or fault with the remedy."""

    def __str__(self) -> str:
        return f"{self.level:<8} {self.subject}: {self.sentence}"


def status(findings: Sequence[Finding]) -> int:
    """Exit status: 0 all is well, 1 with warnings, 2 with faults."""
    return max(({"ok": 0, "warning": 1, "fault": 2}[finding.level] for finding in findings), default=0)


def examine(params: Params, model: str | None = None) -> Iterator[Finding]:
    """Everything, of one model or of all that are run: first what needs no request, then one test request each."""
    names = [model] if model else list(params.run)
    for name in names:
        params.model(name)
    yield from without_requests(params, names)
    yield disk(params)
    for name in names:
        config = params.model(name)
        if isinstance(config, TransformersModel):
            yield _local(params, name, config)
    yield from asyncio.run(_test_requests(params, names))


def without_requests(params: Params, names: Sequence[str]) -> Iterator[Finding]:
    """What `params check` looks at beyond params.yaml: what DVC reads, MLflow's address, prices, stimuli, corpora."""
    yield from _for_dvc(params)
    if why := unfit(params.root):
        yield Finding("warning", "MLflow", why)
    for name in names:
        config = params.model(name)
        if isinstance(config, ServerModel):
            yield _price(params, name, config)
        elif isinstance(config, CorpusModel):
            yield from _corpora(params, name, config)
    if any(not isinstance(params.model(name), CorpusModel) for name in names):
        yield from (_prompts(params, audit) for audit in params.audits)


def _for_dvc(params: Params) -> Iterator[Finding]:
    """Keys that have a default, but without which 'dvc repro' stops, perhaps after hours: those that dvc.yaml names."""
    path = params.root / "dvc.yaml"
    if params.path.name != "params.yaml" or not path.is_file():
        return
    try:
        stages = (yaml.safe_load(path.read_bytes()) or {})["stages"]
        keys = ((key, name) for name, stage in reversed(stages.items()) for key in stage.get("params", ()))
        listed = {key: name for key, name in keys if isinstance(key, str)}  # the first stage that names a key
    except (yaml.YAMLError, LookupError, TypeError, AttributeError):
        return  # DVC says what is wrong with its file
    listed |= {key: "every audit and model" for key in ("audits", "run") if f"${{{key}}}" in str(stages)}
    defaults = {"seed": "0", "tolerated_failures": "0.0", "run": f"[{', '.join(params.run)}]"}
    places = {
        key.replace("${item.audit}", audit).replace("${item.model}", model): stage
        for key, stage in listed.items()
        for audit in params.audits
        for model in params.run
    }
    for place, stage in places.items():
        if not _is_written(params.raw, place.split(".")):
            default = "null" if "." in place else defaults.get(place, "{}")
            said = f"is left out, and 'dvc repro' stops without it (dvc.yaml: {stage}); write its default"
            yield Finding("fault", place, f"{said}, {place.split('.')[-1]}: {default}")


def _is_written(block: object, path: Sequence[str]) -> bool:
    """Whether a mapping holds the last key of a path, null included."""
    for key in path:
        if not isinstance(block, dict) or key not in block:
            return False
        block = block[key]
    return True


def _price(params: Params, name: str, config: ServerModel) -> Finding:
    price = price_of(config, name, params.prices)
    if price is not None:
        return Finding("ok", f"prices.{config.model}", f"{price.input:g} in, {price.output:g} out per million tokens")
    add = f"add 'prices: {{{config.model}: {{input: ..., output: ...}}}}'"
    if config.max_cost is not None:
        sentence = f"the price of {config.model} is unknown, so no cost can be kept below it; {add}, 0 if it is free"
        return Finding("fault", f"models.{name}.max_cost", sentence)
    if config.base_url is not None:
        return Finding("ok", f"models.{name}", "has no price, so its cost is reported as unknown")
    return Finding(
        "warning", f"models.{name}", f"the price of {config.model} is unknown; {add} to see costs beforehand"
    )


def _prompts(params: Params, audit: str) -> Finding:
    """The first round of an audit's prompts, which reads every stimulus it needs."""
    try:
        prompts = next(generation.prompt_rounds(params, Store(params.root), audit), None) or []
    except AuditError as error:
        return Finding("fault", audit, str(error))
    if not prompts:
        return Finding("fault", audit, f"no prompts; check the groups and samples in {params.path.name}")
    groups = {prompt.group for prompt in prompts if prompt.group}
    templates = {prompt.prompt_id for prompt in prompts}
    requests = sum(prompt.samples for prompt in prompts)
    named = f"{len(groups)} groups, " if groups else ""  # a request of annotation has texts of several
    sentence = f"{named}{len(templates):,} prompts, {requests:,} requests a model"
    return Finding("ok", audit, sentence + ("" if audit != "knowledge" else " in the first round"))


def _corpora(params: Params, name: str, config: CorpusModel) -> Iterator[Finding]:
    sources = {audit for audit in params.audits if config.source(audit) is not None}
    if not sources:
        yield Finding("fault", f"models.{name}", "names no texts for any audit of this study; add <audit>.path")
    for audit in sorted(sources):
        where = f"models.{name}.{audit}"
        try:
            rows = generation.corpus_rows(params, Store(params.root), audit, name)
        except AuditError as error:
            yield Finding("fault", where, str(error).removeprefix(where).lstrip(".: "))
            continue
        counts = rows["group"].value_counts()
        said = ", ".join(f"{group or 'no group'} {n:,}" for group, n in counts.head(8).items())
        more = f" and {len(counts) - 8} more groups" if len(counts) > 8 else ""
        yield Finding("ok", where, f"{len(rows):,} texts: {said}{more}")
        if params.language(audit) == ENGLISH and (found := _language(rows["text"])) is not None:
            yield Finding("warning", where, found)


def _language(texts: pd.Series) -> str | None:
    """A sentence where the texts are not in English, which the word lists and sentiment rules are made for."""
    from simplemma import in_target_language

    sample = " ".join(str(text)[:500] for text in texts.dropna().head(SAMPLED_TEXTS) if str(text).strip())
    if len(sample.split()) < 30:
        return None
    share = float(in_target_language(sample, lang=ENGLISH))
    if share >= MOSTLY_ENGLISH:
        return None
    return (
        f"an English dictionary knows only {share:.0%} of the words of the first texts; lexicons and sentiment are "
        "made for English: read those measures as not measured, and name the language of the audit (language: de), or "
        "set personas.featurize.tokens: unicode"
    )


def disk(params: Params) -> Finding:
    """Free space where the study is."""
    free = shutil.disk_usage(params.root).free
    level: Literal["ok", "warning", "fault"] = (
        "fault" if free < NO_SPACE else "warning" if free < LITTLE_SPACE else "ok"
    )
    remedy = "" if level == "ok" else "; free some, every answer is written to disk"
    return Finding(level, "disk", f"{free / 1e9:.1f} GB free{remedy}")


def _local(params: Params, name: str, config: TransformersModel) -> Finding:
    where = f"models.{name}"
    missing = [package for package in ("torch", "transformers") if importlib.util.find_spec(package) is None]
    if missing:
        return Finding("fault", where, f"needs {' and '.join(missing)}: pip install 'markedness[local]'")
    folder = params.root / config.path
    if config.gguf_package and (why := gguf.other(config.gguf_package, folder)):
        return Finding("fault", where, why)
    if (folder / "config.json").is_file():
        return _there(params, where, config)
    if config.gguf_package and gguf.find(config.gguf_package) is not None:
        return Finding("ok", where, f"is converted from {config.gguf_package} by the first run")
    if config.gguf_package:
        return Finding("fault", where, f"no weights in {config.path}; install {config.gguf_package} to convert them")
    if (params.root / config.path).exists():
        return Finding("fault", where, f"{config.path} holds no config.json; name the folder of a saved model")
    if LocalModel(config, params.root, params.seed).served_by:
        sentence = f"{config.path} is in the cache of the hub; the first run downloads what files it lacks"
        return Finding("ok", where, sentence)
    return Finding("warning", where, f"{config.path} is not a folder here; the first run downloads it from the hub")


def _there(params: Params, where: str, config: TransformersModel) -> Finding:
    version = gguf.source(params.root / config.path)[1]
    installed = gguf.find(config.gguf_package) if config.gguf_package else None
    if not version or installed is None or installed.version == version:
        return Finding("ok", where, f"weights in {config.path}")
    said = f"weights in {config.path} are of {installed.package} {version}, and {installed.version} is installed"
    return Finding("warning", where, f"{said}; name another path, or move the folder away, and that is converted")


# ---------------------------------------------------------------- servers


async def _test_requests(params: Params, names: Sequence[str]) -> list[Finding]:
    """All servers at the same time."""
    asked = []
    for name in names:
        config = params.model(name)
        if isinstance(config, OpenAIModel):
            asked.append(_test_request(params, name, config))
        elif config.backend not in OWN:
            asked.append(_test_draw(params, name, config.backend))
    return [finding for found in await asyncio.gather(*asked) for finding in found]


async def _test_draw(params: Params, name: str, backend: str) -> list[Finding]:
    """One draw of a model whose backend is of another package, as `markedness.lm.base.LanguageModel` promises it."""
    from markedness.lm.probe import MAX_TOKENS, probe_prompt

    where, prompt = f"models.{name}", probe_prompt(Sampling(max_tokens=MAX_TOKENS))
    model: LanguageModel | None = None
    started = time.monotonic()
    try:
        model = generation.load_model(params, params.audits[0], name)
        if (sentence := model.unsupported(prompt)) is not None:
            return [Finding("warning", where, f"answers no plain question: {sentence}")]
        (answer,) = await model.complete([Draw(prompt, 0, model.request(prompt), model.served_by)])
    except ModelError as error:
        return [Finding("fault", where, str(error).removeprefix(f"{where}: "))]
    except (RequestFailed, RetryLater) as error:
        return [Finding("fault", where, str(error))]
    except Exception as error:  # code of another package
        said = hide(f"{type(error).__name__}: {' '.join(str(error).split())}")[:300]
        return [Finding("fault", where, f"the package of the backend {backend} failed: {said}; tell its authors")]
    finally:
        if model is not None:
            await model.close()
    if answer.error is not None:
        return [Finding("warning", where, f"the test answer has no text: {answer.error}")]
    return [Finding("ok", where, f"the backend {backend} answers in {time.monotonic() - started:.1f} s")]


async def _test_request(params: Params, name: str, config: OpenAIModel) -> list[Finding]:
    from markedness.lm.openai_api import OpenAIServer
    from markedness.lm.probe import MAX_TOKENS, ask_once

    where = f"models.{name}"
    server = OpenAIServer(config, seed=params.seed)
    asked = "prompt_logprobs" if config.prompt_logprobs else "top_logprobs"
    candidates = ("ok", "no") if config.top_logprobs or config.prompt_logprobs else ()
    findings: list[Finding] = []
    try:
        key = "no key is sent" if server.endpoint.key is None else f"with the key in {config.key_variable}"
        started = time.monotonic()
        answer = await ask_once(server, server.endpoint, Sampling(max_tokens=MAX_TOKENS), candidates)
    except ModelError as error:
        return [Finding("fault", where, str(error).removeprefix(f"{server.endpoint.where}: "))]
    except RequestFailed as failed:
        level: Level = "warning" if failed.finish_reason == UNSUPPORTED else "fault"
        return [Finding(level, where, str(failed))]
    except RetryLater as later:
        return [Finding("fault" if later.cause == "unreachable" else "warning", where, str(later))]
    finally:
        await server.close()
    seconds = time.monotonic() - started
    findings.append(Finding("ok", where, f"{config.url} answers in {seconds:.1f} s, {key}{_served(config, answer)}"))
    if answer.finish_reason == UNSUPPORTED:
        findings.append(Finding("warning", f"{where}.{asked}", f"{answer.error}; the guise audit is unsupported"))
    elif answer.error is not None:
        sentence = f"the test answer has no text: {answer.error}; raise max_tokens if the model reasons first"
        findings.append(Finding("warning", where, sentence))
    elif candidates:
        findings.append(Finding("ok", f"{where}.{asked}", "token probabilities are served"))
    elif "guise" in params.audits:
        sentence = "is 0, so the guise audit is unsupported; set it (1 to 20) if the server serves token probabilities"
        findings.append(Finding("warning", f"{where}.top_logprobs", sentence))
    return findings


def _served(config: OpenAIModel, answer: Completion) -> str:
    return f"; it calls the model {answer.model}" if answer.model and answer.model != config.model else ""
