"""The openai backend against a loopback server: what is sent, what is read, what each fault becomes."""

from __future__ import annotations

import asyncio
import copy
import math
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from tests.servers.openai_server import Server

from markedness.lm.answers import candidate_log_probs, ending, fault_of, read_completion, top_log_probs
from markedness.lm.base import Draw, ModelError, RequestFailed, RetryLater
from markedness.lm.config import OpenAIModel
from markedness.lm.endpoint import Endpoint, retry_after
from markedness.lm.ledger import Ledger
from markedness.lm.openai_api import OpenAIServer
from markedness.lm.redaction import Redaction
from markedness.lm.stored import stored_completion
from markedness.records import FILTERED, UNSUPPORTED, Completion, Message, Prompt, Sampling


def ask(server: Server, prompt: Prompt, sample: int = 0, **config: object) -> Completion:
    """One attempt of one draw."""
    model = OpenAIServer(OpenAIModel(backend="openai", model="toy", base_url=server.url, **config), seed=5)

    async def once() -> Completion:
        try:
            answer = (await model.complete([Draw(prompt, sample, model.request(prompt))]))[0]
        finally:
            await model.close()
        if answer.error is not None and answer.finish_reason != UNSUPPORTED:
            assert answer.text is None
            raise RequestFailed(answer.error)
        return answer

    return asyncio.run(once())


def chat(text: str, **more: Any) -> Prompt:
    return Prompt("p", "g", messages=(Message("user", text),), completion=text, **more)


def test_complete_chat_reads_text_usage_model_and_fingerprint() -> None:
    with Server() as server:
        answer = ask(server, chat("Describe a lamp."))
    assert answer.text is not None and answer.text.startswith("river")
    assert (answer.finish_reason, answer.model, answer.fingerprint) == ("stop", "toy-served", "fp_one")
    assert (answer.prompt_tokens, answer.completion_tokens, answer.error) == (3, 9, None)


def test_request_chat_and_plain_send_the_sampling_and_a_seed_per_sample() -> None:
    prompt = chat("Say", sampling=Sampling(0.7, 0.9, 40, ("\n",)))
    config = {"backend": "openai", "model": "toy", "base_url": "http://localhost:1/v1", "seed": True}
    talk = OpenAIServer(OpenAIModel(**config, extra_body={"top_k": 3}), seed=5)
    assert talk.body(Draw(prompt, 2, talk.request(prompt))) == {
        "model": "toy", "messages": [{"role": "user", "content": "Say"}], "temperature": 0.7, "top_p": 0.9,
        "max_tokens": 40, "seed": 7, "top_k": 3,
    }  # fmt: skip
    plain = OpenAIServer(OpenAIModel(**config, chat=False), seed=5)
    assert plain.body(Draw(prompt, 0, plain.request(prompt))) == {
        "model": "toy", "prompt": "Say", "temperature": 0.7, "top_p": 0.9, "max_tokens": 40, "stop": ["\n"],
        "seed": 5,
    }  # fmt: skip


RECORDED = {
    "invalid-json": "not JSON", "truncated-json": "not JSON", "not-utf8": "not JSON", "schema": "no choices",
    "error-in-200": "the provider is away",
    "list": "no choices", "number": "int, not text", "empty": "empty", "null": "empty",
    "content-filter": "content filter", "context": "context too long", "400": "HTTP 400", "404": "HTTP 404",
    "422": "HTTP 422", "401": "HTTP 401",
}  # fmt: skip


def test_complete_unreadable_answer_ends_the_request_with_its_reason() -> None:
    with Server() as server:
        for fault, reason in RECORDED.items():
            with pytest.raises(RequestFailed, match=reason):
                ask(server, chat(f"fault:{fault}"))


NONSENSE: list[Any] = [None, 7, -1.5, True, "x", "", [], [7], [[]], {}, {"a": 1}, 1e308, -1e308, 10**18]


