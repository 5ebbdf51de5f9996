"""What an OpenAI-compatible server answered, read as a completion. Every field may be missing, or anything else."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from markedness.lm.base import BROKEN_OFF, RequestFailed
from markedness.lm.redaction import Redaction
from markedness.records import (
    ABSENT,
    FILTERED,
    IMPUTED,
    SHOWN,
    TOP_LOGPROBS,
    UNSUPPORTED,
    WITHHELD,
    Completion,
    Prompt,
)

CHARACTERS_PER_TOKEN = 200
"""More characters than this by ``max_tokens`` (and `SHORT_ANSWER`) are no answer of so many tokens."""
SHORT_ANSWER = 10_000
"""Characters that no answer is too long with."""
MOST_MASS = 1.05
"""Sum of the probabilities of the alternatives at one token: 1, and what rounding to 16 bits adds."""
LEAST_MASS = 1 / MOST_MASS
"""The least sum of the alternatives where one of them is shown with no probability: no token behind it has any."""
_SPACES = " \t\n▁Ġ"
"""White space, and how SentencePiece and byte-level BPE write it where a server does not decode tokens."""
_BESIDE = frozenset((
    "role", "name", "refusal", "reasoning", "reasoning_content", "reasoning_text", "thinking", "finish_reason",
    "stop_reason", "native_finish_reason", "object", "id",
))  # fmt: skip
"""Texts beside the one of a message: where another is in place of it, the message is of a schema that is not known."""
_SPOKEN = frozenset(("text", "output_text", "refusal"))
"""Types of the parts of a content that are its text."""
NO_TEXT = frozenset((
    "thinking", "redacted_thinking", "reasoning", "reasoning_text", "reasoning_content", "tool_use", "tool_call",
))  # fmt: skip
"""Types of those that are no part of it."""
_ENDS = {
    **dict.fromkeys(("stop", "eos", "eostoken", "endturn", "stopsequence"), "stop"),
    **dict.fromkeys(
        ("length", "maxtokens", "maxoutputtokens", "maxoutput", "maxcompletiontokens", "modellength", "tokenlimit",
         "modelcontextwindowexceeded", "contextlengthexceeded"), "length",
    ),
    **dict.fromkeys(
        ("contentfilter", "contentfiltered", "safety", "imagesafety", "recitation", "prohibitedcontent", "blocklist",
         "spii", "guardrailintervened", "sensitive", "datainspectionfailed", "contentpolicyviolation", "1301",
         "responsibleaipolicyviolation", "sensitivecontentdetected", "inputtextsensitivecontentdetected",
         "outputtextsensitivecontentdetected", "censorshipblocked"), FILTERED,
    ),
}  # fmt: skip
"""How servers, gateways and logs say that an answer ended, was cut off or was withheld: letters and digits alone."""
_WITHHELD = re.compile(
    r"content[ _-]?(filter|management policy|policy|moderation|exists risk|safety|violates)|"
    r"safety (system|filter|policy)|(inappropriate|sensitive) content|considered high risk|"
    r"(input|output|prompt|content|response)[\w ,]{0,50} (was|has been|is) (flagged|blocked)", re.IGNORECASE,
)  # fmt: skip
"""What messages of filters say whose code is no word for it."""
_JUDGED = re.compile(r"violat|flagged|blocked|filtered|rejected|inappropriate", re.IGNORECASE)
_UNJUDGED = re.compile(
    r"\b(account|subscription|organi[sz]ation|permission|suspended|banned|temporarily|unavailable|time-?out)\b|"
    r"\b(not found|timed out|does not exist|must accept|inputs are not permitted|in your (country|region))\b|"
    r"\byour (\w+ ){0,2}(key|resource|project|team|workspace|access|deployment)\b", re.IGNORECASE,
)  # fmt: skip
"""What messages say of whoever asks, or of a filter that does not work: nothing was judged."""
_FINISH_REASON = re.compile(r"[A-Za-z_-]{1,40}")


def ending(said: object) -> str | None:
    """A finish reason, or the code of an error, as "stop", "length" or `FILTERED`; None where it is no word for one."""
    words = str(said)[:100].lower().removeprefix("finish_reason").lstrip(":_ ").split(":")
    found = [_ENDS.get("".join(filter(str.isalnum, word))) for word in words[:2]]
    return next((end for end in reversed(found) if end == FILTERED), found[0])


def fault_of(body: Any) -> tuple[str, object]:
    """What the body of an error says, and its code: of an object, one in ``error``, a list of these, or a text.

    With what the server behind a gateway said. A code for a filter goes before others, wherever it stands.
    """
    outer = body[0] if isinstance(body, list) and body else body
    outer = outer if isinstance(outer, dict) else {"error": outer}
    fault = outer.get("error") or {name: value for name, value in outer.items() if value}
    inner = fault if isinstance(fault, dict) else {"message": fault}
    below, beside = (one if isinstance(one, dict) else {} for one in (inner.get("innererror"), inner.get("metadata")))
    codes = [one for one in (inner.get("code"), inner.get("type"), below.get("code"), outer.get("code")) if one]
    code = next((one for one in codes if ending(one) == FILTERED), inner.get("code"))
    message = str(inner.get("message") or (inner if fault else ""))
    if not message or message.lstrip().startswith("<"):  # the page of a gateway
        message = "no reason given"
    return f"{message}: {beside['raw']}" if beside.get("raw") else message, code


def is_withheld(code: object, message: object, forbidden: bool = False) -> bool:
    """Whether an error is that a filter withheld the prompt or the answer.

    ``forbidden``: it has the status of a bad key, so that its words must be of what was judged. None are of an account.
    """
    said = str(message)[:2000]
    judged = _UNJUDGED.search(said) is None and (not forbidden or _JUDGED.search(said) is not None)
    return ending(code) == FILTERED or (judged and _WITHHELD.search(said) is not None)


def as_ended(completion: Completion) -> Completion:
    """With the project's word for how it ended; what a filter withheld has no text, as a part of one is no answer."""
    end = ending(completion.finish_reason)
    if end == FILTERED and completion.error is None:
        return replace(
            completion, finish_reason=end, error=WITHHELD, text=None, log_probs=(), reasons=(), candidate_tokens=()
        )
    return completion if end is None else replace(completion, finish_reason=end)


