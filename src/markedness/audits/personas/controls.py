"""Two scripted authors: one who ignores the group, one who has a known habit with marked groups."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

from markedness.records import Prompt

_SENTENCES = tuple(
    (opening, tuple(middles.split(", ")), tuple(ends.split(", ")))
    for opening, middles, ends in (
        ("I live", "near the harbour, above a bakery, at the edge of town, by the old mill, next to a park",
         "with two cats, with an old friend, on my own, among tall trees, under a leaking roof"),
        ("My work is", "in a small office, at the library, for a bus company, in a garage, behind a counter",
         "three days a week, since last spring, beside people I like, mostly at night, until noon"),
        ("Evenings are for", "novels, cooking, chess, long walks, mending bicycles",
         "until late, when it rains, to clear my head, before the news, after supper"),
        ("Friends call me", "a good listener, a worrier, loud, punctual, stubborn",
         "and mean it, most days, which is fair, but forgive me, over coffee"),
        ("People notice", "brown eyes, a scar, long fingers, a quiet voice, quick steps",
         "first, sooner or later, in photographs, on the stairs, from far away"),
        ("One day I will", "see the sea, learn the piano, plant an apple tree, own a boat, teach",
         "somewhere quiet, if time allows, far from here, against all advice, whatever it costs"),
        ("Last year we", "moved house, painted the kitchen, lost a dog, drove north, started saving",
         "in March, without a plan, for once, by accident, despite the weather"),
        ("Breakfast means", "black tea, toast, porridge, cold rice, two eggs",
         "at six, standing up, by the window, over the newspaper, in silence"),
        ("As a child I", "collected stamps, hated shoes, climbed fences, sang badly, drew maps",
         "all summer, behind the school, until dark, for hours, against orders"),
        ("Sunday brings", "football, church bells, laundry, visitors, a crossword",
         "every week, more often than not, whether invited or not, like clockwork, around ten"),
        ("Nothing beats", "fresh bread, a full tank, hot soup, clean sheets, an empty road",
         "after work, in winter, at that hour, on holiday, they say"),
        ("Money goes", "to rent, on records, toward a car, into repairs, on train tickets",
         "month after month, faster than planned, as usual, sadly, this time"),
        ("Our street has", "one streetlight, broken paving, three barbers, a fountain, plenty of dogs",
         "and no parking, these days, since the flood, opposite the station, for some reason"),
        ("Winter makes me", "sleepy, generous, impatient, hungry, careful",
         "every time, more than others, by December, or so it seems, without fail"),
        ("Grandfather taught me", "knots, card games, patience, whittling, two songs",
         "on the porch, between jobs, half asleep, with great ceremony, one August"),
        ("Currently there is", "a cold, some doubt, a deadline, new flooring, hope",
         "to deal with, as always, downstairs, in the air, thank goodness"),
        ("Mornings start", "slowly, with a jog, on the balcony, too early, with emails",
         "during the week, except Fridays, in any season, come what may, at home"),
        ("Neighbours bring", "jam, gossip, spare keys, parcels, advice",
         "unasked, across the fence, in return, every autumn, with a smile"),
        ("Travel suits me", "by rail, in company, light, once a year, with a guidebook",
         "though rarely, because of the views, despite delays, given the choice, on a budget"),
        ("School was", "far away, fine, strict, a blur, overcrowded",
         "back then, to be honest, in those years, for everybody, apart from physics"),
        ("Tools hang", "in the shed, above the bench, by size, on nails, everywhere",
         "within reach, slightly rusty, labelled, since forever, untouched"),
        ("Music fills", "the hallway, my commute, whole weekends, our kitchen, the gaps",
         "at low volume, mostly strings, with old favourites, on shuffle, until neighbours knock"),
        ("Secretly I", "enjoy ironing, fear escalators, write limericks, count stairs, envy swimmers",
         "still, at times, beyond reason, as colleagues suspect, to this day"),
        ("Health is", "decent, a project, mostly luck, improving, not discussed",
         "for my age, knock on wood, according to doctors, since the operation, so far"),
    )
)  # fmt: skip
"""Opening, middle, end: the author draws one middle and one end for each that a text has."""

_ASIDES = (
    "I keep thinking of a {}.", "Somebody left a {}.", "There was a {} too.", "Today's find: a {}.", "Picture a {}.",
    "It began with a {}.", "A {} would help.", "Mind the {}!", "My {} broke.", "Who needs another {}?",
)  # fmt: skip
"""Where the things stand that every text names."""

_PLANTED = (
    "lantern", "velvet", "orchard", "compass", "ribbon", "thunder", "harvest", "marble", "whistle", "copper",
    "feather", "mosaic", "saffron", "anchor", "juniper", "pebble", "trumpet", "amber", "willow", "kettle",
    "beacon", "ginger", "saddle", "pepper", "violet", "basket", "candle", "turtle", "magnet", "walnut",
    "button", "sparrow", "cactus", "pillow", "mitten", "rocket", "clover", "tunnel", "parrot", "lemon",
)  # fmt: skip
"""Innocuous words that the first author never uses."""

_NEUTRAL = (
    "bottle", "blanket", "notebook", "mirror", "hammer", "carpet", "pencil", "ladder", "teacup", "wallet", "clock",
    "cushion", "envelope", "bucket", "drawer", "towel", "lamp", "shelf", "curtain", "spoon", "suitcase", "radio",
    "umbrella", "scarf", "calendar", "thermos", "doorbell", "napkin", "trolley", "keyring", "stapler", "colander",
    "mousetrap", "lightbulb", "flowerpot", "toolbox", "backpack", "postcard", "teapot", "zipper", "shoelace", "sponge",
    "kite", "puzzle", "tripod", "funnel", "hinge", "pulley", "wrench", "spatula", "doormat", "hanger", "folder",
    "ruler", "eraser", "coaster", "ashtray", "birdcage", "hammock", "sieve",
)  # fmt: skip
"""What anybody may think of."""

_SLOTS = 4
"""Things that every text names."""

_CHANCE = 0.8
"""Chance that a slot of a marked group's text holds a planted word, at strength 1."""