def mutations(node: Any) -> Iterator[Any]:
    """The content with each of its pieces in turn replaced by each nonsense, or left out."""
    yield from NONSENSE
    keys = node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    for key in keys:
        for other in mutations(node[key]):
            changed = copy.copy(node)
            changed[key] = other
            yield changed
        if isinstance(node, dict):
            yield {name: value for name, value in node.items() if name != key}


def answer_of(kind: str) -> dict[str, Any]:
    top = [{"token": token, "logprob": value, "bytes": None} for token, value in ((" lamp", -0.5), ("a", -1.5))]
    choice: dict[str, Any] = {"index": 0, "finish_reason": "stop", "error": None}
    if kind == "mapping":
        choice |= {"text": "lamp", "logprobs": {"top_logprobs": [{" lamp": -0.5, "a": -1.5}], "tokens": [" lamp"]}}
    else:
        message = {"role": "assistant", "content": "lamp", "refusal": None}
        choice |= {"message": message, "logprobs": {"content": [{**top[0], "top_logprobs": top}]}}
    usage = {"prompt_tokens": 3, "completion_tokens": 9}
    return {"model": "toy", "system_fingerprint": "fp", "error": None, "choices": [choice], "usage": usage}


@pytest.mark.parametrize("kind", ["chat", "mapping"])
@pytest.mark.parametrize("candidates", [(), ("lamp", "river")])
def test_read_completion_any_malformed_piece_is_an_answer_or_a_failure_with_a_reason(
    kind: str, candidates: tuple[str, ...], tmp_path: Path
) -> None:
    prompt = chat("Say", candidates=candidates)
    tried = failed = 0
    with Ledger(tmp_path / "m.sqlite") as ledger:
        for answer in mutations(answer_of(kind)):
            tried += 1
            try:
                completion = read_completion(answer, prompt, kind == "chat", Redaction())
            except RequestFailed as failure:
                assert str(failure)
                failed += 1
                continue
            if completion.error is None:
                draw = Draw(prompt, tried, {}, "here")
                ledger.append(draw, completion)
                assert ledger.get(draw.key) == completion, answer
    assert tried > 250 and failed > 30


def test_read_completion_refusal_beside_an_empty_content_is_the_text() -> None:
    answer = answer_of("chat")
    answer["choices"][0]["message"] |= {"content": "", "refusal": "I can't help with that."}
    completion = read_completion(answer, chat("Say"), True, Redaction())
    assert (completion.text, completion.error) == ("I can't help with that.", None)
    answer["choices"][0]["message"] |= {"content": "lamp"}
    assert read_completion(answer, chat("Say"), True, Redaction()).text == "lamp"


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "reasoning": "They want a word"}, {"role": "assistant", "tool_calls": [{"id": "a"}]}, {},
        {"content": None}, {"content": [{"type": "redacted_thinking", "data": "x"}]}, None,
        {"content": [{"type": "tool_use", "name": "x"}]}, {"content": []},
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("usage", "stands"), [({"completion_tokens": 9}, True), ({}, True), ({"completion_tokens": 0}, False)]
)
def test_read_completion_message_without_a_text_is_a_draw_that_stands_where_the_model_ended(
    message: Any, usage: dict[str, int], stands: bool
) -> None:
    answer: dict[str, Any] = {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}
    try:
        completion = read_completion(answer, chat("Say"), True, Redaction())
    except RequestFailed as failed:
        assert not stands and "the answer" in str(failed)  # it is asked for again
    else:
        assert (completion.text, completion.empty) == (None, stands) and "empty" in str(completion.error)


FILTERS = ("content_filter: PROHIBITED_CONTENT", "SAFETY", "RECITATION", "guardrail_intervened", "content_filter")


@pytest.mark.parametrize("finish", FILTERS)
@pytest.mark.parametrize(
    "message", [{}, {"message": {"role": "assistant"}}, {"message": {"content": "As a Black man,"}}]
)
def test_read_completion_filter_of_another_name_withholds_the_answer(finish: str, message: dict[str, Any]) -> None:
    answer = {"choices": [{"index": 0, "finish_reason": finish, **message}], "usage": {"completion_tokens": 0}}
    completion = read_completion(answer, chat("Say"), True, Redaction())
    assert (completion.text, completion.finish_reason, completion.empty) == (None, FILTERED, True)
    assert "content filter" in str(completion.error)


