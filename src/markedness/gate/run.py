"""The gate of a study: reads the features of candidates and baseline, decides, writes results/gate."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from markedness import audits
from markedness.asked import Asked
from markedness.audits import STAGES
from markedness.compare import APART, Comparison
from markedness.gate import outputs
from markedness.gate.cases import Decision, Outcome, Pair
from markedness.gate.rules import decide, whole
from markedness.lm.config import ScriptedModel
from markedness.lm.progress import tell
from markedness.param_blocks import GateParams
from markedness.params import Params, ParamsError
from markedness.records import AuditError, FeatureTables, Unsupported
from markedness.results import Score, VerdictKind, verdict
from markedness.revision import Revision, RevisionError
from markedness.revisions import asked_of, measured_otherwise, read_otherwise
from markedness.stale import of_unknown_params, older, stale
from markedness.store import Store
from markedness.studies import check_code
from markedness.study import asked_now, comparison, features_or_reason, reported_otherwise

STATUS = {Outcome.PASSED: 0, Outcome.FAILED: 1, Outcome.INCONCLUSIVE: 3}
"""Exit status of the command."""
EXAMPLE = """there is no block 'gate'; write, for example,
    gate:
      baseline: NAME                # a key of models, a git revision or a DVC experiment
      models: [NAME]                # candidates; by default all of run but the baseline and the scripted controls
      margins: {annotation: {gap.positive: 0.1}}    # not worse by more than this; any other score: no new finding"""


@dataclass(frozen=True)
class Gated:
    """What `gate` decided."""

    decisions: list[Decision]
    left_out: list[str]
    """Sentences on Scores that were not looked at."""

    @property
    def outcome(self) -> Outcome:
        """Of all."""
        return whole(self.decisions)

    @property
    def status(self) -> int:
        """Exit status."""
        return STATUS[self.outcome]


def gate(params: Params, also: Path | None = None, say: Callable[[str], None] = tell) -> Gated:
    """Decide on every candidate and write results/gate.

    Parameters
    ----------
    also
        A file to which the summary is appended.

    Raises
    ------
    ParamsError
        When there is no gate block, no candidate, or the baseline is neither a model nor a revision.
    """
    settings = params.gate
    if settings is None:
        raise ParamsError(f"{params.path.name}: {EXAMPLE}")
    store = Store(params.root)
    baseline, before, at_baseline = _baseline(params, settings.baseline)
    pairs: list[Pair] = []
    left_out: list[str] = []
    models = _candidates(params, settings)
    for audit in settings.audits or params.audits:
        for model in models:
            tables = {model: _features(store, audit, model), settings.baseline: before(audit, model)}
            asked = {model: asked_now(params, audit, model), **at_baseline(audit, model)}
            compared = comparison(params, audit, tables, asked=asked)
            margins, without = settings.margins.get(audit, {}), settings.without.get(audit, [])
            of_audit, sentences = pairs_of(compared, model, settings.baseline, margins, without)
            pairs += of_audit
            left_out += sentences
    if not pairs:
        raise ParamsError(f"{params.path.name}: gate: no score is left to look at")
    known = {(one.audit, model) for one in pairs for model in (one.model, baseline) if model in params.models}
    digests = {(audit, model): outputs.digest(store, audit, model) for audit, model in sorted(known)}
    at_revision: list[str] = []
    if settings.looks and settings.baseline not in params.models:
        revision = Revision(params.root, settings.baseline)
        at_revision = [revision.digest(audit, model) for audit, model in digests]
    not_of_now = stale(params, known) | _of_other_code(params.root, known)
    seen = [
        one for one in pairs
        if one.candidate is not None and not any((one.audit, name) in not_of_now for name in (one.model, baseline))
    ]  # fmt: skip
    look = outputs.look(store, settings.looks, list(digests), at_revision)
    decisions = decide(pairs, settings.looks or 1)
    left_out += [
        f"{audit}: the results of {model} were made without DVC, so that they may be of earlier params"
        for audit, model in sorted(of_unknown_params(params, known))
    ]
    decisions = [_unless_older(one, baseline, not_of_now) for one in decisions]
    others = {(audit, model): said for audit, model in known if (said := reported_otherwise(params, audit, model))}
    decisions = [_beside_others(one, baseline, others) for one in decisions]
    if look and seen and look.beyond:
        decisions = [replace(one, outcome=Outcome.INCONCLUSIVE, reason=look.beyond) for one in decisions]
    made = Gated(decisions, list(dict.fromkeys(left_out)))
    _write(store, made, baseline, digests, look, bool(seen), also)
    for sentence in _not_passed(made.decisions):
        say(f"gate: {sentence}")
    if look and seen:
        say(f"gate: {look.said}")
    for model in models:
        own = [one for one in made.decisions if one.pair.model == model]
        counts = ", ".join(f"{sum(one.outcome is outcome for one in own)} {outcome}" for outcome in Outcome)
        say(f"gate: {model} against {baseline}: {whole(own)} ({counts})")
    return made


