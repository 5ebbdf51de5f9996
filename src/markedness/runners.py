"""The questions of an audit as files for other runners: JSON Lines, and a task of Inspect that asks them.

An answer goes back through ``backend: corpus``; what is needed to read it is in the metadata of its question.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from markedness import audits
from markedness.files import write_file
from markedness.generation import prompt_rounds
from markedness.lm.progress import Report, tell
from markedness.params import Params
from markedness.records import AuditError, Prompt, Sampling
from markedness.store import Store

TASK = '''\
"""Written by 'markedness export stimuli': the questions of {audit}, to be asked by Inspect."""

from pathlib import Path

from inspect_ai import Task, task
from inspect_ai.dataset import json_dataset
from inspect_ai.model import GenerateConfig
from inspect_ai.solver import generate


@task
def {audit}() -> Task:
    """Every question, as often as params.yaml asks for; there is nothing to score."""
    return Task(
        dataset=json_dataset(str(Path(__file__).with_name("{audit}.jsonl"))),
        solver=generate(),
        epochs={samples},
        config=GenerateConfig(temperature={temperature}, top_p={top_p}, max_tokens={max_tokens}),
    )
'''


def export_stimuli(params: Params, audit: str, folder: Path, base: bool = False, say: Report = tell) -> list[Path]:
    """Write the questions of an audit as params.yaml asks them.

    Parameters
    ----------
    params
        The params; ``<audit>.generate`` says how much is asked.
    audit
        Its name.
    folder
        Gets ``<audit>.jsonl``, one question a line: id, input (turns of a chat, or the text that a base model
        continues), metadata (template, group, axes and what else the audit reads), samples (answers wanted) and, where
        continuations are scored, candidates. Where the answers are texts, ``<audit>_task.py`` too.
    base
        For a base model: ``input`` is the text to continue.

    Raises
    ------
    AuditError
        Of an audit whose questions depend on the answers to earlier ones.
    """
    spec = audits.spec(audit)
    if spec.asks_again:
        raise AuditError(
            f"{audit} makes its questions from the answers to earlier ones, so that there is no list of them; ask with "
            "backend: openai or transformers, or read finished texts with backend: corpus"
        )
    prompts = next(prompt_rounds(params, Store(params.root), audit), [])
    lines = [json.dumps(line, ensure_ascii=False) + "\n" for line in questions(prompts, base)]
    written = [folder / f"{audit}.jsonl"]
    write_file(written[0], "".join(lines))
    say(f"{written[0]}: {len(lines):,} questions, {sum(prompt.samples for prompt in prompts):,} answers wanted")
    asked = {(prompt.sampling, prompt.samples) for prompt in prompts}
    if spec.corpus.required != ("text",) or len(asked) != 1:
        say(
            f"{audit}: no task of Inspect is written: a task asks for texts, all with the same sampling; ask the "
            f"questions of {written[0]} with a script of your own"
        )
        return written
    sampling, samples = asked.pop()
    written.append(folder / f"{audit}_task.py")
    write_file(written[1], _task(audit, sampling, samples))
    say(f"{written[1]}: ask with 'inspect eval {written[1]} --model MODEL', then read the logs in params.yaml:")
    say(_source(params, audit, prompts))
    return written


def questions(prompts: Sequence[Prompt], base: bool = False) -> Iterator[dict[str, object]]:
    """One question a line; see `export_stimuli`."""
    seen = Counter[tuple[str, str]]()
    for prompt in prompts:
        place = (prompt.prompt_id, prompt.group)
        seen[place] += 1
        turns = [{"role": turn.role, "content": turn.content} for turn in prompt.messages]
        scored = {"candidates": list(prompt.candidates)} if prompt.candidates else {}
        yield {
            "id": f"{prompt.prompt_id}/{prompt.group}/{seen[place]}",
            "input": (prompt.completion or prompt.text) if base or not turns else turns,
            "metadata": {"prompt_id": prompt.prompt_id, "group": prompt.group, **prompt.columns},
            "samples": prompt.samples,
            **scored,
        }


def _task(audit: str, sampling: Sampling, samples: int) -> str:
    return TASK.format(
        audit=audit, samples=samples, temperature=sampling.temperature, top_p=sampling.top_p,
        max_tokens=sampling.max_tokens,
    )  # fmt: skip


def _source(params: Params, audit: str, prompts: Sequence[Prompt]) -> str:
    """The model in params.yaml that reads the logs of the task."""
    known = {"prompt_id", *prompts[0].columns} if prompts else {"prompt_id"}
    wanted = [name for name in (*audits.spec(audit).corpus.optional, *params.axes(audit)) if name in known]
    own = Store(params.root).corpora().relative_to(params.root) / "own"
    source = {
        "path": f"{own.as_posix()}/*.eval",
        "format": "inspect",
        "columns": {name: f"metadata.{name}" for name in dict.fromkeys(wanted)},
    }
    return yaml.safe_dump({"models": {"my-log": {"backend": "corpus", audit: source}}}, sort_keys=False)