def end_of(said: str, redaction: Redaction) -> str:
    """How an answer ended, in the words of a server or log; "unknown" where that is no such word.

    What ended, was cut off or withheld in other words is "stop", "length" or `FILTERED`.
    """
    if known := ending(said):
        return known
    odd = not _FINISH_REASON.fullmatch(said) or redaction.error(said) != said
    return "unknown" if odd or said == UNSUPPORTED else said  # which is the project's own word


def read_completion(answer: Any, prompt: Prompt, chat: bool, redaction: Redaction) -> Completion:
    """A decoded 2xx body as a completion; RequestFailed says what of it cannot be read."""
    if isinstance(answer, dict) and answer.get("error"):
        detail, code = fault_of(answer)
        withheld = FILTERED if is_withheld(code, detail) else None
        raise RequestFailed(redaction.error(f"the server reports an error: {detail}"), finish_reason=withheld)
    prompt_tokens, completion_tokens = reported_usage(answer)
    choice = _first_choice(answer, billed=bool(completion_tokens) and not prompt.candidates)
    if choice.get("error") or choice.get("finish_reason") == "error":
        fault = choice.get("error")
        reason = f"the server broke the answer off: {fault or 'error'}"
        if is_withheld(fault.get("code") if isinstance(fault, dict) else None, fault):
            raise RequestFailed(redaction.error(reason), finish_reason=FILTERED)
        raise RequestFailed(redaction.error(reason), cause=BROKEN_OFF)
    said = choice.get("finish_reason")
    served: dict[str, Any] = {
        "finish_reason": end_of(said, redaction) if isinstance(said, str) else None,
        "model": reported_name(answer.get("model"), redaction),
        "fingerprint": reported_name(answer.get("system_fingerprint"), redaction),
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
    }
    if served["finish_reason"] == FILTERED:
        return Completion(error=WITHHELD, **served)
    if prompt.candidates:
        top = top_log_probs(choice)
        if top is None:
            return Completion(finish_reason=UNSUPPORTED, error="the server answered without token probabilities")
        refuse_mass(math.exp(log_prob) for _, log_prob in top)
        log_probs, coverage = candidate_log_probs(top, prompt.candidates)
        shown = _by_word(top)
        reasons = tuple(
            ABSENT if log_prob is None else SHOWN if shown.get(word) else IMPUTED
            for word, log_prob in zip(prompt.candidates, log_probs, strict=True)
        )
        return Completion(log_probs=log_probs, reasons=reasons, estimator=TOP_LOGPROBS, coverage=coverage, **served)
    text = _content(choice, chat, ended=Completion(error="", **served).empty)
    stopped_at_once = text is not None and not chat and bool(prompt.sampling.stop)
    if text is None or (not text.strip() and not stopped_at_once):
        return Completion(error=f"the answer is empty (finish reason {served['finish_reason']})", **served)
    most = max(SHORT_ANSWER, CHARACTERS_PER_TOKEN * prompt.sampling.max_tokens)
    if len(text) > most:
        reason = f"the answer has {len(text):,} characters, too many for max_tokens {prompt.sampling.max_tokens:,}"
        return Completion(error=f"{reason}: the server does not keep to it", **served)
    return Completion(text=redaction.completion(text), **served)


