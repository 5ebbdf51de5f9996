"""The draws of a round of prompts, which of them the ledger has, and their answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import overload

import numpy as np

from markedness.lm.base import Draw, LanguageModel, draw_keys
from markedness.lm.ledger import DIGEST, Ledger
from markedness.records import UNSUPPORTED, Completion, Prompt

MOST_REASONS = 100
"""Different reasons of failures that are kept apart."""


@dataclass
class Counts:
    """What a run asked for: requested = answered + failed, always."""

    requested: int = 0
    answered: int = 0
    failed: int = 0
    from_ledger: int = 0
    """Of the answered, those that were paid for earlier."""
    empty: int = 0
    """Of the failed, those that were answered without a text (`markedness.records.Completion.empty`)."""
    empty_from_ledger: int = 0
    """Of the empty, those that were paid for earlier; they were not asked for again."""
    unsupported: int = 0
    """Beside the requested: what the backend cannot serve and was not asked."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Why requests failed."""
    of_log: bool = False
    """The answers are those of a log: no further run can ask again for what failed."""

    def tolerated(self, share: float) -> bool:
        """Whether no more than this share failed, or what failed cannot be asked again."""
        return self.of_log or self.failed <= share * self.requested

    def because(self, reason: str, times: int) -> None:
        """Note why requests failed."""
        known = reason in self.reasons or len(self.reasons) < MOST_REASONS
        self.reasons[reason if known else "other reasons"] += times


