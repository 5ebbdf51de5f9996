"""What of a server's words is kept: keys and the home folder are taken out, control characters are made visible.

A key is matched by three rules, from the strictest text to the loosest:

- *Completions* are what is measured. They are rewritten only for a key that is long and random (`is_random`), which no
  model writes by chance; never for the home folder.
- *Errors and model names* are rewritten for every key but a dummy (`is_dummy`: "e", "test", "sk-local"), in whatever
  case, also where the server shows only its beginning, or any part of a key that is long and random; and for the home
  folder. Errors also for what looks like somebody else's key (`markedness.credentials.hide`). They are rewritten before
  they are cut to length.
- *Params* must not hold a key at all: `markedness.credentials` guesses from the form alone.
"""

from __future__ import annotations

import os
import re
import string
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from markedness.credentials import bits_per_character, hide

LARGEST_ANSWER = 8_000_000
"""Bytes of one answer, decompressed; a larger one is not read."""
LONGEST_ERROR = 500
"""Characters of an error that are kept."""
LONGEST_NAME = 200
"""Characters of a model name or fingerprint that are kept."""
SHOWN_KEY = "[key]"
_SHORTEST_PART = 8
"""Characters of a key that give it away: servers show as much of a key they refuse."""
_SEARCHED = 200_000
"""Characters of an error that are looked through; the rest is dropped."""
_FORMED = 20_000
"""Characters of an error that are looked through for forms of keys."""
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)

_TURNS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def is_random(key: str) -> bool:
    """Whether no text holds this key by chance: 16 characters or more, a digit and a letter, 3 bits a character."""
    mixed = any(c.isdigit() for c in key) and any(c.isalpha() for c in key)
    return len(key) >= 16 and mixed and bits_per_character(key) >= 3.0


def is_dummy(key: str) -> bool:
    """Whether this is a word put where a local server asks for some key: up to 12 characters without a digit."""
    return len(key) <= 12 and not any(c.isdigit() for c in key)


def printable(text: str) -> str:
    """With control characters as escapes, so that no terminal obeys them; line breaks and tabs stay."""
    return "".join(c if c in "\n\t" or not _controls(c) else repr(c)[1:-1] for c in text)


def _controls(character: str) -> bool:
    """C0, C1, and the invisible ones that turn the reading direction or end a line."""
    return unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in _TURNS


def _without(text: str, key: str) -> str:
    """The text with `SHOWN_KEY` in place of the key's beginnings, or of all its parts where it is long and random."""
    said, key = text.translate(_LOWER), key.translate(_LOWER)  # of the same length, as lower() is not
    size = min(_SHORTEST_PART, len(key))
    places = range(len(key) - size + 1) if is_random(key) else range(1)
    parts = {key[place : place + size]: place for place in places}
    kept, start = [], 0
    while start < len(said):
        place = parts.get(said[start : start + size])
        if place is None:
            kept.append(text[start])
            start += 1
            continue
        kept.append(SHOWN_KEY)
        while start < len(said) and place < len(key) and said[start] == key[place]:
            start, place = start + 1, place + 1
    return "".join(kept)


def _line(text: str, key: str | None, home: str, longest: int, forms: bool) -> str:
    """See `Redaction.error`; ``forms``: whether what looks like a key is none to keep."""
    if key and not is_dummy(key):
        text = _without(text[:_SEARCHED], key)
    text = " ".join(text.split())
    if forms:
        text = hide(text[:_FORMED])
    if len(home) > 1:
        text = re.sub(rf"{re.escape(home)}(?![\w-])", "~", text)
    line = printable(text)
    return line if len(line) <= longest else line[: longest - 1] + "…"


_known_line = lru_cache(maxsize=256)(_line)
"""Every answer names its model, server and reason to end: the same few short texts."""


@lru_cache(maxsize=4)
def _home(variable: str | None) -> str:
    """The home folder; ``variable``: HOME, by which it is looked up again."""
    return str(Path.home())


@dataclass(frozen=True)
class Redaction:
    """Takes one key, and the home folder, out of what a server says."""

    key: str | None = None

    def completion(self, text: str) -> str:
        """A text that is measured: only a key that is long and random is replaced."""
        return text.replace(self.key, SHOWN_KEY) if self.key and is_random(self.key) else text

    def error(self, text: str, longest: int = LONGEST_ERROR) -> str:
        """A sentence for logs and tables: one printable line without keys and home folder, then cut to length."""
        return self._line(text, longest, True)

    def name(self, text: str) -> str:
        """A model name or fingerprint as the server reports it; an odd one is no key."""
        return self._line(text, LONGEST_NAME, False)

    def _line(self, text: str, longest: int, forms: bool) -> str:
        made = _known_line if len(text) <= LONGEST_NAME else _line
        return made(text, self.key, _home(os.environ.get("HOME")), longest, forms)