def test_read_completion_refusal_without_a_word_stands_and_one_with_words_is_a_text() -> None:
    choice = {"finish_reason": "refusal", "message": {"content": ""}}
    answer: dict[str, Any] = {"choices": [choice], "usage": {"completion_tokens": 0}}
    assert read_completion(answer, chat("Say"), True, Redaction()).empty
    choice["message"] = {"content": "I can't help with that."}
    assert read_completion(answer, chat("Say"), True, Redaction()).text == "I can't help with that."


@pytest.mark.parametrize(
    ("said", "end"),
    [
        ("LENGTH", "length"), ("max_completion_tokens", "length"), ("STOP", "stop"), ("eos_token", "stop"),
        ("ContentFilter", FILTERED), ("content-filter", FILTERED), ("finish_reason: SAFETY", FILTERED),
        ("FINISH_REASON_SAFETY", FILTERED), ("data_inspection_failed", FILTERED), ("tool_calls", None), ("", None),
        (None, None), ("refusal", None), ("stopped by content_filters", None),
    ],
)  # fmt: skip
def test_ending_reads_the_words_of_servers_and_no_others(said: str | None, end: str | None) -> None:
    assert ending(said) == end


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"error": {"message": "bad key", "code": "invalid_api_key"}}, ("bad key", "invalid_api_key")),
        ({"message": "bad key", "code": 400}, ("bad key", 400)),
        ([{"error": {"message": "bad key", "code": 400}}], ("bad key", 400)),
        ({"error": "bad key"}, ("bad key", None)), ("bad key", ("bad key", None)),
        ({"detail": "bad key"}, ("{'detail': 'bad key'}", None)),
        ("<html>no</html>", ("no reason given", None)),
        ({"error": {"message": "no", "code": 400, "type": "content_filter"}}, ("no", "content_filter")),  # Moonshot
        ({"error": {"message": "no", "innererror": {"code": "ResponsibleAIPolicyViolation"}}},
         ("no", "ResponsibleAIPolicyViolation")),  # Azure
        ({"error": {"message": "no", "code": 400, "metadata": {"raw": "content_filter"}}},
         ("no: content_filter", 400)),  # OpenRouter
        ({"code": "permission", "error": "Content violates"}, ("Content violates", None)),  # xAI
        (None, ("no reason given", None)), ([], ("no reason given", None)),
    ],
)  # fmt: skip
def test_fault_of_reads_the_errors_of_any_server(body: Any, told: tuple[str, object]) -> None:
    assert fault_of(body) == told


@pytest.mark.parametrize(
    ("status", "code", "message", "withheld"),
    [
        (403, "content_policy_violation", "no", True),  # OpenRouter
        (403, 403, "Your chosen model requires moderation and your input was flagged for violence.", True),
        (403, None, "Content violates usage guidelines. Team: t, API key ID: k, Failed check: BIO", True),  # xAI
        (400, None, "The request was rejected because it was considered high risk", True),  # Moonshot
        (451, None, "The content you provided or machine outputted is blocked.", True),  # StepFun
        (403, "Forbidden", "Your resource has been temporarily blocked: behavior that may violate our content policy",
         False),  # Azure
        (400, None, "Guardrail 'content-filter' not found", False),
        (400, None, "content_filter: Extra inputs are not permitted", False),
        (400, None, "Rejected by the safety system: this is not permitted", True),
        (400, None, "content moderation service timeout", False),
        (400, None, "Your API key was blocked: it violates the content policy", False),
        (403, None, "Content violates Azure Content Safety policies", True),
        (403, None, "Your key has no access to the content filter", False),
        (403, None, "Your account was blocked: it violates the content policy", False),
        (403, None, "Forbidden", False), (401, None, "the content filter is not yours", False),
        (404, None, "no content filter of this name", False), (400, None, "the content policy", True),
        (451, None, "blocked by the content policy", True), (500, "content_filter", "no", True),
        (429, None, "too many requests to the content filter", False), (500, None, "the content filter is down", False),
    ],
)  # fmt: skip
def test_refusal_of_a_filter_is_told_from_that_of_a_key_or_a_fault(
    status: int, code: object, message: str, withheld: bool
) -> None:
    endpoint = Endpoint("models.toy", "http://127.0.0.1:1/v1", None, 1.0)
    failed = endpoint.refusal(status, {"error": {"message": message, "code": code}})
    assert (failed.finish_reason == FILTERED if isinstance(failed, RequestFailed) else False) == withheld
    assert not (withheld and failed.cause)


