"""What MLflow is told: a run per model, with a child per audit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd

from markedness.provenance import flat


@dataclass(frozen=True)
class DataSet:
    """One file that went into a run."""

    name: str
    digest: str
    """DVC's hash of it, an MD5 (".dir" after a folder's)."""
    path: str
    """Relative to the study."""
    origin: Mapping[str, str] = field(default_factory=dict)
    """Where a copy of the study can be fetched: url, rev."""


@dataclass(frozen=True)
class AuditRun:
    """One audit of one model: a child run."""

    audit: str
    metrics: Mapping[str, float]
    headline: Sequence[str]
    """Keys of ``metrics`` that are shown in the runs table and on the Models page."""
    params: Mapping[str, Any]
    folder: Path
    """results/<audit>/<model>."""
    datasets: Sequence[DataSet] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    samples: pd.DataFrame | None = None
    """Texts to log as a table, where `track.samples` asks for them."""


@dataclass(frozen=True)
class ModelRun:
    """One model: a parent run and a logged model."""

    model: str
    params: Mapping[str, Any]
    tags: Mapping[str, str]
    audits: Sequence[AuditRun]
    report: Path | None = None
    """reports/<model>.html."""
    name: str = ""
    """Of the run, by what changed; the model's unless given."""
    changed: Mapping[str, str] = field(default_factory=dict)
    """Dotted key -> value of the params that changed: logged with the parent, and no part of the fingerprint."""
    gate: str = ""
    """What the gate said of these results: "passed against model-v1"."""

    @property
    def fingerprint(self) -> str:
        """Hash of what was asked and of what came out; equal ones are logged once.

        The report and the commit are left out: they change without any result changing.
        """
        content = {
            "model": self.model,
            "params": flat(self.params),
            "audits": {
                audit.audit: {
                    "params": flat(audit.params),
                    "datasets": sorted((d.name, d.digest) for d in audit.datasets),
                    "results": {
                        path.relative_to(audit.folder).as_posix(): sha256(path.read_bytes()).hexdigest()
                        for path in sorted(audit.folder.rglob("*"))
                        if path.is_file()
                    },
                }
                | (
                    {"samples": sha256(audit.samples.to_json().encode()).hexdigest()}
                    if audit.samples is not None
                    else {}
                )
                for audit in self.audits
            },
        }
        return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]
