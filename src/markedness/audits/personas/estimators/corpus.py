"""The texts of one kind with what featurize measured of them, coded once for all estimators."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from markedness.audits.personas import SPEC
from markedness.audits.personas.estimators.classification import HeldOut, held_out
from markedness.audits.personas.estimators.group_similarity import GroupSimilarity, Within
from markedness.audits.personas.estimators.lengths import as_many, cut, kept_shares
from markedness.audits.personas.estimators.units import COPIES, Units
from markedness.audits.personas.language.contrasts import LogOddsPrior, contrast_log_odds, marked
from markedness.audits.personas.language.groups import Group, Grouping
from markedness.audits.personas.language.word_counts import WordCounts
from markedness.axes import Axes, about_a_group, groups_in_one_order
from markedness.records import AuditError, FeatureTables, Status
from markedness.results import named_contrasts
from markedness.stats.inference import ALPHA, Floats

ALL = "all"
"""Group name of the rows of all groups together."""


@dataclass(frozen=True)
class TextSet:
    """A group's texts, or all."""

    name: str
    mask: NDArray[np.bool_]
    """Which of the used texts, (n,)."""
    left_out: int
    """How many further texts of it no measure uses."""


@dataclass(frozen=True)
class PublishedWords:
    """The point values of each word as featurize has them, in the order of the vocabulary."""

    z: NDArray[np.float64]
    """(K, V)."""
    jsd_share: NDArray[np.float64]
    """(G, V)."""
    jsd_side: NDArray[np.float64]
    """(G, V)."""
    jsd: NDArray[np.float64]
    """In bits, (G,)."""


