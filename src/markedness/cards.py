"""What an audit says of itself before any number: its card, and how each of its scores was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True)
class Measure:
    """How one table or score was measured: the box beside the number."""

    title: str
    formula: str
    """In words and signs, plain text."""
    n: str
    """What is counted."""
    correction: str
    """The family of tests and its correction, or "none"."""
    source: str
    """Publication, section or table."""


@dataclass(frozen=True)
class Card:
    """What an audit is: what its page in the report and in the docs says before any number."""

    audit: str
    title: str
    question: str
    paper: str
    """Full citation."""
    groups: str
    """Which groups, and where they are set."""
    unit: str
    """What one row of features is."""
    estimand: str
    """What is estimated, with sign and range."""
    limits: str
    """What the numbers do not say."""
    null: str
    """What the headline scores are without any stereotype, and how that is shown."""
    headline: Sequence[str]
    """The keys of the Scores to look at first; from the audit's spec."""
    planted: str = ""
    """What the control "planted" has planted."""
    missing_key: str = ""
    """The headline key that asks whether what is missing differs by group; from the audit's spec."""
    measures: Mapping[str, Measure] = field(default_factory=dict)
    """Table stem, figure stem or measure of a Score -> how it was measured."""

    @classmethod
    def read(cls, audit: str, content: Mapping[str, Any], headline: Sequence[str], missing_key: str = "") -> Card:
        """A card from the content of card.yaml.

        Raises
        ------
        ValueError
            Naming the first key that is missing or unknown.
        """
        known = {one.name for one in fields(cls)} - {"audit", "headline", "missing_key"}
        optional = {"measures", "planted"}
        for key in [*known, *content]:
            if (key not in content and key not in optional) or key not in known:
                raise ValueError(f"'{key}' is {'missing' if key in known else 'unknown'}; a card has {sorted(known)}")
        parts = ("title", "formula", "n", "correction", "source")
        measures = {}
        for name, measure in (content.get("measures") or {}).items():
            if set(measure) != set(parts):
                raise ValueError(f"measures.{name}: expected exactly {', '.join(parts)}")
            measures[str(name)] = Measure(**{part: str(measure[part]) for part in parts})
        texts = {key: str(content[key]) for key in (known - {"measures"}) & content.keys()}
        return cls(audit=audit, headline=tuple(headline), missing_key=missing_key, measures=measures, **texts)


def label(key: str, card: Card) -> str:
    """A key as a reader sees it: "word_share.Black woman" -> "Word share: Black woman"."""
    measure, _, item = key.partition(".")
    known = card.measures.get(key) or card.measures.get(measure)
    title = known.title if known else words(measure)
    return f"{title}: {words(item, capital=False)}" if item else title


def count(n: int, noun: str) -> str:
    """A number with its noun: "1 word", "1,200 words"."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def are(n: int) -> str:
    """The verb behind a number: "1 of 240 texts is", "2 of 240 texts are"."""
    return "is" if n == 1 else "are"


def words(name: str, capital: bool = True) -> str:
    """A column or key as words."""
    spaced = name.replace("_", " ").strip()
    return spaced[:1].upper() + spaced[1:] if capital else spaced
