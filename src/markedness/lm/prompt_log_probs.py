"""Token probabilities from a server that gives those of its prompts' own tokens: exact, as from a local model.

The bare prompt and the prompt with each candidate are sent in one request to ``/completions``. Two forms are read:

- ``echo``: the legacy completions endpoint with ``echo`` and ``logprobs``; a choice has ``logprobs`` with ``tokens``,
  ``token_logprobs`` and perhaps ``text_offset``.
- ``vllm``: the parameter ``prompt_logprobs`` of vLLM; a choice has ``prompt_logprobs``, for each token of the prompt a
  mapping of token ids to ``{logprob, rank, decoded_token}``, null for the first, and with ``return_token_ids`` also
  ``prompt_token_ids``. Written after vLLM's documented schema; not tried against a real server.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Literal
from unicodedata import normalize

from markedness.lm.answers import refuse_mass, reported_name, reported_usage
from markedness.lm.base import RequestFailed
from markedness.lm.redaction import Redaction
from markedness.records import UNSUPPORTED, Completion, Prompt

Form = Literal["echo", "vllm"]
Token = tuple[str, float | None]
"""A token, as its text or its id, and its ln probability after the tokens before it; None where there is none."""
NOTHING = "the server answered without the probabilities of its prompt's tokens"
NOT_FOUND = "the answer's tokens cannot be found in the text that was sent"
NOT_APART = (
    "a character of it is of several tokens; name prompt_logprobs: vllm where the server has it, which reads tokens by "
    "their ids"
)
LOWEST, ROUNDING = -745.0, 1e-6
"""What is below, or so much above 0, is no ln probability, as in stored scores (`markedness.text.answers`)."""
_SIGNS = dict.fromkeys(map(ord, "\u2581\u0120\u010a\u0109\u010d"), " ")
"""In the vocabularies of SentencePiece (the first) and of byte-level tokenizers (space, line, tab, return)."""
SHIFTED = 2.0
"""Nats by which rounding and batching leave a token's ln probability the same: a factor of 7."""


def scoring_request(prompt: Prompt, form: Form, max_tokens_parameter: str) -> dict[str, Any]:
    """The fields of a request that scores a prompt, but for the model; ``prompt`` is the text alone, see `texts`."""
    request: dict[str, Any] = {"prompt": prompt.completion, "temperature": 1.0, "top_p": 1.0}
    if form == "echo":
        request |= {"echo": True, "logprobs": 1}
    else:
        request |= {"prompt_logprobs": 1, "return_token_ids": True}
    request[max_tokens_parameter] = 1  # 0 is "no limit" to some servers; what is generated is not read
    if prompt.perplexity:
        return request | {"perplexity": True}
    return request | {"candidates": list(prompt.candidates)} | ({"multi_token": True} if prompt.multi_token else {})


def texts(prompt: str, candidates: Sequence[str]) -> list[str]:
    """What is sent: the prompt, and behind it each candidate."""
    return [prompt, *(f"{prompt} {candidate}" for candidate in candidates)]


def read_scored(answer: Any, prompt: Prompt, form: Form, redaction: Redaction) -> Completion:
    """A decoded 2xx body as ln probabilities; RequestFailed says what of it cannot be read."""
    if isinstance(answer, dict) and answer.get("error"):
        fault = answer["error"]
        detail = fault.get("message", fault) if isinstance(fault, dict) else fault
        raise RequestFailed(redaction.error(f"the server reports an error: {detail}"))
    sent = texts(prompt.completion or "", prompt.candidates)
    choices = _choices(answer, len(sent))
    prompt_tokens, completion_tokens = reported_usage(answer)
    served: dict[str, Any] = {
        "model": reported_name(answer.get("model"), redaction), "prompt_tokens": prompt_tokens,
        "fingerprint": reported_name(answer.get("system_fingerprint"), redaction),
    }  # fmt: skip
    read = [_tokens(choice, text, form) for choice, text in zip(choices, sent, strict=True)]
    if any(tokens is None for tokens in read):
        return Completion(finish_reason=UNSUPPORTED, error=NOTHING, completion_tokens=completion_tokens, **served)
    bare, *continued = (tokens for tokens in read if tokens is not None)
    if prompt.perplexity:
        mean = _mean(bare)
        if isinstance(mean, str):
            return Completion(error=mean, completion_tokens=completion_tokens, **served)
        return Completion(
            finish_reason="stop", log_probs=(mean,), estimator="next_token", completion_tokens=len(bare) - 1, **served
        )
    _check_prompt(bare, continued)
    scored = [
        _candidate(word, tokens, bare, prompt.multi_token)
        for word, tokens in zip(prompt.candidates, continued, strict=True)
    ]
    _check_mass([(tokens, value) for tokens, (value, _, _) in zip(continued, scored, strict=True) if value is not None])
    reasons = tuple(reason for _, reason, _ in scored)
    return Completion(
        finish_reason="stop", log_probs=tuple(value for value, _, _ in scored), reasons=reasons if any(reasons) else (),
        candidate_tokens=tuple(n for _, _, n in scored) if prompt.multi_token else (), estimator="exact",
        completion_tokens=completion_tokens, **served,
    )  # fmt: skip


