"""Other ways to score a text here: words of several tokens, a chat template before it, whole words masked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="skipped: torch is not installed (pip install 'markedness[local]')")

from tests.lm.test_local import CANDIDATES, ask, folder, local, scored  # noqa: E402

from markedness.lm.base import ModelError  # noqa: E402
from markedness.records import Prompt  # noqa: E402

__all__ = ["folder"]
TEXT = "he says he is"
TEMPLATE = "{% for m in messages %}<|endoftext|>{{ m.role }} says {{ m.content }} {% endfor %}they say "


def log_softmax(model: Any, ids: list[int]) -> Any:
    with torch.no_grad():
        return torch.log_softmax(model.load("float64")(input_ids=torch.tensor([ids])).logits[0], -1)


def test_score_several_tokens_is_the_sum_over_them_one_at_a_time(folder: Path) -> None:
    model = local(folder, "gpt2")
    (answer,) = ask(model, [scored(TEXT, multi_token=True)])
    ids, (*_, last) = model.tokenizer(TEXT)["input_ids"], CANDIDATES
    own = model.tokenizer(f" {last}", add_special_tokens=False)["input_ids"]
    assert len(own) > 1
    expected = sum(float(log_softmax(model, [*ids, *own[:n]])[-1, token]) for n, token in enumerate(own))
    assert answer.log_probs[-1] == pytest.approx(expected, abs=1e-9)
    assert answer.candidate_tokens == (1, 1, 1, 1, 1, len(own)) and answer.reasons == ()
    (single,) = ask(model, [scored(TEXT)])
    assert single.log_probs[:-1] == answer.log_probs[:-1] and single.log_probs[-1] is None
    # the option alone changes the key in the ledger; without it requests are those of before
    assert model.request(scored(TEXT, multi_token=True)) == model.request(scored(TEXT)) | {"multi_token": True}


@pytest.mark.parametrize("name", ["roberta", "t5"])
def test_score_several_tokens_with_another_kind_of_model_is_one_sentence(folder: Path, name: str) -> None:
    (answer,) = ask(local(folder, name), [scored(TEXT, multi_token=True)])
    assert answer.log_probs[-1] is None and None not in answer.log_probs[:-1]
    assert answer.reasons[-1] == "'zzz' is not a single token, and several are scored with causal models alone"
    assert answer.candidate_tokens == (1, 1, 1, 1, 1, None)


def test_score_several_tokens_beyond_the_context_has_no_score(folder: Path) -> None:
    model = local(folder, "gpt2")
    text = "rain" + " rain" * 63  # 64 tokens are read at most
    (answer,) = ask(model, [scored(text, multi_token=True)])
    assert None not in answer.log_probs[:-1]
    assert answer.reasons[-1] == "with 'zzz' the prompt is longer than the 64 tokens that the model reads"


def chatty(folder: Path, **more: Any) -> Any:
    model = local(folder, "gpt2", **more)
    model.tokenizer.chat_template = TEMPLATE
    return model


def test_scored_turn_puts_the_template_before_the_text_and_reads_behind_it(folder: Path) -> None:
    model = chatty(folder, scored_turn="go on")
    (answer,) = ask(model, [scored(TEXT)])
    ids = model.tokenizer(f"<|endoftext|>user says go on they say {TEXT}", add_special_tokens=False)["input_ids"]
    steps = log_softmax(model, ids)
    for word, value in zip(CANDIDATES[:-1], answer.log_probs, strict=False):
        (token,) = model.tokenizer(f" {word}", add_special_tokens=False)["input_ids"]
        assert value == pytest.approx(float(steps[-1, token]), abs=1e-9)
    assert answer.prompt_tokens == len(ids)
    # perplexity is that of the text alone
    (whole,) = ask(model, [Prompt("p", "g", completion=TEXT, perplexity=True)])
    start = len(model.tokenizer("<|endoftext|>user says go on they say ", add_special_tokens=False)["input_ids"])
    each = [float(steps[place - 1, ids[place]]) for place in range(start, len(ids))]
    assert whole.log_probs == pytest.approx((sum(each) / len(each),), abs=1e-9)
    assert model.request(scored(TEXT)) == local(folder, "gpt2").request(scored(TEXT)) | {"scored_turn": "go on"}


def test_scored_turn_of_a_model_without_a_template_is_one_sentence(folder: Path) -> None:
    with pytest.raises(ModelError, match="has no chat template: leave it out"):
        ask(local(folder, "gpt2", scored_turn="go on"), [scored(TEXT)])
    with pytest.raises(ModelError, match="is masked: leave it out"):
        ask(local(folder, "roberta", scored_turn="go on"), [scored(TEXT)])


def test_whole_words_mask_the_rest_of_a_word_with_each_of_its_tokens(folder: Path) -> None:
    model = local(folder, "roberta", whole_words=True)
    text = "he zzz kind"
    (answer,) = ask(model, [Prompt("p", "g", completion=text, perplexity=True)])
    ids = model.tokenizer(text)["input_ids"]
    tokens = [model.tokenizer.decode([one]) for one in ids]
    of_word = [place for place, token in enumerate(tokens) if token and set(token) <= {"z", " "}]  # and its space
    assert len(of_word) > 1
    mask, each = model.tokenizer.mask_token_id, []
    for place in range(1, len(ids) - 1):
        hidden = [one for one in of_word if one > place] if place in of_word else []
        masked = [mask if one == place or one in hidden else token for one, token in enumerate(ids)]
        each.append(float(log_softmax(model, masked)[place, ids[place]]))
    assert answer.log_probs == pytest.approx((sum(each) / len(each),), abs=1e-9)
    assert answer.estimator == "masked_token_of_word"
    (token_by_token,) = ask(local(folder, "roberta"), [Prompt("p", "g", completion=text, perplexity=True)])
    assert token_by_token.log_probs != answer.log_probs
    with pytest.raises(ModelError, match="whole_words is for masked models"):
        ask(local(folder, "gpt2", whole_words=True), [Prompt("p", "g", completion=text, perplexity=True)])