class Plan:
    """The draws of one round of prompts: which are the same, which the ledger has.

    Kept as arrays, so that a million draws take some 60 MB.
    """

    def __init__(self, model: LanguageModel, prompts: Sequence[Prompt], ledger: Ledger) -> None:
        self.model = model
        self.served_by = model.served_by
        self.prompts = prompts
        self.ledger = ledger
        self.unsupported: dict[int, str] = {}
        """Place of a prompt -> why it is not asked."""
        digests = bytearray()
        sizes = []
        for index, prompt in enumerate(prompts):
            if reason := model.unsupported(prompt):
                self.unsupported[index] = reason
                sizes.append(0)
                continue
            samples = range(prompt.first_sample, prompt.first_sample + prompt.samples)
            digests += draw_keys(self.served_by, model.request(prompt), samples)
            sizes.append(prompt.samples)
        self.starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        """Shape (n_prompts + 1,): where each prompt's draws begin."""
        self.keys, self.first, self.unique, self.copies = np.unique(
            np.frombuffer(bytes(digests), dtype=DIGEST), return_index=True, return_inverse=True, return_counts=True
        )
        scored = np.array([1 if one.perplexity else len(one.candidates) for one in prompts], dtype=np.int64)
        self.scored = scored[self._prompt(self.first)]
        """Of each distinct draw: how many ln probabilities it asks for."""
        self.found, self.empty = ledger.look_up(self.keys, self.scored)
        """Of each distinct draw: whether the ledger has its answer; whether that is without a text."""
        self.failures: dict[int, Completion] = {}
        """Distinct draw -> how it ended without an answer."""

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def known(self) -> int:
        """Draws whose answer the ledger has."""
        return int(self.copies[self.found & ~self.empty].sum())

    @property
    def known_empty(self) -> int:
        """Draws of which the ledger has that they were answered without a text."""
        return int(self.copies[self.empty].sum())

    def count(self, counts: Counts) -> None:
        """Count all draws as requested, and those that the ledger has."""
        counts.unsupported += sum(self.prompts[index].samples for index in self.unsupported)
        counts.requested += len(self)
        self._count_found(np.arange(len(self.keys)), counts)

    def _count_found(self, draws: np.ndarray, counts: Counts) -> None:
        found, empty = draws[self.found[draws] & ~self.empty[draws]], draws[self.empty[draws]]
        new = int(self.copies[found].sum())
        counts.answered += new
        counts.from_ledger += new
        for distinct in empty:
            copies = int(self.copies[distinct])
            counts.failed += copies
            counts.empty += copies
            counts.empty_from_ledger += copies
            counts.because(str(self.read(int(distinct)).error), copies)

    @property
    def missing(self) -> np.ndarray:
        """Distinct draws neither answered nor failed, in the order of the prompts; of length for a batch backend."""
        missing = np.flatnonzero(~self.found)
        missing = missing[~np.isin(missing, list(self.failures))]
        order = self.first[missing]
        if self.model.batch_size > 1:
            lengths = np.array([len(prompt.text) for prompt in self.prompts], dtype=np.int64)
            return missing[np.lexsort((order, lengths[self._prompt(order)]))]
        return missing[np.argsort(order)]

    def _prompt(self, draws: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.starts, draws, side="right") - 1

    def prompt(self, distinct: int) -> Prompt:
        """The prompt behind one distinct key."""
        return self.prompts[int(self._prompt(self.first[distinct]))]

    def draw(self, distinct: int) -> Draw:
        """The draw behind one distinct key."""
        place = int(self.first[distinct])
        index = int(self._prompt(self.first[distinct]))
        prompt = self.prompts[index]
        sample = prompt.first_sample + place - int(self.starts[index])
        return Draw(prompt, sample, self.model.request(prompt), self.served_by)

    def read(self, distinct: int) -> Completion:
        """The answer that the ledger has to one distinct draw."""
        return self.ledger.read(self.keys[distinct : distinct + 1].tobytes())

    def record(self, distinct: int, draw: Draw, answer: Completion, asked: datetime, counts: Counts) -> None:
        """Put an answer into the ledger, one without a text included, or keep why there is none."""
        copies = int(self.copies[distinct])
        if answer.error is None or answer.empty:
            try:
                self.ledger.append(draw, answer, asked)
                self.found[distinct] = True
            except ValueError as error:
                answer = Completion(error=str(error))
        if answer.error is None:
            counts.answered += copies
            return
        if answer.empty:
            self.empty[distinct] = True
            counts.empty += copies
        self.failures[distinct] = answer
        if answer.finish_reason == UNSUPPORTED:
            counts.unsupported += copies
            counts.requested -= copies
        else:
            counts.failed += copies
            counts.because(str(answer.error), copies)

    def claim(self, missing: np.ndarray, counts: Counts) -> tuple[np.ndarray, np.ndarray]:
        """Reserve these distinct draws; those to be asked here, and those that another process is asking."""
        ours = self.ledger.claim(self.keys[missing])
        self.look_again(missing, counts)  # another process may have answered some since the plan was made
        still = ~self.found[missing]
        if not still.any():
            self.ledger.release()
        return missing[ours & still], missing[~ours & still]

    def look_again(self, missing: np.ndarray, counts: Counts) -> None:
        """Take what other processes have answered meanwhile."""
        self.found[missing], self.empty[missing] = self.ledger.look_up(self.keys[missing], self.scored[missing])
        self._count_found(missing, counts)


class Answers(Sequence[list[Completion]]):
    """The completions of each prompt of a round, in order; read from the (open) ledger when they are looked at."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def __len__(self) -> int:
        return len(self._plan.prompts)

    @property
    def keys(self) -> np.ndarray:
        """Keys of all that was answered or paid for, type `DIGEST`, each once."""
        keys: np.ndarray = self._plan.keys[self._plan.found]
        return keys

    @overload
    def __getitem__(self, index: int) -> list[Completion]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[Completion]]: ...
    def __getitem__(self, index: int | slice) -> list[Completion] | list[list[Completion]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        plan, index = self._plan, range(len(self))[index]
        if reason := plan.unsupported.get(index):
            return [Completion(finish_reason=UNSUPPORTED, error=reason)] * plan.prompts[index].samples
        return [self._read(int(plan.unique[i])) for i in range(plan.starts[index], plan.starts[index + 1])]

    def _read(self, distinct: int) -> Completion:
        return self._plan.read(distinct) if self._plan.found[distinct] else self._plan.failures[distinct]