def test_stored_answer_that_a_filter_cut_off_is_withheld_as_one_of_today() -> None:
    before = '{"text": "As a Black man, I", "finish_reason": "SAFETY", "completion_tokens": 5}'
    read = stored_completion(before, 0)
    assert (read.text, read.finish_reason, read.empty) == (None, FILTERED, True)
    cut = stored_completion('{"text": "A lamp", "finish_reason": "MAX_TOKENS"}', 0)
    assert (cut.text, cut.finish_reason) == ("A lamp", "length")
    spoken = stored_completion('{"text": "I can\'t help with that.", "finish_reason": "refusal"}', 0)
    assert (spoken.text, spoken.error) == ("I can't help with that.", None)


def test_read_completion_end_and_usage_in_the_words_of_others() -> None:
    answer = {
        "choices": [{"finish_reason": "MAX_TOKENS", "message": {"content": "A lamp"}}],
        "usage": {"output_tokens": 5},
    }
    completion = read_completion(answer, chat("Say"), True, Redaction())
    assert (completion.text, completion.finish_reason, completion.completion_tokens) == ("A lamp", "length", 5)


def test_read_completion_text_that_a_completions_server_leaves_out_is_empty() -> None:
    answer = answer_of("mapping")
    answer["choices"][0].pop("text")
    assert read_completion(answer, chat("Say"), False, Redaction()).empty
    answer["choices"][0]["message"] = {"content": "lamp"}
    with pytest.raises(RequestFailed, match="no text"):
        read_completion(answer, chat("Say"), False, Redaction())


@pytest.mark.parametrize("message", [{"text": "lamp"}, {"role": "assistant", "answer": "lamp"}, "lamp"])
def test_read_completion_message_with_its_text_elsewhere_is_of_a_schema_that_is_not_known(message: Any) -> None:
    answer = answer_of("chat")
    answer["choices"][0]["message"] = message
    with pytest.raises(RequestFailed, match=r"no message\.content"):
        read_completion(answer, chat("Say"), True, Redaction())
    with pytest.raises(RequestFailed, match=r"no message\.content"):
        read_completion(answer_of("mapping"), chat("Say"), True, Redaction())


@pytest.mark.parametrize(
    "message",
    [
        {"refusal": "I can't."},
        {"content": None, "refusal": "I can't."},
        {"content": [{"type": "refusal", "refusal": "I can't."}]},
    ],
)
def test_read_completion_refusal_without_a_content_is_the_text(message: dict[str, Any]) -> None:
    completion = read_completion({"choices": [{"message": message}]}, chat("Say"), True, Redaction())
    assert (completion.text, completion.error) == ("I can't.", None)


def test_read_completion_without_choices_says_nothing_of_token_probabilities() -> None:
    answer = {"choices": [], "usage": {"completion_tokens": 9}}
    assert read_completion(answer, chat("Say"), True, Redaction()).empty
    for asked, billed in ((chat("Say", candidates=("lamp", "river")), answer), (chat("Say"), {"choices": []})):
        with pytest.raises(RequestFailed, match="no choices"):
            read_completion(billed, asked, True, Redaction())


