"""Services and judges that featurize asks: one ledger, one way of asking, one slice that DVC shares."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence

import numpy as np

from markedness import audits, ledgers
from markedness.lm import served_by
from markedness.lm.backends import Setting, backend
from markedness.lm.base import Draw, LanguageModel
from markedness.lm.collect import ask
from markedness.lm.config import OpenAIModel, RetryPolicy, ScriptedModel, TransformersModel
from markedness.lm.costs import BudgetTracker, cost, expected_tokens, price_of
from markedness.lm.ledger import DIGEST, Ledger
from markedness.lm.moderation import ModerationServer, read_score
from markedness.lm.plan import Answers, Counts, Plan
from markedness.lm.progress import Progress, tell
from markedness.lm.redaction import Redaction
from markedness.params import Params
from markedness.records import Completion, Message, Prompt, Sampling
from markedness.results import JUDGE
from markedness.store import Store
from markedness.text_scores import Judgments, Questions, ScoringService, TextScore, text_prompts

PART = "judge"
"""Of the slice's name: data/ledger/<audit>/<model>.judge.jsonl."""


class ServiceScores:
    """A `markedness.text_scores.TextScorer` of one audit of one model."""

    def __init__(self, params: Params, audit: str, model: str, say: Callable[[str], None] = tell) -> None:
        self.params = params
        self.audit = audit
        self.model = model
        self.say = say
        self._answers: list[Answers] = []
        """Of every service and judge that this run asked: the slice holds them all."""
        self._told = False
        self.requested = 0
        """Questions to all of them."""
        self.failed = 0
        """Of these, how many failed and are asked again by the next run."""

    def forget(self) -> None:
        """Leave an empty slice where this run asked nothing; what an earlier one holds is entered into the ledger."""
        path = Store(self.params.root).ledger_path(self.audit, self.model, PART)
        if self._answers or (path.exists() and not path.stat().st_size):
            return
        if path.exists():
            with ledgers.opened(self.params, self.audit, self.model, self.say, part=PART):
                pass
        Store(self.params.root).write_bytes(path, b"")

    def __call__(self, service: ScoringService, texts: Sequence[str]) -> list[TextScore]:
        """Ask for what the ledger lacks; see `markedness.text_scores.TextScorer`."""
        different = list(dict.fromkeys(texts))
        prompts = text_prompts(different)
        server = ModerationServer(service, f"{self.audit}.featurize.toxicity")
        meter = BudgetTracker(max_requests=service.max_requests)
        answers = self._asked(server, prompts, meter, RetryPolicy(), f"texts to {service.place}", "scored")
        scores = dict(zip(different, map(read_score, answers), strict=True))
        return [scores[text] for text in texts]

    def judge(self, model: str, questions: Sequence[Prompt]) -> Judgments:
        """Ask for what the ledger lacks; see `markedness.text_scores.TextScorer`."""
        config = self.params.model(model)
        different = _different(questions)
        judge = _opened(self.params, self.audit, model)
        meter = BudgetTracker.of(config, model, self.params.prices)
        answers = self._asked(
            judge, different, meter, config.limits.retry, f"questions to the judge {model}", "answered"
        )
        said = {(one.messages, one.completion): answer for one, answer in zip(different, answers, strict=True)}
        name = JUDGE if self._is_audited(model) else f"judge {model}: {_identity(judge, different)}"
        return Judgments(name, [said[one.messages, one.completion] for one in questions])

    def _is_audited(self, judge: str) -> bool:
        """Whether the judge is the model whose texts it reads, under its own key or another."""
        if judge == self.model:
            return True
        one, other = self.params.model(judge), self.params.model(self.model)
        if isinstance(one, OpenAIModel) and isinstance(other, OpenAIModel):
            return one.model == other.model and bool(_servers(one) & _servers(other))
        if isinstance(one, TransformersModel) and isinstance(other, TransformersModel):
            places = [(self.params.root / config.path).resolve() for config in (one, other)]
            same = places[0] == places[1] and (places[0].is_dir() or one.revision == other.revision)
            return same or (one.gguf_package is not None and one.gguf_package == other.gguf_package)
        return one == other and not isinstance(one, ScriptedModel)  # a rule that judges is a control

    def _asked(
        self,
        server: LanguageModel,
        prompts: list[Prompt],
        meter: BudgetTracker,
        retry: RetryPolicy,
        what: str,
        done: str,
    ) -> list[Completion]:
        """One answer per prompt; the slice then has those of all that this run asked."""
        counts, title = Counts(), f"{self.audit} {self.model}"
        with ledgers.opened(self.params, self.audit, self.model, self.say, part=PART) as ledger:
            ledgers.identify(server, ledger, lambda: not len(Plan(server, prompts, ledger).missing), self.say)
            plan = Plan(server, prompts, ledger)
            if missing := len(plan.missing):
                if not self._told:
                    ledgers.tell_absent(self.params, self.audit, self.model, ledger, self.say, PART)
                    self._told = True
                self.say(f"{title}: asking {missing:,} {what}; {plan.known:,} are in the ledger{_withheld(plan)}")

            async def ask_all() -> list[Completion]:
                try:
                    with Progress(f"{title} scores", self.say) as progress:
                        await ask(plan, counts, retry=retry, meter=meter, progress=progress)
                finally:
                    await server.close()
                made = Answers(plan)
                self._answers.append(made)
                ledgers.write_slice(self.params, self.audit, self.model, ledger, self._answers, part=PART)
                return [one for (one,) in made]

            answers = asyncio.run(ask_all())
        self.requested += counts.requested
        self.failed += counts.failed - counts.empty
        self.say(
            f"{title}: {counts.requested:,} {what}: {counts.answered:,} {done} "
            f"({counts.from_ledger:,} of them from the ledger), {counts.failed:,} missing"
        )
        if counts.empty:
            self.say(
                f"{title}: {counts.empty:,} of the missing were answered without a score or withheld "
                f"({counts.empty_from_ledger:,} of them earlier); they are in the ledger and not asked for again: "
                f"{_ask_again(self.model)}"
            )
        for reason, times in counts.reasons.most_common(5):
            self.say(f"{title}: missing {times:,} times: {reason}")
        return answers


