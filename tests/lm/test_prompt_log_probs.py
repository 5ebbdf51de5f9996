"""Servers that give the probabilities of their prompts' own tokens: exact scores, in both documented forms."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import pytest
from pydantic import ValidationError
from tests.lm.test_openai_api import NONSENSE, ask, mutations
from tests.servers.openai_server import Server, token_log_prob, tokenized

from markedness.lm.base import Draw, RequestFailed
from markedness.lm.config import OpenAIModel
from markedness.lm.costs import expected_tokens
from markedness.lm.openai_api import OpenAIServer
from markedness.lm.prompt_log_probs import LOWEST, ROUNDING, Form, read_scored
from markedness.lm.redaction import Redaction
from markedness.records import UNSUPPORTED, Prompt
from markedness.text.answers import LOWEST_LOG_PROB

TEXT = "A person who says it is"
FORMS: tuple[Form, ...] = ("echo", "vllm")


def scored(*words: str, multi_token: bool = False) -> Prompt:
    return Prompt("p", "g", completion=TEXT, candidates=words, multi_token=multi_token)


def chain(word: str) -> float:
    """Ln P of a word after TEXT, token by token."""
    before, tokens = tokenized(TEXT), tokenized(f" {word}")
    return sum(token_log_prob([*before, *tokens[:place]], token) for place, token in enumerate(tokens))


def model(**config: Any) -> OpenAIServer:
    return OpenAIServer(OpenAIModel(backend="openai", model="m", base_url="http://localhost:1/v1", **config))


@pytest.mark.parametrize("form", FORMS)
def test_score_single_tokens_are_exact_and_longer_words_are_named(form: Form) -> None:
    with Server() as server:
        server.prompt_form = form
        answer = ask(server, scored("lazy", "sophisticated", "kind"), chat=False, prompt_logprobs=form)
    assert answer.estimator == "exact" and answer.coverage is None and answer.candidate_tokens == ()
    assert answer.log_probs[::2] == pytest.approx((chain("lazy"), chain("kind"))) and answer.log_probs[1] is None
    assert answer.reasons == (None, "'sophisticated' is not a single token after this prompt", None)


@pytest.mark.parametrize("form", FORMS)
def test_score_several_tokens_is_the_chain_rule_with_their_number(form: Form) -> None:
    with Server() as server:
        server.prompt_form = form
        prompt = scored("lazy", "sophisticated", multi_token=True)
        answer = ask(server, prompt, chat=False, prompt_logprobs=form)
    # " sophis" has a space and six letters at most: " sophis", "ticate", "d"
    assert answer.candidate_tokens == (1, 3) and answer.reasons == ()
    assert answer.log_probs == pytest.approx((chain("lazy"), chain("sophisticated")))


@pytest.mark.parametrize("form", FORMS)
def test_perplexity_is_the_mean_of_the_tokens_after_the_first(form: Form) -> None:
    prompt = Prompt("p", "g", completion=TEXT, perplexity=True)
    tokens = tokenized(TEXT)
    values = [token_log_prob(tokens[:place], tokens[place]) for place in range(1, len(tokens))]
    with Server() as server:
        server.prompt_form = form
        answer = ask(server, prompt, chat=False, prompt_logprobs=form)
    assert answer.log_probs == pytest.approx((sum(values) / len(values),))
    assert (answer.estimator, answer.completion_tokens) == ("next_token", len(values))


def test_score_without_token_ids_is_a_failure_that_names_the_remedy() -> None:
    with Server() as server:
        server.prompt_form = "vllm-no-ids"
        with pytest.raises(RequestFailed, match="must serve return_token_ids"):
            ask(server, scored("lazy"), chat=False, prompt_logprobs="vllm")


@pytest.mark.parametrize("form", FORMS)
def test_score_of_a_server_that_ignores_the_parameter_is_unsupported(form: Form) -> None:
    with Server() as server:
        server.prompt_form = ""
        answer = ask(server, scored("lazy"), chat=False, prompt_logprobs=form)
    assert answer.finish_reason == UNSUPPORTED
    assert answer.error == "the server answered without the probabilities of its prompt's tokens"


def test_request_sends_the_prompt_alone_and_with_each_word() -> None:
    prompt = scored("lazy", "kind", multi_token=True)
    for form, fields in (
        ("echo", {"echo": True, "logprobs": 1, "max_tokens": 1}),
        ("vllm", {"prompt_logprobs": 1, "return_token_ids": True, "max_tokens": 1}),
    ):
        asked = model(chat=False, prompt_logprobs=form)
        assert asked.body(Draw(prompt, 0, asked.request(prompt))) == {
            "model": "m", "prompt": [TEXT, f"{TEXT} lazy", f"{TEXT} kind"], "temperature": 1.0, "top_p": 1.0, **fields,
        }  # fmt: skip
        alone = scored("lazy", "kind")
        assert asked.request(prompt) != asked.request(alone)  # another key in the ledger
    # three texts of 23, 28 and 28 bytes: 79 / 4; one token each where it must be generated
    assert expected_tokens(prompt, sends_candidates=True) == (20, 3)
    assert asked.sends_candidates and not model().sends_candidates


def test_unsupported_says_what_to_set() -> None:
    few = model(top_logprobs=5)
    assert few.unsupported(scored("lazy")) is None
    assert "multi_token: false" in str(few.unsupported(scored("lazy", multi_token=True)))
    assert "set prompt_logprobs" in str(few.unsupported(Prompt("p", "g", completion="x y", perplexity=True)))
    assert model(chat=False, prompt_logprobs="echo").unsupported(scored("lazy", multi_token=True)) is None
    with pytest.raises(ValidationError, match="set chat: false"):
        model(prompt_logprobs="echo")


def answer_of(form: Form) -> dict[str, Any]:
    """Two texts, "a b" and "a b c"."""
    choices: list[dict[str, Any]] = []
    for index, tokens in enumerate((["a", " b"], ["a", " b", " c"])):
        values = [None, -1.0, -2.0][: len(tokens)]
        choice: dict[str, Any] = {"index": index, "finish_reason": "length", "text": "".join(tokens)}
        if form == "echo":
            starts = [sum(map(len, tokens[:place])) for place in range(len(tokens))]
            choice["logprobs"] = {"tokens": tokens, "token_logprobs": values, "text_offset": starts}
        else:
            choice["prompt_logprobs"] = [
                None,
                *(
                    {"7": {"logprob": value, "decoded_token": token}}
                    for value, token in list(zip(values, tokens, strict=True))[1:]
                ),
            ]
            choice["prompt_token_ids"] = [7] * len(tokens)
        choices.append(choice)
    return {"model": "m", "choices": choices, "usage": {"prompt_tokens": 5, "completion_tokens": 0}}


@pytest.mark.parametrize("form", FORMS)
def test_read_scored_any_malformed_piece_is_an_answer_or_a_failure_with_a_reason(form: Form) -> None:
    prompt = Prompt("p", "g", completion="a b", candidates=("c",), multi_token=True)
    whole = read_scored(answer_of(form), prompt, form, Redaction())
    assert whole.log_probs == (-2.0,) and whole.candidate_tokens == (1,)
    tried = failed = 0
    for answer in mutations(copy.deepcopy(answer_of(form))):
        tried += 1
        try:
            made = read_scored(answer, prompt, form, Redaction())
        except RequestFailed as failure:
            assert str(failure)
            failed += 1
            continue
        assert made.error or all(value is None or (value <= 0 and not math.isnan(value)) for value in made.log_probs)
    assert tried > 10 * len(NONSENSE) and failed > 30


def echoed(*texts: tuple[list[str], str], offsets: bool = False) -> dict[str, Any]:
    """Answers with these tokens and texts; ln p of the token at place n is -n."""
    choices = [
        {
            "index": index, "text": text, "finish_reason": "length",
            "logprobs": {
                "tokens": tokens, "token_logprobs": [None, *(-float(n) for n in range(1, len(tokens)))],
                "text_offset": [sum(map(len, tokens[:n])) for n in range(len(tokens))] if offsets else None,
            },
        }
        for index, (tokens, text) in enumerate(texts)
    ]  # fmt: skip
    return {"choices": choices}


def test_read_scored_leaves_out_what_was_generated_and_takes_a_first_token_along() -> None:
    asked = Prompt("p", "g", completion="a b", candidates=("c",))
    for first in ([], ["<s>"]):
        answer = echoed(([*first, "a", " b", " x"], "a b x"), ([*first, "a", " b", " c", " y"], "a b c y"))
        made = read_scored(answer, asked, "echo", Redaction())
        assert made.log_probs == (-(2.0 + len(first)),)  # " c" alone, at its place


def test_read_scored_a_character_of_several_tokens_is_placed_by_the_offsets() -> None:
    asked = Prompt("p", "g", completion="é b", candidates=("c",))
    tokens = ["\ufffd", "", " b"]  # as long as the text
    bare, whole = ([*tokens, " x"], "é b x"), ([*tokens, " c", " y"], "é b c y")
    made = read_scored(echoed(bare, whole, offsets=True), asked, "echo", Redaction())
    assert made.log_probs == (-3.0,)
    with pytest.raises(RequestFailed, match="cannot be found in the text"):
        read_scored(echoed(bare, whole), asked, "echo", Redaction())


Place = Literal["true", "of parts", "of what is decoded"]


def bytewise(text: str, place: Place, generated: str | None = " x") -> dict[str, Any]:
    """An echoed text of two bytes a token at most, and the token that was generated; values tell tokens apart."""
    code = text.encode()
    parts = [code[start : start + 2] for start in range(0, len(code), 2)]
    shown, before = [part.decode(errors="replace") for part in parts], [code[: 2 * n] for n in range(len(parts))]
    offsets = {
        "true": [len(one.decode(errors="ignore")) for one in before],
        "of parts": [sum(map(len, shown[:n])) for n in range(len(parts))],
        "of what is decoded": [len(one.decode(errors="replace")) for one in before],
    }[place]
    more = [] if generated is None else [generated]
    logprobs = {
        "tokens": shown + more, "token_logprobs": [None, *(-float(n) for n in range(1, len(shown + more)))],
        "text_offset": offsets + [len(text) for _ in more],
    }  # fmt: skip
    return {"text": text + "".join(more), "logprobs": logprobs}


@pytest.mark.parametrize("generated", [" x", ".", "", None])
@pytest.mark.parametrize("place", ["true", "of parts", "of what is decoded"])
def test_read_scored_never_leaves_out_parts_of_a_character_at_the_end(place: Place, generated: str | None) -> None:
    # of "he went \U0001f602" three of five tokens were read where each part of the last character counts as one
    rng, read = random.Random(20261127), 0
    for _ in range(300):
        text = "".join(
            rng.choice(["a", "b", " ", ".", "\xdf", "\u65e5", "\U0001f602"]) for _ in range(rng.randint(2, 6))
        )
        choice = bytewise(text, place, generated) | {"index": 0}
        n = len(text.encode()) // 2 + len(text.encode()) % 2 - 1
        try:
            made = read_scored({"choices": [choice]}, replace(WHOLE, completion=text), "echo", Redaction())
        except RequestFailed as failed:
            assert "cannot be found in the text" in str(failed)
            continue
        if n:
            assert made.log_probs[0] == pytest.approx(-(n + 1) / 2) and made.completion_tokens == n, text
            read += 1
    assert read > (100 if place == "true" and generated is not None else 10)


def test_read_scored_never_takes_what_was_generated_for_a_character_of_several_tokens() -> None:
    # as llama-cpp-python serves it: parts are shown as nothing, and the emoji is drawn once more
    text = "so funny \U0001f602"
    logprobs = {
        "tokens": ["so", " funny", " ", "", "\U0001f602"], "token_logprobs": [None, -3.0, -4.0, -0.1, -9.0],
        "text_offset": [0, 2, 8, 9, 10],
    }  # fmt: skip
    choice = {"index": 0, "text": text + "\U0001f602", "logprobs": logprobs}
    with pytest.raises(
        RequestFailed, match="cannot be found in the text that was sent: a character of it is of several"
    ):
        read_scored({"choices": [choice]}, replace(WHOLE, completion=text), "echo", Redaction())
    choice |= {"text": text + " x", "logprobs": logprobs | {"tokens": ["so", " funny", " ", "", " x"]}}
    made = read_scored({"choices": [choice]}, replace(WHOLE, completion=text), "echo", Redaction())
    assert made.log_probs[0] == pytest.approx(-7.1 / 3)


def test_read_scored_text_that_ends_in_parts_of_a_character_names_the_remedy() -> None:
    with pytest.raises(RequestFailed, match="of several tokens; name prompt_logprobs: vllm where the server has it"):
        choice = bytewise("he went \U0001f602", "of parts") | {"index": 0}
        read_scored({"choices": [choice]}, replace(WHOLE, completion="he went \U0001f602"), "echo", Redaction())


def test_read_scored_a_word_that_changes_the_tokens_before_it_has_no_score() -> None:
    answer = answer_of("echo")
    answer["choices"][1]["logprobs"] = {"tokens": ["a", " b c"], "token_logprobs": [None, -1.0], "text_offset": [0, 1]}
    assert answer["choices"][1]["text"] == "a b c"
    made = read_scored(answer, Prompt("p", "g", completion="a b", candidates=("c",)), "echo", Redaction())
    assert made.log_probs == (None,) and "not made of whole tokens" in str(made.reasons[0])


WHOLE = Prompt("p", "g", completion="a b c d", perplexity=True)
WORDS = Prompt("p", "g", completion="a b", candidates=("c", "d"))


def given(form: Form, *texts: tuple[list[str], list[float | None]]) -> dict[str, Any]:
    """Answers with these tokens and ln probabilities; a token's id is the number of its last letter."""
    choices: list[dict[str, Any]] = []
    for index, (tokens, values) in enumerate(texts):
        ids = [ord(token[-1]) for token in tokens]
        choice: dict[str, Any] = {"index": index, "text": "".join(tokens) + " x", "prompt_token_ids": ids}
        choice["logprobs"] = {"tokens": [*tokens, " x"], "token_logprobs": [*values, -9.0], "text_offset": None}
        entries = [
            {str(one): {"logprob": value, "decoded_token": token}}
            for one, value, token in zip(ids, values, tokens, strict=True)
        ]
        choices.append(choice | ({} if form == "echo" else {"prompt_logprobs": [None, *entries[1:]]}))
    return {"choices": choices}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", [None, -9999.0, -math.inf, 0.5])
