"""Associations, agreement with human stereotypes, favourability, employability, decisions, features."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from pydantic import Field

from markedness.audits.guise import figures
from markedness.records import ESTIMATE_COLUMNS, Evaluation, Strict
from markedness.stats.agreement import (
    DEPTH,
    expected_agreement,
    mean_average_precision,
    permutation_p,
    random_agreement,
)
from markedness.stats.association import common_attributes, scaling, stereotype_strength
from markedness.stats.decisions import Rule, Verdicts, count, equal_counts, two_by_two, verdicts
from markedness.stats.favorability import rank_correlation, regression, top_favorability
from markedness.stats.resampling import multinomial_weights, percentile_interval
from markedness.stats.stereotypes import YEAR, Study
from markedness.stats.t_tests import correlations, holm, one_sample_t, pooled_t
from markedness.stats.text_sets import Draws, Floats, Spread, draw, mean, mean_over_sets, spread, text_sets

NAN = float("nan")


class Params(Strict):
    """``guise.evaluate``."""

    main: tuple[str, ...] = ()
    """The text sets that the main analyses average over; all that are no controls unless given."""
    base: float = Field(default=10.0, gt=1)
    """Base of the logarithm of q; the published scores have base 10."""
    top: int = Field(default=DEPTH, ge=1)
    """How many of the highest attributes count."""
    stereotypes: tuple[str, ...] = ()
    """The stereotypical attributes; the human top of ``stereotype_year`` unless given."""
    stereotype_year: str = "1933"
    prestige: str = "prestige"
    """prestige: mean of all titles that start or end with the occupation, as published; prestige_exact: the title."""
    rule: Rule = "ratio"
    """How decisions are calibrated in the metrics; the table has both."""
    contrasts: tuple[tuple[str, str], ...] = (("finna", "fixin_to"), ("habitual_be", "noise"))
    """Pairs of text sets whose strength is compared, where both are there."""
    confidence_level: float = Field(default=0.95, gt=0, lt=1)
    n_resamples: int = Field(default=1000, ge=10)
    n_permutations: int = Field(default=1000, ge=10)
    """Draws with guises exchanged within pairs."""
    n_orders: int = Field(default=10_000, ge=100)
    """Random orders of the attributes: the paper's chance sample."""


def studies(features: pd.DataFrame, params: Params, group: str, main: bool = True) -> list[Study]:
    """The association tasks of one marked guise."""
    rows = features[features["kind"].eq("association") & features["group"].eq(group)]
    made = []
    for task, part in rows.groupby("task", sort=False, observed=True):
        chosen = text_sets(part[_main(part, params)] if main else part)
        if chosen:
            known = _known(part).reindex(list(chosen[0].attributes))
            reference = str(part["reference"].iloc[0])
            made.append(
                Study(
                    task=str(task),
                    group=group,
                    reference=reference,
                    sets=chosen,
                    known=known,
                    base=params.base,
                    top=params.top,
                    stereotypes=params.stereotypes or params.stereotype_year,
                    prestige=params.prestige,
                    level=params.confidence_level,
                )
            )
    return sorted(made, key=lambda study: {"traits": 0, "overt": 1}.get(study.task, 2))


def _main(rows: pd.DataFrame, params: Params) -> pd.Series:
    """Rows of the sets that the main analyses read; words for the groups always are."""
    if params.main:
        return rows["pairs"].isin([*params.main, "overt"])
    return ~rows["control"].astype(bool)


def _known(rows: pd.DataFrame) -> pd.DataFrame:
    """What is known of each attribute: the columns after featurize's own, alike in all rows of a task."""
    own = list(rows.columns)[list(rows.columns).index("cut") + 1 :]
    return rows.drop_duplicates("attribute").set_index(rows["attribute"].drop_duplicates().astype(object))[own]


def _named(found: list[Study], task: str) -> Study | None:
    return next((study for study in found if study.task == task), None)


def _groups(features: pd.DataFrame) -> list[str]:
    return [str(group) for group in features["group"].unique() if group]


# ---------------------------------------------------------------- headline

_BOUNDS = {"agreement": (0.0, 1.0), "favorability": (-2.0, 2.0), "": (-np.inf, np.inf)}
"""Metric prefix -> range of the score."""
Headline = dict[str, tuple[Study, Callable[..., Floats]]]


