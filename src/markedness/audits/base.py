"""AuditSpec: what an audit owes, as one typed object, resolved only when it is used.

An audit is a package with ``card.yaml`` and a constant ``SPEC``; an entry point of the group
``markedness.audits`` names it. Stage modules hold a frozen ``Params`` and one public function each.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module, resources
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import pandas as pd
import yaml

from markedness.cards import Card
from markedness.plugins import SpecError, loaded, registered, taking
from markedness.records import (
    Columns,
    Completion,
    CorpusColumns,
    Features,
    FeatureTables,
    Prompt,
    Stimuli,
    Strict,
    Unsupported,
)
from markedness.results import Evaluation, Score
from markedness.text_scores import Questions, TextScorer

GROUP = "markedness.audits"
"""Entry-point group under which audits are registered."""
STAGES = ("generate", "clean", "featurize", "evaluate")
SIZES = ("quick", "standard", "paper")
"""How much is asked: minutes on a small model; what finds an effect of the paper's size; as much as the paper."""


class Answers(Protocol):
    """What ``prompts`` is sent after each round: per prompt, its completions."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Sequence[Completion]: ...


Prompts = Callable[[Stimuli, Strict, np.random.Generator], Generator[list[Prompt], "Answers | None", None]]
Clean = Callable[[pd.DataFrame, Strict], pd.DataFrame]
Featurize = Callable[[pd.DataFrame, Strict, Stimuli], "Features | Unsupported"]
FeaturizeScored = Callable[[pd.DataFrame, Strict, Stimuli, TextScorer], "Features | Unsupported"]
Evaluate = Callable[[FeatureTables, Strict, np.random.Generator], Evaluation]
CompleteCorpus = Callable[[pd.DataFrame, Stimuli, Strict], pd.DataFrame]
Scores = Callable[[FeatureTables, Strict, np.random.Generator], Sequence[Score]]
Asks = Callable[[pd.DataFrame | None, Strict, Stimuli], Sequence[Questions]]
MostAnswers = Callable[[Strict, Stimuli], "int | None"]
Worlds = Callable[[str], "Sequence[World]"]
AsCorpus = Callable[[FeatureTables, Path], "WorldCorpus"]
Comparable = Callable[[Mapping[str, FeatureTables]], dict[str, FeatureTables]]
Across = Callable[[Mapping[str, FeatureTables], pd.DataFrame, Strict], dict[str, pd.DataFrame]]
ResultTables = Callable[[str], pd.DataFrame]
"""Stem -> the table of this name that evaluate wrote, empty where it wrote none."""
FindExamples = Callable[[pd.DataFrame, FeatureTables, ResultTables, Strict], "Examples"]
ScriptedAnswer = Callable[[Prompt, np.random.Generator], "str | Sequence[float] | Completion"]
Rule = Callable[[str, float, int], ScriptedAnswer]


@dataclass(frozen=True)
class World:
    """A scripted model at the level of features, whose truth is known: what ``markedness calibrate`` draws."""

    name: str
    """Short: "names_vary". From "planted" a study of the size is planned."""
    about: str
    """One sentence: what varies, what is fixed in every draw, how many of each."""
    draw: Callable[[np.random.Generator], FeatureTables]
    """Draws anew what was sampled (names, texts, crawls) and keeps what is fixed."""
    false: tuple[str, ...]
    """Headline keys without a true effect here: finding one is an error."""
    planted: tuple[str, ...] = ()
    """Headline keys with an effect of the size that the paper reports: finding one is power."""
    uncovered: tuple[str, ...] = ()
    """Headline keys whose interval generalises over other units than their p, and over others than those that are drawn
    anew here (guise: over verbs, not over attributes): whether it covers the mean over the worlds is not asked."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Evaluate params that differ from the default study."""


@dataclass(frozen=True)
class WorldCorpus:
    """The features of a world as a model or corpus would deliver them: what a whole run of calibrate reads."""

    rows: pd.DataFrame
    """Of a corpus (``backend: corpus``), with its cluster columns."""
    features: FeatureTables
    """What featurize has to make of the rows: the features of the world, but for values that no text can carry."""
    block: Mapping[str, Any] = field(default_factory=dict)
    """The audit's block in params.yaml."""
    not_compared: Mapping[str, str] = field(default_factory=dict)
    """Headline keys that a run cannot have from the world -> why."""


EXAMPLE_COLUMNS = ("group", "prompt", "text", "note")
CONTEXT_COLUMNS = ("kind", "group", "word", "text")