def test_perplexity_with_a_token_that_has_no_ln_probability_is_a_failure_with_a_reason(
    form: Form, value: float | None
) -> None:
    tokens = ["a", " b", " c", " d"]
    whole = read_scored(given(form, (tokens, [None, -1.0, -2.0, -3.0])), WHOLE, form, Redaction())
    assert whole.log_probs == (-2.0,)
    made = read_scored(given(form, (tokens, [None, -1.0, value, -3.0])), WHOLE, form, Redaction())
    assert made.log_probs == () and made.finish_reason != UNSUPPORTED
    assert "no ln probability of 1 of the text's 3 tokens" in str(made.error)


def test_perplexity_never_counts_the_first_token() -> None:
    tokens = ["a", " b", " c", " d"]
    made = read_scored(given("echo", (tokens, [0.0, -1.0, -2.0, -3.0])), WHOLE, "echo", Redaction())
    assert (made.log_probs, made.completion_tokens) == ((-2.0,), 3)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", [None, -9999.0, 0.5])
def test_score_of_a_word_without_a_ln_probability_is_missing_with_a_reason(form: Form, value: float | None) -> None:
    bare = (["a", " b"], [None, -1.0])
    answer = given(form, bare, (["a", " b", " c"], [None, -1.0, value]), (["a", " b", " d"], [None, -1.0, -2.0]))
    made = read_scored(answer, WORDS, form, Redaction())
    assert made.log_probs == (None, -2.0) and made.reasons == ("the server gave no ln probability of 'c'", None)
    assert (LOWEST, ROUNDING) == (LOWEST_LOG_PROB, 1e-6)  # what stored scores are held to


