"""Local models beyond one device: the batches of a plan go through Ray Data to workers with one model each.

The cluster is the one that RAY_ADDRESS names, or this machine. A worker is given the batches that one process would
compute, and a draw brings its own seed, so the answers are those of one process; they enter the same ledger as they
arrive, and a killed run loses at most the batches in flight.

Each worker loads the model once for every ``BATCHES_AT_ONCE`` batches of a round. A model's folder must be readable on
every node under the same path; a hub id needs nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

import numpy as np
from pydantic import TypeAdapter

from markedness.lm.base import Draw, ModelError, RequestFailed
from markedness.lm.config import TransformersModel
from markedness.lm.local import LocalModel
from markedness.lm.run import Run
from markedness.records import Completion

BATCHES_AT_ONCE = 1024
"""Batches handed to Ray together: bounds the driver's memory."""
CPU_SHARE = 0.5
"""What a worker claims of Ray's CPUs: two workers that claim one each leave none for Ray's own tasks on two cores."""
RESTARTS = 3
"""How often Ray starts a worker again that died, for want of memory as a rule; its own default is without end."""

T = TypeVar("T")

_DRAWS = TypeAdapter(list[Draw])
_ANSWERS = TypeAdapter(list[Completion])


class ClusterRun(Run):
    """The asking of one plan on Ray workers."""

    async def ask(self, missing: np.ndarray) -> None:
        """Hand the batches over and record the answers as they come, in whatever order."""
        assert isinstance(self.model, LocalModel)
        self.model.prepare()  # here, once: not by every worker
        ray = _ray()
        batches = self._batches(missing)
        left = len(missing)
        while some := list(islice(self._within_budget(batches), BATCHES_AT_ONCE)):
            asked = datetime.now(UTC)
            answered = self._answers(ray, self.model, [[draw for _, draw in batch] for batch in some])
            while (done := await _next(answered)) is not None:
                place, answers = done
                for (distinct, draw), answer in zip(some[place], answers, strict=True):
                    self.meter.settle(draw.prompt, answer)
                    self.plan.record(distinct, draw, answer, asked, self.counts)
                left -= len(answers)
                self.show()
        if left:
            raise self.stopped(left)

    def _within_budget(self, batches: Iterator[list[tuple[int, Draw]]]) -> Iterator[list[tuple[int, Draw]]]:
        for batch in batches:
            prompts = [draw.prompt for _, draw in batch]
            if not self.meter.allows(prompts):
                return
            for prompt in prompts:
                self.meter.ask(prompt)
            yield batch

    def _answers(
        self, ray: Any, model: LocalModel, batches: list[list[Draw]]
    ) -> Iterator[tuple[int, list[Completion]]]:
        """The place of each batch and its answers."""
        rows = [{"place": place, "draws": _DRAWS.dump_json(draws)} for place, draws in enumerate(batches)]
        settings = model.config.model_dump(), str(model.root.resolve()), model.seed
        on_device = {"num_gpus": 1} if model.config.device.startswith("cuda") else {}
        answered = ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(
            Worker,
            fn_constructor_args=settings,
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=model.config.workers),
            num_cpus=CPU_SHARE,
            max_restarts=RESTARTS,
            max_task_retries=RESTARTS,
            **on_device,
        )
        try:
            for block in answered.iter_batches(batch_size=None, batch_format="numpy", prefetch_batches=0):
                for place, answers in zip(block["place"], block["answers"], strict=True):
                    yield int(place), _ANSWERS.validate_json(answers)
        except ray.exceptions.RayError as error:
            cause = error.cause if isinstance(error, ray.exceptions.RayTaskError) else error
            reason = (str(cause).strip().splitlines() or [type(cause).__name__])[-1]
            raise ModelError(f"{model.config.path}: a Ray worker failed: {reason}") from error


async def _next(answered: Iterator[T]) -> T | None:
    """The next of the iterator, or None; in a thread that an interrupted run does not wait for, as for asyncio's.

    A worker may load its model for minutes before it answers.
    """
    result: Future[T | None] = Future()

    def work() -> None:
        try:
            found = next(answered, None)
            if not result.cancelled():
                result.set_result(found)
        except BaseException as error:  # whatever it is, the run raises it, if it still waits
            if not result.cancelled():
                result.set_exception(error)

    Thread(target=work, daemon=True).start()
    try:
        return await asyncio.wrap_future(result)
    except asyncio.CancelledError:
        logging.getLogger("ray.data").setLevel(logging.CRITICAL + 1)  # its threads have much to say of an early end
        raise


class Worker:
    """One model in one Ray worker."""

    def __init__(self, config: Mapping[str, Any], root: str, seed: int) -> None:
        self.model = LocalModel(TransformersModel(**config), Path(root), seed)

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, Any]:
        """Answer one batch of draws."""
        answers = []
        for draws in map(_DRAWS.validate_json, batch["draws"]):
            try:
                answers.append(_ANSWERS.dump_json(self.model.answer(draws)))
            except RequestFailed as error:
                failed = Completion(finish_reason=error.finish_reason, error=str(error))
                answers.append(_ANSWERS.dump_json([failed] * len(draws)))
        return {"place": batch["place"], "answers": answers}


def _ray() -> Any:
    """Ray, connected to the cluster that RAY_ADDRESS names or started on this machine."""
    os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")  # nothing starts it anew while it ends
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise ModelError(
            "more than one worker needs Ray, which is not installed; install it with pip install 'markedness[cluster]' "
            "or set workers: 1"
        ) from error
    if not ray.is_initialized():
        here = {} if "RAY_ADDRESS" in os.environ else {"include_dashboard": False}
        ray.init(log_to_driver=False, logging_level=logging.WARNING, **here)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False  # ours stands already
    context.max_consecutive_actor_init_deaths = 0  # of a worker that dies while it loads, after as many restarts
    logging.getLogger("ray.data").setLevel(logging.WARNING)
    return ray