class Corpus:
    """The texts of one kind.

    Parameters
    ----------
    features
        See `markedness.audits.personas.featurize.featurize`; rows of ``texts`` may be drawn more than once.
    axes
        The axes that cross.
    kind
        "persona" or "story".
    """

    def __init__(self, features: FeatureTables, axes: Axes, kind: str) -> None:
        self.kind, self.axes, self.features = kind, axes, features
        texts = features["texts"][features["texts"]["kind"].eq(kind)]
        self.rows = texts[about_a_group(texts["group"])]
        """All texts about a group, those left out of the measures included; all where none is."""
        self.used = self.rows[self.rows["included"].astype(bool)].reset_index(drop=True)
        self.texts = self.used["text"].to_numpy(np.int64)
        """Number of each used text, (n,)."""
        self.grouping = Grouping(self.used, axes)
        unread = features["unread"].loc[features["unread"]["kind"].eq(kind)]
        self.unread = dict(zip(unread["measure"], unread["reason"], strict=True))
        """The measures that cannot read these texts -> why."""

    @cached_property
    def _included(self) -> NDArray[np.bool_]:
        return self.rows["included"].to_numpy().astype(bool)

    @cached_property
    def counts(self) -> WordCounts:
        """Word counts of the used texts."""
        return WordCounts.of_texts(self.features["bag_of_words"], self.texts)

    @cached_property
    def units(self) -> Units:
        """What was sampled, of the used texts."""
        return Units.of(self.used, self.grouping)

    @cached_property
    def asked_grouping(self) -> Grouping:
        """Of all texts asked for."""
        return Grouping(self.rows, self.axes)

    @cached_property
    def asked(self) -> Units:
        """The requests: each a unit of its own, but for what the corpus clusters."""
        return Units.of(self.rows, self.asked_grouping, requests=True)

    @property
    def missing(self) -> NDArray[np.float64]:
        """1 for each text asked for that is a refusal or not there at all."""
        return self.rows["status"].ne(Status.OK.value).to_numpy().astype(float)

    @property
    def compared(self) -> list[Group]:
        """The groups whose words can be compared; none where there is no word: its measures are missing, not 0."""
        return self.grouping.compared if (self.counts.words != "").any() else []

    @property
    def marked(self) -> NDArray[np.bool_]:
        """Which of the compared groups are marked, (G,)."""
        return np.array([group.marked for group in self.compared], dtype=bool)

    @cached_property
    def untested(self) -> list[Group]:
        """The marked groups that no exchange with a reference could find at the level of the headline.

        They have too few texts, or no prompt that has texts of both.
        """
        level = ALPHA / len(SPEC.headline)
        return [group for group in self.compared if group.marked and self.units.smallest_p(group) > level]

    @property
    def marked_contrasts(self) -> str:
        """The marked groups that have something to be compared with; see `markedness.results.Score.over`."""
        return named_contrasts(
            (group.name, ref) for group in self.compared if group.marked for ref, _ in group.references
        )

    @cached_property
    def pooled(self) -> NDArray[np.float64]:
        """Word counts per combination, (C, V)."""
        return self.counts.pooled(self.grouping.combination, self.grouping.n_combinations)

    @cached_property
    def unit_counts(self) -> scipy.sparse.csr_matrix:
        """Word counts per unit, (u, V)."""
        return self.units.summed(self.counts.matrix)

    @cached_property
    def _even(self) -> tuple[scipy.sparse.csr_matrix, Floats, NDArray[np.int64]]:
        """Texts of which all groups' units have as many, each once: words (n', V), copies, and place of each (n',).

        In an order that their words decide, so that the order of a file does not decide what is cut.
        """
        cluster, combination = self.used["cluster"].astype(str), self.grouping.combination
        single = cluster.where(cluster.str.startswith(COPIES), pd.Series(cluster.index.astype(str), dtype=str))
        _, first, copy = np.unique(
            [f"{combination[row]} {name}" for row, name in enumerate(single)], return_index=True, return_inverse=True
        )
        times = np.bincount(copy.reshape(-1), minlength=len(first)).astype(float)
        matrix = self.counts.matrix.tocsr()[:, np.argsort(self.counts.words.astype(str), kind="stable")][first]
        matrix.sort_indices()
        order = np.argsort(self._keys(matrix, first), kind="stable")
        matrix, first, times = matrix[order], first[order], times[order]
        unit, found = pd.factorize(self.units.of_text[first])
        axes = [code[first] for code in self._values]
        stays = as_many(unit.astype(np.int64), self.units.prompt[found], axes, combination[first])
        return matrix[stays], times[stays], first[stays]

    def _keys(self, matrix: scipy.sparse.csr_matrix, place: NDArray[np.int64]) -> NDArray[np.str_]:
        """Words, prompt and group of each text, (n',), as one string."""
        rows = self.used.iloc[place]
        about = rows["prompt_id"].astype("string").fillna("") + " " + groups_in_one_order(rows, self.axes)
        starts = zip(matrix.indptr, matrix.indptr[1:], about, strict=False)
        found = [
            hashlib.blake2b(
                matrix.indices[low:high].astype(np.int64).tobytes() + matrix.data[low:high].astype(np.int64).tobytes(),
                digest_size=8,
            ).hexdigest() + f" {about}"
            for low, high, about in starts
        ]  # fmt: skip
        return np.array(found, dtype=str)

    @property
    def copies(self) -> Floats:
        """How often a text of each unit is there, (u,); 1 where the unit's texts are all different."""
        _, times, place = self._even
        unit = self.units.of_text[place]
        return np.asarray(np.bincount(unit, times) / np.bincount(unit))

    @property
    def _values(self) -> list[NDArray[np.int64]]:
        """Of each axis the codes of its values, (n,)."""
        return [pd.factorize(self.used[axis].fillna(""))[0].astype(np.int64) for axis in self.axes]

    def _by_unit(self, matrix: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
        _, times, place = self._even
        indicator = (times, (self.units.of_text[place], np.arange(len(place))))
        back = np.argsort(np.argsort(self.counts.words.astype(str), kind="stable"))
        return (scipy.sparse.csr_matrix(indicator, (len(self.units), len(place))) @ matrix).tocsr()[:, back]

    @cached_property
    def even_counts(self) -> scipy.sparse.csr_matrix:
        """Word counts per unit, (u, V), where units of several texts, such as authors, have as many in all groups."""
        return self._by_unit(self._even[0])

    @cached_property
    def equal_counts(self) -> scipy.sparse.csr_matrix:
        """`even_counts` of texts cut to lengths that all groups have; copies of a text are cut alike.

        See `markedness.audits.personas.estimators.lengths`. What is cut is the same whenever the texts are.
        """
        matrix, _, place = self._even
        lengths = np.asarray(matrix.sum(axis=1), dtype=float).ravel()
        axes = [code[place] for code in self._values]
        shares = kept_shares(lengths, self.grouping.prompt[place], axes, self.grouping.combination[place])
        return self._by_unit(cut(matrix, shares, np.random.default_rng(0)))

    @property
    def kept(self) -> float:
        """Share of the words that `equal_counts` leaves."""
        return float(self.equal_counts.sum() / max(1.0, self.unit_counts.sum()))

    def n_marked(self, threshold: float) -> NDArray[np.int64]:
        """How many words are marked of each compared group, (G,)."""
        contrasts = self.grouping.contrasts
        z = contrast_log_odds(self.pooled, contrasts, self.prior).z
        return np.asarray((marked(z, contrasts, threshold) & (self.counts.words != "")).sum(axis=1))

    @property
    def prior(self) -> LogOddsPrior:
        """The prior with which featurize computed the log-odds."""
        comparisons = self.features["comparisons"]
        if not len(comparisons):
            return LogOddsPrior()
        return LogOddsPrior(comparisons["prior"].iloc[0], float(comparisons["prior_scale"].iloc[0]))

    @cached_property
    def published(self) -> PublishedWords:
        """What the tables comparisons and words hold of this kind; AuditError where they are of other axes."""
        pairs = [(group.name, reference) for group in self.compared for reference, _ in group.references]
        first = [(group.name, group.references[0][0]) for group in self.compared]
        words, comparisons = (self.features[name] for name in ("words", "comparisons"))
        by_pair = {
            (str(group), str(reference)): rows
            for (group, reference), rows in words[words["kind"].eq(self.kind)].groupby(
                ["group", "reference"], observed=True
            )
        }
        if unknown := [name for name, reference in pairs if (name, reference) not in by_pair]:
            raise AuditError(
                f"personas: the features have no words of '{unknown[0]}', which personas.axes names: they were made by "
                "other axes; run clean and featurize again ('dvc repro', or 'markedness run')"
            )

        def column(name: str, keys: list[tuple[str, str]]) -> NDArray[np.float64]:
            values = np.full((len(keys), len(self.counts.words)), np.nan)
            for place, key in enumerate(keys):
                rows = by_pair[key]
                values[place, vocabulary.get_indexer(pd.Index(rows["word"].astype(str)))] = rows[name]
            return values

        vocabulary = pd.Index(self.counts.words, dtype="str")
        jsd = comparisons[comparisons["kind"].eq(self.kind)].drop_duplicates("group").set_index("group")["jsd"]
        return PublishedWords(
            column("z", pairs), column("jsd_share", first), column("jsd_side", first),
            jsd.reindex([group.name for group in self.compared]).to_numpy(float),
        )  # fmt: skip

    @cached_property
    def similarity(self) -> GroupSimilarity:
        """Of the texts that have embeddings."""
        return GroupSimilarity(self.grouping, self.texts, self.features["embeddings"])

    def similar(self) -> tuple[Corpus, Within, list[Group]]:
        """The texts of the prompts that tell how alike the texts of each compared value are, and what they tell.

        Error and degrees of freedom are of these prompts alone: where few are left, texts are left out in their place,
        and then some more prompts may tell nothing.
        """
        found, over = self.similarity.difference_with_influences(self.units)
        kept = np.isin(self.grouping.prompt, list(found.told))
        if not found.told or kept.all():
            return self, found, over
        return self._only(kept).similar()

    def _only(self, kept: NDArray[np.bool_]) -> Corpus:
        """The corpus of some of the used texts."""
        texts = self.features["texts"]
        chosen = texts["text"].isin(self.texts[kept]) & texts["kind"].eq(self.kind)
        return Corpus({**self.features, "texts": texts[chosen]}, self.axes, self.kind)

    @cached_property
    def held_out(self) -> list[HeldOut]:
        """What the classifiers predicted for the texts they were not trained on."""
        return held_out(self.features["svm_predictions"], self.texts)

    @cached_property
    def sets(self) -> list[TextSet]:
        """All texts, then those of each group."""
        everything = [TextSet(ALL, np.ones(len(self.used), dtype=bool), self.left_out({}))] if len(self.used) else []
        return [
            *everything,
            *(TextSet(g.name, self.grouping.mask(g.fixed), self.left_out(g.fixed)) for g in self.grouping.groups),
        ]

    def prompt_words(self, group: Group) -> set[str] | None:
        """The words of the prompts that the group's texts answer; None where no prompt is known."""
        names = self.rows["group"].fillna("")[self.asked_grouping.mask(group.fixed)].unique()
        table = self.features["prompt_words"]
        said = table.loc[table["kind"].eq(self.kind) & table["group"].isin(names), "word"]
        return set(said) if len(said) else None

    @property
    def refused(self) -> pd.Series[bool]:
        """Which of all rows are refusals."""
        return self.rows["status"].eq(Status.REFUSAL.value)

    def left_out(self, fixed: Mapping[str, str]) -> int:
        """How many texts with the fixed values no measure uses."""
        return int((self.asked_grouping.mask(fixed) & ~self._included).sum())


def corpora(features: FeatureTables, axes: Axes) -> list[Corpus]:
    """One per kind of text, personas first."""
    kinds = sorted(features["texts"]["kind"].unique(), key=lambda kind: (kind != "persona", kind))
    return [Corpus(features, axes, str(kind)) for kind in kinds]
