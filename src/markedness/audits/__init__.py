"""The five audits; each is a folder with a card and its stage modules.

A stage module holds a frozen ``Params`` (a `markedness.records.Strict`) and one public function:

    generate.prompts(stimuli, params, rng) -> yields list[Prompt], is sent list[list[Completion]]
    clean.clean(generations, params) -> responses: the same rows, with answer and status
    featurize.featurize(responses, params) -> features: one unit of analysis a row; an audit that counts
        words of lists takes ``stimuli`` as an optional third parameter
    evaluate.evaluate(features, params, rng) -> Evaluation

Beside them:

    generate.CORPUS: the columns read of texts that exist already (`markedness.records.CorpusColumns`)
    generate.complete_corpus(rows, stimuli, params) -> rows; optional: stimulus ids from texts
    evaluate.scores(features, params) -> dict[str, float]: the headline scores alone, cheap enough to be
        recomputed on resampled clusters
    evaluate.comparable(features by model) -> the same, kept to what all models answered; optional
    evaluate.across(features by model, versions, params) -> tables over versions of a model; optional
    controls.rule(name, strength) -> (prompt, rng) -> answer: the scripted controls "none" and "planted"
    figures.py: the charts of evaluate, from its tables

A ``Params`` with a field ``axes`` is given ``<audit>.axes``. A folder holds these files and no other: they
are what dvc.yaml names as dependencies; what two stages or audits need moves down to text or stats.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from markedness.records import Card

AUDITS = ("personas", "homogeneity", "guise", "knowledge", "annotation")
STAGES = ("generate", "clean", "featurize", "evaluate")


def stage(audit: str, name: str) -> ModuleType:
    """The module of one stage (or "controls", "figures") of one audit."""
    return import_module(f"markedness.audits.{audit}.{name}")


def card(audit: str) -> Card:
    """The card of one audit."""
    return import_module(f"markedness.audits.{audit}").CARD