def reported_usage(answer: Any) -> tuple[int | None, int | None]:
    """Tokens, input and output, that a decoded body says were used, whatever else is wrong with it.

    Some servers count what a model reasoned in ``total_tokens`` alone: whatever of it is no input is output.
    """
    usage = answer.get("usage") if isinstance(answer, dict) else None
    usage = usage if isinstance(usage, dict) else {}
    given, made, total = (
        next((n for n in (_count(usage.get(f"{name}_tokens")) for name in names) if n is not None), None)
        for names in (("prompt", "input"), ("completion", "output"), ("total",))
    )
    if given is not None and made is not None and total is not None:
        made = max(made, total - given)
    return given, made


def reported_name(value: Any, redaction: Redaction) -> str | None:
    """A name that a server gives, as of its model, without keys and control characters; None where it is no text."""
    return redaction.name(value) if isinstance(value, str) else None


def _first_choice(answer: Any, billed: bool) -> dict[str, Any]:
    """The first choice; {} where an answer that was billed has none, as of a gateway whose model gave no text."""
    choices = answer.get("choices") if isinstance(answer, dict) else None
    if choices == [] and billed:
        return {}
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise RequestFailed("the answer has no choices, so it is of no schema this project knows", cause="unreadable")
    return choices[0]


def _content(choice: Mapping[str, Any], chat: bool, ended: bool) -> str | None:
    """The text of a choice, or else its refusal; None where the server gives none.

    A message may leave out its content where there is none, which counts where the model ``ended``.
    """
    field = "content" if chat else "text"
    holder = choice.get("message", 0 if choice else None) if chat else choice  # 0: a choice without any message
    holder = {} if holder is None else holder
    known = isinstance(holder, dict)
    if known and field not in holder:
        elsewhere = {name for name, value in holder.items() if value and isinstance(value, str)} - _BESIDE
        elsewhere |= set() if chat else {"message", "delta"} & set(holder)
        known = bool(not choice or (not elsewhere and (ended or holder.get("refusal"))))
    if not known:
        raise RequestFailed(f"the answer has no {'message.' if chat else ''}{field}", cause="unreadable")
    text = _joined(holder.get(field, None if chat else ""))
    text = None if text == [] and ended else text
    if text is None or text == "":
        refusal = holder.get("refusal")
        return refusal if isinstance(refusal, str) and refusal.strip() else text
    if not isinstance(text, str):
        raise RequestFailed(f"the answer's {field} is {type(text).__name__}, not text", cause="unreadable")
    return text


def _joined(content: Any) -> Any:
    """Content in parts, as models that reason send it, as the text of its parts of text; else what it was.

    Parts of refusal alone are the text.
    """
    if not isinstance(content, list) or not content or not all(isinstance(part, dict) for part in content):
        return content
    said = [part for part in content if part.get("type") not in NO_TEXT]
    texts = [(part.get("type"), part.get("refusal" if part.get("type") == "refusal" else "text")) for part in said]
    if not all(kind in _SPOKEN and isinstance(text, str) for kind, text in texts):
        return content
    spoken = [text for kind, text in texts if kind != "refusal"]
    return "".join(spoken or [text for _, text in texts])


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else None


# ---------------------------------------------------------------- token probabilities


