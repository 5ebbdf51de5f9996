"""Files that a stage reads and dvc.yaml does not name: DVC does not rerun the stage for them, so it says so itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from markedness import reads
from markedness.lm.progress import Report
from markedness.params import Params
from markedness.store import READS_FILE, Store

_SAID = 3
"""Files that a sentence names."""
_OF_THE_STUDY = ("dvc.yaml", "dvc.lock", "markedness.yaml")


def look_for_named(params: Params, audit: str, model: str, stage: str) -> None:
    """Say what a stage may read beside stimuli; `markedness.store.FolderStimuli` says it of these."""
    for files in _named(params, audit, model, stage).values():
        for path in files:
            reads.looked_for(path)


def _named(params: Params, audit: str, model: str, stage: str) -> dict[str, list[Path]]:
    """Text of the params -> unwatched files: a corpus of generate, or what featurize names, as an embedding model."""
    store, source = Store(params.root), params.model(model).source(audit)
    if stage == "generate":
        watched = store.corpora() / "own"
        named = [text for text in (source.path, source.requests) if text] if source is not None else []
    else:
        watched = store.stimuli_folder(audit)
        block = params.raw.get(audit)
        named = list(reads.texts(block.get(stage))) if isinstance(block, Mapping) else []
        named = [text for text in named if not (watched / text).exists()]
    own = {params.path, *(params.root / name for name in _OF_THE_STUDY)}
    found = {}
    for text in named:
        places = [one for one in reads.named(params.root, text) if watched not in one.parents and one not in own]
        found[text] = [path for place in places for path in reads.files_of(place)]
    return {text: files for text, files in found.items() if files}


def tell(params: Params, audit: str, model: str, stage: str, say: Report) -> None:
    """Within DVC, name what the stage read that a change of will not rerun it for, and what then to do."""
    found = reads.here(params.root)
    if not found or "DVC_STAGE" not in os.environ:
        return
    named = _named(params, audit, model, stage)
    others = {reads.relative(params.root, path) for files in named.values() for path in files}
    store, stimuli = Store(params.root), [name for name, digest in found.items() if digest and name not in others]
    own = store.corpora() / "own" if stage == "generate" else None
    for place, files in ((store.stimuli_folder(audit), stimuli), (own, list(named))):
        if files:
            them = "it" if len(files) == 1 else "them"
            keep = f", or keep {them} under {reads.relative(params.root, place)}" if place else ""
            say(
                f"{audit} {model}: DVC does not watch {_listed(files)}; after a change of {them} run "
                f"'{_force(stage, audit, model)}'{keep}"
            )


def changed(params: Params, audit: str, model: str) -> str:
    """Which files, that DVC does not watch, are others than the results were made of; "" where none or not known."""
    for stage in ("featurize", "generate"):  # the later one first: to force it forces those before it
        place = place_of(Store(params.root), stage, audit, model)
        if not place.is_file():
            continue
        with place.open("rb") as file:
            kept = reads.of_file(file, place.name)
        if kept is None:
            continue
        named = [path for files in _named(params, audit, model, stage).values() for path in files]
        names = sorted({*kept, *(reads.relative(params.root, path) for path in named)})
        now = {name: reads.digest(params.root / name) for name in names}
        if differ := [name for name, digest in now.items() if digest and digest != kept.get(name, "")]:
            return f"{_listed(differ)}, which DVC does not watch: first run '{_force(stage, audit, model)}'"
    return ""


def place_of(store: Store, stage: str, audit: str, model: str) -> Path:
    """The file that has what generate or featurize read."""
    generated = stage == "generate"
    return (
        store.table_path("generations", audit, model) if generated else store.features_path(audit, model) / READS_FILE
    )


def _listed(files: list[str]) -> str:
    more = f" and {len(files) - _SAID} more" if len(files) > _SAID else ""
    return ", ".join(files[:_SAID]) + more


def _force(stage: str, audit: str, model: str) -> str:
    return f"dvc repro --force {stage}@{audit}-{model}"
