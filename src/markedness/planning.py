"""What a study would ask, cost and find, before anything is asked: requests by size, and the smallest effects."""

from __future__ import annotations

import io
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources

import numpy as np
import pandas as pd

from markedness import audits
from markedness.audits.base import SIZES
from markedness.generation import Forecast, forecast
from markedness.lm.config import CorpusModel, ScriptedModel
from markedness.lm.ledger import summary
from markedness.lm.progress import Report, tell
from markedness.params import Params, ParamsError, load, resized
from markedness.reporting.results import Result, read
from markedness.results import NAN, Score
from markedness.stats.inference import ALPHA, POWER, redetected
from markedness.store import SHIPPED, Store

SEED = 2026
PLANTED = "planted"
"""Name of the world that has what the size asks for, with the paper's effects; without it nothing can be planned."""
N_DRAWS = 20
"""Worlds that are drawn where an audit has no smallest_effects.csv (scripts/smallest_effects.py writes it)."""
MOST_POWER = 0.999
"""More would be read as certainty."""
PLAN_COLUMNS = ("audit", "size", "score", "smallest_effect", "clusters", "from")


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
        ``clusters`` as "factor n", ``from``: what the variance comes from.

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
            say(f"{audit}, {sized.sizes[audit]}: {_requests(asked, store, audit, model)}")
            found = smallest_effects(params, audit, size, finished, power, looks)
            rows += [(audit, size, *row) for row in found]
            for row in found:
                say(f"  {row[0]}: {_effect(row[1], power)}{f' ({row[2]})' if row[2] else ''}")
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
) -> list[tuple[str, float, str, str]]:
    """(key, smallest effect, clusters, source) of each headline Score that has a test.

    The audit's world with an effect as the paper reports it says how the error falls with the size; where there is a
    finished result of the present size, its error over that of the world at this size scales it. Of a study that asks
    something else than the size (other groups, samples or prompts) the worlds say nothing: only its own result does.
    """
    if other := unlike_size(params, audit, size):
        return _own_effects(audit, size == params.sizes[audit].name, finished, other, power, looks)
    worlds = typical(audit, size)
    if not worlds:
        return []
    model, result = finished or ("", None)
    now = params.sizes[audit]
    same = typical(audit, now.name) if result is not None and now.name and not now.but_for else {}
    made = []
    for key in audits.spec(audit).headline:
        if key not in worlds:
            made.append((key, NAN, "", False))
            continue
        score, own = worlds[key], result.score(key) if result is not None and key in same else None
        scale = own.detectable / same[key].detectable if own is not None and own.detectable > 0 else NAN
        value = redetected(score.smallest, score.df, score.family, score.family * looks, power) * (
            scale if math.isfinite(scale) else 1.0
        )
        made.append((key, value, score.clusters, math.isfinite(scale)))
    from_run = any(scaled for *_, scaled in made)
    source = f"results of {model} at size {now.name}, carried over by the audit's planted world" if from_run else (
        "the audit's planted world alone (docs/calibration.md); run a small study first to have this model's own"
    )  # fmt: skip
    return [(key, value, clusters, source) for key, value, clusters, _ in made]


def unlike_size(params: Params, audit: str, size: str) -> str:
    """In what a study differs from the size as it comes: keys of generate, or groups; "" where it does not."""
    sized = resized(params, audit, size) if size else params
    others = list(sized.sizes[audit].but_for)
    own, shipped = (
        {name: (axis.unmarked, frozenset(axis.values)) for name, axis in one.axes(audit).items()}
        for one in (params, _shipped())
    )
    return ", ".join([*others, *(["axes"] if own != shipped else [])])


@cache
def _shipped() -> Params:
    """The params that the worlds are of."""
    return load(SHIPPED / "params.yaml")


