"""Each stage as it runs: read, call, check, write.

Alone joins the audits with models, files and params. One instance of the first four stages per
(audit, model).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from markedness import audits, kept, reads, unwatched
from markedness.files import estimator_bytes, refuse_link, refuse_outside
from markedness.generation import StageError, generate, generator
from markedness.judges import ServiceScores
from markedness.lm.config import CorpusModel
from markedness.lm.progress import Report, tell
from markedness.params import Params
from markedness.plugins import SpecError
from markedness.records import (
    UNSUPPORTED,
    Features,
    Status,
    Unsupported,
)
from markedness.results import Evaluation, metrics, not_estimated, score_table, with_missing
from markedness.store import FolderStimuli, Store
from markedness.text.embeddings import embedding_cache
from markedness.text.languages import COLUMN, ENGLISH, language_name, language_of
from markedness.text.refusals import RECOGNISED


def clean(params: Params, audit: str, model: str, say: Report = tell) -> None:
    """Parse and label: data/responses/<audit>/<model>.parquet; no row is dropped."""
    store = Store(params.root)
    generations = store.read_table("generations", audit, model)
    if _all_unsupported(generations):
        responses = generations.assign(answer=None, status=Status.UNSUPPORTED.value)
    else:
        responses = audits.spec(audit).clean(generations, params.stage(audit, "clean"))
    if "status" not in responses or len(responses) < len(generations):
        raise StageError(f"{audit}.clean: dropped rows or wrote no status; a clean keeps every row")
    store.write_table("responses", audit, model, responses)
    shares = ", ".join(f"{count} {status}" for status, count in responses["status"].value_counts().items())
    say(f"{audit} {model}: {shares}")


@reads.recorded()
def featurize(params: Params, audit: str, model: str, say: Report = tell) -> bool:
    """Units of analysis: data/features/<audit>/<model>/; fitted models to models/<audit>/<model>/.

    Returns
    -------
    bool
        Whether services and judges answered, but for the share of failures that is tolerated.
    """
    store = Store(params.root)
    responses = store.read_table("responses", audit, model)
    folder = store.models(audit, model)
    earlier = _own_files(folder)
    scores = ServiceScores(params, audit, model, say)
    unwatched.look_for_named(params, audit, model, "featurize")
    made: Features | Unsupported = Unsupported(_reason(responses))
    if not _nothing_to_measure(responses):
        audit_spec, stage_params = audits.spec(audit), params.stage(audit, "featurize")
        stimuli = store.stimuli(audit, language_of(responses))
        with embedding_cache(store.embeddings()):
            if (featurize_scored := audit_spec.featurize_scored) is not None:
                made = featurize_scored(responses, stage_params, stimuli, scores)
            else:
                made = audit_spec.featurize(responses, stage_params, stimuli)
        made = _in_language(made, audit_spec.table, stimuli, isinstance(params.model(model), CorpusModel))
    scores.forget()
    unwatched.tell(params, audit, model, "featurize", say)
    fitted_files = [] if isinstance(made, Unsupported) else [*(f"{name}.skops" for name in made.models), *made.files]
    files = sorted(fitted_files)
    store.write_json(folder / "index.json", sorted({*earlier, *files}))  # a killed run leaves no file of unknown origin
    for name in earlier:
        (folder / name).unlink(missing_ok=True)
    store.write_features(audit, model, made, audits.spec(audit).features)
    if isinstance(made, Unsupported):
        store.write_json(folder / "index.json", files)
        say(f"{audit} {model}: nothing to measure: {made.reason}")
        return True
    for name, fitted in made.models.items():
        store.write_bytes(folder / f"{name}.skops", estimator_bytes(fitted))
    for name, content in made.files.items():
        store.write_bytes(folder / name, content)
    store.write_json(folder / "index.json", files)
    say(f"{audit} {model}: " + ", ".join(f"{_counted(table):,} {name}" for name, table in made.tables.items()))
    if scores.failed > params.tolerated_failures * scores.requested:
        say(
            f"{audit} {model}: {scores.failed:,} of {scores.requested:,} scores failed, more than tolerated_failures "
            f"({params.tolerated_failures:.3g}) allows; run again to ask for them"
        )
        return False
    return True


def _counted(table: pd.DataFrame) -> int:
    """Rows of a table, or what it counts."""
    return int(table["count"].sum()) if "count" in table else len(table)


def _in_language(
    made: Features | Unsupported, table: str, stimuli: FolderStimuli, given: bool
) -> Features | Unsupported:
    """The features of texts in another language than English: its column in the audit's main table, and a note.

    ``given``: the texts exist already, so that the stimuli's prompts were not asked.
    """
    if isinstance(made, Unsupported) or stimuli.language == ENGLISH:
        return made
    name = language_name(stimuli.language)
    said = f"The texts are measured as {name}." if given else f"Asked in {name}. {stimuli.provenance().get('note', '')}"
    notes = [said.strip()]
    if stimuli.language in RECOGNISED:  # of another one the audit itself says that they are not measured
        notes.append(
            f"Refusals are recognised by {name} phrases of this project's own, which no data checked, and by the "
            "English ones."
        )
    rows = made.tables[table].assign(**{COLUMN: stimuli.language})
    return replace(made, tables={**made.tables, table: rows}, notes=[*notes, *made.notes])


def _own_files(folder: Path) -> list[str]:
    """The files of models/<audit>/<model> that an earlier featurize wrote; StageError names one that it did not."""
    found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())
    try:
        listed = set(json.loads((folder / "index.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):  # none, or not ours
        listed = set()
    strange = next((name for name in found if name not in {*listed, "index.json"} and not _unfinished(name)), None)
    if strange is not None:
        raise StageError(
            f"{folder / strange}: is not a file that featurize wrote, and featurize replaces this folder; move it to "
            "another one"
        )
    return [name for name in found if name != "index.json"]


def _unfinished(name: str) -> bool:
    """Whether this is a file that a killed run was writing."""
    return name.rpartition("/")[2].startswith(".")


def evaluate(params: Params, audit: str, model: str, say: Report = tell) -> bool:
    """Scores, tables and figures; returns whether there is a score with a number."""
    store = Store(params.root)
    spec = audits.spec(audit)
    features = store.read_features(audit, model)
    folder = store.results(audit, model)
    with store.renewed(folder, ("tables", "figures")) as new:
        if isinstance(features, Unsupported):
            made = Evaluation([not_estimated(key, features.reason) for key in spec.headline], notes=[features.reason])
        else:
            rng = generator(params, audit, "evaluate")
            made = spec.evaluate(features.tables, params.stage(audit, "evaluate"), rng)
            _check_made(audit, made)
            made = replace(
                made, scores=with_missing(made.scores, spec.missing_key), notes=[*features.notes, *made.notes]
            )  # fmt: skip
        scores = score_table(made.scores, spec.headline)
        measured = any(np.isfinite(score.estimate) for score in made.scores)
        if not measured and _measured(folder):
            raise StageError(
                f"{audit} {model}: nothing could be measured ({'; '.join(made.notes[:1]) or 'no score has a number'}), "
                f"and the earlier results stay in {folder.relative_to(store.root)}; remove that folder to give them up"
            )
        for name, table in made.tables.items():
            store.write_csv(new / "tables" / f"{name}.csv", table)
        for name, content in made.files.items():
            store.write_bytes(new / "tables" / name, content)
        if made.figures:
            from markedness.reporting.figures import save

            for name, chart in made.figures.items():
                save(chart, new / "figures" / name)
        store.write_json(new / "notes.json", list(made.notes))
        store.write_table("estimates", audit, model, scores)
        store.write_csv(new / "scores.csv", scores)
        store.write_json(new / "metrics.json", metrics(made.scores, spec.headline))
    for note in made.notes:
        say(f"{audit} {model}: note: {note}")
    say(f"{audit} {model}: {len(made.tables)} tables, {len(scores)} scores in {folder.relative_to(store.root)}")
    return measured


def _check_made(audit: str, made: Evaluation) -> None:
    """SpecError where an audit, of another package perhaps, names a file elsewhere or gives a p that is none."""
    for name in (*made.tables, *made.figures, *made.files):
        if not name or name.startswith(".") or {"/", "\\", "\0"} & set(name):
            raise SpecError(f"audit '{audit}': it names a table, figure or file '{name}', which is no name of a file")
    for score in made.scores:
        if any(p < 0 or p > 1 for p in (score.p, score.p_adjusted)):
            raise SpecError(f"audit '{audit}': the p of its Score '{score.key}' is not in [0, 1]")


def write_settings(params: Params) -> None:
    """data/settings/<audit>.yaml, on which the other stages depend."""
    store = Store(params.root)
    with store.renewed(store.settings()) as new:
        for audit in params.audits:
            store.write_bytes(new / f"{audit}.yaml", settings(params, audit))


def settings(params: Params, audit: str) -> bytes:
    """What an audit asks: its size, its language, its filled-in generate block and the judges of it, as YAML."""
    import yaml

    content: dict[str, Any] = {
        "size": str(params.sizes[audit]),
        "language": params.language(audit),
        "generate": params.stage(audit, "generate").model_dump(mode="json"),
    }
    if judges := audits.spec(audit).judges(params.stage(audit, "featurize")):
        content["judges"] = {name: params.model(name).model_dump(mode="json") for name in judges}
    return yaml.safe_dump(content, allow_unicode=True, sort_keys=False).encode()


def _measured(folder: Path) -> bool:
    """Whether the results in this folder have a score with a number."""
    try:
        metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):  # none yet, or of a killed run
        return False
    return isinstance(metrics, dict) and any(value is not None for value in metrics.values())


def run(params: Params, audit: str, model: str, say: Report = tell) -> bool:
    """All four stages; whatever an earlier run left is put back where this one ends without results.

    Returns
    -------
    bool
        Whether every request was answered, services and judges did, and something was measured; an audit that the
        backend cannot serve is no failure, nor what failed in a log.
    """
    store = Store(params.root)
    with _alone(store, audit, model, say), kept.earlier(store.kept(audit, model), _outputs(store, audit, model)):
        counts = generate(params, audit, model, say)
        clean(params, audit, model, say)
        scored = featurize(params, audit, model, say)
        measured = evaluate(params, audit, model, say)
    if not measured and counts.requested:
        say(f"{audit} {model}: no score could be estimated; see the notes above")
    return counts.tolerated(0) and scored and (measured or not counts.requested)


def stage(name: str, params: Params, audit: str, model: str, say: Report = tell) -> Any:
    """One stage by its name, while no other run works on this audit and model."""
    with _alone(Store(params.root), audit, model, say):
        return STAGES[name](params, audit, model, say)


def recover(params: Params, say: Report = tell) -> None:
    """Put back what killed runs had kept aside, before anything reads the files of all models.

    Raises
    ------
    StoreError
        When a run of one of them is under way: its files are of two runs.
    """
    store = Store(params.root)
    for audit in params.audits:
        for model in params.run:
            if kept.left_over(store.kept(audit, model)):
                with _alone(store, audit, model, say):
                    pass


@contextlib.contextmanager
def _alone(store: Store, audit: str, model: str, say: Report) -> Iterator[None]:
    """Keep other runs of this audit and model out; put back what a killed run had kept aside."""
    for place in store.written(audit, model):
        refuse_outside(place, store.root)
    refuse_link(store.models(audit, model))  # the other folders are refused where they are renewed
    with store.locked(f"{audit} {model}"):
        if kept.left_over(store.kept(audit, model)):
            kept.put_back(store.kept(audit, model), _outputs(store, audit, model))
            say(f"{audit} {model}: a run was killed before it had results; the files of the one before are back")
        yield


def _outputs(store: Store, audit: str, model: str) -> dict[str, Path]:
    """What the four stages write for one audit and model."""
    places = {kind: store.table_path(kind, audit, model) for kind in ("generations", "responses", "estimates")}
    places |= {"features": store.features_path(audit, model), "results": store.results(audit, model)}
    return places | {"models": store.models(audit, model)}


def _all_unsupported(generations: pd.DataFrame) -> bool:
    return bool(generations["finish_reason"].eq(UNSUPPORTED).fillna(False).all())


def _nothing_to_measure(responses: pd.DataFrame) -> bool:
    """Whether every row is without an answer."""
    return bool(responses["status"].isin([Status.UNSUPPORTED.value, Status.FAILED.value]).all())


def _reason(responses: pd.DataFrame) -> str:
    """The most frequent reason there is no answer."""
    reasons = responses["error"].dropna()
    return str(reasons.mode().iloc[0]) if len(reasons) else "none of the rows has a text"


STAGES: dict[str, Callable[..., Any]] = {
    "generate": generate,
    "clean": clean,
    "featurize": featurize,
    "evaluate": evaluate,
}
