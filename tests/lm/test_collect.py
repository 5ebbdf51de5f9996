"""Asking: what is asked once, retried, given up, stopped, and how many at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from markedness.lm import run as asking
from markedness.lm.base import Draw, LanguageModel, ModelError, RequestFailed, RetryLater
from markedness.lm.collect import collect
from markedness.lm.config import Price, RetryPolicy
from markedness.lm.costs import BudgetTracker, cost, expected_tokens
from markedness.lm.ledger import Ledger
from markedness.lm.pace import AdaptiveLimiter
from markedness.lm.plan import Counts
from markedness.lm.progress import Progress
from markedness.lm.run import BudgetError
from markedness.records import Completion, Prompt, Sampling

QUICK = RetryPolicy(max_attempts=3, max_wait=0.01)


class ToyModel(LanguageModel):
    """Answers with the prompt's text and the sample; ``before`` may raise instead."""

    batch_size = 1
    concurrency = 4
    served_by = "toy"

    def __init__(self, before: Callable[[Draw, int], Any] = lambda draw, attempt: None) -> None:
        self.before = before
        self.asked: list[tuple[str, int]] = []

    def unsupported(self, prompt: Prompt) -> str | None:
        return "it scores nothing" if prompt.candidates else None

    def request(self, prompt: Prompt) -> dict[str, Any]:
        return {"model": "toy", "text": prompt.completion}

    async def probe(self, prompt: Prompt) -> None: ...

    async def complete(self, draws: Sequence[Draw]) -> list[Completion]:
        await asyncio.sleep(0)
        answers = []
        for draw in draws:
            name = draw.prompt.text, draw.sample
            self.asked.append(name)
            answer = self.before(draw, self.asked.count(name))
            answers.append(answer or Completion(text=f"{name[0]} {name[1]}", prompt_tokens=10, completion_tokens=5))
        return answers

    async def close(self) -> None: ...


def prompts(n: int, samples: int = 2) -> list[Prompt]:
    return [
        Prompt("p", f"g{i}", completion=f"text {i}", samples=samples, sampling=Sampling(max_tokens=20))
        for i in range(n)
    ]


def gather(model: Any, asked: list[Prompt], path: Path, **options: Any) -> tuple[list[list[Completion]], Counts]:
    counts = Counts()
    with Ledger(path) as ledger:
        answers = list(asyncio.run(collect(model, asked, ledger, counts, retry=QUICK, **options)))
    assert counts.requested == counts.answered + counts.failed
    return answers, counts


def test_collect_answers_in_order_and_a_second_run_asks_nothing(tmp_path: Path) -> None:
    for batch_size in (1, 3):
        model = ToyModel()
        model.batch_size = batch_size
        path = tmp_path / f"{batch_size}.jsonl"
        first, counts = gather(model, prompts(5), path)
        assert [[answer.text for answer in row] for row in first] == [[f"text {i} 0", f"text {i} 1"] for i in range(5)]
        assert (counts.requested, counts.answered, counts.from_ledger) == (10, 10, 0)
        again, counts = gather(model, prompts(5), path)
        assert again == first and counts.from_ledger == 10 and len(model.asked) == 10


def test_collect_same_request_of_two_groups_is_asked_once(tmp_path: Path) -> None:
    twice = [Prompt("p", group, completion="same", samples=2) for group in ("a", "b")]
    model = ToyModel()
    answers, counts = gather(model, twice, tmp_path / "m.jsonl")
    assert sorted(model.asked) == [("same", 0), ("same", 1)]
    assert answers[0] == answers[1] and (counts.requested, counts.answered) == (4, 4)


def test_collect_after_429_retries_until_it_is_answered(tmp_path: Path) -> None:
    def busy(draw: Draw, attempt: int) -> None:
        if draw.sample == 1 and attempt < 3:
            raise RetryLater("HTTP 429", retry_after=0.001)

    model = ToyModel(busy)
    answers, counts = gather(model, prompts(1), tmp_path / "m.jsonl")
    assert answers[0][1].text == "text 0 1"
    assert model.asked.count(("text 0", 1)) == 3 and counts.failed == 0


def test_collect_request_that_waits_gives_its_place_to_others(tmp_path: Path) -> None:
    def fails_first(draw: Draw, attempt: int) -> None:
        if draw.prompt.group == "g0" and attempt == 1:
            raise RetryLater("HTTP 500", retry_after=0.05)

    model = ToyModel(fails_first)
    model.concurrency = 1
    counts = Counts()
    with Ledger(tmp_path / "m.jsonl") as ledger:
        asyncio.run(collect(model, prompts(5, 1), ledger, counts))
    assert [text for text, _ in model.asked] == ["text 0", "text 1", "text 2", "text 3", "text 4", "text 0"]
    assert counts.answered == 5