@pytest.mark.parametrize(
    ("usage", "output"),
    [
        ({"total_tokens": 12}, 9),  # 3 + 9
        ({"total_tokens": 1_012, "completion_tokens_details": {"reasoning_tokens": 1_000}}, 1_009),  # 1,012 - 3
        ({"total_tokens": 2}, 9),  # less than its parts is no total
        ({"total_tokens": "many"}, 9),
    ],
)
def test_read_completion_tokens_of_reasoning_that_only_the_total_has_are_output(
    usage: dict[str, Any], output: int
) -> None:
    answer = answer_of("chat")
    answer["usage"] |= usage
    completion = read_completion(answer, chat("Say"), True, Redaction())
    assert (completion.prompt_tokens, completion.completion_tokens) == (3, output)


def test_complete_passing_fault_asks_for_another_attempt() -> None:
    with Server() as server:
        for fault in ("408", "409", "429", "500", "502", "503", "reset", "reset-body"):
            with pytest.raises(RetryLater):
                ask(server, chat(f"fault:{fault}"))
        for fault in ("slow-headers", "slow-body"):
            with pytest.raises(RetryLater, match=r"no answer within 0\.2 s"):
                ask(server, chat(f"fault:{fault}"), timeout=0.2)
        with pytest.raises(RetryLater) as later:
            ask(server, chat("fault:429-retry-after"))
        assert later.value.retry_after == 1.0


def test_complete_behind_a_dead_proxy_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with Server() as server:
        with pytest.raises(
            RetryLater, match=r"connection refused.* http_proxy is set, so the proxy that it names was asked"
        ):
            ask(server, chat("x"))
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert ask(server, chat("x")).text


def test_complete_no_server_asks_for_another_attempt() -> None:
    with Server() as server:
        pass
    with pytest.raises(RetryLater, match=r"connection refused: no server listens there"):
        ask(server, chat("x"))


def test_complete_empty_plain_completion_is_an_answer_only_where_a_stop_text_can_come_first() -> None:
    with Server() as server:
        stopped = chat("fault:empty", sampling=Sampling(stop=("\n",)))
        assert ask(server, stopped, chat=False).text == ""
        with pytest.raises(RequestFailed, match="empty"):
            ask(server, chat("fault:empty"), chat=False)


def test_complete_echoed_key_is_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-planted-0123456789")
    with Server(echo="key") as server:
        assert "Bearer [key]" in str(ask(server, chat("x"), api_key_env="MY_KEY").text)
        with pytest.raises(RequestFailed) as failed:
            ask(server, chat("fault:401"), api_key_env="MY_KEY")
    assert "[key]" in str(failed.value) and "planted" not in str(failed.value)


def test_server_without_key_says_which_variable_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    model = OpenAIServer(OpenAIModel(backend="openai", model="toy", api_key_env="MY_KEY"))
    with pytest.raises(ModelError, match="set the environment variable MY_KEY"):
        asyncio.run(model.complete([Draw(chat("x"), 0, model.request(chat("x")))]))


def test_retry_after_seconds_date_and_nonsense() -> None:
    assert retry_after({"retry-after": "2.5"}) == 2.5
    assert retry_after({"retry-after-ms": "500", "retry-after": "9"}) == 0.5
    assert 8 < (retry_after({"retry-after": formatdate(time.time() + 10)}) or 0) <= 10
    assert retry_after({"retry-after": formatdate(time.time() - 10)}) == 0
    assert retry_after({"retry-after": "soon"}) is None
    assert retry_after({}) is None


# ---------------------------------------------------------------- token probabilities


def test_score_reads_every_form_of_served_log_probs() -> None:
    # lamp e^-0.5 = 0.6065, river e^-1.5 = 0.2231, the e^-2 = 0.1353: unseen 0.0350 goes to "bread", the one not
    # found; the candidates' sum is 0.6065 + 0.2231 + 0.0350 = 0.8647.
    prompt = chat("The thing is a", candidates=("river", "lamp", "bread"))
    expected = [math.log(p / 0.864665) for p in (0.223130, 0.606531, 0.035004)]
    for options, form in (({}, "chat"), ({"chat": False}, "mapping"), ({"chat": False}, "llama.cpp")):
        with Server(echo=form) as server:
            answer = ask(server, prompt, top_logprobs=20, **options)
        assert answer.text is None and answer.error is None
        assert answer.log_probs == pytest.approx(expected, abs=1e-4)
        assert answer.coverage == pytest.approx(0.829661, abs=1e-5)
        assert answer.estimator == "top_logprobs_renormalised"


