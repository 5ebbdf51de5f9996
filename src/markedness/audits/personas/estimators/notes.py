"""Sentences that a reader of the results must see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.audits.personas.estimators.corpus import Corpus
from markedness.audits.personas.estimators.units import COPIES
from markedness.cards import are
from markedness.results import Score
from markedness.stats.inference import ALPHA, Floats, draws_needed, exchange_test

_SMALL = 30
"""Texts below which a group's lists deserve a warning."""
_LEAST_KEPT = 0.5
"""Share of words kept at equal lengths, below which a sentence says so."""
_MOST_SHARED = 0.05
"""Share of texts that several groups have, above which a sentence says so."""


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


def unequal_copies(corpus: Corpus, axis: str | None, rng: np.random.Generator) -> str:
    """What copies that are more frequent for some values of an axis do to the excess; "" where they are not.

    Without an axis: of some combinations, as the headline exchanges them.

    A text with its copies is exchanged as a whole. Where copies are of some groups alone, each exchange spreads them
    over all, so that every group has texts of unequal weight, which is like fewer texts: the divergence by chance is
    larger than that of the groups as they are. Copies that some texts have whatever their group do not do that.
    """
    copies = corpus.copies
    exchange = corpus.units.exchange(axis)
    if (copies == copies[:1]).all() or exchange.smallest_p > ALPHA:
        return ""
    size = np.bincount(exchange.labels)

    def spread(labels: NDArray[np.int64]) -> Floats:
        means = [np.bincount(one, copies, len(size)) / size for one in labels]
        return np.asarray(np.array(means) ** 2 @ size)

    observed = float(spread(exchange.labels[None])[0])
    found = exchange_test(observed, lambda n: spread(exchange.draw(n, rng)), draws_needed(), False, exchange.smallest_p)
    if not found.p <= ALPHA:
        return ""
    means = np.bincount(exchange.labels, copies, len(size)) / size
    return (
        f"Copies of texts are not equally frequent in all groups (a text is there {means.min():.1f} times in one, "
        f"{means.max():.1f} times in another), and exchanged labels spread them over all: the difference by chance is "
        "too large, so that this excess is too small. personas.clean.drop_duplicates: true counts each text once."
    )


def shared_texts(corpus: Corpus) -> str:
    """What texts that several groups have word for word do to the excess; "" where hardly any are.

    Each is exchanged by itself, so that exchanged labels tear apart what is equal in the groups as they are.
    """
    of_text = pd.DataFrame({"text": corpus.used["cluster"], "group": corpus.grouping.combination})
    of_text = of_text[of_text["text"].str.startswith(COPIES)].drop_duplicates()
    shared, n = int(of_text["text"].duplicated(keep=False).sum()), len(corpus.units)
    if shared <= _MOST_SHARED * n:
        return ""
    return (
        f"{shared} of {n} different texts of a group are word for word those of another group for the same prompt. "
        "Exchanged labels tell them apart, so that the difference by chance is too large and this excess too small; a "
        "column cluster that has one name for each such text keeps them together."
    )


def unequal_lengths(corpus: Corpus) -> str:
    """What equal lengths leave of the words; "" where it is most of them."""
    if corpus.kept >= _LEAST_KEPT:
        return ""
    return (
        f"Texts of the groups differ in length, or their clusters in the number of texts, and {corpus.kept:.0%} of the "
        "words are compared: what is longer is cut at random to the lengths of the shortest."
    )
