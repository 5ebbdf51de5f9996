"""Features of dialect in texts, counted by pattern.

Source: Hofmann et al. (2024), Supplementary Information, "Analysis of non-meaning-matched texts" and Table 3, which
counts three features that can be found reliably: word-final -in for -ing, ain't and finna. The paper does not say how;
the patterns are ours. The other patterns follow the rules that make pairs (`design.guises`): they find the forms that
the rules write, and miss or mistake others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache

from markedness.records import AuditError

Counter = Callable[[str], int]
PUBLISHED = ("in", "aint", "finna")
"""The features of Table 3."""
CONTROLS = ("fixin_to", "am")
"""Deviations that are no features of African American English."""
TOTAL = "all features"
"""The sum of all features but the controls."""

_PERSON = r"(?:he|she|it|we|they|you|y['’]?all|who)"
_ING = r"(\w+(?:ing|in['’]?))(?!\w)"
_PATTERNS = {
    "aint": r"\bain['’]?t\b",
    "finna": r"\bfinna\b",
    "fixin_to": r"\bfix(?:ing|in['’]?)\s+to\b",
    "am": r"\b(?:he|she|it|we|they|you)\s+am\b",
}
_BEFORE_ING = {
    "habitual_be": rf"\b(?:i|{_PERSON})\s+be\s+{_ING}",
    "been": rf"\b(?:i|{_PERSON})\s+been\s+{_ING}",
    "stay": rf"\b(?:i|{_PERSON})\s+stay\s+{_ING}",
    "zero_copula": rf"\b{_PERSON}\s+{_ING}",
}
"""Patterns that end in a verb, which is looked up: "they bring" has no verb in -ing."""
_ALSO_NAMES = frozenset(("actin", "bein", "livin", "makin", "takin"))
"""Forms in -in that dictionaries have as other, rare words."""
_WORD = re.compile(r"\w+(?:['’]\w+)*['’]?")
_VOWEL = re.compile("[aeiouy]")


def n_words(text: str) -> int:
    """Words of a text: letters, digits and apostrophes between them."""
    return len(_WORD.findall(text))


def counters(own: Mapping[str, str], verbs: Iterable[str]) -> dict[str, Counter]:
    """Feature -> how often it occurs in a text.

    Parameters
    ----------
    own
        Features of a study: name -> regular expression, which ignores case and counts matches that do not overlap.
    verbs
        Forms in -ing that a word in -in counts as, whatever else it may be ("makin").

    Raises
    ------
    AuditError
        For an expression that cannot be read, or a name that is taken.
    """
    known = frozenset(verbs)
    made: dict[str, Counter] = {"in": lambda text: sum(_is_in(word, known) for word in _WORD.findall(text.lower()))}
    made |= {name: _counter(pattern) for name, pattern in _PATTERNS.items() if name not in CONTROLS}
    made |= {name: _before_ing(re.compile(pattern, re.I), known) for name, pattern in _BEFORE_ING.items()}
    for name, pattern in own.items():
        if name in made or name in CONTROLS or name == TOTAL:
            raise AuditError(f"guise.featurize.features.{name}: this is counted already; give yours another name")
        try:
            made[name] = _counter(pattern)
        except re.error as error:
            raise AuditError(
                f"guise.featurize.features.{name}: '{pattern}' is no regular expression ({error}); correct it"
            ) from error
        if made[name](""):
            raise AuditError(
                f"guise.featurize.features.{name}: '{pattern}' finds nothing, which is everywhere; correct it"
            )
    return made | {name: _counter(_PATTERNS[name]) for name in CONTROLS}


def _counter(pattern: str) -> Counter:
    found = re.compile(pattern, re.IGNORECASE)
    return lambda text: sum(1 for _ in found.finditer(text))


def _before_ing(found: re.Pattern[str], verbs: frozenset[str]) -> Counter:
    def count(text: str) -> int:
        words = (match[1].lower() for match in found.finditer(text))
        return sum(_is_in(word, verbs) or (word.endswith("ing") and _is_ing(word)) for word in words)

    return count


def _is_in(word: str, verbs: frozenset[str]) -> bool:
    """Whether a word is one in -ing written with -in: "talkin", "somethin'"; not "ruin", "cousin" or "king"."""
    bare = word.rstrip("'’")
    if not bare.endswith("in") or not _VOWEL.search(bare[:-2]):
        return False
    if f"{bare}g" in verbs or bare in _ALSO_NAMES:
        return True
    return _is_ing(f"{bare}g") and (bare != word or not _known(bare))


def _is_ing(word: str) -> bool:
    """Whether a word in -ing is English, and its ending not a part of its stem as in "bring"."""
    return bool(_VOWEL.search(word.removesuffix("ing"))) and _known(word)


@cache
def _known(word: str) -> bool:
    from simplemma import is_known

    return bool(is_known(word, lang="en"))