def test_candidate_log_probs_shown_tokens_all_candidates_is_the_published_recipe() -> None:
    # p = 0.5 and 0.3 shown; the other two of four share 1 - 0.8: 0.1 each.
    found, coverage = candidate_log_probs([(" a", math.log(0.5)), ("b", math.log(0.3))], ("a", "b", "c", "d"))
    assert [math.exp(p) for p in found if p is not None] == pytest.approx([0.5, 0.3, 0.1, 0.1])
    assert coverage == pytest.approx(0.8)


def test_candidate_log_probs_not_shown_gets_no_more_than_the_least_shown() -> None:
    # Shown 0.3 (a) and 0.1 (the): unseen 0.6, but "b" is behind "the": 0.1. P = 0.3 / 0.4, 0.1 / 0.4.
    found, coverage = candidate_log_probs([(" a", math.log(0.3)), (" the", math.log(0.1))], ("a", "b"))
    assert [math.exp(p) for p in found if p is not None] == pytest.approx([0.75, 0.25])
    assert coverage == pytest.approx(0.3)


def test_candidate_log_probs_sums_both_spellings_and_needs_the_whole_word() -> None:
    top = [(" lazy", math.log(0.3)), ("lazy", math.log(0.1)), (" la", math.log(0.4)), (" Calm", math.log(0.2))]
    found, coverage = candidate_log_probs(top, ("lazy", "calm"))
    assert coverage == pytest.approx(0.4)
    assert found[0] == pytest.approx(0.0)  # nothing is left unseen for "calm": P("lazy") = 1
    assert found[1] is None


def test_score_probabilities_of_more_than_1_in_all_end_the_request_with_the_sum() -> None:
    prompt = chat("The thing is a", candidates=("river", "lamp"))
    with Server() as server:
        server.top_logprobs = [(" lamp", 0.0), ("river", 0.0), ("lamp", -0.1)]
        with pytest.raises(RequestFailed, match=r"that the server shows sum to 2\.905, more than 1"):
            ask(server, prompt, top_logprobs=5)
        server.top_logprobs = [(" lamp", math.log(0.61)), ("river", math.log(0.4))]  # rounded
        assert ask(server, prompt, top_logprobs=5).coverage == 1.0


def test_candidate_log_probs_none_found_is_missing() -> None:
    assert candidate_log_probs([(" the", -0.1)], ("lazy", "calm")) == ((None, None), 0.0)


def test_read_content_in_parts_is_the_text_of_its_parts_without_the_reasoning() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    parts = [thought, {"type": "text", "text": "a "}, {"type": "text", "text": "lamp"}]
    answer: dict[str, Any] = {"choices": [{"message": {"content": parts}}]}
    assert read_completion(answer, chat("The thing"), True, Redaction()).text == "a lamp"
    answer["choices"][0]["message"]["content"] = [{"type": "tool_use"}, {"type": "output_text", "text": "a lamp"}]
    assert read_completion(answer, chat("The thing"), True, Redaction()).text == "a lamp"
    answer["choices"][0]["message"]["content"] = [thought]
    assert "empty" in str(read_completion(answer, chat("The thing"), True, Redaction()).error)


@pytest.mark.parametrize("parts", [[], ["lamp"], [{"type": "image_url"}], [{"type": "text", "text": 3}]])
def test_read_content_of_no_text_is_a_cause_that_ends_the_other_requests_too(parts: list[Any]) -> None:
    # A server that sends such parts does so in every answer, each of which is paid for.
    with pytest.raises(RequestFailed, match="list, not text") as failed:
        read_completion({"choices": [{"message": {"content": parts}}]}, chat("The thing"), True, Redaction())
    assert failed.value.cause == "unreadable"