def test_score_never_takes_the_probability_of_another_token() -> None:
    bare = (["a", " b"], [None, -1.0])
    answer = given("vllm", bare, (["a", " b", " c"], [None, -1.0, -2.0]), (["a", " b", " d"], [None, -1.0, -3.0]))
    assert read_scored(answer, WORDS, "vllm", Redaction()).log_probs == (-2.0, -3.0)
    answer["choices"][1]["prompt_logprobs"][2] = {"1": {"logprob": -0.1}}  # the likeliest, and not the word's own
    assert read_scored(answer, WORDS, "vllm", Redaction()).log_probs == (None, -3.0)
    answer["choices"][1]["prompt_token_ids"].pop()
    with pytest.raises(RequestFailed, match="return_token_ids"):
        read_scored(answer, WORDS, "vllm", Redaction())


@pytest.mark.parametrize(
    ("tokens", "offsets", "sentence"),
    [
        ([" c", " d", " x"], [3, 5, 7], "begin at character 3 of the text"),
        ([" c", " d", " x"], [0, 2, 4], "cannot be found in the text"),  # counted from what is left
        (["a", " b", " x"], [0, 1, 7], "cannot be found in the text"),
        (["a", " b", " c", " dx"], None, "cannot be found in the text"),  # not the text's own last token
    ],
)
def test_read_scored_tokens_of_a_part_of_the_text_are_a_failure(
    tokens: list[str], offsets: list[int] | None, sentence: str
) -> None:
    answer: dict[str, Any] = {"index": 0, "text": "a b c dx" if offsets is None else "a b c d x"}
    answer["logprobs"] = {"tokens": tokens, "token_logprobs": [-1.0] * len(tokens), "text_offset": offsets}
    with pytest.raises(RequestFailed, match=sentence):
        read_scored({"choices": [answer]}, WHOLE, "echo", Redaction())