def _headline(found: list[Study], year: str) -> Headline:
    """Metric -> the study it is of and its score."""
    scored: Headline = {}
    for name, task in (("covert", "traits"), ("overt", "overt")):
        if study := _named(found, task):
            scored[f"strength.{name}"] = (study, study.strength)
            scored[f"favorability.{name}"] = (study, study.favorability)
    covert, work = _named(found, "traits"), _named(found, "occupations")
    if covert and covert.ranked:
        years = [year, *(other for other in covert.years if other != year)]
        scored |= {f"agreement.{y}": (covert, partial(covert.agreement, y)) for y in years if y in covert.years}
    if work and work.ranked:
        scored["prestige.slope"] = (work, work.slope)
    return scored


def scores(features: pd.DataFrame, params: Params) -> dict[str, float]:
    """The headline scores of a subset or resample of the features, for the first marked guise; NaN where absent."""
    year = params.stereotype_year
    keys = ("strength.covert", f"agreement.{year}", "favorability.covert", "prestige.slope", "conviction.difference")
    found = dict.fromkeys(keys, NAN)
    for group in _groups(features)[:1]:
        asked = features["task"].isin(["traits", "occupations"])
        of_studies = _headline(studies(features[asked], params, group), year)
        found |= {key: float(score(study.q)) for key, (study, score) in of_studies.items() if key in found}
        decided = _decided(features, params, group, "conviction", params.rule)
        if decided:
            found["conviction.difference"] = count(decided).difference.item()
    return found


def _decided(features: pd.DataFrame, params: Params, group: str, task: str, rule: Rule) -> list[Verdicts]:
    """The decisions of one task, one item per text set of the main analyses."""
    rows = features[features["task"].eq(task) & features["group"].eq(group)]
    rows = rows[_main(rows, params)]
    if rows.empty:
        return []
    harm = _known(rows)["detrimental"].sort_index().gt(0).to_numpy()
    return [verdicts(one, harm, rule) for one in text_sets(rows)]


# ---------------------------------------------------------------- several models


