"""The transformers backend on tiny models: batches change no number and no text, and what is wrong is said."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="skipped: torch is not installed (pip install 'markedness[local]')")

import numpy as np
import torch
from tests.lm.tiny_models import MODELS
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from markedness.lm import local as local_models
from markedness.lm.base import Draw, ModelError, RequestFailed
from markedness.lm.collect import collect
from markedness.lm.config import TransformersModel
from markedness.lm.ledger import Ledger
from markedness.lm.local import LocalModel
from markedness.lm.local_text import Job, text_of
from markedness.lm.plan import Counts
from markedness.records import Completion, Message, Prompt, Sampling
from markedness.text.answers import final_answer

TEXTS = (
    'The person who says " the rain " is', 'the people say: " they are walking " they are', "he says he is",
    "she says she is", "they are always", "a person who is kind tends to be", "the old man and the song are",
    'the person says: " bread bread bread bread bread " the person is', "he says he is",
)  # fmt: skip
CANDIDATES = ("lazy", "brave", "kind", "loud", "calm", "zzz")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("models")
    for name, build in MODELS.items():
        build(root / name)
    return root


def local(folder: Path, name: str, **more: Any) -> LocalModel:
    settings: dict[str, Any] = {"dtype_text": "float64", "dtype_scores": "float64", "batch_size": 4} | more
    return LocalModel(TransformersModel(backend="transformers", path=name, **settings), folder, seed=7)


def ask(model: LocalModel, prompts: list[Prompt]) -> list[Completion]:
    draws = [Draw(prompt, sample, model.request(prompt)) for prompt in prompts for sample in range(prompt.samples)]
    return asyncio.run(model.complete(draws))


def scored(text: str, **more: Any) -> Prompt:
    return Prompt("p", "g", completion=text, candidates=CANDIDATES, **more)


def read_one_by_one(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, name: str, text: str) -> torch.Tensor:
    """Ln P over the vocabulary, as plainly as it can be written: one sequence, all logits."""
    with torch.no_grad():
        if name == "gpt2":
            ids = torch.tensor([tokenizer(text)["input_ids"]])
            logits = model(input_ids=ids).logits[0, -1]
        elif name == "roberta":
            ids = torch.tensor([tokenizer(f"{text} <mask>")["input_ids"]])
            logits = model(input_ids=ids).logits[0, -2]
        else:
            ids = torch.tensor([tokenizer(f"{text} <extra_id_0>")["input_ids"]])
            sentinel = tokenizer.convert_tokens_to_ids("<extra_id_0>")
            logits = model(input_ids=ids, decoder_input_ids=torch.tensor([[0, sentinel]])).logits[0, 1]
    return torch.log_softmax(logits, -1)


def test_collect_answers_two_batches_at_a_time_and_changes_no_text(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two wait for each other in the model; one batch at a time would wait for ever, and fail after a minute."""
    sampling = Sampling(temperature=1.0, max_tokens=6)
    prompts = [Prompt(text, "g", completion=text, sampling=sampling, samples=2) for text in TEXTS[:5]]
    alone = local(folder, "gpt2", batch_size=1)
    expected = [answer.text for answer in ask(alone, prompts)]
    model, meet, sizes = local(folder, "gpt2", batch_size=3), threading.Barrier(2), []

    def answer(draws: Sequence[Draw]) -> list[Completion]:
        sizes.append(len(draws))
        meet.wait(60)
        return alone.answer(draws)

    monkeypatch.setattr(model, "answer", answer)
    with Ledger(tmp_path / "ledger.jsonl") as ledger:
        answers = list(asyncio.run(collect(model, prompts, ledger, Counts())))
    assert [answer.text for of_prompt in answers for answer in of_prompt] == expected
    assert sorted(sizes) == [1, 3, 3, 3]  # ten in two rounds of two batches, none larger than three