@pytest.mark.parametrize("form", FORMS)
def test_score_words_with_more_than_all_probability_are_a_failure_with_the_sum(form: Form) -> None:
    bare = (["a", " b"], [None, 0.0])
    answer = given(form, bare, (["a", " b", " c"], [None, 0.0, 0.0]), (["a", " b", " d"], [None, 0.0, 0.0]))
    with pytest.raises(RequestFailed, match="sum to 2, more than 1"):
        read_scored(answer, WORDS, form, Redaction())


@pytest.mark.parametrize("form", FORMS)
def test_score_with_values_that_are_those_of_the_next_token_is_a_failure(form: Form) -> None:
    """Ln p is -1.0 of " b", -4.0 of " c" and -0.5 of " d" after it; the server writes each at the token before its own.

    The prompt's last token then has -0.2 alone, of what was generated, and -4.0 before " c". Rounding is not that much.
    """
    bare: tuple[list[str], list[float | None]] = (["a", " b"], [-1.0, -0.2])
    answer = given(form, bare, (["a", " b", " c"], [-1.0, -4.0, -3.0]), (["a", " b", " d"], [-1.0, -0.5, -3.0]))
    with pytest.raises(RequestFailed, match=r"is -0\.2 alone and -4 before a word"):
        read_scored(answer, WORDS, form, Redaction())
    bare = (["a", " b"], [None, -1.2])
    answer = given(form, bare, (["a", " b", " c"], [None, -1.0, -4.0]), (["a", " b", " d"], [None, -0.9, -0.5]))
    assert read_scored(answer, WORDS, form, Redaction()).log_probs == (-4.0, -0.5)


