"""The audits: each is a package with a card, four stages, controls and figures, described by its `AuditSpec`.

A stage module holds a frozen ``Params`` (a `markedness.records.Strict`) and one public function:

    generate.prompts(stimuli, params, rng) -> yields list[Prompt], is sent the completions of each
    clean.clean(generations, params) -> responses: the same rows, with answer and status
    featurize.featurize(responses, params, stimuli) -> Features | Unsupported
    evaluate.evaluate(features, params, rng) -> Evaluation

Optional hooks are named in the spec: see `markedness.audits.base.AuditSpec`. A ``Params`` with a field ``axes``
is given ``<audit>.axes``.
"""

from __future__ import annotations

from markedness.audits.base import GROUP, OWN, SIZES, STAGES, AuditSpec, spec
from markedness.plugins import SpecError, registered

AUDITS = tuple(registered(GROUP, OWN))
"""Names of the installed audits."""

__all__ = ["AUDITS", "SIZES", "STAGES", "AuditSpec", "SpecError", "spec"]