def _mean(tokens: Sequence[Token]) -> float | str:
    """Mean ln P of tokens 2 to the last; or why there is none: the mean of those that are known is another number."""
    values = [value for _, value in tokens[1:]]
    known = [value for value in values if value is not None]
    if not values:
        return "the text is too short for a perplexity: it has no token after the first"
    if len(known) < len(values):
        return (
            f"the server gave no ln probability of {len(values) - len(known):,} of the text's {len(values):,} tokens "
            "after the first, so the text has no perplexity"
        )
    return math.fsum(known) / len(known)


def _check_prompt(bare: Sequence[Token], continued: Sequence[Sequence[Token]]) -> None:
    """Refuse a probability of the prompt's last token that hangs on what follows: it is that of the next token."""
    prompt, value = [token for token, _ in bare], bare[-1][1]
    for tokens in continued:
        same = [token for token, _ in tokens[: len(bare)]] == prompt
        other = tokens[len(bare) - 1][1] if same else None
        if value is not None and other is not None and abs(other - value) > SHIFTED:
            raise RequestFailed(
                f"the ln probability of the prompt's last token is {value:.4g} alone and {other:.4g} before a word: "
                "the server gives that of another token", cause="unreadable",
            )  # fmt: skip


def _check_mass(scored: Sequence[tuple[Sequence[Token], float]]) -> None:
    """Refuse candidates whose probabilities sum to more than 1, which nothing has that excludes another.

    A candidate that begins with the tokens of another is part of that one's probability.
    """
    found = {tuple(token for token, _ in tokens): value for tokens, value in scored}
    parts = {tokens for tokens in found if any(tokens[:n] in found for n in range(1, len(tokens)))}
    refuse_mass(math.exp(value) for tokens, value in found.items() if tokens not in parts)


def _candidate(
    word: str, tokens: Sequence[Token], bare: Sequence[Token], multi_token: bool
) -> tuple[float | None, str | None, int | None]:
    """Ln P of a candidate by the chain rule, or why there is none, and of how many tokens it is."""
    own = tokens[len(bare) :]
    if [token for token, _ in tokens[: len(bare)]] != [token for token, _ in bare] or not own:
        return None, f"'{word}' is not made of whole tokens after this prompt", None
    if len(own) > 1 and not multi_token:
        return None, f"'{word}' is not a single token after this prompt", len(own)
    values = [value for _, value in own if value is not None]
    if len(values) < len(own):
        return None, f"the server gave no ln probability of '{word}'", len(own)
    return math.fsum(values), None, len(own)


def _choices(answer: Any, n: int) -> list[dict[str, Any]]:
    """The n choices in the order of what was sent."""
    choices = answer.get("choices") if isinstance(answer, dict) else None
    if not isinstance(choices, list) or not all(isinstance(one, dict) for one in choices):
        raise RequestFailed("the answer has no choices, so it is of no schema this project knows", cause="unreadable")
    places = [one.get("index") for one in choices]
    if sorted(place for place in places if type(place) is int) != list(range(n)) or len(choices) != n:
        raise RequestFailed(
            f"the answer has {len(choices)} choices where {n} texts were sent; the server may not take several prompts "
            "in one request", cause="unreadable",
        )  # fmt: skip
    return [choices[places.index(place)] for place in range(n)]