def test_score_of_a_word_that_begins_another_counts_once_in_the_sum() -> None:
    asked = Prompt("p", "g", completion="a b", candidates=("c", "c e"), multi_token=True)
    longer = ["a", " b", " c", " e"]
    values = [None, -1.0, -0.1, -0.1]
    answer = given("echo", *((longer[:n], values[:n]) for n in (2, 3, 4)))
    made = read_scored(answer, asked, "echo", Redaction())
    assert made.log_probs == pytest.approx((-0.1, -0.2))  # P = 0.90 and, within it, 0.82


SENTENCE = "one two three four five six"


def words(text: str = SENTENCE, left_out: Sequence[int] = ()) -> dict[str, Any]:
    """A choice in both forms: ln p of the word at place n is -n; some are left out."""
    tokens = [f" {word}" if place else word for place, word in enumerate(text.split())]
    kept = [place for place in range(len(tokens)) if place not in left_out]
    starts = [sum(map(len, tokens[:place])) for place in kept]
    values = [-float(place) if place else None for place in kept]
    return {
        "index": 0, "text": text + " x", "prompt_token_ids": kept,
        "logprobs": {"tokens": [*(tokens[place] for place in kept), " x"], "token_logprobs": [*values, -9.0],
                     "text_offset": [*starts, len(text)]},
        "prompt_logprobs": [
            {str(place): {"logprob": -float(place), "decoded_token": tokens[place]}} if place else None
            for place in kept
        ],
    }  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("left_out", [[2], [2, 3, 4], [4, 5], [5], [0, 1], [0, 1, 2]])