def test_collect_requests_that_wait_are_not_without_number(tmp_path: Path) -> None:
    most = 0

    def fails(draw: Draw, attempt: int) -> None:
        nonlocal most
        tasks = len(asyncio.all_tasks())
        most = max(most, tasks)
        raise RetryLater("HTTP 500")

    _, counts = gather(ToyModel(fails), prompts(60), tmp_path / "m.jsonl")
    assert counts.failed == 120 and most <= 3 * ToyModel.concurrency + 2


def test_collect_attempts_run_out_with_the_reason(tmp_path: Path) -> None:
    def down(draw: Draw, attempt: int) -> None:
        if draw.sample == 1:
            raise RetryLater("HTTP 503: down")

    model = ToyModel(down)
    answers, counts = gather(model, prompts(1), tmp_path / "m.jsonl")
    assert answers[0][1] == Completion(error="HTTP 503: down (3 attempts)")
    assert counts.failed == 1 and counts.reasons == {"HTTP 503: down (3 attempts)": 1}


def test_collect_failed_request_is_not_retried_and_is_asked_again_by_the_next_run(tmp_path: Path) -> None:
    def refuse(draw: Draw, attempt: int) -> None:
        if draw.sample == 0 and attempt == 1:
            raise RequestFailed("HTTP 400: no")

    model = ToyModel(refuse)
    answers, counts = gather(model, prompts(1), tmp_path / "m.jsonl")
    assert (answers[0][0].error, counts.failed) == ("HTTP 400: no", 1)
    answers, counts = gather(model, prompts(1), tmp_path / "m.jsonl")
    assert (answers[0][0].text, counts.failed, counts.from_ledger) == ("text 0 0", 0, 1)


def test_collect_unsupported_prompt_is_counted_apart_and_not_asked(tmp_path: Path) -> None:
    model = ToyModel()
    asked = [*prompts(1), Prompt("q", "g", completion="x", candidates=("a",), samples=3)]
    answers, counts = gather(model, asked, tmp_path / "m.jsonl")
    assert [answer.finish_reason for answer in answers[1]] == ["unsupported"] * 3
    assert (counts.requested, counts.unsupported, len(model.asked)) == (2, 3, 2)


def test_collect_bug_in_a_backend_is_not_swallowed(tmp_path: Path) -> None:
    def bug(draw: Draw, attempt: int) -> None:
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError):
        gather(ToyModel(bug), prompts(3), tmp_path / "m.jsonl")


def test_collect_fault_of_one_request_keeps_what_is_in_flight_and_asks_no_more(tmp_path: Path) -> None:
    class Faulty(ToyModel):
        async def complete(self, draws: Sequence[Draw]) -> list[Completion]:
            if draws[0].prompt.text != "text 1":
                await asyncio.sleep(0.05)  # still in flight when the fault comes
            return await super().complete(draws)

    def fault(draw: Draw, attempt: int) -> None:
        if draw.prompt.text == "text 1":
            raise ZeroDivisionError

    model = Faulty(fault)
    with pytest.raises(ZeroDivisionError):
        gather(model, prompts(40, samples=1), tmp_path / "m.sqlite")
    assert len(model.asked) == model.concurrency
    with Ledger(tmp_path / "m.sqlite") as ledger:
        assert len(ledger) == model.concurrency - 1


def test_collect_dead_server_is_given_up_and_all_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "GIVE_UP_AFTER", 6)

    def dead(draw: Draw, attempt: int) -> None:
        raise RequestFailed("HTTP 401: bad key", cause="key")

    model = ToyModel(dead)
    answers, counts = gather(model, prompts(50), tmp_path / "m.jsonl")
    assert counts.failed == 100 and len(model.asked) < 12
    assert str(answers[-1][-1].error).startswith(
        "not asked: 6 requests in a row failed for the same reason: HTTP 401: bad key"
    )


def test_collect_max_requests_stops_and_the_next_run_goes_on(tmp_path: Path) -> None:
    model = ToyModel()
    path = tmp_path / "m.jsonl"
    for batch_size, known in ((1, 0), (2, 4)):
        model.batch_size = batch_size
        with pytest.raises(BudgetError, match=r"max_requests reached: stopped after 4 requests .*not asked"):
            gather(model, prompts(5), path, meter=BudgetTracker(max_requests=4))
        with Ledger(path) as ledger:
            assert len(ledger) == known + 4
    _, counts = gather(model, prompts(5), path, meter=BudgetTracker(max_requests=2))
    assert (counts.from_ledger, counts.answered, len(set(model.asked))) == (8, 10, 10)
    gather(model, prompts(5), path, meter=BudgetTracker(max_requests=0))


def test_collect_max_cost_is_never_passed(tmp_path: Path) -> None:
    # A request is reported as 10 tokens in, 5 out: 10 * 1 + 5 * 2 = 20 millionths; at most it is
    # ceil(6 / 4) * 1 + 20 * 2 = 42 millionths. With 105: 3 are spent (60), 60 + 42 <= 105 allows a 4th (80),
    # 80 + 42 does not allow a 5th.
    model = ToyModel()
    meter = BudgetTracker(Price(input=1, output=2), max_cost=105e-6)
    with pytest.raises(BudgetError, match="max_cost reached: stopped after 4 requests"):
        gather(model, prompts(5), tmp_path / "m.jsonl", meter=meter)
    assert meter.spent == pytest.approx(80e-6)


