"""The text sets of a study: where their texts come from, and the texts themselves."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from pydantic import Field, model_validator

from markedness.audits.guise.design.guises import RULES, noise, pairs, read_pairs
from markedness.axes import Axis
from markedness.records import AuditError, Stimuli, Strict
from markedness.separated import cells_of


@dataclass(frozen=True)
class Pair:
    """Texts that belong together by meaning, or by their number alone."""

    id: str
    texts: Mapping[str, str]
    """Guise -> text."""
    source: str | None = None
    """What the texts were made from, their verb or (as a digest) their unmarked text: pairs of one source are one
    cluster, whatever set they are in. None: each text is a cluster of its own."""

    def cluster(self, guise: str) -> str:
        """The cluster of the text of a guise."""
        return digest(self.texts[guise]) if self.source is None else self.source


def digest(text: str) -> str:
    """The same for copies of a text; not the text, which results may not be allowed to show."""
    return hashlib.sha256(" ".join(text.split()).casefold().encode()).hexdigest()[:12]


def even(items: Sequence[tuple[str, tuple[str, ...]]], n: int) -> set[int]:
    """Places of ``n`` of the items (cluster, texts), which the items decide, whatever their order.

    A second item of a cluster comes after the first ones of all others; beyond that, the digests decide.
    """
    digests = [(digest(cluster), digest("\t".join(texts)), texts) for cluster, texts in items]
    ranked: list[tuple[int, tuple[str, str, tuple[str, ...]], int]] = []
    before: Counter[str] = Counter()
    for place in sorted(range(len(items)), key=lambda place: digests[place]):
        ranked.append((before[items[place][0]], digests[place], place))
        before[items[place][0]] += 1
    return {place for *_, place in sorted(ranked)[:n]}


class TextSource(Strict):
    """One text set in the guises: made by a rule, read from a file, or given here."""

    rule: str | None = None
    """A key of `markedness.audits.guise.design.guises.RULES`, or "noise"."""
    file: str | None = None
    """UTF-8, one pair a line, the guises separated by a tab, no header."""
    texts: tuple[tuple[str, ...], ...] | None = None
    """The pairs themselves."""
    guises: tuple[str, ...] | None = None
    """The guise of each column; the marked ones in the order of the axis, then the unmarked one, unless given."""
    matched: bool = True
    """Whether the texts of one pair mean the same; otherwise each column is an independent set."""
    sample: int | None = Field(default=None, ge=1)
    """How many pairs are drawn; all unless given."""
    tasks: tuple[str, ...] | None = None
    """The tasks that use these texts; unless given, all tasks, and for a control only traits and perplexity."""
    control: bool | None = None
    """Whether this is a deviation that is not a feature of the guise; decided by the rule unless given."""
    of: str | None = None
    """For noise: the set whose unmarked texts are damaged."""
    rate: float = Field(default=0.25, ge=0.01, le=1)
    """For noise: the share of words that are modified."""
    min_words: int = Field(default=3, ge=1)
    """For noise: shorter texts of the set are left out."""

    @model_validator(mode="after")
    def _one_source(self) -> TextSource:
        if sum(source is not None for source in (self.rule, self.file, self.texts)) != 1:
            raise ValueError("give exactly one of rule, file and texts")
        if self.rule is not None and self.rule != "noise" and self.rule not in RULES:
            raise ValueError(f"rule: '{self.rule}' is unknown; known: {', '.join(RULES)}, noise")
        if (self.rule == "noise") != (self.of is not None):
            raise ValueError("'of' names the set that the rule noise damages: give it with that rule and no other")
        return self

    @property
    def is_control(self) -> bool:
        """The value of ``control`` if given, otherwise that of the rule."""
        if self.control is not None:
            return self.control
        return self.rule == "noise" or (self.rule is not None and RULES[self.rule].control)

    def used_by(self, task: str, kind: str) -> bool:
        """Whether a task is asked with these texts."""
        if self.tasks is not None:
            return task in self.tasks
        return not self.is_control or task == "traits" or kind == "perplexity"


@dataclass(frozen=True)
class TextReader:
    """Reads the text sets of a study, each sampled independently of the others."""

    sources: Mapping[str, TextSource]
    axis: Axis
    stimuli: Stimuli
    verbs: str
    """Table of verb forms, for rules."""
    words: str
    """File of the words that noise inserts."""
    seed: int

    def read(self, name: str) -> list[Pair]:
        """The texts of one set, sampled, in the order of their source.

        Raises
        ------
        AuditError
            For texts that cannot be used, with the place and the remedy.
        """
        source = self.sources[name]
        rng = np.random.default_rng([self.seed, *name.encode()])
        if source.of is not None:
            return list(self._damaged(name, source, rng))
        guises = source.guises or (*self.axis.marked, self.axis.unmarked)
        where = f"guise.generate.pairs.{name}"
        if source.rule is None:
            rows: Sequence[tuple[str, ...]] = self._given(where, source, guises)
            place = guises.index(self.axis.unmarked) if self.axis.unmarked in guises and source.matched else None
            sources: Sequence[str | None] = [None if place is None else digest(row[place]) for row in rows]
        else:
            rows, sources = self._made(where, source.rule, guises)
        numbered = [
            Pair(f"{name}/{number:05d}", {guise: text for guise, text in zip(guises, row, strict=True) if text}, origin)
            for number, (row, origin) in enumerate(zip(rows, sources, strict=True), start=1)
        ]
        if source.sample is None or source.sample >= len(numbered):
            return numbered
        drawn = rng.choice(len(numbered), source.sample, replace=False)
        return [numbered[place] for place in sorted(drawn)]

    def part(self, name: str, pairs: list[Pair], n: int | None) -> list[Pair]:
        """The pairs of a set that a task with ``sample`` n is asked with, in the order of the set; all without one.

        Of pairs that a rule made and ``sample`` drew, the first. Of other sets, above all one's own, as many sources as
        there can be, chosen by their texts: the order of lines decides nothing. Where the texts are not matched, n of
        each guise.
        """
        source = self.sources[name]
        origin = source if source.of is None else self.sources[source.of]
        if n is None or (origin.rule is not None and origin.sample is not None):
            return pairs[:n]
        if source.matched:
            texts = [tuple(pair.texts.values()) for pair in pairs]
            sources = [pair.source or "\t".join(own) for pair, own in zip(pairs, texts, strict=True)]
            return [pairs[place] for place in sorted(even(list(zip(sources, texts, strict=True)), n))]
        kept: list[dict[str, str]] = [{} for _ in pairs]
        for guise in self.axis.values:
            there = [place for place, pair in enumerate(pairs) if guise in pair.texts]
            for chosen in even([(pairs[place].cluster(guise), (pairs[place].texts[guise],)) for place in there], n):
                kept[there[chosen]][guise] = pairs[there[chosen]].texts[guise]
        return [replace(pair, texts=own) for pair, own in zip(pairs, kept, strict=True) if own]

    def _made(
        self, where: str, rule: str, guises: Sequence[str]
    ) -> tuple[Sequence[tuple[str, ...]], Sequence[str | None]]:
        """The pairs of a rule, and the verb of each."""
        if len(guises) != 2:
            raise AuditError(f"{where}: a rule writes two guises; name them with guises: [MARKED, UNMARKED]")
        rows = self.stimuli.table(self.verbs, RULES[rule].needs).to_dict("records")
        verbs = [{str(key): str(value) for key, value in row.items()} for row in rows]
        try:
            made = pairs(rule, verbs)
        except ValueError as error:
            raise AuditError(f"{where}: {error}") from error
        each = len(RULES[rule].pronouns)
        return made, [verb.get("verb") or verb.get("ing") for verb in verbs for _ in range(each)]

    def _given(self, where: str, source: TextSource, guises: Sequence[str]) -> Sequence[tuple[str, ...]]:
        try:
            if source.file is not None:
                rows = cells_of(self.stimuli.text(source.file))
                if [name.casefold() for name in rows[0]] == [guise.casefold() for guise in guises]:
                    raise ValueError(f"{source.file} line 1 names the guises; remove it: the file has no header")
                content = "\n".join("\t".join(row) for row in rows)
                return read_pairs(content, len(guises), source.matched, source.file)
            content = "\n".join("\t".join(row) for row in source.texts or ())
            return read_pairs(content, len(guises), source.matched, where)
        except ValueError as error:
            raise AuditError(f"{where}: {error}") from error

    def _damaged(self, name: str, source: TextSource, rng: np.random.Generator) -> Iterator[Pair]:
        """Each unmarked text of another set once, with noise as its marked guise."""
        words = self.stimuli.text(self.words).split()
        marked = source.guises[0] if source.guises else self.axis.marked[0]
        seen: set[str] = set()
        for pair in self.read(str(source.of)):
            text = pair.texts.get(self.axis.unmarked)
            if (
                text
                and len(text.split()) >= source.min_words
                and text not in seen
                and len(seen) < (source.sample or len(seen) + 1)
            ):
                seen.add(text)
                damaged = noise(text, words, rng, source.rate)
                both = {marked: damaged, self.axis.unmarked: text}
                yield Pair(f"{name}/{pair.id.rpartition('/')[2]}", both, pair.cluster(self.axis.unmarked))
        if not seen:
            raise AuditError(
                f"guise.generate.pairs.{name}: no unmarked text of '{source.of}' has {source.min_words} words; "
                "damage longer texts or lower min_words"
            )