def test_complete_of_two_batches_at_a_time_counts_the_cores_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first to count waits for another that counts, too: none comes where it is done once."""
    made, meet = [], threading.Barrier(2)

    class Cores(local_models._Cores):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)
            with contextlib.suppress(threading.BrokenBarrierError):
                meet.wait(1)

    monkeypatch.setattr(local_models, "_cores", functools.cache(Cores))
    model = local(folder, "gpt2")
    prompt = scored(TEXTS[2])

    async def both() -> None:
        await asyncio.gather(*(model.complete([Draw(prompt, 0, model.request(prompt))]) for _ in range(2)))

    asyncio.run(both())
    assert len(made) == 1


@pytest.mark.parametrize("name", list(MODELS))
def test_score_batched_equals_one_by_one(folder: Path, name: str) -> None:
    model = local(folder, name)
    answers = ask(model, [scored(text) for text in TEXTS])
    for text, answer in zip(TEXTS, answers, strict=True):
        log_probs = read_one_by_one(model.load("float64"), model.tokenizer, name, text)
        for candidate, value in zip(CANDIDATES[:-1], answer.log_probs, strict=False):
            (token,) = model.tokenizer(f" {candidate}", add_special_tokens=False)["input_ids"]
            assert value == pytest.approx(float(log_probs[token]), abs=1e-9)
    assert answers[2].estimator == "exact" and answers[2] == answers[8]


@pytest.mark.parametrize("name", list(MODELS))
def test_score_of_a_candidate_of_several_tokens_is_missing_with_a_reason(folder: Path, name: str) -> None:
    (answer,) = ask(local(folder, name), [scored("he says he is")])
    assert answer.log_probs[-1] is None and None not in answer.log_probs[:-1]
    assert answer.reasons == (*(None,) * 5, "'zzz' is not a single token after this prompt")


@pytest.mark.parametrize("name", list(MODELS))
def test_perplexity_batched_equals_one_by_one(folder: Path, name: str) -> None:
    model = local(folder, name)
    answers = ask(model, [Prompt("p", "g", completion=text, perplexity=True) for text in TEXTS])
    net, tokenizer = model.load("float64"), model.tokenizer
    for text, answer in zip(TEXTS, answers, strict=True):
        ids = tokenizer(text)["input_ids"]
        with torch.no_grad():
            if name == "gpt2":
                steps = torch.log_softmax(net(input_ids=torch.tensor([ids])).logits[0], -1)
                each = [float(steps[i - 1, ids[i]]) for i in range(1, len(ids))]
            else:
                blank = tokenizer.convert_tokens_to_ids("<mask>" if name == "roberta" else "<extra_id_0>")
                places = range(1, len(ids) - 1) if name == "roberta" else range(len(ids) - 1)
                each = []
                for i in places:
                    hidden = torch.tensor([[*ids[:i], blank, *ids[i + 1 :]]])
                    more = {} if name == "roberta" else {"decoder_input_ids": torch.tensor([[0, blank]])}
                    logits = net(input_ids=hidden, **more).logits[0, i if name == "roberta" else 1]
                    each.append(float(torch.log_softmax(logits, -1)[ids[i]]))
        assert answer.log_probs == pytest.approx((sum(each) / len(each),), abs=1e-9)
        assert answer.completion_tokens == len(each)


def test_perplexity_of_one_token_is_refused_by_a_causal_model(folder: Path) -> None:
    (answer,) = ask(local(folder, "gpt2"), [Prompt("p", "g", completion="the", perplexity=True)])
    assert answer.log_probs == () and "too short for a perplexity" in (answer.error or "")


def test_score_beyond_the_context_fails_alone(folder: Path) -> None:
    long = f'he says: " {"rain " * 80}" he is'
    answers = ask(local(folder, "gpt2"), [scored(long), scored("he says he is")])
    assert "tokens and the model reads 64" in (answers[0].error or "")
    assert answers[1].error is None


@pytest.mark.parametrize("name", list(MODELS))
def test_score_with_overflow_cut_loses_words_of_the_text_not_of_the_template(folder: Path, name: str) -> None:
    text = "rain " * 80 + "sun"
    model = local(folder, name, overflow="cut")
    (cut,) = ask(model, [scored(f'he says: " {text} " he is', cut=text)])
    assert cut.error is None and cut.cut_tokens is not None and cut.prompt_tokens is not None
    # 64 tokens are read at most; with one word more it would not fit
    assert cut.prompt_tokens == 64
    kept = 81 - cut.cut_tokens
    (same,) = ask(model, [scored(f'he says: " {" ".join(["rain"] * kept)} " he is')])
    assert same.log_probs == cut.log_probs


def test_score_of_a_text_with_a_mask_of_its_own_fails(folder: Path) -> None:
    (answer,) = ask(local(folder, "roberta"), [scored("he says <mask> is")])
    assert "not unique" in (answer.error or "")


def written(text: str, **more: Any) -> Prompt:
    sampling = Sampling(**({"temperature": 1.0, "top_p": 0.9, "max_tokens": 12} | more))
    return Prompt("p", "g", completion=text, sampling=sampling, samples=3)


@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_text_does_not_depend_on_the_batch(folder: Path, name: str) -> None:
    prompts = [written(text) for text in TEXTS[:-1]]
    together = ask(local(folder, name, batch_size=64), prompts)
    alone = ask(local(folder, name, batch_size=1), prompts)
    assert together == alone
    assert len({answer.text for answer in together}) > 8  # 24 draws: samples of one prompt differ


def test_text_at_temperature_zero_is_that_of_transformers(folder: Path) -> None:
    for name in ("gpt2", "t5"):
        model = local(folder, name)
        answers = ask(model, [written(text, temperature=0.0) for text in TEXTS[:3]])
        for text, answer in zip(TEXTS[:3], answers[::3], strict=True):
            ids = torch.tensor([model.tokenizer(text)["input_ids"]])
            out = model.load("float64").generate(input_ids=ids, do_sample=False, max_new_tokens=12)[0]
            new = out[1:] if name == "t5" else out[ids.shape[1] :]
            assert answer.text is not None
            assert answer.text.strip() == model.tokenizer.decode(new, skip_special_tokens=True).strip()


def test_text_stops_before_its_stop_and_counts_tokens(folder: Path) -> None:
    model = local(folder, "gpt2")
    free = ask(model, [written("he says he is", max_tokens=30)])[0]
    assert free.finish_reason == "length" and free.completion_tokens == 30 and free.prompt_tokens == 4
    stop = (free.text or "")[10:12]
    # the uniforms of a draw hang on its request, and the stop is part of it: compare with its own text
    held = ask(model, [written("he says he is", max_tokens=30, stop=(stop, "never there"))])
    for answer in held:
        assert stop not in (answer.text or "")
        assert answer.finish_reason == "stop" or answer.completion_tokens == 30


def test_choose_follows_the_nucleus_distribution() -> None:
    from markedness.lm.local_text import choose

    logits = torch.log(torch.tensor([[0.5, 0.1, 0.3, 0.1]])).repeat(4, 1)
    # top-p 0.7 keeps 0.5 and 0.3, renormalised to 0.625 and 0.375: the cut lies at 0.625
    uniform = torch.tensor([0.0, 0.62, 0.63, 0.999999], dtype=torch.float64)
    tokens = choose(logits, torch.ones(4), torch.full((4,), 0.7, dtype=torch.float64), uniform)
    assert tokens.tolist() == [0, 0, 2, 2]
    # temperature 0 is the most probable token whatever the uniform
    assert choose(logits, torch.zeros(4), torch.ones(4, dtype=torch.float64), uniform).tolist() == [0] * 4


@pytest.mark.parametrize("top_p", [0.95, 1.0])
def test_choose_beyond_the_first_tokens_draws_from_the_whole_vocabulary(top_p: float) -> None:
    from markedness.lm.local_text import NUCLEUS, choose

    size = 2 * NUCLEUS[-1]
    probabilities = torch.arange(size, 0, -1, dtype=torch.float64)  # token 0 is the most probable
    probabilities /= probabilities.sum()
    uniform = torch.linspace(0, 0.999, 50, dtype=torch.float64)
    top_ps = torch.full((50,), top_p, dtype=torch.float64)
    tokens = choose(probabilities.log().repeat(50, 1), torch.ones(50), top_ps, uniform)
    # the cumulative distribution, written out: the first token whose cumulative sum exceeds u times the nucleus' mass
    cumulative = probabilities.cumsum(0)
    mass = float(cumulative[(cumulative < top_p).sum()]) if top_p < 1 else 1.0
    expected = [int((cumulative <= u * mass).sum()) for u in uniform]
    assert all(
        abs(token - want) <= 1 for token, want in zip(tokens.tolist(), expected, strict=True)
    )  # float32 rounding
    assert max(expected) > NUCLEUS[-1]


def test_masked_model_is_unsupported_for_text_and_loads_nothing(folder: Path) -> None:
    model = local(folder, "roberta")
    assert "writes no text" in (model.unsupported(written("he is")) or "")
    assert model.unsupported(scored("he is")) is None
    assert not model._models


def test_masked_model_that_was_unknown_beforehand_is_unsupported_for_text(folder: Path) -> None:
    model = local(folder, "roberta")
    model.__dict__["kind"] = None  # as of a hub model that is not here yet
    assert model.unsupported(written("he is")) is None
    answers = ask(model, [written("he is")])
    assert all(a.finish_reason == "unsupported" and "writes no text" in (a.error or "") for a in answers)


def test_a_state_space_model_is_scored_and_unsupported_for_text(folder: Path, tmp_path: Path) -> None:
    from transformers import MambaConfig, MambaForCausalLM

    tokenizer = local(folder, "gpt2").tokenizer
    config = MambaConfig(vocab_size=len(tokenizer), hidden_size=16, state_size=4, num_hidden_layers=1)
    MambaForCausalLM(config).save_pretrained(tmp_path / "mamba")
    tokenizer.save_pretrained(tmp_path / "mamba")
    answers = ask(local(tmp_path, "mamba"), [scored("he is"), written("he is")])
    assert answers[0].error is None and answers[0].log_probs[0] is not None
    assert all(a.finish_reason == "unsupported" and "keeps no cache" in (a.error or "") for a in answers[1:])


def test_text_of_a_model_with_convolutions_beside_attention_does_not_depend_on_the_batch(
    folder: Path, tmp_path: Path
) -> None:
    """Rows leave a cache of two kinds of layers: equal prompts are read once, and texts end at different lengths."""
    from transformers import Lfm2Config, Lfm2ForCausalLM

    tokenizer = local(folder, "gpt2").tokenizer
    torch.manual_seed(0)
    config = Lfm2Config(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, layer_types=["conv", "full_attention"], initializer_range=0.3,
    )  # fmt: skip
    Lfm2ForCausalLM(config).save_pretrained(tmp_path / "lfm2")
    tokenizer.save_pretrained(tmp_path / "lfm2")
    sampling = [Sampling(temperature=1.0, max_tokens=length) for length in (3, 12)]
    prompts = [Prompt("p", "g", completion=text, sampling=one, samples=3) for text in TEXTS for one in sampling]
    together = ask(local(tmp_path, "lfm2", batch_size=64), prompts)
    assert together == ask(local(tmp_path, "lfm2", batch_size=1), prompts)
    assert len({answer.text for answer in together}) > len(TEXTS)


def test_out_of_memory_fails_the_batch_with_a_remedy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from markedness.lm import local_text

    def fails(*arguments: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr(local_text, "draw", fails)
    with pytest.raises(RequestFailed, match="lower batch_size"):
        ask(local(folder, "gpt2"), [written("he is")])


@pytest.mark.slow
def test_a_missing_model_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot be loaded as a folder beside params\.yaml or a hub id"):
        ask(local(tmp_path, "models/absent"), [scored("he is")])


def test_a_model_without_its_language_head_is_refused(folder: Path, tmp_path: Path) -> None:
    from transformers import AutoModel

    AutoModel.from_pretrained(folder / "roberta").save_pretrained(tmp_path / "headless")
    local(folder, "roberta").tokenizer.save_pretrained(tmp_path / "headless")
    with pytest.raises(ModelError, match="holds no language model"):
        ask(local(tmp_path, "headless"), [scored("he is")])


def test_chat_without_a_template_is_one_sentence(folder: Path) -> None:
    with pytest.raises(ModelError, match="no chat template; set chat: false"):
        ask(local(folder, "gpt2", chat=True), [written("he is")])


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (
            "{% for m in messages %}<s>{% for part in m.content %}{{ part.text }}{% endfor %}{% endfor %}",
            "leaves out the",
        ),
        ("Hello", "leaves out the text of the messages"),
        ("", "leaves out the text of the messages"),
        ("{{ raise_exception('no such role') }}", "cannot be filled in"),
        ("{% for m in %}", "cannot be filled in"),
        ("{{ messages.x.y }}", "cannot be filled in"),
    ],
)
def test_chat_template_that_does_not_ask_what_the_prompt_says_is_one_sentence(
    folder: Path, tmp_path: Path, template: str, said: str
) -> None:
    model = local(folder, "gpt2", chat=True)
    model.tokenizer.chat_template = template or "{# nothing #}"
    asked = Prompt(
        "p",
        "g",
        messages=(Message("user", "Imagine you are a kind woman."),),
        completion="",
        sampling=Sampling(max_tokens=2),
    )
    with pytest.raises(ModelError, match=rf"\A[^\n]*{said}[^\n]*set chat: false[^\n]*\Z"):
        ask(model, [asked])


def test_chat_template_may_glue_its_signs_to_the_words(folder: Path) -> None:
    model = local(folder, "gpt2", chat=True)
    model.tokenizer.chat_template = "{% for m in messages %}[INST]{{ m.content | trim }}[/INST]{% endfor %}"
    asked = Prompt("p", "g", messages=(Message("user", " kind "),), completion="", sampling=Sampling(max_tokens=2))
    assert ask(model, [asked])[0].text is not None


def test_chat_goes_through_the_template_and_ignores_stops(folder: Path, tmp_path: Path) -> None:
    local(folder, "gpt2").load("float64").save_pretrained(tmp_path / "chatty")
    tokenizer = local(folder, "gpt2").tokenizer
    tokenizer.chat_template = "{% for m in messages %}{{ m.role }} says {{ m.content }} {% endfor %}they say"
    tokenizer.save_pretrained(tmp_path / "chatty")
    asked = Prompt(
        "p", "g", messages=(Message("user", "who is kind"),), completion="not this",
        sampling=Sampling(temperature=0.0, max_tokens=5, stop=("e",)),
    )  # fmt: skip
    model = local(tmp_path, "chatty", chat=True)
    assert "stop" in model.request(asked) and model.request(asked)["stop"] == []
    (answer,) = ask(model, [asked])
    plain = ask(local(folder, "gpt2"), [written("user says who is kind they say", temperature=0.0, max_tokens=5)])[0]
    assert answer.text == plain.text and answer.finish_reason == "length"


def test_text_keeps_the_special_tokens_that_set_reasoning_apart(folder: Path) -> None:
    tokenizer = copy.deepcopy(local(folder, "gpt2").tokenizer)
    marks = ["<|channel|>", "<|message|>", "[THINK]", "[/THINK]", "<|START_THINKING|>", "<|END_THINKING|>"]
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|start|>", "<|end|>", *marks]})

    def drawn(text: str) -> str:
        tokens = tokenizer.encode(text, add_special_tokens=False)
        job = Job((), np.zeros(len(tokens)), Sampling(), context=tuple(tokenizer.encode("he says")))
        job.tokens = tokens
        return text_of(job, tokenizer)

    said = "<|channel|>analysis<|message|>she is<|end|><|start|>assistant<|channel|>final<|message|> he is<|endoftext|>"
    assert drawn(said) == said.replace("<|end|><|start|>", "").removesuffix("<|endoftext|>")
    assert final_answer(drawn(said)) == " he is"
    assert final_answer(drawn("[THINK]she is[/THINK]he is")) == "he is"
    assert final_answer(drawn("<|START_THINKING|>she is<|END_THINKING|>he is")) == "he is"
    assert final_answer(drawn("<|channel|>analysis<|message|>she is")) == ""
    assert drawn(" he<|end|> is") == " he is"


def test_a_fully_cached_run_imports_no_torch() -> None:
    import subprocess

    code = "import sys, markedness.lm.local; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