@dataclass(frozen=True)
class Examples:
    """Texts of one model in the order in which they drive the score that leads the card."""

    by: str
    """What they are sorted by, to follow "Sorted by"; it says where that is not the score itself."""
    rows: pd.DataFrame
    """`EXAMPLE_COLUMNS`, the strongest of each group first; ``note`` says how strong."""
    highlight: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Group -> the words that count, as the audit cuts words."""
    contexts: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=list(CONTEXT_COLUMNS)))
    """`CONTEXT_COLUMNS`: texts in which a listed word of a group occurs."""


@dataclass(frozen=True)
class AuditSpec:
    """One audit. References are "module:name", the module relative to ``package``."""

    name: str
    """In params.yaml, paths, tables and MLflow."""
    package: str
    """Where card.yaml and the stage modules are: ``__name__`` of the audit's package."""
    corpus: CorpusColumns
    """The columns read from texts that exist already."""
    table: str
    """The table of features that compare draws clusters of."""
    cluster: str
    """The column of that table that resampling and paired comparison draw by."""
    headline: tuple[str, ...]
    """The keys of the Scores to look at first; they do not depend on the groups of a study."""
    features: Mapping[str, Columns] = field(default_factory=dict)
    """Table of features -> its columns, checked when it is written; further columns, such as axes, are allowed. Without
    it, tables are written unchecked."""
    question: str = ""
    """The column of that table that says what was asked (a task, a cue): two models are compared on those that both
    were asked. Without it, on all."""
    answered: tuple[str, ...] = ()
    """The columns of that table of which one is set, or a number, where a row has an answer that counts: two models are
    compared on the rows that both answered. Without them, on those that both were asked."""
    compared_on: tuple[str, ...] = ()
    """Further columns of that table that say what was asked, where it has them: two models are compared on rows that
    are alike in these, in question and in cluster, and a comparison names their values that it leaves out."""
    sides: tuple[tuple[str, ...], ...] = ()
    """Of a row of that table that is made of several texts, the columns that count what was asked about each: a row was
    asked where each has some."""
    counts: str = ""
    """The column of that table that counts the answers of each row; without it a row is one."""
    missing_key: str = ""
    """The headline Score that asks whether what is missing differs by group; where it is found, the others say so."""
    prompts_ref: str = "generate:prompts"
    clean_ref: str = "clean:clean"
    featurize_ref: str = "featurize:featurize"
    evaluate_ref: str = "evaluate:evaluate"
    params_refs: tuple[str, str, str, str] = ("generate:Params", "clean:Params", "featurize:Params", "evaluate:Params")
    """The Params of the four stages, in the order of `STAGES`."""
    rule_ref: str = "controls:rule"
    """The scripted controls: (name, strength, seed of the study) -> (prompt, rng) -> answer; seed may be left out."""
    complete_corpus_ref: str | None = None
    """Stimulus ids from the texts of a corpus."""
    scores_ref: str | None = None
    """At least the Scores of the headline, those of evaluate, made by `markedness.stats.inference` without tables:
    what compare and calibrate ask for."""
    worlds_ref: str | None = None
    """Worlds of known truth of a size of study, for calibrate; those of one size have names of their own."""
    as_corpus_ref: str | None = None
    """A world's features, and the folder of a study -> `WorldCorpus`; writes further files that the block names into
    the folder."""
    comparable_ref: str | None = None
    """Features of several models, kept to what all of them were asked and answered; rows keep their index."""
    featurize_scored_ref: str | None = None
    """In place of ``featurize_ref`` where a service over HTTP may be asked for scores."""
    judges_ref: str | None = None
    """Params of featurize -> keys of the models that such a featurize asks as judges."""
    questions_ref: str | None = None
    """Responses (None: there are none yet), params of featurize, stimuli -> what such a featurize asks of services and
    judges."""
    most_answers_ref: str | None = None
    """Params of generate, stimuli -> how many answers there are at most to be scored; None: not known."""
    across_ref: str | None = None
    """Tables over the versions of a model."""
    examples_ref: str | None = None
    """The texts that drive the leading score, from responses, features, results and the params of evaluate."""
    asks_again: bool = False
    """Whether later questions depend on the answers to earlier ones."""
    english_only: str = "its prompts and measures are in English"
    """Why it can be asked in English only; "" where `language` of its block may name another language."""
    has_sizes: bool = False
    """Whether there is a sizes.yaml beside card.yaml: size -> what it sets in the generate block."""

    @property
    def sizes(self) -> Mapping[str, Mapping[str, object]]:
        """Size -> what it sets in the generate block; empty where the audit has no sizes."""
        return _sizes(self.name, self.package) if self.has_sizes else {}

    @property
    def card(self) -> Card:
        """card.yaml of the package; SpecError names what is wrong with it."""
        return _card(self.name, self.package, self.headline, self.missing_key)

    def params(self, stage: str) -> type[Strict]:
        """The params block of one stage."""
        found = self._resolve(self.params_refs[STAGES.index(stage)])
        if not (isinstance(found, type) and issubclass(found, Strict)):
            raise SpecError(f"audit '{self.name}': {stage} needs a class Params derived from markedness.records.Strict")
        return found

    @property
    def prompts(self) -> Prompts:
        """Stimuli, params -> rounds of prompts; is sent the answers to each round."""
        return cast(Prompts, self._resolve(self.prompts_ref))

    @property
    def clean(self) -> Clean:
        """Generations -> the same rows with answer and status."""
        return cast(Clean, self._resolve(self.clean_ref))

    @property
    def featurize(self) -> Featurize:
        """Responses -> named tables, or why there is nothing to measure."""
        return cast(Featurize, self._resolve(self.featurize_ref))

    @property
    def featurize_scored(self) -> FeaturizeScored | None:
        """See ``featurize_scored_ref``."""
        return cast("FeaturizeScored | None", self._optional(self.featurize_scored_ref))

    def judges(self, params: Strict) -> tuple[str, ...]:
        """Keys of the models that featurize asks with these params as judges; none for most audits."""
        found = self._optional(self.judges_ref)
        return () if found is None else cast("Callable[[Strict], tuple[str, ...]]", found)(params)

    @property
    def questions(self) -> Asks | None:
        """See ``questions_ref``."""
        return cast("Asks | None", self._optional(self.questions_ref))

    @property
    def most_answers(self) -> MostAnswers | None:
        """See ``most_answers_ref``."""
        return cast("MostAnswers | None", self._optional(self.most_answers_ref))

    @property
    def evaluate(self) -> Evaluate:
        """Features -> Scores, tables, figures, notes."""
        return cast(Evaluate, self._resolve(self.evaluate_ref))

    @property
    def rule(self) -> Rule:
        """The scripted controls; SpecError where they take other arguments."""
        place = f"audit '{self.name}': {self.package}.{self.rule_ref}"
        return cast(Rule, taking(self._resolve(self.rule_ref), ("name", "strength", "seed"), 2, place))

    @property
    def complete_corpus(self) -> CompleteCorpus | None:
        """See ``complete_corpus_ref``."""
        return cast("CompleteCorpus | None", self._optional(self.complete_corpus_ref))

    @property
    def scores(self) -> Scores | None:
        """See ``scores_ref``."""
        return cast("Scores | None", self._optional(self.scores_ref))

    @property
    def worlds(self) -> Worlds | None:
        """See ``worlds_ref``."""
        return cast("Worlds | None", self._optional(self.worlds_ref))

    @property
    def as_corpus(self) -> AsCorpus | None:
        """See ``as_corpus_ref``."""
        return cast("AsCorpus | None", self._optional(self.as_corpus_ref))

    @property
    def comparable(self) -> Comparable | None:
        """See ``comparable_ref``."""
        return cast("Comparable | None", self._optional(self.comparable_ref))

    @property
    def across(self) -> Across | None:
        """See ``across_ref``."""
        return cast("Across | None", self._optional(self.across_ref))

    @property
    def examples(self) -> FindExamples | None:
        """See ``examples_ref``."""
        return cast("FindExamples | None", self._optional(self.examples_ref))

    def _optional(self, reference: str | None) -> Any:
        return None if reference is None else self._resolve(reference)

    def _resolve(self, reference: str) -> Any:
        module, _, name = reference.partition(":")
        place = f"{self.package}.{module}"
        try:
            return vars(import_module(place))[name]
        except ModuleNotFoundError as error:
            if error.name is None or not place.startswith(error.name):
                raise
            raise SpecError(f"audit '{self.name}': there is no module {place}; add it or correct its SPEC") from error
        except KeyError as error:
            raise SpecError(f"audit '{self.name}': {place} has no '{name}'; add it or correct its SPEC") from error