@pytest.mark.parametrize(("inward", "outward"), [(0.15, 0.6), (2.5, 10.0), (0.1, 0.3)])
def test_budget_of_exactly_n_requests_allows_n(inward: float, outward: float) -> None:
    prompt = Prompt("p", "g", completion="Say this", sampling=Sampling(max_tokens=80))
    for n in (7, 99, 100, 600):
        price = Price(input=inward, output=outward)
        meter = BudgetTracker(price, max_cost=n * cost(price, *expected_tokens(prompt)))
        asked = 0
        while meter.allows([prompt]):
            meter.ask(prompt)
            meter.settle(prompt, Completion(text="x", prompt_tokens=2, completion_tokens=80))
            asked += 1
        assert asked == n


def test_collect_many_workers_and_a_slow_ledger_keep_every_answer(tmp_path: Path) -> None:
    model = ToyModel()
    model.concurrency = 64
    answers, counts = gather(model, prompts(300, 3), tmp_path / "m.jsonl")
    assert counts.answered == 900
    assert all(answer.text == f"text {i} {j}" for i, row in enumerate(answers) for j, answer in enumerate(row))


# ---------------------------------------------------------------- pace


class Server:
    """A server in simulated time: ``rate`` answers a second at most, 429 above ``capacity`` in flight."""

    def __init__(self, rate: float = 1e9, capacity: int = 10**9, latency: float = 0.05) -> None:
        self.rate, self.capacity, self.latency = rate, capacity, latency

    def run(self, pace: AdaptiveLimiter, clock: list[float], windows: int) -> list[int]:
        limits = []
        for _ in range(windows):
            places = int(pace.limit)
            if places > self.capacity:
                pace.pushed_back(None)
            served = max(1, min(places, self.capacity))
            latency = max(self.latency, served / self.rate)
            for _ in range(served):
                clock[0] += latency / served
                pace.answered(latency)
            limits.append(int(pace.limit))
        return limits


def make_pace(least: int = 1, most: int = 256) -> tuple[AdaptiveLimiter, list[float]]:
    clock = [0.0]
    return AdaptiveLimiter(least, most, clock=lambda: clock[0]), clock


def test_pace_fast_server_is_given_the_most(tmp_path: Path) -> None:
    pace, clock = make_pace()
    assert Server().run(pace, clock, 6)[-1] == 256


def test_pace_slowed_server_is_not_given_more_than_it_gains_from() -> None:
    # 400 answers a second at 0.05 s take 20 places; a latency twice as long comes with 40.
    pace, clock = make_pace()
    limits = Server(rate=400).run(pace, clock, 300)
    assert 15 <= sum(limits[-100:]) / 100 <= 60


def test_pace_pushing_server_keeps_it_near_its_capacity_within_the_limits() -> None:
    pace, clock = make_pace()
    limits = Server(capacity=30).run(pace, clock, 200)
    assert 15 <= sum(limits[-100:]) / 100 <= 32
    pace, clock = make_pace(least=8)
    assert min(Server(capacity=2).run(pace, clock, 50)) == 8


def test_pace_leaves_a_server_alone_for_as_long_as_it_asks() -> None:
    async def wait() -> float:
        clock = asyncio.get_running_loop().time
        pace = AdaptiveLimiter(1, 4)
        started = clock()
        pace.pushed_back(0.05)
        await pace.place()
        return clock() - started

    assert asyncio.run(wait()) >= 0.05


# ---------------------------------------------------------------- progress


def test_progress_in_a_log_is_plain_lines_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("markedness.lm.progress.EVERY", 0.0)
    said: list[str] = []
    with Progress("toy model", said.append, terminal=False) as progress:
        progress.show(3, 1_000, 2, 1, "0.0100 spent")
    assert said[0].startswith("toy model: 3 of 1,000, ") and said[0].endswith("1 failed, 0.0100 spent")


def test_progress_on_a_terminal_is_a_bar_and_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []
    with Progress("toy model", said.append, terminal=True) as progress:
        progress._next = 0.0
        progress.show(3, 1_000, 2, 1, "cost unknown")
    assert said == []


def test_collect_a_backend_that_gives_too_few_answers_is_named_and_the_others_are_kept(tmp_path: Path) -> None:
    class Short(ToyModel):
        concurrency = 1

        async def complete(self, draws: Sequence[Draw]) -> list[Completion]:
            made = await super().complete(draws)
            return made if len(self.asked) < 3 else []

    with Ledger(tmp_path / "l.sqlite") as ledger:
        with pytest.raises(ModelError, match="the backend Short owes a Completion for each of 1 prompts"):
            asyncio.run(collect(Short(), prompts(4, 1), ledger, counts := Counts()))
        assert counts.answered == 2