def _tokens(choice: dict[str, Any], text: str, form: Form) -> list[Token] | None:
    """The tokens of the text that was sent; None where the choice has none."""
    return _echoed(choice, text) if form == "echo" else _prompt_tokens(choice, text)


def _echoed(choice: dict[str, Any], text: str) -> list[Token] | None:
    """The echoed tokens, without the one that was generated behind them; None where the server does not echo."""
    served, whole = choice.get("logprobs"), choice.get("text")
    if not isinstance(served, dict) or not isinstance(whole, str) or text not in whole:
        return None
    tokens, values, offsets = (served.get(name) for name in ("tokens", "token_logprobs", "text_offset"))
    if not isinstance(tokens, list) or not isinstance(values, list) or not tokens:
        return None
    if len(tokens) != len(values) or not all(isinstance(token, str) for token in tokens):
        raise RequestFailed("the answer's tokens and token_logprobs do not belong together", cause="unreadable")
    starts, joined = [0, *accumulate(map(len, tokens[:-1]))], "".join(tokens)
    begin, more = joined.find(text), whole[whole.index(text) + len(text) :]
    # A character of several tokens may be in none of them, and what was generated stands for it in the join.
    stands = bool(more) and len(joined) == begin + len(text) and not text.isascii()
    if parted := begin < 0 or stands:
        starts, begin = _offsets(tokens, offsets), 0
        if not (_broken(tokens[0]) or text.startswith(tokens[0])):
            begin = len(tokens[0])  # a token that begins every text
    end = begin + len(text)
    n = sum(start < end for start in starts)
    if parted:
        _check_end(tokens[:n], tokens[n:], text, bool(more))
    _check_place(tokens[:n], [start - begin for start in starts[:n]], text)
    return [(token, _log_prob(value)) for token, value in zip(tokens[:n], values[:n], strict=True)]


def _check_end(own: Sequence[str], behind: Sequence[str], text: str, more: bool) -> None:
    """Refuse tokens that may be of the text, or generated: one is, which is shown behind the text if there is ``more``.

    Where each part of a character counts as a character, as many tokens too few begin before the end; where none does,
    what is generated begins there too.
    """
    broken = bool(own) and _broken(own[-1])
    of_text = [token for token in filter(None, behind) if text.endswith(token) or (broken and _broken(token))]
    if of_text or len(behind) > 1 or (not behind and (more or broken)):
        raise RequestFailed(f"{NOT_FOUND}: {NOT_APART}", cause="unreadable")


def _offsets(tokens: Sequence[str], offsets: Any) -> list[int]:
    """Where the server says that tokens begin, the first at 0."""
    if not isinstance(offsets, list) or len(offsets) != len(tokens) or any(type(one) is not int for one in offsets):
        raise RequestFailed(NOT_FOUND, cause="unreadable")
    if offsets[0] != 0:
        raise RequestFailed(
            f"the answer's tokens begin at character {offsets[0]:,} of the text that was sent: the server cut it off",
            cause="unreadable",
        )
    return offsets


def _check_place(tokens: Sequence[str], starts: Sequence[int], text: str) -> None:
    """Refuse whole tokens that are not what the text has at their places, leave out a part, or do not end with it."""
    end, parts, whole = 0, list[str](), True
    for token, start in zip(tokens, starts, strict=True):
        if start >= 0 and _broken(token):
            parts.append(token)
        elif start >= 0:
            whole = whole and start >= end and text.startswith(token, start) and _made_of(parts, text[end:start])
            end, parts = start + len(token), []
    if not whole or not _made_of(parts, text[end:]):
        said = f"{NOT_FOUND}: {NOT_APART}" if any(map(_broken, tokens)) else NOT_FOUND
        raise RequestFailed(said, cause="unreadable")


def _made_of(parts: Sequence[str], text: str) -> bool:
    """Whether text that no whole token has can be that of parts of characters: "" of none.

    Of plain letters it has no more than the parts show.
    """
    return text in ("", "".join(parts)) or (
        bool(parts) and not text.isascii() and _n_plain(text) <= sum(map(_n_plain, parts))
    )


