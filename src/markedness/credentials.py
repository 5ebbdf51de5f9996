"""What a params file must not hold: keys, and URLs that carry one. Knows texts alone, so that everybody may ask."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

_PREFIXED = re.compile(
    r"(?:(?:(?:sk|pk|rk)[-_]|(?:hf|gsk|gh[oprsu]|github_pat|r8|tgp|pypi|npm|lsv2|dop_v1)[-_]"
    r"|(?:csk|glpat|xai|xapp|xox[a-z]|nvapi|pplx)-|(?:SG|ya29|hvs)\.|AIza|A[KS]IA|Bearer )[\w.~+=-]{16,}"
    r"|(?:key-|dapi)[0-9a-f]{32}(?:-\d+)?)"
)
_TOKEN = re.compile(r"[A-Za-z0-9+/=]{20,}")
_JWT = re.compile(r"eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*")
_USERINFO = re.compile(r"(?<=://)[^\s/]*@")
_QUERY = re.compile(
    r"(?i)(?<=[?&;])((?:[\w.-]{0,40}[._-])?(?:api[._-]?key|key|token|secret|passwd|password|sig|signature|credential|auth)"
    r"(?:[._-][\w.-]{0,40})?=)[^\s&;#'\"]+"
)
_HEXADECIMAL = re.compile(r"[0-9A-Fa-f]{24,128}")
"""A key as some vendors make them; no variable is called so."""
_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


def bits_per_character(text: str) -> float:
    """Shannon entropy of the characters, in bits; 0 for no text."""
    counts = Counter(text).values()
    return -math.fsum(n / len(text) * math.log2(n / len(text)) for n in counts) if text else 0.0


def looks_like_a_secret(text: str) -> bool:
    """Whether a text has the form of a key: a known prefix and a long rest, a signed token, or a long random run.

    Hexadecimal hashes (revisions, checksums), paths and names of models do not.
    """
    prefixed, random = map(_is_prefixed, _PREFIXED.finditer(text)), map(_is_random, _TOKEN.finditer(text))
    return any(prefixed) or any(random) or bool(_JWT.search(text))


def is_key_like(text: str) -> bool:
    """Whether a text under the name of a key is one: also a hexadecimal number or a UUID, as some vendors make them."""
    formed = _HEXADECIMAL.fullmatch(text.strip()) or _UUID.fullmatch(text.strip())
    return bool(formed) or looks_like_a_secret(text)


def _is_prefixed(found: re.Match[str]) -> bool:
    before = found.string[: found.start()][-1:]
    return not before.isalnum() and any(c.isdigit() for c in found[0]) and bits_per_character(found[0]) >= 3.0


def _is_random(found: re.Match[str]) -> bool:
    run = found[0]
    classes = (str.islower, str.isupper, str.isdigit)
    return all(any(map(test, run)) for test in classes) and "/" not in run and bits_per_character(run) >= 3.5


def carries_a_secret(text: str) -> bool:
    """Whether a text looks like a key, or holds a URL with a user name, a password or a key in its query."""
    return looks_like_a_secret(text) or bool(_USERINFO.search(text) or _QUERY.search(text))


def hide(text: str) -> str:
    """The text with ``[key]`` in place of what `carries_a_secret` finds: for every sentence that repeats given text."""
    text = _QUERY.sub(r"\1[key]", _USERINFO.sub("[key]@", text))
    text = _JWT.sub("[key]", text)
    text = _PREFIXED.sub(lambda found: "[key]" if _is_prefixed(found) else found[0], text)
    return _TOKEN.sub(lambda found: "[key]" if _is_random(found) else found[0], text)


def secret_places(content: object, root: Path, where: str = "") -> Iterator[str]:
    """Where a nested mapping or list holds a text that `carries_a_secret`; keys are never repeated.

    The name of a file that is there, below ``root``, is none: logs are named by random letters.
    """
    if isinstance(content, str):
        if carries_a_secret(content) and not _is_file(root, content):
            yield where
    elif isinstance(content, dict):
        for key, value in content.items():
            if isinstance(key, str) and carries_a_secret(key):
                yield f"{where or 'the file'} (a key of the mapping)"
            else:
                yield from secret_places(value, root, f"{where}.{key}" if where else str(key))
    elif isinstance(content, list):
        for index, value in enumerate(content):
            yield from secret_places(value, root, f"{where}[{index}]")


def _is_file(root: Path, name: str) -> bool:
    try:
        return (root / name).is_file()
    except (OSError, ValueError):  # too long, or with a NUL character
        return False


def url_fault(url: str, key_field: str = "api_key_env") -> str | None:
    """Why requests cannot go to this URL, without repeating what may be a key in it; None when they can."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is not a URL; write it as https://host:port/path"
    if parts.scheme not in ("http", "https") or not host:
        return "needs a scheme and a host: https://host:port/path"
    if any(c.isspace() or not c.isprintable() for c in url):
        return "has a space or control character; remove it"
    if parts.username is not None or parts.password is not None:
        return f"has a user name or password; remove it, and name the environment variable with the key in {key_field}"
    if parts.query or parts.fragment:
        return f"has a query or fragment ('?...'); remove it, and name the environment variable of a key in {key_field}"
    return None


def key_name_fault(name: str) -> str | None:
    """Why this cannot be the name of the environment variable with the key; the given text is never repeated."""
    if looks_like_a_secret(name) or not _VARIABLE.fullmatch(name) or _HEXADECIMAL.fullmatch(name):
        return (
            "is not the name of an environment variable; a key never stands in a file: "
            "'export MY_KEY=...' and write api_key_env: MY_KEY"
        )
    return None
