"""Which scores stand first."""

from __future__ import annotations

import pytest

from markedness.reporting.results import headline_keys

from .conftest import CARD


@pytest.mark.parametrize(
    ("metrics", "keys"),
    [
        (["share.Black", "share.woman"], ["share.Black", "share.woman", "share.absent"]),
        (["share.Black", "share.Blue", "share.Blue_ci_low"], ["share.Black", "share.Blue"]),
        (["share.a", "share.a_null", "share.b", "share.c", "share.d", "odds.e"], ["share.a", "share.b", "share.c"]),
        ([], ["share.Black", "share.woman", "share.absent"]),
    ],
    ids=["the card's groups", "one group of its own", "all of its own", "nothing estimated"],
)
def test_headline_keys_of_other_groups_are_those_of_the_study(metrics: list[str], keys: list[str]) -> None:
    assert headline_keys(CARD, dict.fromkeys(metrics, 0.5)) == keys