def test_read_scored_tokens_without_one_of_the_text_are_a_failure(form: Form, left_out: list[int]) -> None:
    asked = replace(WHOLE, completion=SENTENCE)
    assert read_scored({"choices": [words()]}, asked, form, Redaction()).log_probs == (-3.0,)
    answer = words(left_out=left_out)
    answer["prompt_logprobs"][0] = None
    with pytest.raises(RequestFailed, match=r"of the text that was sent: the server|in the text that was sent"):
        read_scored({"choices": [answer]}, asked, form, Redaction())


def test_read_scored_words_of_choices_that_stand_for_one_another_are_a_failure() -> None:
    asked = Prompt("p", "g", completion=SENTENCE, candidates=("smart", "dull"))
    texts = [SENTENCE, f"{SENTENCE} dull", f"{SENTENCE} smart"]
    choices = [words(text) | {"index": index} for index, text in enumerate(texts)]
    with pytest.raises(RequestFailed, match="the server shows other tokens"):
        read_scored({"choices": choices}, asked, "vllm", Redaction())
    with pytest.raises(RequestFailed, match="the server shows other tokens"):
        read_scored(
            {"choices": [words("quite another text")]}, replace(WHOLE, completion=SENTENCE), "vllm", Redaction()
        )


def shown(*decoded: str | None) -> dict[str, Any]:
    """A choice of vLLM's form whose tokens, the first apart, are shown so; the ln p of each is -1."""
    entries = [{str(place): {"logprob": -1.0, "decoded_token": one}} for place, one in enumerate(decoded)]
    return {
        "index": 0,
        "text": " x",
        "prompt_token_ids": [*range(len(decoded))],
        "prompt_logprobs": [None, *entries[1:]],
    }


@pytest.mark.parametrize(
    ("text", "decoded"),
    [
        ("He said so", ["He", " said", " so"]),
        ("He said so", ["<s>", "He", "said", "so"]),  # SentencePiece decodes a token alone without its white space
        ("He said so", ["<s>", "\u2581He", "\u2581said", "\u2581so"]),
        ("He said so", ["[gMASK]", "<sop>", "He", "\u0120said", "\u0120so"]),
        ("He said so", ["he", "said", "so"]),
        ("so funny \U0001f602", ["so", " funny", " \ufffd", "\ufffd", "\ufffd"]),
        ("so funny \U0001f602", ["<s>", "so", " funny", " ", "", "", "\U0001f602"]),
        ("\U0001f602 so\u2026", ["<0xF0>", "<0x9F>", "<0x98>", "<0x82>", "so", "..."]),
        ("stra\u00dfe \u2026 so", ["stra", "\ufffd", "\ufffd", "e", " \ufffd", "\ufffd", "\ufffd", " so"]),
        ("He\nsaid so", ["He", "\u010a", "said", "\u0120so"]),
        ("caf\u00e9 au lait", ["cafe\u0301", " au", " lait"]),
    ],
)
def test_read_scored_tokens_are_known_in_whichever_form_a_server_shows_them(text: str, decoded: list[str]) -> None:
    asked = replace(WHOLE, completion=text)
    made = read_scored({"choices": [shown(*decoded)]}, asked, "vllm", Redaction())
    assert made.log_probs == (-1.0,) and made.completion_tokens == len(decoded) - 1
    for place in range(1, len(decoded)):
        if place > 1 and len(decoded[place]) > 1 and decoded[place].strip().isalpha() and decoded[place].isascii():
            with pytest.raises(RequestFailed, match="cannot be found"):
                read_scored({"choices": [shown(*decoded[:place], *decoded[place + 1 :])]}, asked, "vllm", Redaction())


def test_read_scored_tokens_that_are_not_shown_are_a_failure() -> None:
    with pytest.raises(RequestFailed, match="does not show its prompt's tokens"):
        read_scored({"choices": [shown("so", None)]}, replace(WHOLE, completion="so it"), "vllm", Redaction())
