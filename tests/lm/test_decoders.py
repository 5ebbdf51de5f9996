"""Rows of a batch read together: their logits are those of each text read alone, whatever its neighbours."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="skipped: torch is not installed (pip install 'markedness[local]')")

import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, GPT2Config, GPT2LMHeadModel, PreTrainedModel

from markedness.lm.decoders import ROOM, Causal, Roomy, RoomyWindow

BEGINNING = (5, 9, 11, 7, 3, 8, 2, 13, 4, 6)
PROMPTS = ((*BEGINNING, 17, 18), (*BEGINNING, 17, 19, 20, 21), (*BEGINNING, 22), (*BEGINNING, 17, 18))
"""Two of one text; all begin with the same ten tokens, and have 12, 14 and 11 of them."""


def gemma(window: int) -> PreTrainedModel:
    torch.manual_seed(1)
    config = Gemma3TextConfig(
        vocab_size=40, hidden_size=16, intermediate_size=32, num_hidden_layers=3, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, sliding_window=window, max_position_embeddings=256,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    )  # fmt: skip
    return Gemma3ForCausalLM(config).double().eval()


def gpt2() -> PreTrainedModel:
    torch.manual_seed(2)
    config = GPT2Config(vocab_size=40, n_positions=256, n_embd=16, n_layer=2, n_head=2)
    return GPT2LMHeadModel(config).double().eval()


def alone(model: PreTrainedModel, ids: tuple[int, ...]) -> torch.Tensor:
    return model(input_ids=torch.tensor([ids])).logits[0, -1]


def assert_drawn_as_alone(model: PreTrainedModel, steps: int) -> Causal:
    """Feed tokens, drop the second row after three of them, and compare every step with the text read alone."""
    texts, decoder = list(PROMPTS), Causal(model, PROMPTS, 0)
    with torch.inference_mode():
        logits = decoder.start()
        for step in range(steps):
            expected = torch.stack([alone(model, text) for text in texts])
            torch.testing.assert_close(logits, expected, rtol=0, atol=1e-10)
            if step == 3:
                decoder.select(torch.tensor([0, 2, 3]))
                texts = [texts[0], texts[2], texts[3]]
            tokens = [(7 * step + 3 * row) % 40 for row in range(len(texts))]
            texts = [(*text, token) for text, token in zip(texts, tokens, strict=True)]
            logits = decoder.step(torch.tensor(tokens))
    return decoder


@pytest.mark.parametrize("window", [4, 12, 16, 200], ids="window {}".format)
def test_rows_of_a_model_with_windows_are_those_of_each_text_alone(window: int) -> None:
    """Windows shorter than the shared beginning, than the prompts, than the texts, and longer than all."""
    decoder = assert_drawn_as_alone(gemma(window), steps=12)
    assert [type(layer) for layer in decoder.past.layers] == [RoomyWindow, Roomy, RoomyWindow]


def test_rows_beyond_their_room_are_those_of_each_text_alone() -> None:
    assert_drawn_as_alone(gpt2(), steps=ROOM + 4)


def test_a_beginning_that_all_prompts_share_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten tokens for one row, then 4 for each of three distinct prompts, the longest of which has 14: 10 + 12."""
    model = gpt2()
    forward, read = model.forward, []

    def counted(input_ids: torch.Tensor, **more: object) -> object:
        read.append(input_ids.numel())
        return forward(input_ids=input_ids, **more)

    decoder = Causal(model, PROMPTS, 0)
    monkeypatch.setattr(model, "forward", counted)
    with torch.inference_mode():
        decoder.start()
    assert read == [10, 12]


def test_a_cache_of_another_kind_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer that is neither of those known may hold more than keys and values, so that nothing is shared."""

    model = gpt2()
    decoder = Causal(model, PROMPTS, 0)
    monkeypatch.setattr("markedness.lm.decoders.ROOMY", {})
    with torch.inference_mode():
        logits = decoder.start()
        expected = torch.stack([alone(model, text) for text in PROMPTS])
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-10)
    assert decoder.mask.shape == (4, 14)
