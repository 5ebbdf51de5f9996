"""Tiny random models with tokenizers of their own, built in a second: GPT2, RoBERTa and T5."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

TEXT = (
    "the a person people who says say is are he she they his her their tends to be lazy brave kind loud calm old young "
    "walks walking talks talking usually been rain sun river house market bread song night morning always never"
)
WORDS = TEXT.split()
CORPUS = [" ".join(WORDS[i:] + WORDS[:i]) for i in range(len(WORDS))] + [" " + word for word in WORDS] * 3


def _save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, folder: Path) -> Path:
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _byte_bpe(special: list[str]) -> Tokenizer:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def tiny_gpt2(folder: Path) -> Path:
    """Causal, with learned absolute positions: a wrong position_ids shows."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=_byte_bpe(["<|endoftext|>"]), eos_token="<|endoftext|>", bos_token="<|endoftext|>",
        model_max_length=64,
    )  # fmt: skip
    torch.manual_seed(1)
    config = GPT2Config(
        vocab_size=len(tokenizer), n_positions=64, n_embd=32, n_layer=2, n_head=2, initializer_range=0.3,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return _save(GPT2LMHeadModel(config), tokenizer, folder)


def tiny_roberta(folder: Path) -> Path:
    """Masked, with special tokens around the text and positions that start after the padding index."""
    import torch
    from tokenizers import AddedToken, processors
    from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaForMaskedLM

    inner = _byte_bpe(["<s>", "<pad>", "</s>", "<unk>"])
    inner.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<pad>",
        mask_token=AddedToken("<mask>", lstrip=True, special=True),
    )  # fmt: skip
    torch.manual_seed(2)
    config = RobertaConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=66, initializer_range=0.3, pad_token_id=1, bos_token_id=0, eos_token_id=2,
    )  # fmt: skip
    return _save(RobertaForMaskedLM(config), tokenizer, folder)


def tiny_t5(folder: Path) -> Path:
    """Encoder-decoder, with a sentinel."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

    special = ["<pad>", "</s>", "<unk>", "<extra_id_0>"]
    words = [f"▁{word}" for word in dict.fromkeys(WORDS)]
    letters = ["▁", *"abcdefghijklmnopqrstuvwxyz"]
    scores = (
        [(token, 0.0) for token in special] + [(word, -5.0) for word in words] + [(letter, -20.0) for letter in letters]
    )
    inner = Tokenizer(models.Unigram(scores, unk_id=2))
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    inner.decoder = decoders.Metaspace()
    inner.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="</s>", unk_token="<unk>",
        extra_special_tokens=["<extra_id_0>"], model_max_length=64,
    )  # fmt: skip
    torch.manual_seed(3)
    config = T5Config(
        vocab_size=len(tokenizer), d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2, decoder_start_token_id=0,
        pad_token_id=0, eos_token_id=1, initializer_factor=3.0,
    )  # fmt: skip
    return _save(T5ForConditionalGeneration(config), tokenizer, folder)


MODELS = {"gpt2": tiny_gpt2, "roberta": tiny_roberta, "t5": tiny_t5}