def _servers(config: OpenAIModel) -> set[str]:
    """The names of a model's server: its URL, without the port that goes without saying, and ``served_by``."""
    found = {served_by.server(config.url), *filter(None, [config.served_by])}
    return {re.sub(r"^(http://[^/]*):80(?=/|$)|^(https://[^/]*):443(?=/|$)", r"\1\2", place) for place in found}


def _identity(judge: LanguageModel, questions: Sequence[Prompt]) -> str:
    """Who judges, whatever its key in params.yaml: model, server or weights, and the key of an empty question.

    That key of the ledger is another one with any setting that is sent. A seed is none: a judge is not drawn from.
    Nor is the name that a server has for the longest answer.
    """
    empty = Prompt("judge", "", (Message("user", ""),), "", questions[0].sampling if questions else Sampling())
    sent = {name: value for name, value in judge.request(empty).items() if name != "seed"}
    request = {"max_tokens" if name == "max_completion_tokens" else name: value for name, value in sent.items()}
    key = Draw(empty, 0, request, judge.served_by).key[:8]
    named = Redaction().name(str(request.get("model", "a model")))
    return f"{named} by {judge.served_by or 'weights that are not here'}, settings {key}"


def _withheld(plan: Plan) -> str:
    """Of the requests that are not asked, since the ledger has that they got no score."""
    return f", and {plan.known_empty:,} more are there as not given and are not asked again" if plan.known_empty else ""


def _ask_again(model: str) -> str:
    return f"'markedness ledger prune --model {model} --empty --yes' has them asked again"


def _different(questions: Sequence[Prompt]) -> list[Prompt]:
    """Equal questions once."""
    return list({(one.messages, one.completion): one for one in questions}.values())


def _opened(params: Params, audit: str, judge: str) -> LanguageModel:
    config = params.model(judge)
    return backend(config.backend).open(config, Setting(judge, params.root, params.seed, audits.spec(audit).rule))


# ---------------------------------------------------------------- before anything is asked


