"""Two scripted authors: one who ignores the group, one who has a known habit with marked groups."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

from markedness.records import Prompt

_SENTENCES = (
    ("I live", ("near the harbour", "above a bakery", "at the edge of town", "by the old mill", "next to a park"),
     ("with two cats", "with an old friend", "on my own", "among tall trees", "and rarely lock the door")),
    ("I work", ("in a small office", "at the library", "for a bus company", "from home", "in a garage"),
     ("three days a week", "since last spring", "with people I like", "mostly at night", "and enjoy it")),
    ("In the evening I", ("read novels", "cook for friends", "play chess", "walk along the river", "mend bicycles"),
     ("until late", "with the window open", "when it rains", "to clear my head", "and listen to the radio")),
    ("My friends say I", ("listen well", "worry too much", "laugh loudly", "never forget a name", "plan ahead"),
     ("and mean it", "most of the time", "which is fair", "but forgive me", "and they know me best")),
    ("I have", ("brown eyes", "a scar on my chin", "long fingers", "a quiet voice", "a quick step"),
     ("and a warm coat", "and good shoes", "like my uncle", "and poor eyesight", "and a crooked smile")),
    ("One day I", ("will see the sea", "want to learn the piano", "will plant an apple tree", "hope to own a boat",
                   "would like to teach"),
     ("somewhere quiet", "if time allows", "with my cousins", "far from here", "and take my time")),
)  # fmt: skip
"""Opening, middle, end: the author draws one middle and one end for each."""

_PLANTED = (
    "lantern", "velvet", "orchard", "compass", "ribbon", "thunder", "harvest", "marble", "whistle", "copper",
    "feather", "mosaic", "saffron", "anchor", "juniper", "pebble", "trumpet", "amber", "willow", "kettle",
    "beacon", "ginger", "saddle", "pepper", "violet", "basket", "candle", "turtle", "magnet", "walnut",
    "button", "sparrow", "cactus", "pillow", "mitten", "rocket", "clover", "tunnel", "parrot", "lemon",
)  # fmt: skip
"""Innocuous words that the first author never uses."""

_NEUTRAL = (
    "bottle", "blanket", "notebook", "mirror", "hammer", "carpet", "pencil", "ladder", "teacup", "wallet", "clock",
    "cushion", "envelope", "bucket", "drawer", "towel", "lamp", "shelf", "curtain", "spoon",
)  # fmt: skip
"""What anybody may think of."""

_SLOTS = 4
"""Things that every text names."""

_CHANCE = 0.8
"""Chance that a slot of a marked group's text holds a planted word, at strength 1."""


def rule(name: str, strength: float = 1.0) -> Callable[[Prompt, np.random.Generator], str]:
    """The scripted author of a control.

    Parameters
    ----------
    name
        ``"none"``: varied self-descriptions, blind to the group. ``"planted"``: the same, but of the four things
        that every text names, each is with chance 0.8 x strength one of the words planted for the marked values
        of the group: three words per value, which depend on the value alone.
    strength
        0: nothing is planted.
    """
    chance = min(1.0, _CHANCE * strength) if name == "planted" else 0.0

    def answer(prompt: Prompt, rng: np.random.Generator) -> str:
        sentences = [_sentence(rng, *parts) for parts in _SENTENCES if rng.random() < 0.8]
        marked = [value for value in str(prompt.columns.get("marked") or "").split(", ") if value]
        whim = np.random.default_rng(rng.integers(2**32))  # so that planting changes nothing else of the text
        planted = whim.permutation([word for value in marked for word in planted_words(value)]).tolist()
        for neutral in rng.choice(_NEUTRAL, _SLOTS, replace=False):
            thing = planted.pop() if planted and whim.random() < chance else neutral
            sentences.append(f"I keep thinking of a {thing}.")
        return " ".join(sentences[place] for place in rng.permutation(len(sentences)))

    return answer


def planted_words(value: str) -> list[str]:
    """The three words that the planted control gives to a marked value."""
    words = np.random.default_rng(zlib.crc32(value.encode())).choice(_PLANTED, 3, replace=False)
    return [str(word) for word in words]


def _sentence(rng: np.random.Generator, opening: str, middles: tuple[str, ...], ends: tuple[str, ...]) -> str:
    return f"{opening} {middles[rng.integers(len(middles))]} {ends[rng.integers(len(ends))]}."
