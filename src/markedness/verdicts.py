"""What the audits of one model say together: the verdict of every headline Score, corrected over all of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from markedness.cards import count, words
from markedness.results import Score, Verdict, VerdictKind, verdict
from markedness.stats.inference import holm, redetected

VERDICT_COLUMNS = (
    "model", "audit", "score", "verdict", "sentence", "estimate", "ci_low", "ci_high", "p", "p_adjusted",
    "p_adjusted_model", "detectable", "caveat",
)  # fmt: skip
HEADLINE_COLUMNS = ("audit", "score", "label", "model", "estimate", "ci_low", "ci_high", "null")


@dataclass(frozen=True)
class Answer:
    """One headline Score among all those of a model."""

    audit: str
    score: Score
    """``detectable`` at the correction over all audits."""
    p: float
    """Holm over the tested headline Scores of all audits of the model."""
    verdict: Verdict
    strength: float
    """Distance from the null in smallest effects that would be found; 0 where there is none."""


def answers(scores: Mapping[str, Sequence[Score]]) -> list[Answer]:
    """An answer for each headline Score of a model, in their order.

    Parameters
    ----------
    scores
        Audit -> its headline Scores.
    """
    every = [(audit, score) for audit, of_audit in scores.items() for score in of_audit]
    family = sum(math.isfinite(score.p) for _, score in every)
    made = []
    for (audit, score), p in zip(every, holm([score.p for _, score in every]), strict=True):
        of_model = replace(score, detectable=redetected(score.detectable, score.df, score.family, family))
        null = score.null_mean if math.isfinite(score.null_mean) else 0.0
        strength = abs(score.estimate - null) / score.detectable if score.detectable > 0 else 0.0
        said = verdict(of_model, p=float(p), family=max(1, family))
        made.append(Answer(audit, of_model, float(p), said, strength if math.isfinite(strength) else 0.0))
    return made


def counted(made: Iterable[Answer]) -> str:
    """How many of the tested Scores found something."""
    kinds = Counter(one.verdict.kind for one in made)
    tested = kinds[VerdictKind.FOUND] + kinds[VerdictKind.NOT_FOUND]
    unsaid = kinds[VerdictKind.TOO_LITTLE] + kinds[VerdictKind.NOT_MEASURED]
    return f"{kinds[VerdictKind.FOUND]} of {tested} tested scores found a difference" + (
        f"; {unsaid} more could not be tested" if unsaid else ""
    )


@dataclass(frozen=True)
class Summary:
    """What a reader learns first: at most so many sentences, the strongest finding first."""

    found: list[Answer]
    not_found: list[Answer]
    cannot: list[str]
    more: tuple[int, int, int]
    """Of each kind, how many more there are."""


def summary(made: Iterable[Answer], checks: Iterable[tuple[str, str]] = (), most: int = 8) -> Summary:
    """The answers to say first.

    Parameters
    ----------
    checks
        (audit, key) of Scores that ask whether what is missing differs: said where it is found only.
    most
        Sentences in all. What could not be measured has at most two, each found kind leaves at least two to the other.
    """
    kinds: dict[VerdictKind, list[Answer]] = {kind: [] for kind in VerdictKind}
    for one in made:
        kinds[one.verdict.kind].append(one)
    known = set(checks)
    found = sorted(kinds[VerdictKind.FOUND], key=lambda one: (-one.strength, one.p))
    looked = [one for one in kinds[VerdictKind.NOT_FOUND] if (one.audit, one.score.key) not in known]
    # One of each audit first, so that no audit is silent.
    turn: dict[str, int] = {}
    order = []
    for place, one in enumerate(looked):
        order.append((turn.get(one.audit, 0), place))
        turn[one.audit] = turn.get(one.audit, 0) + 1
    looked = [looked[place] for _, place in sorted(order)]
    cannot = list(_together([*kinds[VerdictKind.TOO_LITTLE], *kinds[VerdictKind.NOT_MEASURED]]))
    n_cannot = min(2, len(cannot))
    n_found = min(len(found), most - n_cannot - min(2, len(looked)))
    n_looked = min(len(looked), most - n_cannot - n_found)
    more = (len(found) - n_found, len(looked) - n_looked, len(cannot) - n_cannot)
    return Summary(found[:n_found], looked[:n_looked], cannot[:n_cannot], more)


def _together(unsaid: Sequence[Answer]) -> Iterable[str]:
    """A sentence for each audit and reason."""
    reasons: dict[tuple[str, str], list[Answer]] = {}
    for one in unsaid:
        reason = one.score.lacking or one.score.method or "there was nothing to estimate"
        reasons.setdefault((one.audit, reason), []).append(one)
    for (audit, reason), named in reasons.items():
        if len(named) == 1:
            yield f"{words(audit)}: {named[0].verdict.sentence}"
        else:
            yield f"{words(audit)}: {len(named)} scores ({', '.join(one.score.key for one in named)}): {reason}."


def strongest(score: Score, scores: Iterable[Score], most: int = 2) -> str:
    """The groups in which a found Score is found on its own, the largest first; "" where there are none.

    Of the groups that it is over alone. Its Score of one of them ends in the group, "gap.Black", "jsd.persona: Black";
    where there are several, as of another kind of texts, the first is meant.
    """
    by_group: dict[str, Score] = {}
    for one in scores:
        part = one.group and one.measure == score.measure and one.item.rpartition(": ")[2] == one.group
        if part and any(pair.startswith(f"{one.group} - ") for pair in score.over.split("; ")):
            by_group.setdefault(one.group, one)
    same = [
        one
        for one in by_group.values()
        if verdict(one).kind is VerdictKind.FOUND and one.above_null == score.above_null
    ]
    same.sort(key=lambda one: -abs(one.estimate))
    if not same:
        return ""
    listed = ", ".join(f"{one.group} ({one.estimate:.3g})" for one in same[:most])
    more = f", and {count(len(same) - most, 'more group')}" if len(same) > most else ""
    return f"Strongest for {listed}{more}."


def verdict_table(scores: Mapping[str, Mapping[str, Sequence[Score]]]) -> pd.DataFrame:
    """`VERDICT_COLUMNS`: every headline Score of every model, from model -> audit -> headline Scores."""
    rows = []
    for model, by_audit in scores.items():
        for one in answers(by_audit):
            score = one.score
            rows.append(
                (
                    model, one.audit, score.key, str(one.verdict.kind), one.verdict.sentence, score.estimate,
                    score.ci_low, score.ci_high, score.p, score.p_adjusted, one.p, score.detectable, score.caveat,
                )
            )  # fmt: skip
    return pd.DataFrame(rows, columns=list(VERDICT_COLUMNS))


def headline_table(scores: Mapping[str, Mapping[str, Sequence[Score]]]) -> pd.DataFrame:
    """`HEADLINE_COLUMNS`: every headline Score of every model, a row each, for the charts of DVC."""
    rows = [
        (
            audit, one.key, f"{audit}: {words(one.key.replace('.', ': ', 1), capital=False)}", model, one.estimate,
            one.ci_low, one.ci_high, one.null_mean,
        )
        for model, by_audit in scores.items()
        for audit, of_audit in by_audit.items()
        for one in of_audit
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=list(HEADLINE_COLUMNS)).sort_values("audit", kind="stable", ignore_index=True)


def headline_estimates(scores: Mapping[str, Mapping[str, Sequence[Score]]]) -> dict[str, dict[str, dict[str, float]]]:
    """Audit -> model -> headline score -> estimate."""
    made: dict[str, dict[str, dict[str, float]]] = {}
    for model, by_audit in scores.items():
        for audit, of_audit in by_audit.items():
            made.setdefault(audit, {})[model] = {score.key: score.estimate for score in of_audit}
    return made