@cache
def _card(audit: str, package: str, headline: tuple[str, ...], missing_key: str) -> Card:
    place = resources.files(package) / "card.yaml"
    try:
        content = yaml.safe_load(place.read_text(encoding="utf-8"))
    except (FileNotFoundError, yaml.YAMLError) as error:
        raise SpecError(f"audit '{audit}': {package} has no readable card.yaml ({type(error).__name__})") from error
    if not isinstance(content, dict):
        raise SpecError(f"audit '{audit}': card.yaml must be a mapping")
    try:
        return Card.read(audit, content, headline, missing_key)
    except (ValueError, KeyError, TypeError) as error:
        raise SpecError(f"audit '{audit}': card.yaml: {error}") from error


@cache
def _sizes(audit: str, package: str) -> dict[str, dict[str, object]]:
    try:
        content = yaml.safe_load((resources.files(package) / "sizes.yaml").read_text(encoding="utf-8"))
    except (FileNotFoundError, yaml.YAMLError) as error:
        raise SpecError(f"audit '{audit}': {package} has no readable sizes.yaml ({type(error).__name__})") from error
    blocks = content if isinstance(content, dict) else {}
    if set(blocks) != set(SIZES) or not all(isinstance(block, dict) for block in blocks.values()):
        raise SpecError(f"audit '{audit}': sizes.yaml must have a mapping for each of {', '.join(SIZES)}, and no more")
    return blocks


OWN = ("personas", "homogeneity", "guise", "knowledge", "annotation")
"""Our own audits, in the order of the papers."""


@cache
def spec(audit: str) -> AuditSpec:
    """The spec of one installed audit; SpecError says what is wrong with it."""
    found = loaded(AuditSpec, "audit", audit, registered(GROUP, OWN))
    if found.name != audit:
        raise SpecError(f"audit '{audit}': its AuditSpec has the name '{found.name}'")
    return found