def comparable(features: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """The features of several models, kept to the attributes that every one of them scored.

    The paper keeps an attribute only if it is a single token for all models; otherwise their scores would be
    about different words. Models that scored nothing take no part.
    """
    tables = {model: table for model, table in features.items() if "attribute" in table}
    scored = [table.loc[table["log_prob"].notna(), ["task", "attribute"]] for table in tables.values()]
    named = [set(zip(rows["task"].astype(str), rows["attribute"].astype(str), strict=True)) for rows in scored]
    common = pd.MultiIndex.from_tuples(common_attributes(named), names=["task", "attribute"])
    kept = {}
    for model, table in tables.items():
        own = pd.MultiIndex.from_arrays([table["task"].astype(str), table["attribute"].astype(str)])
        kept[model] = table[own.isin(common)].reset_index(drop=True)
    return {model: kept.get(model, table) for model, table in features.items()}


def across(features: Mapping[str, pd.DataFrame], versions: pd.DataFrame, params: Params) -> dict[str, pd.DataFrame]:
    """Scaling and agreement over versions of one model family, where the run holds several.

    Parameters
    ----------
    features
        Model -> its features.
    versions
        One model a row: model, family, n_parameters; a model without them takes no part.
    params
        As of `evaluate`.

    Returns
    -------
    dict
        guise_scaling: mean and standard error of stereotype strength (covert: over prompts and settings, overt:
        over prompts) and perplexity (over texts) by family and size class. guise_versions: Pearson's r of the
        attributes' scores between versions of a family, Holm over all pairs of a task.
    """
    known = versions.dropna(subset=["family", "n_parameters"])
    several = known.groupby("family")["model"].transform("size").gt(1)
    known = known[several & known["model"].isin([model for model, table in features.items() if "attribute" in table])]
    cells, means = [], []
    tables = comparable({model: features[model] for model in known["model"]})
    for version in known.to_dict("records"):
        row = {str(key): value for key, value in version.items()}
        table = tables[row["model"]]
        for group in _groups(table)[:1]:
            for study in studies(table, params, group):
                means.append(study.scored.rename(row["model"]).to_frame().T.assign(task=study.task, **row))
                for one in study.sets if study.task in ("traits", "overt") else ():
                    strength = stereotype_strength(one.q(params.base), study.stereotypical)
                    measure = "strength.covert" if study.task == "traits" else "strength.overt"
                    cells += [{"measure": measure, "score": score, **row} for score in strength]
        own = table[table["kind"].eq("perplexity")]
        texts = np.exp(-own[["log_prob", "log_prob_reference"]].to_numpy(dtype=float)).ravel()
        cells += [{"measure": "perplexity", "score": score, **row} for score in texts[np.isfinite(texts)]]
    if not cells:
        return {}
    pairs = []
    for (family, task), part in pd.concat(means).groupby(["family", "task"], sort=False):
        scored = part.drop(columns=["task", "model", "family", "n_parameters"]).astype(float).T
        pairs.append(correlations(scored).assign(family=str(family), task=str(task)))
    by = ("measure", "family", "size")
    return {"guise_scaling": scaling(pd.DataFrame(cells), by), "guise_versions": pd.concat(pairs, ignore_index=True)}


# ---------------------------------------------------------------- all of it


class _Tables(dict[str, list[dict[str, Any]]]):
    """Table -> its rows."""

    def add(self, table: str, **row: Any) -> None:
        self.setdefault(table, []).append(row)


def evaluate(features: pd.DataFrame, params: Params, rng: np.random.Generator) -> Evaluation:
    """All analyses of the paper that the tasks and text sets of the study allow.

    Parameters
    ----------
    features
        One text pair, prompt and attribute a row, see featurize.
    params
        Base, text sets of the main analyses, calibration rule, resamples.
    rng
        Seeded generator of resamples, exchanged guises and random orders.

    Returns
    -------
    Evaluation
        Tables associations, stereotypes, agreement, favorability, favorability_ranks, employability,
        employability_tests, decisions, features, contrasts, correlations, perplexity; NaN where nothing is left
        to estimate.
    """
    tables = _Tables({name: [] for name in _COLUMNS})
    metrics: dict[str, float] = {}
    groups = _groups(features)
    for group in groups:
        found = studies(features, params, group)
        drawn = {
            study.task: draw(study.sets, params.base, params.n_resamples, params.n_permutations, rng) for study in found
        }
        spreads: dict[str, tuple[float, Spread]] = {}
        for key, (study, score) in _headline(found, params.stereotype_year).items():
            estimate = float(score(study.q))
            bounds = next(limit for prefix, limit in _BOUNDS.items() if key.startswith(prefix))
            whole = spread(score, estimate, drawn[study.task], params.confidence_level, bounds)
            spreads[key] = (estimate, _over_occupations(study, whole) if key == "prestige.slope" else whole)
        for study in studies(features, params, group, main=False):
            _associations(tables, study)
        for study in found:
            _stereotypes(tables, study, drawn[study.task])
            _agreement(tables, study, drawn[study.task], params, rng)
            _favorability(tables, study, drawn[study.task])
            _employability(tables, study, drawn[study.task])
            _correlations(tables, study)
        _decisions(tables, features, params, group, rng)
        _features(tables, features, params, group, rng)
        if group == groups[0]:
            metrics = _metrics(spreads, tables, features, params)
        _estimates(tables, spreads, group, features)
    _perplexity(tables, features, params)
    _adjust(tables)
    made = {name: pd.DataFrame(rows, columns=_COLUMNS[name].split()) for name, rows in tables.items()}
    estimates = made.pop("estimates")
    return Evaluation(
        estimates=estimates[list(ESTIMATE_COLUMNS)],
        tables=made,
        metrics=metrics or dict.fromkeys(scores(features, params), NAN),
        figures=figures.charts(made, params.confidence_level),
        notes=_notes(features, params, made),
    )


def _over_occupations(study: Study, found: Spread) -> Spread:
    """The spread of a slope with the interval of the regression: the occupations are its sample."""
    from scipy.stats import t

    line = regression(mean(study.q), study.rating(study.prestige))
    half = t.ppf(0.5 + study.level / 2, max(line.n - 2, 1)) * line.slope_error
    return replace(found, low=float(line.slope - half), high=float(line.slope + half))


def _associations(tables: _Tables, study: Study) -> None:
    """One row per text set, prompt and attribute, controls included."""
    for one in study.sets:
        q = one.q(study.base)
        first, second = np.isfinite(one.log_p), np.isfinite(one.log_p_reference)
        there = (first & second).sum(axis=0) if one.matched else np.minimum(first.sum(axis=0), second.sum(axis=0))
        for m, prompt in enumerate(one.prompts):
            for k, attribute in enumerate(one.attributes):
                n = int(there[m, k])
                tables.add(
                    "associations", setting=one.setting, prompt=prompt, attribute=attribute, q=q[m, k],
                    task=study.task, pairs=one.name, control=one.control, group=study.group,
                    reference=study.reference, n=n, missing=one.n_pairs - n,
                )  # fmt: skip


def _stereotypes(tables: _Tables, study: Study, draws: Draws) -> None:
    """Attributes from the most to the least associated, with intervals."""
    ratings = study.rating("favorability")
    scored = study.scored.sort_index().sort_values(ascending=False, kind="stable")
    for rank, (attribute, q) in enumerate(zip(scored.index, scored.to_numpy(), strict=True), start=1):
        at = study.attributes.index(attribute)
        found = spread(partial(_one, at), float(q), draws, study.level)
        tables.add(
            "stereotypes", task=study.task, group=study.group, reference=study.reference, rank=rank,
            attribute=attribute, q=q, ci_low=found.low, ci_high=found.high, p=found.p, family=study.task + study.group,
            favorability=ratings.get(attribute, NAN), n_prompts=len(study.q), n_pairs=study.n_pairs,
        )  # fmt: skip


def _standard_error(values: Floats) -> float:
    there = values[np.isfinite(values)]
    return float(there.std(ddof=1) / np.sqrt(len(there))) if len(there) > 1 else NAN


def _one(at: int, q: Floats, weights: Floats | None) -> Floats:
    """Mean over prompts of the attribute at one place."""
    return mean(q[..., at], -1, weights)


def _agreement(tables: _Tables, study: Study, draws: Draws, params: Params, rng: np.random.Generator) -> None:
    """Agreement with each year's human stereotypes, over all settings and in each; each year against the next."""
    if not study.ranked:
        return
    settings = dict.fromkeys(one.setting for one in study.sets)
    parts = {"all": study.q}
    if len(settings) > 1:
        for setting in settings:
            chosen = [one for one in study.sets if one.setting == setting]
            parts[setting] = mean_over_sets(chosen, [one.q(study.base) for one in chosen])
    n = len(study.scored)
    earlier: tuple[str, Floats] | None = None
    for year, human in study.years.items():
        chance = random_agreement(n, rng, params.n_orders, len(human))
        at = np.isin(study.attributes, study.scored.index)
        names = list(np.array(study.attributes)[at])
        for setting, q in parts.items():
            by_prompt = mean_average_precision(q[:, at], names, human)
            test = pooled_t(by_prompt, chance, "greater")
            score = partial(study.agreement, year)
            estimate = float(mean(by_prompt))
            found = spread(score, estimate, draws, study.level, _BOUNDS["agreement"]) if setting == "all" else None
            tables.add(
                "agreement", task=study.task, group=study.group, reference=study.reference, setting=setting, year=year,
                agreement=estimate, ci_low=found.low if found else NAN, ci_high=found.high if found else NAN,
                standard_error=_standard_error(by_prompt), n_prompts=int(np.isfinite(by_prompt).sum()),
                chance=expected_agreement(n, len(human)), t=test.t, df=test.df, p=test.p,
                family=study.task + study.group + setting,
                p_permutation=permutation_p(q[:, at], names, human, rng, params.n_orders),
                null_mean=found.null_mean if found else NAN, p_swapped=found.p if found else NAN,
                attributes=n, human="; ".join(human),
            )  # fmt: skip
        by_prompt = mean_average_precision(study.q[:, at], names, human)
        if earlier:
            _contrast(tables, study.group, f"agreement.{study.task}", earlier, (year, by_prompt))
        earlier = (year, by_prompt)


def _contrast(tables: _Tables, group: str, measure: str, first: tuple[str, Floats], second: tuple[str, Floats]) -> None:
    """Two-sided t test of two named samples of scores."""
    test = pooled_t(first[1], second[1])
    tables.add(
        "contrasts", measure=measure, first=first[0], second=second[0], group=group, difference=test.mean, t=test.t,
        df=test.df, p=test.p, family=group + measure, n=test.n,
    )  # fmt: skip


def _favorability(tables: _Tables, study: Study, draws: Draws) -> None:
    """Favourability of the model's top attributes, beside the human ones."""
    ratings = study.rating("favorability")
    if ratings.notna().sum() == 0:
        return
    own = top_favorability(study.scored, ratings, study.top)
    found = spread(study.favorability, own.weighted, draws, study.level, _BOUNDS["favorability"])
    sources = {"model": own} | {
        year: top_favorability(study.rating(YEAR + year).dropna(), ratings, study.top) for year in study.years
    }
    for source, top in sources.items():
        is_model = source == "model"
        tables.add(
            "favorability", task=study.task, group=study.group, source=source, weighted=top.weighted,
            unweighted=top.unweighted, ci_low=found.low if is_model else NAN, ci_high=found.high if is_model else NAN,
            null_mean=found.null_mean if is_model else NAN, p_swapped=found.p if is_model else NAN,
            attributes="; ".join(top.attributes), n=len(top.attributes),
        )  # fmt: skip
    latest = max(study.years, default=None)
    ranked = ({"model": study.scored} if study.ranked else {}) | (
        {latest: study.rating(YEAR + latest)} if latest else {}
    )
    for source, values in ranked.items():
        rho, p, n = rank_correlation(values, ratings)
        tables.add(
            "favorability_ranks", task=study.task, group=study.group, source=source, rho=rho, p=p, n=n,
            family=study.task + study.group,
        )  # fmt: skip


def _employability(tables: _Tables, study: Study, draws: Draws) -> None:
    """Occupations with their prestige; tests of their association and of prestige on it."""
    prestige = study.rating(study.prestige)
    if prestige.notna().sum() == 0:
        return
    for attribute, q in zip(study.scored.index, study.scored.to_numpy(), strict=True):
        at = study.attributes.index(attribute)
        found = spread(partial(_one, at), float(q), draws, study.level)
        tables.add(
            "employability", occupation=attribute, q=q, ci_low=found.low, ci_high=found.high,
            prestige=prestige[attribute], task=study.task, group=study.group, reference=study.reference,
        )  # fmt: skip
    parts = {("all", "all"): mean(study.q)}
    parts |= {("prompt", prompt): row for prompt, row in zip(study.sets[0].prompts, study.q, strict=True)}
    for setting in dict.fromkeys(one.setting for one in study.sets):
        chosen = [one for one in study.sets if one.setting == setting]
        parts["setting", setting] = mean(mean_over_sets(chosen, [one.q(study.base) for one in chosen]))
    for (level, item), q in parts.items():
        test, line = one_sample_t(q), regression(q, prestige if study.ranked else prestige * NAN)
        tables.add(
            "employability_tests", task=study.task, group=study.group, level=level, item=item, mean_q=test.mean,
            sd=test.sd * np.sqrt(test.n / (test.n - 1)) if test.n > 1 else NAN, t=test.t, df=test.df, p=test.p,
            family=study.task + study.group + level, n=test.n, intercept=line.intercept, slope=line.slope,
            slope_error=line.slope_error, r_squared=line.r_squared, f=line.f, p_slope=line.p, n_prestige=line.n,
        )  # fmt: skip


def _correlations(tables: _Tables, study: Study) -> None:
    """Pearson's r over attributes, between prompts, settings and text sets."""
    if not study.ranked:
        return
    by_set = [(one, one.q(study.base)) for one in study.sets]
    settings = dict.fromkeys(one.setting for one in study.sets)
    levels: dict[str, dict[str, Floats]] = {
        "prompt": dict(zip(study.sets[0].prompts, study.q, strict=True)),
        "pairs": {one.name: mean(q) for one, q in by_set},
        "setting": {key: mean(mean([q for one, q in by_set if one.setting == key])) for key in settings},
    }
    for level, columns in levels.items():
        for row in correlations(pd.DataFrame(columns, index=study.attributes)).to_dict("records"):
            named = {str(key): value for key, value in row.items()}
            tables.add("correlations", task=study.task, group=study.group, level=level, **named)


def _decisions(tables: _Tables, features: pd.DataFrame, params: Params, group: str, rng: np.random.Generator) -> None:
    """Detrimental decisions of both guises, by both calibration rules, overall, by setting and by prompt."""
    rows = features[features["kind"].eq("decision") & features["group"].eq(group)]
    for task in rows["task"].unique():
        for rule in ("ratio", "difference"):
            decided = _decided(features, params, group, task, rule)
            if not decided:
                continue
            low, high, null_mean, p_swapped = _decision_spread(decided, params, rng)
            prompts = decided[0].prompts
            parts: list[tuple[str, str, list[Verdicts]]] = [("all", "all", decided)]
            parts += [("prompt", key, [one.only(place) for one in decided]) for place, key in enumerate(prompts)]
            settings = dict.fromkeys(one.setting for one in decided)
            parts += [("setting", key, [one for one in decided if one.setting == key]) for key in settings]
            for level, item, chosen in parts:
                c, everything = count(chosen), level == "all"
                a, n_a, b, n_b = (float(value) for value in (c.count, c.n, c.count_reference, c.n_reference))
                fair, equal = two_by_two(a, n_a, b, n_b), equal_counts(a, b)
                both = np.concatenate([np.r_[one.margin.ravel(), one.margin_reference.ravel()] for one in chosen])
                tables.add(
                    "decisions", task=task, rule=rule, level=level, item=item, group=group,
                    reference=rows["reference"].iloc[0], rate=a / n_a if n_a else NAN,
                    rate_reference=b / n_b if n_b else NAN, difference=c.difference.item(),
                    ci_low=low if everything else NAN, ci_high=high if everything else NAN,
                    increase=a / b - 1 if a and b else NAN, count=a, count_reference=b, n=n_a, n_reference=n_b,
                    chi2=equal.statistic, p=equal.p, family=rule + level + group, chi2_2x2=fair.statistic,
                    p_2x2=fair.p, null_mean=null_mean if everything else NAN,
                    p_swapped=p_swapped if everything else NAN, ties=int((both == 0).sum()),
                    smallest_margin=float(np.nanmin(np.abs(both))) if np.isfinite(both).any() else NAN,
                    missing=int(np.isnan(both).sum()),
                )  # fmt: skip


def _decision_spread(
    decided: list[Verdicts], params: Params, rng: np.random.Generator
) -> tuple[float, float, float, float]:
    """Interval and null of the difference of rates: ci_low, ci_high, null_mean, p."""
    sizes = [len(one.margin) for one in decided]
    pairs = [multinomial_weights(size, params.n_resamples, rng) for size in sizes]
    prompts = multinomial_weights(len(decided[0].prompts), params.n_resamples, rng)
    low, high = percentile_interval(count(decided, pairs, prompts).difference, params.confidence_level)
    if max(sizes) < 2 and len(decided[0].prompts) < 2:
        low = high = NAN
    flips = [rng.random((params.n_permutations, size)) < 0.5 for size in sizes]
    null = count(decided, flips, swapped=True).difference
    observed = count(decided).difference.item()
    null = null[np.isfinite(null)]
    if not len(null) or np.isnan(observed):
        return low, high, NAN, NAN
    p = (1 + np.sum(np.abs(null) >= abs(observed) - 1e-12)) / (1 + len(null))
    return low, high, float(null.mean()), float(p)


def _features(tables: _Tables, features: pd.DataFrame, params: Params, group: str, rng: np.random.Generator) -> None:
    """Stereotype strength of each text set of the traits task, and of pairs of sets."""
    study = _named(studies(features, params, group, main=False), "traits")
    if study is None or not study.stereotypical.any():
        return
    by_set: dict[str, Floats] = {}
    for one in study.sets:
        q = one.q(params.base)
        by_set[one.name] = stereotype_strength(q, study.stereotypical)
        test = one_sample_t(by_set[one.name], "greater")
        draws = draw([one], params.base, params.n_resamples, params.n_permutations, rng)
        found = spread(study.strength, float(study.strength(q)), draws, params.confidence_level)
        tables.add(
            "features", pairs=one.name, setting=one.setting, control=one.control, group=group, strength=test.mean,
            ci_low=found.low, ci_high=found.high, sd=test.sd, n_prompts=test.n, n_pairs=one.n_pairs, t=test.t,
            df=test.df, p=test.p, family=f"{group} {'controls' if one.control else 'features'}",
            null_mean=found.null_mean, p_swapped=found.p,
        )  # fmt: skip
    for first, second in params.contrasts:
        if first in by_set and second in by_set:
            _contrast(tables, group, "strength", (first, by_set[first]), (second, by_set[second]))


def _perplexity(tables: _Tables, features: pd.DataFrame, params: Params) -> None:
    """Perplexity of the texts of both guises, and of the marked texts of pairs of sets."""
    rows = features[features["kind"].eq("perplexity")]
    for group in rows["group"].unique():
        own = rows[rows["group"].eq(group)]
        texts = {name: np.exp(-own.loc[own["pairs"].eq(name), "log_prob"].to_numpy()) for name in own["pairs"].unique()}
        for first, second in params.contrasts:
            if first in texts and second in texts:
                _contrast(tables, group, "perplexity", (first, texts[first]), (second, texts[second]))
    for (name, group), part in rows.groupby(["pairs", "group"], sort=False, observed=True):
        own, others = (np.exp(-part[side].to_numpy(dtype=float)) for side in ("log_prob", "log_prob_reference"))
        test, reference = pooled_t(own, others), part["reference"].iloc[0]
        for guise, other, values in ((group, reference, own), (reference, group, others)):
            there = values[np.isfinite(values)]
            tables.add(
                "perplexity", pairs=name, setting=part["setting"].iloc[0], guise=guise, compared_with=other,
                mean=float(there.mean()) if len(there) else NAN, sd=float(there.std()) if len(there) else NAN,
                n=len(there), missing=len(values) - len(there), estimator=part["estimator"].iloc[0], t=test.t,
                df=test.df, p=test.p if other == reference else NAN, family=group,
            )  # fmt: skip


_COLUMNS = {
    "associations": "setting prompt attribute q task pairs control group reference n missing",
    "stereotypes": "task group reference rank attribute q ci_low ci_high p p_adjusted favorability n_prompts n_pairs",
    "agreement": "task group reference setting year agreement ci_low ci_high standard_error n_prompts chance t df p "
    "p_adjusted p_permutation null_mean p_swapped attributes human",
    "favorability": "task group source weighted ci_low ci_high unweighted null_mean p_swapped attributes n",
    "favorability_ranks": "task group source rho p p_adjusted n",
    "employability": "occupation q ci_low ci_high prestige task group reference",
    "employability_tests": "task group level item mean_q sd t df p p_adjusted n intercept slope slope_error r_squared "
    "f p_slope n_prestige",
    "decisions": "task rule level item group reference rate rate_reference difference ci_low ci_high increase count "
    "count_reference n n_reference chi2 p p_adjusted chi2_2x2 p_2x2 null_mean p_swapped ties smallest_margin missing",
    "features": "pairs setting control group strength ci_low ci_high sd n_prompts n_pairs t df p p_adjusted null_mean "
    "p_swapped",
    "contrasts": "measure first second group difference t df p p_adjusted n",
    "correlations": "task group level first second r p p_adjusted n",
    "perplexity": "pairs setting guise mean sd n missing estimator compared_with t df p p_adjusted",
    "estimates": " ".join(ESTIMATE_COLUMNS),
}
"""Table -> its columns; p_adjusted is Holm's over the rows of one family."""


def _adjust(tables: _Tables) -> None:
    """Holm's correction within each family of each table."""
    for rows in tables.values():
        families: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            if "family" in row:
                families.setdefault(row["family"], []).append(row)
        for family in families.values():
            for row, p in zip(family, holm([row["p"] for row in family]), strict=True):
                row["p_adjusted"] = float(p)


def _metrics(
    spreads: dict[str, tuple[float, Spread]], tables: _Tables, features: pd.DataFrame, params: Params
) -> dict[str, float]:
    """The headline with intervals and nulls, then single scores: at most 30; the rest stands in the tables."""
    metrics = scores(features, params)
    for key in [key for key in metrics if key in spreads]:
        found = spreads[key][1]
        metrics |= {f"{key}_ci_low": found.low, f"{key}_ci_high": found.high, f"{key}_null_mean": found.null_mean}
        if key.startswith(("strength", "agreement")):
            metrics |= {f"{key}_null_low": found.null_low, f"{key}_null_high": found.null_high}
    decided = {row["task"]: row for row in tables["decisions"] if row["level"] == "all" and row["rule"] == params.rule}
    if row := decided.get("conviction"):
        key = "conviction.difference"
        metrics |= {
            f"{key}_ci_low": row["ci_low"],
            f"{key}_ci_high": row["ci_high"],
            f"{key}_null_mean": row["null_mean"],
        }
    if "strength.covert" in spreads:
        metrics["strength.covert_p"] = spreads["strength.covert"][1].p
    metrics |= {f"{task}.difference": decided[task]["difference"] for task in ("death", "iq") if task in decided}
    metrics["missing.share"] = float(features["missing"].notna().mean())
    latest = sorted((key for key in spreads if key.startswith("agreement.")), reverse=True)
    others = ["strength.overt", *latest, "favorability.overt"]
    metrics |= {key: spreads[key][0] for key in others if key in spreads and key not in metrics}
    return dict(list(metrics.items())[:30])


def _estimates(tables: _Tables, spreads: dict[str, tuple[float, Spread]], group: str, features: pd.DataFrame) -> None:
    """Every score with an interval as one contrast."""
    reference = str(features.loc[features["group"].eq(group), "reference"].iloc[0])
    contrast = {"group": group, "reference": reference}
    for key, (estimate, found) in spreads.items():
        metric, item = key.split(".", 1)
        n = features["task"].eq({"covert": "traits", "slope": "occupations", "overt": "overt"}.get(item, "traits"))
        n &= features["group"].eq(group)
        tables.add(
            "estimates", metric=metric, item=item, **contrast, estimate=estimate, ci_low=found.low, ci_high=found.high,
            n=int((features["log_prob"].notna() & features["log_prob_reference"].notna() & n).sum()),
        )  # fmt: skip
    for row in tables["stereotypes"]:
        if row["group"] == group:
            tables.add(
                "estimates", metric=f"association.{row['task']}", item=row["attribute"], **contrast, estimate=row["q"],
                ci_low=row["ci_low"], ci_high=row["ci_high"], n=row["n_prompts"] * row["n_pairs"],
            )  # fmt: skip
    for row in tables["decisions"]:
        if row["group"] == group and row["level"] == "all":
            tables.add(
                "estimates", metric=f"decision.{row['rule']}", item=row["task"], **contrast,
                estimate=row["difference"], ci_low=row["ci_low"], ci_high=row["ci_high"],
                n=int(row["n"] + row["n_reference"]),
            )  # fmt: skip


def _notes(features: pd.DataFrame, params: Params, tables: dict[str, pd.DataFrame]) -> list[str]:
    """What a reader must know: what is missing and why, other estimators, small numbers."""
    notes = []
    asked = features[features["kind"].ne("perplexity")]
    for reason, rows in asked[asked["missing"].notna()].groupby("missing", sort=False, observed=True):
        words = sorted(rows["attribute"].unique())
        shown = ", ".join(words[:8]) + (f" and {len(words) - 8} more" if len(words) > 8 else "")
        notes.append(f"{len(rows)} of {len(asked)} scores are missing ({shown}): {reason}.")
    estimators = asked.loc[asked["estimator"].notna() & asked["estimator"].ne("exact")]
    for name, rows in estimators.groupby("estimator", sort=False, observed=True):
        notes.append(
            f"{len(rows)} of {len(asked)} scores are estimated ({name}), with a median coverage of "
            f"{rows['coverage'].median():.2f}; only the attributes that rank highest mean something then, so "
            "agreement, correlations and the regression of prestige are left out, as in the paper."
        )
    cut = features.loc[features["cut"].astype(bool), "pair"].nunique()
    if cut:
        notes.append(f"{cut} text pairs were longer than the model's context and were cut on the right.")
    main = asked[_main(asked, params) & asked["setting"].ne("overt")]
    n_pairs, n_prompts = main["pair"].nunique(), main.groupby("task", observed=True)["prompt_id"].nunique().min()
    if n_pairs < 100 or n_prompts < 9:
        notes.append(
            f"The study is small: {n_pairs} text pairs, and as few as {n_prompts} prompts in a task; the paper has "
            "3,019 pairs, and 9 prompts for adjectives."
        )
    if len(tables["decisions"]):
        notes.append(
            "Decisions are shown under both calibrations, ratio (as the paper defines it) and difference (as its code "
            "and printed rates have it); they are different rules and need not agree."
        )
    by_prompt = tables["decisions"][tables["decisions"]["level"].eq("prompt")]
    by_prompt = by_prompt[by_prompt["n"].gt(0) & by_prompt["n_reference"].gt(0)]
    empty = by_prompt[by_prompt["increase"].isna()]
    if len(empty):
        notes.append(
            f"In {len(empty)} of {len(by_prompt)} cells of decisions (prompt and rule) one guise has no detrimental "
            "decision, so there is no relative increase there."
        )
    weighted = tables["favorability"]
    if weighted.loc[weighted["source"].eq("model"), "weighted"].isna().any():
        notes.append("A weighted favourability is missing where one of the top attributes has no positive score.")
    if tables["features"]["n_prompts"].lt(2).any():
        notes.append("With one prompt there is no t test of stereotype strength: it is over prompts.")
    return notes