def _own_effects(
    audit: str, present: bool, finished: tuple[str, Result] | None, other: str, power: float, looks: int
) -> list[tuple[str, float, str, str]]:
    """What a result of this very study found; of each key without one NaN, and why."""
    why = f"unknown, as this study differs from the size in {other}"
    if not present or finished is None:
        return [(key, NAN, "", f"{why}; run it once, small, to have its own") for key in audits.spec(audit).headline]
    model, result = finished
    made = []
    for key in audits.spec(audit).headline:
        score = result.score(key)
        value = redetected(score.detectable, score.df, score.family, score.family * looks, power)
        clusters = ", ".join(f"{factor} {n}" for factor, n in score.clusters.items())
        made.append((key, value, clusters, f"results of {model} alone, as this study differs from the size in {other}"))
    return made


@dataclass(frozen=True)
class Typical:
    """What a headline Score can find in a study of a size, over draws of the planted world."""

    key: str
    draws: int
    detectable: float
    """Root mean square of the Scores' own: the typical error, not one that a lucky draw shows."""
    df: float
    """Median; 0 where the Scores have none."""
    family: int
    clusters: str
    """As "factor n, factor n"."""
    n: int
    first: float
    """``detectable`` in the first draw, NaN included: a change of it says that the file is out of date."""
    simulated: float = NAN
    """Mean in worlds in which it is found in `POWER`, in place of ``detectable``; NaN where this was not drawn
    (scripts/simulate_plan.py --write)."""

    @property
    def smallest(self) -> float:
        """The effect that is found with `POWER`: simulated, or from the typical error."""
        return self.simulated if math.isfinite(self.simulated) else self.detectable


@cache
def typical(audit: str, size: str) -> dict[str, Typical]:
    """Headline key -> what it finds at a size: from the audit's smallest_effects.csv, else by drawing its worlds."""
    spec = audits.spec(audit)
    try:
        text = (resources.files(spec.package) / "smallest_effects.csv").read_text(encoding="utf-8")
    except OSError:
        return {one.key: one for one in draw_typical(audit, size, N_DRAWS)}
    table = pd.read_csv(io.StringIO(text))
    table["clusters"] = table["clusters"].fillna("")
    names = [field.name for field in fields(Typical)]
    made = (Typical(*row) for row in table.loc[table["size"].eq(size), names].itertuples(index=False))
    return {one.key: one for one in made}


def draw_typical(audit: str, size: str, draws: int) -> list[Typical]:
    """By drawing the planted world; none where an audit has no such world or no Score in it that can be found."""
    spec = audits.spec(audit)
    if spec.worlds is None or spec.scores is None or not size:
        return []
    world = next((one for one in spec.worlds(size) if one.name == PLANTED), None)
    if world is None:
        return []
    found: dict[str, list[Score]] = {key: [] for key in spec.headline}
    settings = spec.params("evaluate")(**world.params)
    for draw in range(draws):
        rng = np.random.default_rng([SEED, zlib.crc32(f"{audit}/{size}".encode()), draw])
        for score in spec.scores(world.draw(rng), settings, rng):
            if score.key in found:
                found[score.key].append(score)
    return [_typical(key, scores) for key, scores in found.items() if any(s.detectable > 0 for s in scores)]


def _typical(key: str, scores: Sequence[Score]) -> Typical:
    known = [score for score in scores if score.detectable > 0]
    middle = float(np.median([score.df if score.df > 0 else 0.0 for score in known]))
    usual = known[len(known) // 2]
    return Typical(
        key, len(known), float(np.sqrt(np.mean([score.detectable**2 for score in known]))), middle, usual.family,
        ", ".join(f"{factor} {n}" for factor, n in usual.clusters.items()), usual.n, scores[0].detectable,
    )  # fmt: skip


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
    if known.empty:
        return f"{subject}: cannot be planned, none of these sizes has a smallest effect for it"
    enough = known[known["smallest_effect"] <= one.effect]
    if len(enough):
        return f"{subject}: found at size {enough['size'].iloc[0]} ({enough['clusters'].iloc[0]})"
    best = known.sort_values("smallest_effect").iloc[0]
    factor = (float(best["smallest_effect"]) / one.effect) ** 2
    parts = [part.rsplit(" ", 1) for part in str(best["clusters"]).split(", ") if part]
    named = ", ".join(f"{factor_name} {math.ceil(int(n) * factor):,}" for factor_name, n in parts)
    return f"{subject}: not at these sizes; it takes about {factor:.1f} times the clusters of {best['size']} ({named})"
