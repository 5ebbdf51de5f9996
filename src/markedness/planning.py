"""What a study would ask, cost and find, before anything is asked: requests by size, and the smallest effects."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import pandas as pd

from markedness import audits, judges
from markedness.audits.base import SIZES
from markedness.generation import Forecast, forecast
from markedness.lm.config import CorpusModel, ScriptedModel
from markedness.lm.ledger import summary
from markedness.lm.progress import Report, tell
from markedness.params import Params, ParamsError, load, resized
from markedness.reporting.results import Result, read
from markedness.results import NAN
from markedness.stats.inference import ALPHA, POWER, redetected
from markedness.store import SHIPPED, Store
from markedness.typical import typical

MOST_TIMES = 1e4
"""Of the effect that is wanted, the smallest that a size finds: beyond it no number of clusters is named."""
MOST_POWER = 0.999
"""More would be read as certainty."""
PLAN_COLUMNS = ("audit", "size", "score", "smallest_effect", "clusters", "from", "cannot")


@dataclass(frozen=True)
class Wanted:
    """An effect that should be found."""

    audit: str
    key: str
    effect: float

    @classmethod
    def parse(cls, text: str, chosen: Sequence[str]) -> Wanted:
        """From AUDIT.KEY=VALUE: "homogeneity.pd_difference.marked=0.05".

        Raises
        ------
        ParamsError
            Naming what the text should look like, the audits or the keys.
        """
        name, equals, value = text.partition("=")
        audit, _, key = name.partition(".")
        try:
            effect = abs(float(value))
        except ValueError:
            effect = NAN
        if not equals or not key or not effect > 0 or not math.isfinite(effect):
            raise ParamsError(f"--detect {text}: write AUDIT.KEY=VALUE, as in homogeneity.pd_difference.marked=0.05")
        if audit not in chosen:
            raise ParamsError(f"--detect {text}: '{audit}' is not among the audits planned: {', '.join(chosen)}")
        known = audits.spec(audit).headline
        if key not in known:
            raise ParamsError(f"--detect {text}: {audit} has no headline score '{key}'; it has {', '.join(known)}")
        return cls(audit, key, effect)


def plan(
    params: Params, model: str, chosen: Sequence[str] = (), sizes: Sequence[str] = (), detect: Sequence[str] = (),
    power: float = POWER, looks: int = 1, say: Report = tell,
) -> pd.DataFrame:  # fmt: skip
    """Print what each audit would ask and find at each size; nothing is asked or written.

    Parameters
    ----------
    model
        A key of models: whose ledger, prices and finished results count.
    chosen, sizes
        Audits and sizes; by default all of params.yaml, and all that the audit has.
    detect
        Effects as AUDIT.KEY=VALUE: at which size, or with how many clusters, they would be found.
    power
        Probability with which the smallest effect is found, in (0, 1).
    looks
        How often the growing data will be looked at, each look corrected for all (``gate.looks``).

    Returns
    -------
    DataFrame
        `PLAN_COLUMNS`: ``smallest_effect`` in the unit of the Score at its correction (NaN: none can be named),
        ``clusters`` as "factor n", ``from``: what the variance comes from, ``cannot``: why no effect at all would be
        found, whatever its size, and the remedy; "" else.

    Raises
    ------
    ParamsError
        When an audit, size, effect or power is not what it should be.
    """
    if not ALPHA < power <= MOST_POWER:
        raise ParamsError(
            f"--power {power}: a probability above {ALPHA}, with which a test finds what is not there, and at most "
            f"{MOST_POWER}"
        )
    if looks < 1:
        raise ParamsError(f"--looks {looks}: 1 or more")
    chosen = list(chosen) or list(params.audits)
    if unknown := [name for name in chosen if name not in params.audits]:
        raise ParamsError(f"plan: '{unknown[0]}' is not an audit of params.yaml; it has {', '.join(params.audits)}")
    if unknown := [size for size in sizes if size not in SIZES]:
        raise ParamsError(f"--size {unknown[0]}: one of {', '.join(SIZES)}")
    wanted = [Wanted.parse(text, chosen) for text in detect]
    store = Store(params.root)
    rows = []
    for audit in chosen:
        spec = audits.spec(audit)
        offered = [size for size in (sizes or SIZES) if size in spec.sizes] if spec.sizes else [""]
        if not offered:
            say(f"{audit}: has no such size")
        finished = _finished(params, store, audit, model)
        for size in offered:
            sized = resized(params, audit, size) if size else params
            asked = forecast(sized, audit, model, lambda _: None)
            say(
                f"{audit}, {sized.sizes[audit]}{sized.model(model).own(audit)}: {_requests(asked, store, audit, model)}"
            )
            present = asked.known == asked.total and size == params.sizes[audit].name
            judges.forecast(sized, audit, model, present, lambda sentence: say(f"  {sentence}"))
            found = smallest_effects(params, audit, size, finished, power, looks, model)
            rows += [(audit, size, *row) for row in found]
            for row in found:
                say(f"  {row[0]}: {row[4] or _effect(row[1], power)}{f' ({row[2]})' if row[2] else ''}")
            say(f"  variance: {found[0][3]}" if found else "  no effect can be named that would be found at this size")
    table = pd.DataFrame(rows, columns=list(PLAN_COLUMNS))
    for one in wanted:
        say(_needed(one, table[table["audit"].eq(one.audit) & table["score"].eq(one.key)], power))
    return table


def smallest_effects(
    params: Params,
    audit: str,
    size: str,
    finished: tuple[str, Result] | None,
    power: float = POWER,
    looks: int = 1,
    asked: str = "",
) -> list[tuple[str, float, str, str, str]]:
    """(key, smallest effect, clusters, source, why none can be found) of each headline Score that has a test.

    The audit's world with an effect as the paper reports it says how the error falls with the size; where there is a
    finished result of the present size, its error over that of the world at this size scales it. Of a study that asks
    something else than the size (other groups, samples or prompts) the worlds say nothing: only its own result does.
    ``asked``: the model, which may be asked otherwise than the study.
    """
    if other := unlike_size(params, audit, size, asked):
        return _own_effects(audit, size == params.sizes[audit].name, finished, other, power, looks)
    worlds = typical(audit, size)
    if not worlds:
        return []
    model, result = finished or ("", None)
    now = params.sizes[audit]
    same = typical(audit, now.name) if result is not None and now.name and not now.but_for else {}
    limit: int | None = dict(params.stage(audit, "evaluate")).get("n_permutations")
    made = []
    for key in audits.spec(audit).headline:
        if key not in worlds:
            made.append((key, NAN, "", False, ""))
            continue
        score, own = worlds[key], result.score(key) if result is not None and key in same else None
        scale = own.detectable / same[key].detectable if own is not None and own.detectable > 0 else NAN
        value = redetected(score.smallest, score.df, score.family, score.family * looks, power) * (
            scale if math.isfinite(scale) else 1.0
        )
        finest = own.smallest_p if own is not None and size == now.name else score.smallest_p
        if limit is not None and finest > 0:  # it has an exchange test, with so many draws
            finest = max(finest, 1 / (1 + limit))
        why = beyond_reach(finest, score.family, looks, score.clusters)
        made.append((key, NAN if why else value, score.clusters, math.isfinite(scale), why))
    from_run = any(scaled for *_, scaled, _ in made)
    source = f"results of {model} at size {now.name}, carried over by the audit's planted world" if from_run else (
        "the audit's planted world alone (docs/calibration.md); run a small study first to have this model's own"
    )  # fmt: skip
    return [(key, value, clusters, source, why) for key, value, clusters, _, why in made]


def beyond_reach(smallest_p: float, family: int, looks: int, clusters: str) -> str:
    """Why no effect can be found, however large, and the remedy; "" where one can.

    Parameters
    ----------
    smallest_p
        See `Score.smallest_p`; NaN: no bound.
    family, looks
        Scores and looks over which p is corrected.
    clusters
        What there is, as "factor n, factor n".
    """
    least = smallest_p * max(1, family)
    if not least * looks > ALPHA:
        return ""
    over = f"{max(1, family)} scores" + (f" and {looks} looks" if looks > 1 else "")
    fewer = f"plan at most {int(ALPHA / least)} looks, or " if least <= ALPHA else ""
    return (
        f"cannot be found with these draws and arrangements: the smallest p that could come out is {smallest_p:.2g}, "
        f"which is {min(1.0, least * looks):.2g} after correction over {over}; {fewer}ask more"
        f"{f' ({clusters})' if clusters else ''}; where evaluate sets n_permutations, set more"
    )


def unlike_size(params: Params, audit: str, size: str, model: str = "") -> str:
    """In what a study differs from the size as it comes: keys of generate, or groups; "" where it does not."""
    sized = resized(params, audit, size) if size else params
    own = params.model(model).generate.get(audit, {}) if model else {}
    others = [*sized.sizes[audit].but_for, *(f"models.{model}.generate.{audit}.{key}" for key in own)]
    axes, shipped = (
        {name: (axis.unmarked, frozenset(axis.values)) for name, axis in one.axes(audit).items()}
        for one in (params, _shipped())
    )
    return ", ".join([*others, *(["axes"] if axes != shipped else [])])


@cache
def _shipped() -> Params:
    """The params that the worlds are of."""
    return load(SHIPPED / "params.yaml")


def _own_effects(
    audit: str, present: bool, finished: tuple[str, Result] | None, other: str, power: float, looks: int
) -> list[tuple[str, float, str, str, str]]:
    """What a result of this very study found; of each key without one NaN, and why."""
    why = f"unknown, as this study differs from the size in {other}"
    if not present or finished is None:
        again = f"{why}; run it once, small, to have its own"
        return [(key, NAN, "", again, "") for key in audits.spec(audit).headline]
    model, result = finished
    made = []
    for key in audits.spec(audit).headline:
        score = result.score(key)
        value = redetected(score.detectable, score.df, score.family, score.family * looks, power)
        clusters = ", ".join(f"{factor} {n}" for factor, n in score.clusters.items())
        source = f"results of {model} alone, as this study differs from the size in {other}"
        none = beyond_reach(score.smallest_p, score.family, looks, clusters)
        made.append((key, NAN if none else value, clusters, source, none))
    return made


def _finished(params: Params, store: Store, audit: str, model: str) -> tuple[str, Result] | None:
    """Results of this model, else of another that answers by itself: their variance is the best guess there is.

    Controls and texts that exist vary in ways of their own.
    """
    others = [name for name in params.run if not isinstance(params.model(name), CorpusModel | ScriptedModel)]
    for name in dict.fromkeys((model, *others)):
        found = read(store, audit, name, audits.spec(audit).card)
        if found is not None and found.measured:
            return name, found
    return None


def _requests(asked: Forecast, store: Store, audit: str, model: str) -> str:
    """Requests, tokens, cost and time in words."""
    text = f"{asked.total:,} requests, {asked.known:,} of them in the ledger, {asked.total - asked.known:,} to be asked"
    if asked.later_rounds:
        text += f" up to round {asked.rounds} (later rounds, if any, depend on its answers)"
    text += f"; about {asked.tokens_in:,} tokens in, at most {asked.tokens_out:,} out; cost {asked.money}"
    known = summary(store.ledger_path(audit, model))
    if known is not None and known.first and known.last and known.answers > 1:
        seconds = (known.last - known.first).total_seconds() / known.answers * (asked.total - asked.known)
        text += f"; about {max(1, round(seconds / 60)):,} min at the pace of the answers so far" if seconds > 0 else ""
    return text


def _effect(value: float, power: float) -> str:
    if not math.isfinite(value):
        return "no effect can be named that would be found"
    return f"an effect of {value:.3g} or more is found with {100 * power:.4g}% probability"


def _needed(one: Wanted, rows: pd.DataFrame, power: float) -> str:
    """At which size an effect is found, or how many clusters it takes."""
    subject = f"{one.audit}.{one.key} = {one.effect:g} with {100 * power:.4g}% probability"
    known = rows[rows["smallest_effect"].notna()]
    if known.empty and len(cannot := rows[rows["cannot"].ne("")]):
        return f"{subject}: {cannot['cannot'].iloc[-1]}"
    if known.empty:
        return f"{subject}: cannot be planned, none of these sizes has a smallest effect for it"
    enough = known[known["smallest_effect"] <= one.effect]
    if len(enough):
        return f"{subject}: found at size {enough['size'].iloc[0]} ({enough['clusters'].iloc[0]})"
    best = known.sort_values("smallest_effect").iloc[0]
    ratio = float(best["smallest_effect"]) / one.effect
    if ratio > MOST_TIMES:
        return f"{subject}: not at these sizes, nor at any that can be asked"
    first, last = known.iloc[0], known.iloc[-1]
    if not _falls(first, last):
        sizes = ", ".join(f"{row['smallest_effect']:.3g} at {row['size']} ({row['clusters']})" for row in (first, last))
        return (
            f"{subject}: not at these sizes, and no number of clusters can be named: the smallest effect does not fall "
            f"with them as that of a mean does ({sizes}); what is not sampled, as the attributes of guise, limits it"
        )
    factor = ratio**2
    named = ", ".join(f"{name} {math.ceil(n * factor):,}" for name, n in _clusters(best).items())
    return f"{subject}: not at these sizes; it takes about {factor:.1f} times the clusters of {best['size']} ({named})"


def _clusters(row: pd.Series) -> dict[str, int]:
    """Factor -> its clusters, of a row of the plan."""
    parts = [part.rsplit(" ", 1) for part in str(row["clusters"]).split(", ") if part]
    return {name: int(n) for name, n in parts}


def _falls(first: pd.Series, last: pd.Series) -> bool:
    """Whether the smallest effect falls from one size to a larger one by half as much, at least, as that of a mean."""
    if first["size"] == last["size"]:
        return True
    before, after = _clusters(first), _clusters(last)
    times = max((after[name] / before[name] for name in after if before.get(name)), default=2.0)
    return bool(last["smallest_effect"] <= first["smallest_effect"] * (1 + times**-0.5) / 2)
