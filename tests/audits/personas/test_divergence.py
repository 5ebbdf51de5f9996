import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from markedness.audits.personas.language.divergence import jensen_shannon


def test_jensen_shannon_of_disjoint_bags_is_one_bit_shared_by_weight() -> None:
    # p = (1/2, 1/2, 0), q = (0, 0, 1), m = p/2 + q/2: each word contributes half its weight, 1/4, 1/4, 1/2.
    total, contribution, share, side = jensen_shannon(np.array([3.0, 3.0, 0.0]), np.array([0.0, 0.0, 8.0]))
    np.testing.assert_allclose(contribution, share)
    assert total == pytest.approx(1.0)
    np.testing.assert_allclose(share, [0.25, 0.25, 0.5])
    assert side.tolist() == [1, 1, -1]


def test_jensen_shannon_total_equals_scipys_distance_squared() -> None:
    rng = np.random.default_rng(3)
    p, q = rng.poisson(2, (4, 50)).astype(float), rng.poisson(3, (4, 50)).astype(float)
    total, _, share, _ = jensen_shannon(p, q)
    for row in range(4):
        assert total[row] == pytest.approx(jensenshannon(p[row], q[row], base=2) ** 2)
    np.testing.assert_allclose(share.sum(axis=-1), 1.0)


def test_jensen_shannon_of_equal_bags_is_zero_without_shares() -> None:
    total, _, share, side = jensen_shannon(np.array([1.0, 2.0]), np.array([2.0, 4.0]))
    assert total == pytest.approx(0.0)
    assert np.isnan(share).all()
    assert side.tolist() == [0, 0]


def test_jensen_shannon_with_an_empty_bag_is_nan() -> None:
    total, _, share, _ = jensen_shannon(np.array([1.0, 2.0]), np.zeros(2))
    assert np.isnan(total)
    assert np.isnan(share).all()