def _of_other_code(root: Path, known: Collection[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Results of a study at another version of the package than is installed, which stages of DVC refuse to go on with.

    Scores are computed anew from the features, which the code of that version made.
    """
    found: dict[tuple[str, str], str] = {}
    for audit in sorted({audit for audit, _ in known}):
        try:
            for stage in STAGES:
                check_code(root, stage, audit, lambda _: None)
        except AuditError as error:
            found |= {one: str(error) for one in known if one[0] == audit}
    return found


def _beside_others(one: Decision, baseline: str, others: Mapping[tuple[str, str], str]) -> Decision:
    """With what servers say of who answered: a gateway that falls back lets a model pass as another."""
    said = [others.get((one.pair.audit, model), "") for model in (one.pair.model, baseline)]
    return replace(one, caveat=" ".join(filter(None, dict.fromkeys((*said, one.caveat)))))


def _unless_older(one: Decision, baseline: str, known: Mapping[tuple[str, str], str]) -> Decision:
    """Nothing is decided on results that are not those of the params and data of now."""
    for model in (one.pair.model, baseline):
        if why := known.get((one.pair.audit, model)):
            return replace(one, outcome=Outcome.INCONCLUSIVE, reason=older(model, why))
    return one


def _not_passed(decisions: list[Decision]) -> Iterator[str]:
    """A sentence for each Score, or for all Scores of an audit that have one reason."""
    together: dict[tuple[str, str, Outcome, str], list[str]] = {}
    for one in decisions:
        if one.outcome is not Outcome.PASSED:
            together.setdefault((one.pair.model, one.pair.audit, one.outcome, one.said), []).append(one.pair.key)
    for (model, audit, outcome, said), keys in together.items():
        yield f"{model} {audit} {', '.join(keys)}: {outcome}: {said}"


def _write(
    store: Store, made: Gated, baseline: str, digests: Mapping[tuple[str, str], str], look: outputs.Look | None,
    seen: bool, also: Path | None,
) -> None:  # fmt: skip
    """results/gate; where nothing is ``seen`` that could be decided, it is no look at the data, and none is counted."""
    text = outputs.summary(made.decisions, baseline, made.left_out, look.said if look and seen else "")
    with store.renewed(store.gated()) as new:
        if look and (seen or look.rows):
            store.write_csv(new / "looks.csv", look.table(made.outcome if seen else None))
        store.write_csv(new / "gate.csv", outputs.table(made.decisions, baseline, digests))
        store.write_bytes(new / "gate.xml", outputs.junit(made.decisions, baseline))
        store.write_bytes(new / "summary.md", text.encode())
    if also is not None:
        with also.open("a", encoding="utf-8") as file:
            file.write(text)


def _candidates(params: Params, settings: GateParams) -> list[str]:
    scripted = {name for name in params.run if isinstance(params.model(name), ScriptedModel)}
    models = settings.models or [name for name in params.run if name != settings.baseline and name not in scripted]
    if not models:
        raise ParamsError(f"{params.path.name}: gate: no model is left to be gated; name one in gate.models")
    return models


Features = FeatureTables | Unsupported
NEITHER = "neither has such a score to compare"
"""Why a Score is not looked at that both lack: of a task that a study does not ask, or of one model alone."""


def _features(store: Store, audit: str, model: str) -> Features:
    if not store.features_path(audit, model).is_dir():
        return Unsupported(f"not run yet: run 'dvc repro' or 'markedness run {audit} --model {model}'")
    return features_or_reason(store, audit, model)


def _baseline(
    params: Params, name: str
) -> tuple[str, Callable[[str, str], Features], Callable[[str, str], dict[str, Asked]]]:
    """What to call the baseline, (audit, candidate) -> its features, and by its name what it was asked, if known.

    A key of models is another model; a revision is the candidate itself as it was.
    """
    if name in params.models:
        return (
            name, lambda audit, _: _features(Store(params.root), audit, name),
            lambda audit, _: {name: asked_now(params, audit, name)},
        )  # fmt: skip
    revision, now = Revision(params.root, name), Revision(params.root, "workspace")
    try:
        label = revision.label
    except RevisionError as error:
        raise ParamsError(
            f"{params.path.name}: gate.baseline: '{name}' is neither a key of models nor a git revision or DVC "
            f"experiment of this study; models: {', '.join(params.models)}"
        ) from error

    @cache
    def otherwise(audit: str) -> str:
        return measured_otherwise(audits.spec(audit), params.path.name, revision, now)

    @cache
    def asked(audit: str, model: str) -> tuple[dict[str, Asked], str]:
        return asked_of([revision], audit, params.path.name, model)

    def features(audit: str, model: str) -> Features:
        found = revision.features(audit, model)
        if found is None:
            return Unsupported(f"{name} has no features of {model}: run 'dvc fetch' or 'dvc pull', see 'dvc exp show'")
        older_there = revision.older(audits.spec(audit), params.path.name, model)
        why = older_there or otherwise(audit) or asked(audit, model)[1]
        if why := why or read_otherwise(audits.spec(audit), params.path.name, model, revision, now):
            return Unsupported(why)
        return found if isinstance(found, Unsupported) else found.tables

    return label, features, lambda audit, model: asked(audit, model)[0]


def pairs_of(
    compared: Comparison, model: str, baseline: str, margins: Mapping[str, float], without: Sequence[str] = ()
) -> tuple[list[Pair], list[str]]:
    """The pairs of one audit, of two of its models, and sentences on the headline Scores that are not looked at.

    Parameters
    ----------
    margins
        Key -> by how much the Score may be worse.
    without
        Keys that are not looked at.
    """
    audit, missing_key = compared.audit, audits.spec(compared.audit).missing_key
    keys = [key for key in compared.headline if key not in without]
    left_out = [f"{audit} {key}: left out by gate.without" for key in without]
    scored = compared.paired(model, baseline)
    asked = compared.asked_unlike(model, baseline)
    if isinstance(scored, Unsupported) or asked.otherwise:
        why = scored.reason if isinstance(scored, Unsupported) else asked.otherwise
        return [Pair(model, audit, key, margin=margins.get(key), reason=why) for key in keys], left_out
    left_out += [f"{audit}: {what}" for what in (asked.more, scored.left_out) if what]
    lost = [_is_lost(scores.get(missing_key)) for scores in (scored.first, scored.second)]
    pairs, unmeasured = [], []
    for key in keys:
        one, other, margin = scored.first.get(key), scored.second.get(key), margins.get(key)
        if why := "" if scored.unlike.get(key) == APART else _not_gated(one, other, margin):
            left_out.append(f"{audit} {key}: {why}")
            unmeasured += [key] if why == NEITHER else []
        elif reason := scored.unlike.get(key):
            pairs.append(Pair(model, audit, key, margin=margin, reason=reason))
        elif one is None or other is None:
            name = model if one is None else baseline
            pairs.append(Pair(model, audit, key, margin=margin, reason=f"{name} has no such score"))
        else:
            bounded = [math.isfinite(score.worst_low) for score in (one, other)]  # found missing unequally, for itself
            missing = [key != missing_key and any(both) for both in zip(lost, bounded, strict=True)]
            pairs.append(Pair(model, audit, key, one, other, margin, "", missing[0], missing[1], key == missing_key))
    if all(pair.key == missing_key for pair in pairs):  # that as much is missing of both says nothing of what is there
        pairs += [Pair(model, audit, key, reason=NEITHER) for key in unmeasured]
        left_out = [sentence for sentence in left_out if not sentence.endswith(f": {NEITHER}")]
    return pairs, left_out


def _not_gated(candidate: Score | None, baseline: Score | None, margin: float | None) -> str:
    """Why the gate does not look at a Score; "" where it does."""
    known = [score for score in (candidate, baseline) if score is not None]
    measured = [score for score in known if not score.missing]
    if margin is None and not (measured or any(score.comparable for score in known)):
        return NEITHER
    if margin is None and not all(score.comparable for score in measured):
        return "not comparable between models"
    if margin is None and all(score.family == 0 and not score.missing for score in known):
        return "described, not tested; a margin would gate it"
    return ""


def _is_lost(score: Score | None) -> bool:
    """Whether unequal missing answers are found, or cannot be excluded."""
    if score is None or score.missing:
        return False
    kind = verdict(score).kind
    return kind is VerdictKind.FOUND or (kind is VerdictKind.TOO_LITTLE and abs(score.estimate) > 1e-12)