def forecast(params: Params, audit: str, model: str, whole: bool, say: Callable[[str], None] = tell) -> None:
    """Report what featurize would ask of services and judges, and what it would cost; nothing is asked or written.

    Parameters
    ----------
    whole
        Whether the responses that are there are of all that generate asks; else only a bound is known.
    """
    spec, store = audits.spec(audit), Store(params.root)
    there = whole and store.table_path("responses", audit, model).exists()
    asked = _questions(params, audit, model, there)
    if not asked:
        return
    with ledgers.opened(params, audit, model, say, part=PART) as ledger:
        ledgers.tell_absent(params, audit, model, ledger, say, PART)
        for one in asked if there else ():
            say(f"{audit} {model}: {_forecast_of(params, audit, one, ledger, say)}")
    if not there:
        source, most = params.model(model).source(audit), None
        if source is None and spec.most_answers is not None:
            stimuli = store.stimuli(audit, params.language(audit))
            most = spec.most_answers(params.stage(audit, "generate", model), stimuli)
        bound = "one for each different answer" if most is None else f"at most {most:,}"
        for one in asked:
            say(f"{audit} {model}: requests to {_named(one.who)}: not known before the answers exist: {bound}")


def needed(params: Params, model: str, ledger: Ledger) -> np.ndarray:
    """Keys of what featurize asks about the responses that are there, shape (n,), in no order."""
    keys = [np.empty(0, dtype=DIGEST)]
    for audit in params.audits:
        if Store(params.root).table_path("responses", audit, model).exists():
            asked = _questions(params, audit, model, there=True)
            keys += [_plan(params, audit, one, ledger, lambda _: None)[0].keys for one in asked]
    return np.concatenate(keys)


def _questions(params: Params, audit: str, model: str, there: bool) -> Sequence[Questions]:
    """What featurize asks of services and judges; ``there``: whether the responses are, else without their prompts."""
    spec, store = audits.spec(audit), Store(params.root)
    if spec.questions is None:
        return ()
    responses = store.read_table("responses", audit, model) if there else None
    stimuli = store.stimuli(audit, params.language(audit))
    return spec.questions(responses, params.stage(audit, "featurize"), stimuli)


def _plan(
    params: Params, audit: str, asked: Questions, ledger: Ledger, say: Callable[[str], None]
) -> tuple[Plan, LanguageModel]:
    """What one service or judge is asked, and who that is."""
    prompts = _different(asked.prompts)
    if isinstance(asked.who, ScoringService):
        server: LanguageModel = ModerationServer(asked.who, f"{audit}.featurize.toxicity")
    else:
        server = _opened(params, audit, asked.who)
        ledgers.recall(server, ledger, lambda: not len(Plan(server, prompts, ledger).missing), say)
    return Plan(server, prompts, ledger), server


def _forecast_of(params: Params, audit: str, asked: Questions, ledger: Ledger, say: Callable[[str], None]) -> str:
    """Requests of one service or judge, tokens and cost."""
    plan, server = _plan(params, audit, asked, ledger, say)
    money, tokens = "not known, as the service has no price", ""
    if not isinstance(asked.who, ScoringService):
        costs = [expected_tokens(plan.prompt(int(one)), server.sends_candidates) for one in plan.missing]
        tokens_in, tokens_out = sum(one for one, _ in costs), sum(one for _, one in costs)
        price = price_of(params.model(asked.who), asked.who, params.prices)
        money = "unknown" if price is None else f"at most {cost(price, tokens_in, tokens_out):,.4f}"
        tokens = f"; about {tokens_in:,} tokens in, at most {tokens_out:,} out"
    missing = len(plan.missing)
    return (
        f"{len(plan):,} requests to {_named(asked.who)}, {len(plan) - missing:,} of them in the ledger"
        f"{f' ({plan.known_empty:,} as not given)' if plan.known_empty else ''}, {missing:,} to be asked{tokens}; "
        f"cost {money if missing else '0'}"
    )


def _named(who: ScoringService | str) -> str:
    return who.place if isinstance(who, ScoringService) else f"the judge {who}"
