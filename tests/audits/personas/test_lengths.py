"""Texts cut to lengths that all groups have alike."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from markedness.audits.personas.estimators.lengths import as_many, cut, kept_shares


def cells(*parts: tuple[int, int, float, int], spread: float = 0.3, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Lengths, prompts and groups of parts (prompt, group, mean length, texts)."""
    rng = np.random.default_rng(seed)
    lengths = [mean * rng.uniform(1 - spread, 1 + spread, n) for _, _, mean, n in parts]
    prompt = np.repeat([prompt for prompt, *_ in parts], [n for *_, n in parts])
    group = np.repeat([group for _, group, *_ in parts], [n for *_, n in parts])
    return np.concatenate(lengths), prompt, group


def left(lengths: np.ndarray, prompt: np.ndarray, group: np.ndarray) -> np.ndarray:
    return lengths * kept_shares(lengths, prompt, [group], group)


@pytest.mark.parametrize(
    "parts",
    [
        ((0, 0, 60, 40), (0, 1, 30, 10)),
        ((0, 0, 100, 40), (0, 1, 40, 10), (1, 0, 40, 40), (1, 1, 100, 10)),  # longer in one prompt, shorter in another
        ((0, 0, 150, 20), (0, 1, 150, 5), (1, 0, 25, 5), (1, 1, 25, 20)),  # as the prompt has it, and not balanced
    ],
)
def test_texts_are_of_equal_length_within_prompts(parts: tuple[tuple[int, int, float, int], ...]) -> None:
    lengths, prompt, group = cells(*parts)
    made = left(lengths, prompt, group)
    assert (made <= lengths + 1e-9).all()
    for one in np.unique(prompt):
        means = [made[(prompt == one) & (group == own)].mean() for own in (0, 1)]
        assert means[0] == pytest.approx(means[1], rel=0.15)
        shortest = min(lengths[(prompt == one) & (group == own)].mean() for own in (0, 1))
        assert min(means) > 0.6 * shortest  # and no shorter than need be


def test_lengths_that_vary_unlike_are_cut_to_vary_alike() -> None:
    rng = np.random.default_rng(1)
    lengths = np.concatenate([np.full(40, 60.0), 60 * np.exp(rng.normal(0, 1, 40) - 0.5)])
    group = np.repeat([0, 1], 40)
    made = left(lengths, np.zeros(80, dtype=int), group)
    spreads = [np.std(made[group == own]) / np.mean(made[group == own]) for own in (0, 1)]
    assert spreads[0] == pytest.approx(spreads[1], rel=0.1)


def test_one_odd_text_does_not_cut_all_others() -> None:
    lengths, prompt, group = cells((0, 0, 60, 20), (0, 1, 60, 20))
    lengths[25] = 1.0
    assert left(lengths, prompt, group).sum() > 0.8 * lengths.sum()


def test_texts_of_equal_length_are_left_whole_and_one_group_alone_too() -> None:
    same = np.full(12, 30.0)
    assert (kept_shares(same, np.zeros(12, int), [np.arange(12) % 3], np.arange(12) % 3) == 1).all()
    lengths, prompt, group = cells((0, 0, 60, 20))
    np.testing.assert_allclose(left(lengths, prompt, group), lengths)


def test_cut_keeps_so_many_of_the_words_of_each_text_in_their_proportions() -> None:
    counts = scipy.sparse.csr_matrix(np.array([[6, 3, 1, 0], [0, 0, 0, 0], [2, 0, 0, 8]]))
    rng = np.random.default_rng(2)
    drawn = [np.asarray(cut(counts, np.array([0.5, 0.5, 1.0]), rng).todense()) for _ in range(2000)]
    assert all(one.sum(axis=1).tolist() == [5, 0, 10] and (one <= counts.todense()).all() for one in drawn)
    np.testing.assert_allclose(np.mean(drawn, axis=0)[0], [3, 1.5, 0.5, 0], atol=0.1)


def test_units_of_all_groups_keep_as_many_texts_and_none_goes() -> None:
    sizes = np.array([6] * 14 + [2] * 10)
    unit, group = np.repeat(np.arange(24), sizes), np.repeat([0] * 14 + [1] * 10, sizes)
    stays = as_many(unit, np.zeros(24, dtype=int), [group], group)
    left = np.bincount(unit[stays], minlength=24)
    assert left.min() >= 1 and left[:14].mean() == pytest.approx(left[14:].mean(), rel=0.1)
    assert left[14:].mean() > 1.8  # and no fewer than need be
    assert as_many(np.arange(24), np.zeros(24, dtype=int), [np.arange(24) % 2], np.arange(24) % 2).all()