def top_log_probs(choice: Mapping[str, Any]) -> list[tuple[str, float]] | None:
    """(token, ln p) of the alternatives at the first token; None where the server serves none. Else RequestFailed.

    Reads both forms: ``content`` with a list per token (chat, and llama.cpp's completions), and
    ``top_logprobs`` with a mapping per token (completions). The token that was drawn is no list of alternatives: it
    need not be the likeliest. Null is how JSON writes the ln of 0 (-inf); values above 0 are for `refuse_mass`.
    """
    served = choice.get("logprobs")
    if not isinstance(served, dict):
        return None
    content, mappings = served.get("content"), served.get("top_logprobs")
    pairs: list[tuple[Any, Any]] = []
    if isinstance(content, list) and content and isinstance(content[0], dict):
        alternatives = content[0].get("top_logprobs") or []
        if not isinstance(alternatives, list):
            reason = f"the answer's top_logprobs is {type(alternatives).__name__}, not a list"
            raise RequestFailed(reason, cause="unreadable")
        pairs = [(one.get("token"), one.get("logprob")) for one in alternatives if isinstance(one, dict)]
    elif isinstance(mappings, list) and mappings and isinstance(mappings[0], dict):
        pairs = list(mappings[0].items())
    top = [(token, _alternative(value)) for token, value in pairs if isinstance(token, str)]
    shown = math.fsum(math.exp(log_prob) for _, log_prob in top)
    for token, log_prob in top:
        if log_prob == -math.inf and shown < LEAST_MASS:
            reason = f"of the others the server shows {shown:.4g} in all, and no ln probability of {token!r}"
            raise RequestFailed(reason, cause="unreadable")
    return top or None


def _alternative(value: Any) -> float:
    """Ln p of one alternative, -inf for null; RequestFailed for what is no number or far above 0."""
    if value is None:
        return -math.inf
    if isinstance(value, bool) or not isinstance(value, int | float) or value > 1:
        raise RequestFailed(f"what the server shows is no ln probability: {value}", cause="unreadable")
    return float(value)


def refuse_mass(probabilities: Iterable[float]) -> None:
    """RequestFailed where probabilities of what excludes one another sum to more than 1."""
    if (mass := math.fsum(probabilities)) > MOST_MASS:
        reason = f"the token probabilities that the server shows sum to {mass:.4g}, more than 1"
        raise RequestFailed(reason, cause="unreadable")


def candidate_log_probs(
    top: Sequence[tuple[str, float]], candidates: Sequence[str]
) -> tuple[tuple[float | None, ...], float]:
    """Estimate ln P(candidate) from the alternatives that a server shows at the first token.

    The GPT-4 recipe of Hofmann et al. (2024, Supplementary Information), for a server whose alternatives are
    not confined to the candidates. A candidate found has its own probability (the sum of its token with and
    without a leading space); the mass of all tokens that are not shown is spread evenly over the candidates
    not found, none of which gets more than the least token shown, for it cannot have more; all are divided by
    their sum.

    Parameters
    ----------
    top
        (token, ln p) of the alternatives, nats.
    candidates
        Words of one token each: a token counts only where it is the whole word, in the same case.

    Returns
    -------
    log_probs : tuple
        ln P per candidate, nats; the probabilities sum to 1. None for all when none was found.
    coverage : float
        Mass of the candidates found before division, in [0, 1].
    """
    mass = _by_word(top)
    found = {word: mass[word] for word in candidates if mass.get(word, 0.0) > 0}
    coverage = min(1.0, math.fsum(found.values()))
    if not found:
        return (None,) * len(candidates), 0.0
    missing = len(set(candidates)) - len(found)
    unseen = max(0.0, 1.0 - math.fsum(mass.values()))
    share = min(unseen / missing, math.exp(min(log_prob for _, log_prob in top))) if missing else 0.0
    total = math.fsum(found.values()) + share * missing
    probabilities = [found.get(word, share) / total for word in candidates]
    return tuple(math.log(p) if p > 0 else None for p in probabilities), coverage


def _by_word(top: Sequence[tuple[str, float]]) -> dict[str, float]:
    """Mass of each word of one token, with and without white space before it."""
    mass: dict[str, float] = {}
    for token, log_prob in top:
        word = token.strip(_SPACES)
        mass[word] = mass.get(word, 0.0) + math.exp(log_prob)
    return mass
