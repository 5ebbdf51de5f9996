"""The params of evaluate."""

from __future__ import annotations

from unicodedata import normalize

from pydantic import Field, field_validator

from markedness.audits.personas import AXES
from markedness.audits.personas.language.tokens import tokenize
from markedness.axes import Axes
from markedness.records import Strict


class Params(Strict):
    """What is estimated; the defaults are the published ones."""

    axes: Axes = AXES
    z_threshold: float = Field(default=1.96, ge=0)
    """A word is marked when its z is above this against every unmarked group."""
    jsd_words: int = Field(default=10, ge=1)
    """Words listed per group by Jensen-Shannon divergence."""
    word_share: tuple[tuple[str, ...], ...] = (("resilient", "resilience"),)
    """Sets of single words, in any case: which share of texts holds at least one of them?"""
    lexicon_within: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Axis -> values: only these texts in the lexicon table ({gender: [man, woman]}); none: all."""
    confidence_level: float = Field(default=0.95, gt=0, lt=1)
    n_resamples: int | None = Field(default=None, ge=10)
    """Most exchanges of residuals for interaction.excess; null: as many as its correction needs."""
    n_permutations: int | None = Field(default=None, ge=0)
    """Most exchanges of labels in a test; null: as many as its correction needs; 0: no test by exchange."""

    @field_validator("word_share")
    @classmethod
    def _single_words(cls, word_sets: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
        for word in (word for words in word_sets for word in words):
            token = tokenize([word], "unicode")[0]
            if not token or " " in token or len(token) != len(normalize("NFC", word)):
                raise ValueError(
                    f"'{word}' is no single word of letters, hyphens and apostrophes: texts are counted by word"
                )
        return word_sets