def _n_plain(text: str) -> int:
    """ASCII characters of a text or a token, white space and escaped bytes apart."""
    text = "" if text.startswith("<0x") else text.removeprefix("bytes:")
    return sum(one.isascii() and not one.isspace() for one in text) - len("\\xff") * text.count("\\x")


def _broken(token: str) -> bool:
    """Whether a token is part of a character: servers write a sign for it, its bytes, or nothing."""
    return not token or "\ufffd" in token or token.startswith("bytes:")


def _prompt_tokens(choice: dict[str, Any], text: str) -> list[Token] | None:
    """The prompt's tokens by their ids; None where the server does not give them."""
    served, ids = choice.get("prompt_logprobs"), choice.get("prompt_token_ids")
    if not isinstance(served, list) or not served:
        return None
    if not isinstance(ids, list) or len(ids) != len(served):
        raise RequestFailed(
            "the answer does not say which of several alternatives is the prompt's own token; the server must serve "
            "return_token_ids (vLLM 0.10.2 or later)", cause="unreadable",
        )  # fmt: skip
    found, shown = list[Token](), list[str | None]()
    for place, (entry, token) in enumerate(zip(served, ids, strict=True)):
        if entry is None and place == 0:
            found.append((str(token), None))
            continue
        if not isinstance(entry, dict):
            raise RequestFailed("a token of the prompt has no probability", cause="unreadable")
        value = entry.get(str(token), {})  # never that of another token, where its own is not among them
        if not isinstance(value, dict):
            raise RequestFailed("the answer's prompt_logprobs are of no schema this project knows", cause="unreadable")
        found.append((str(token), _log_prob(value.get("logprob"))))
        decoded = value.get("decoded_token")
        if value and not isinstance(decoded, str):
            raise RequestFailed("the server does not show its prompt's tokens (decoded_token)", cause="unreadable")
        shown.append(decoded)
    _check_shown(shown, text)
    return found


def _check_shown(tokens: Sequence[str | None], text: str) -> None:
    """Refuse tokens that are not those of the text behind its first one, which servers do not show.

    They are shown with or without their white space, and a tokenizer may write characters in another form. None stands
    for a token that has no probability.
    """
    why = ""
    for written in (_plain, _folded):
        why = _other(
            [None if token is None else written(token) for token in tokens], written(text),
            len(written("".join(text.split()[:1]))),
        )  # fmt: skip
        if not why:
            return
    raise RequestFailed(f"{NOT_FOUND}: the server {why}", cause="unreadable")


def _other(tokens: Sequence[str | None], text: str, first: int) -> str:
    """What is wrong with tokens that are not those of a text, "" where they are; ``first``: letters of its first word.

    They are looked for from the end, as only the first one's own text is not known.
    """
    left, parts, unknown = len(text), list[str](), False
    for token in reversed(tokens):
        if token is None:
            unknown = True
        elif _broken(token) or token.startswith("<0x"):
            parts.append(token)
        elif left or token[0] + token[-1] not in ("<>", "[]"):  # signs that begin every text
            end = text.rfind(token, 0, left) + len(token)
            if end < len(token) or not (unknown or _made_of(parts, text[end:left])):
                return "shows other tokens"
            left, parts, unknown = end - len(token), [], False
    return "cut off its beginning" if left > first and not (unknown or _made_of(parts, text[first:left])) else ""


def _plain(text: str) -> str:
    """Text without white space and the signs that stand for it."""
    return "".join(text.translate(_SIGNS).split())


def _folded(text: str) -> str:
    """`_plain` text, in which letters with marks, wide letters and capitals are written as one."""
    return normalize("NFKD", _plain(text).casefold())


def _log_prob(value: Any) -> float | None:
    """A ln probability; None where there is none, or a server's sign for an unlikely token (-9999) or a value above 0.

    RequestFailed for what is no number.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise RequestFailed(f"what the server shows is no ln probability: {value}", cause="unreadable")
    return min(float(value), 0.0) if LOWEST <= value <= ROUNDING else None