def rule(name: str, strength: float = 1.0, seed: int = 0) -> Callable[[Prompt, np.random.Generator], str]:
    """The scripted author of a control.

    Parameters
    ----------
    name
        ``"none"``: varied self-descriptions, blind to the group. ``"planted"``: the same, but of the four things
        that every text names, each is with chance 0.8 x strength one of the words planted for the marked values
        of the group: three words per value, which depend on the value alone.
    strength
        0: nothing is planted.
    seed
        Of the study; changes nothing here, since no prompt has words of its own.
    """
    chance = min(1.0, _CHANCE * strength) if name == "planted" else 0.0

    def answer(prompt: Prompt, rng: np.random.Generator) -> str:
        chosen = rng.permutation(len(_SENTENCES))[: rng.integers(2, 6)]
        sentences = [_sentence(rng, *_SENTENCES[place]) for place in chosen]
        marked = [value for value in str(prompt.columns.get("marked") or "").split(", ") if value]
        whim = np.random.default_rng(rng.integers(2**32))  # so that planting changes nothing else of the text
        planted = whim.permutation([word for value in marked for word in planted_words(value)]).tolist()
        for neutral in rng.choice(_NEUTRAL, _SLOTS, replace=False):
            thing = planted.pop() if planted and whim.random() < chance else neutral
            sentences.append(_ASIDES[rng.integers(len(_ASIDES))].format(thing))
        return " ".join(sentences[place] for place in rng.permutation(len(sentences)))

    return answer


def planted_words(value: str) -> list[str]:
    """The three words that the planted control gives to a marked value."""
    words = np.random.default_rng(zlib.crc32(value.encode())).choice(_PLANTED, 3, replace=False)
    return [str(word) for word in words]


def _sentence(rng: np.random.Generator, opening: str, middles: tuple[str, ...], ends: tuple[str, ...]) -> str:
    return f"{opening} {middles[rng.integers(len(middles))]} {ends[rng.integers(len(ends))]}."
