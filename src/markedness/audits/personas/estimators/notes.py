"""Sentences that a reader of the results must see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markedness.audits.personas.estimators.corpus import Corpus
from markedness.cards import are
from markedness.results import Score
from markedness.stats.inference import ALPHA

_SMALL = 30
"""Texts below which a group's lists deserve a warning."""


def notes(corpus: Corpus, scores: Sequence[Score]) -> list[str]:
    """What is left out or missing, and what could not be estimated for that; each begins with the kind of text."""
    return [f"{corpus.kind}: {note}" for note in (*_on_texts(corpus, scores), *_on_groups(corpus))]


def _on_texts(corpus: Corpus, scores: Sequence[Score]) -> Iterator[str]:
    n, out = len(corpus.rows), len(corpus.rows) - len(corpus.used)
    if out:
        counts = corpus.rows.loc[~corpus.rows["included"].astype(bool), "status"].value_counts()
        why = ", ".join(f"{count} {status}" for status, count in counts.items())
        yield f"{out} of {n} texts {are(out)} left out of the word statistics ({why})."
    refused = corpus.refused.groupby(corpus.rows["group"].fillna("")).mean()
    if len(refused) > 1 and refused.max() - refused.min() > 0.1:
        yield (
            f"refusals are unequal, from {refused.min():.0%} ({refused.idxmin() or 'no group'}) to "
            f"{refused.max():.0%} ({refused.idxmax() or 'no group'}): what is left may not be comparable."
        )
    unequal = [s for s in scores if s.key.startswith(f"refusals.{corpus.kind}: ") and s.p_adjusted <= ALPHA]
    if unequal:
        named = ", ".join(f"{s.group} {s.estimate:+.0%} v. {s.reference}" for s in unequal)
        yield f"texts are missing unequally beyond chance (Benjamini-Hochberg over groups): {named}."
    if copies := int(corpus.rows["duplicate"].fillna(False).astype(bool).sum()):
        yield f"{copies} of {n} texts {are(copies)} repeated for the same prompt and group."


def _on_groups(corpus: Corpus) -> Iterator[str]:
    grouping = corpus.grouping
    empty = [f"'{v}'" for name, axis in corpus.axes.items() for v in axis.values if not grouping.fits({name: v}).any()]
    if empty:
        yield f"no texts for {', '.join(empty)}; nothing is compared with it or estimated for it."
    if without := grouping.without_texts:
        yield f"no texts of {', '.join(without)}; no table lists these groups."
    if not grouping.compared:
        yield "no marked words, because no axis has texts of two values."
    elif not grouping.permutable:
        yield (
            "every prompt was asked for one group only, so that a difference may be the prompt's and there is no null; "
            "give the prompts that differ only in the group one prompt_id."
        )
    sizes = {group.name: int(grouping.mask(group.fixed).sum()) for group in grouping.compared}
    if small := [name for name, size in sizes.items() if size < _SMALL]:
        yield (
            f"{len(small)} of {len(sizes)} groups have fewer than {_SMALL} texts; their lists are short because little "
            "can be significant, not because little is there."
        )
    if corpus.units.missing_column:
        yield "the texts do not say which prompt they answer (column prompt), so that no score has a p or an interval."
    elif grouping.n_prompts < 2 and len(corpus.used):
        yield "only one prompt is known, so that nothing can be said about other prompts."