def test_top_log_probs_of_nonsense_is_none() -> None:
    nonsense: list[Any] = [None, 3, {}, {"content": []}, {"content": [3]}, {"top_logprobs": [None]}, {"content": None}]
    assert [top_log_probs({"logprobs": served}) for served in nonsense] == [None] * 7


def _listed(*pairs: tuple[str, Any]) -> dict[str, Any]:
    top = [{"token": token, "logprob": value} for token, value in pairs]
    return {"logprobs": {"content": [{"token": "lamp", "logprob": -0.1, "top_logprobs": top}]}}


def test_top_log_probs_rounded_above_0_count_and_leave_no_other_the_likeliest() -> None:
    # Left out, the 0.9999997 of "lamp" would be unseen, and "lamp" get no more than the e^-15 of "river": P = 0.5.
    top = top_log_probs(_listed(("lamp", 3e-7), ("river", -15.0)))
    assert top == [("lamp", 3e-7), ("river", -15.0)]
    found, coverage = candidate_log_probs(top, ("lamp", "river"))
    assert found == pytest.approx((0.0, -15.0), abs=1e-6) and coverage == 1.0


NO_LOG_PROB = {
    "text": ("-0.3", "no ln probability: -0.3"), "bool": (True, "no ln probability: True"),
    "large": (7.0, "no ln probability: 7.0"), "null": (None, "shows 0.3679 in all, and no ln probability of 'lamp'"),
}  # fmt: skip


@pytest.mark.parametrize(("value", "said"), NO_LOG_PROB.values(), ids=NO_LOG_PROB)
def test_top_log_probs_one_without_a_number_ends_the_request(value: Any, said: str) -> None:
    # What is shown of the others is 0.37: of a list whose end has no probability it would be 1.
    with pytest.raises(RequestFailed, match=said):
        top_log_probs(_listed(("lamp", value), ("river", -1.0)))


def test_top_log_probs_null_behind_all_the_mass_is_no_probability() -> None:
    # 0.6 + 0.4: the null is the ln of 0, so that "bread" has no ln probability, and the others are as shown.
    top = top_log_probs(_listed(("lamp", math.log(0.6)), ("river", math.log(0.4)), ("bread", None)))
    (lamp, river, bread), _ = candidate_log_probs(top or [], ("lamp", "river", "bread"))
    assert (lamp, river) == pytest.approx((math.log(0.6), math.log(0.4))) and bread is None


def test_top_log_probs_of_the_drawn_token_alone_are_none() -> None:
    # A draw of probability 0.1 bounds no other token: "river" may have the other 0.9.
    assert top_log_probs(_listed()) is None


def test_score_server_without_log_probs_is_unsupported_with_a_sentence() -> None:
    prompt = chat("The thing is a", candidates=("river", "lamp"))
    with Server() as server:
        server.top_logprobs = None
        answer = ask(server, prompt, top_logprobs=5)
        assert answer.finish_reason == UNSUPPORTED and "without token probabilities" in str(answer.error)
        model = OpenAIServer(OpenAIModel(backend="openai", model="toy", base_url=server.url))
        assert "top_logprobs" in str(model.unsupported(prompt))


def test_score_one_answer_without_log_probs_among_others_fails_alone() -> None:
    prompt = chat("The thing is a", candidates=("river", "lamp"))

    async def thrice(server: Server) -> list[Completion | str]:
        model = OpenAIServer(OpenAIModel(backend="openai", model="toy", base_url=server.url, top_logprobs=5))
        served = server.top_logprobs
        got: list[Completion | str] = []
        for top in (served, None, served):
            server.top_logprobs = top
            try:
                got += await model.complete([Draw(prompt, 0, model.request(prompt))])
            except RequestFailed as error:
                got.append(str(error))
        await model.close()
        return got

    with Server() as server:
        first, second, third = asyncio.run(thrice(server))
    assert isinstance(first, Completion) and first.log_probs
    assert isinstance(second, str) and "without token probabilities" in second
    assert isinstance(third, Completion) and third.log_probs
