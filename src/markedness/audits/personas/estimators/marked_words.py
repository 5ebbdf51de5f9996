"""Marked words and divergence where labels are exchanged, and how much each text contributes to the divergence.

Shapes: u units, C labels (combinations, or values of one axis), K contrasts, G groups, V words, B draws; see
`markedness.audits.personas.language.contrasts` and `markedness.audits.personas.estimators.units`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

from markedness.audits.personas.estimators.corpus import Corpus
from markedness.audits.personas.language.contrasts import Contrasts, contrast_log_odds, marked
from markedness.audits.personas.language.groups import Group, Grouping
from markedness.stats.inference import Draws, Exchange, Floats

_BATCH = 1_500_000
"""Numbers in one array of draws."""


@dataclass(frozen=True)
class Exchanged:
    """Words of some groups, of texts cut to equal lengths, when labels are exchanged among whole units.

    With ``axis`` its values are exchanged within prompt x the other axes, and the groups are its values; without one,
    whole combinations are exchanged within prompt.
    """

    corpus: Corpus
    groups: Sequence[Group]
    axis: str | None
    threshold: float

    @cached_property
    def exchange(self) -> Exchange:
        """Of the units' combinations."""
        return self.corpus.units.exchange(self.axis)

    @cached_property
    def label(self) -> NDArray[np.int64]:
        """The label that is exchanged, per unit, (u,)."""
        return self.exchange.labels.astype(np.int64)

    @cached_property
    def contrasts(self) -> Contrasts:
        """Of the groups, over labels instead of combinations."""
        units = self.corpus.units
        first = np.full(int(self.label.max(initial=-1)) + 1, 0)
        first[self.label[::-1]] = units.combination[::-1]
        full = self.corpus.grouping.contrasts_of(self.groups)
        return Contrasts(
            full.targets[:, first].astype(np.float32), full.references[:, first].astype(np.float32), full.group
        )

    @cached_property
    def _counts(self) -> scipy.sparse.csr_matrix:
        return self.corpus.equal_counts.astype(np.float32)

    @cached_property
    def markable(self) -> NDArray[np.int64]:
        """Words frequent enough to reach the threshold under some labelling, from what exchange leaves as it is."""
        counts = np.asarray(self._counts.sum(axis=0)).ravel()
        prior = self.corpus.prior
        named = self.corpus.counts.words != ""
        if prior.prior != "corpus":
            return np.flatnonzero(named & (counts > 1))
        total = counts.sum()
        n = self._totals(self.label[None])[0]
        ratio = (n @ self.contrasts.references.T + prior.scale * total) / np.maximum(
            n @ self.contrasts.targets.T + prior.scale * total, 1
        )
        a = prior.scale * counts
        with np.errstate(divide="ignore", invalid="ignore"):
            # At most all occurrences are in the target; 0.2 allows for totals that change with the exchange.
            highest = (np.log((a + counts) / a) + abs(np.log(ratio.max(initial=1.0))) + 0.2) * np.sqrt(
                a * (a + counts) / (2 * a + counts)
            )
        return np.flatnonzero(named & (counts > 1) & (highest > self.threshold))

    @cached_property
    def _in_several(self) -> NDArray[np.bool_]:
        """Which words occur in more than one unit, (V,)."""
        return np.bincount(self._counts.indices, minlength=self._counts.shape[1]) > 1

    @cached_property
    def _shared(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """Counts of the words of several units (u, V'); of those of one unit, summed (u,); all words (u,).

        A word of one unit lies on one side alone, whatever the labels, so that it adds half its share there: its
        identity is not needed.
        """
        several = np.asarray(self._counts[:, self._in_several].todense(), dtype=np.float32)
        lengths = np.asarray(self._counts.sum(axis=1), dtype=np.float32).ravel()
        return several, lengths - several.sum(axis=1), lengths

    @cached_property
    def _frequent(self) -> NDArray[np.float32]:
        return np.asarray(self._counts[:, self.markable].todense(), dtype=np.float32)

    def pooled(self, drawn: NDArray[np.int64], counts: NDArray[np.float32], n_labels: int | None = None) -> Floats:
        """Counts (u, V) summed by drawn label, (B, C, V), in single precision."""
        n_labels = self.contrasts.targets.shape[1] if n_labels is None else n_labels
        n_draws, n_units = drawn.shape
        row = (drawn + n_labels * np.arange(n_draws)[:, None]).ravel()
        column = np.tile(np.arange(n_units), n_draws)
        ones = np.ones(len(row), dtype=np.float32)
        indicator = scipy.sparse.csr_matrix((ones, (row, column)), (n_draws * n_labels, n_units))
        return np.asarray(indicator @ counts).reshape(n_draws, n_labels, counts.shape[1])

    def _totals(self, drawn: NDArray[np.int64]) -> Floats:
        return self.pooled(drawn, self._shared[2][:, None])[..., 0]

    def z(self, drawn: NDArray[np.int64], shared: Floats | None = None) -> Floats:
        """The z of the `markable` words, (B, K, V); ``shared``: the pooled counts of the words of several units."""
        if shared is not None and self._in_several[self.markable].all():
            pooled = shared[..., (np.cumsum(self._in_several) - 1)[self.markable]]
        else:
            pooled = self.pooled(drawn, self._frequent)
        return contrast_log_odds(pooled, self.contrasts, self.corpus.prior, self._totals(drawn)).z

    def z_draws(self, n: int, rows: NDArray[np.int64], rng: np.random.Generator) -> Floats:
        """The z of some contrasts under exchanged labels, (n, len(rows), V)."""
        contrasts = Contrasts(self.contrasts.targets[rows], self.contrasts.references[rows], self.contrasts.group[rows])
        step = max(1, _BATCH // max(1, len(self.markable) * self.contrasts.targets.shape[1], len(self.label) * 4))
        parts = []
        for start in range(0, n, step):
            drawn = self.exchange.draw(min(step, n - start), rng)
            pooled = self.pooled(drawn, self._frequent)
            parts.append(contrast_log_odds(pooled, contrasts, self.corpus.prior, self._totals(drawn)).z)
        return np.concatenate(parts)

    def divergence(self, drawn: NDArray[np.int64], shared: Floats) -> Floats:
        """Plug-in Jensen-Shannon divergence of each group in bits, (B, G); ``shared`` as for `z`."""
        _, single, lengths = self._shared
        starts = self.contrasts.starts
        target = self.contrasts.targets[starts]
        pile = np.add.reduceat(self.contrasts.references, starts, axis=0)
        sides = self.pooled(drawn, np.column_stack([single, lengths]))
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = []
            for weights in (target, pile):
                own = weights @ sides
                parts.append(((weights @ shared) / own[..., 1:], own[..., 0] / own[..., 1]))
            (p, p_single), (q, q_single) = parts
            m = np.maximum(p + q, np.float32(1e-30))
            tiny = np.float32(1e-30)
            bits = p * np.log2(np.maximum(2 * p / m, tiny)) + q * np.log2(np.maximum(2 * q / m, tiny))
        return np.asarray((bits.sum(axis=-1) + p_single + q_single) / 2, dtype=float)

    @cached_property
    def observed(self) -> Floats:
        """What `draws` gives of the labels as they are, (2 G,)."""
        return np.asarray(self._statistics(self.label[None, :])[0])

    def _statistics(self, drawn: NDArray[np.int64]) -> Floats:
        shared = self.pooled(drawn, self._shared[0])
        found = marked(self.z(drawn, shared), self.contrasts, self.threshold).sum(axis=-1)
        # Rounded, so that labelings of equal divergence are equal in single precision.
        return np.column_stack([found, np.round(self.divergence(drawn, shared), 6)])

    def draws(self, rng: np.random.Generator) -> Draws:
        """Number of marked words of each group, then its divergence in bits, (draws, 2 G)."""
        width = self._shared[0].shape[1] * len(self.contrasts.starts) + len(self.markable) * len(self.contrasts.group)
        step = max(1, _BATCH // max(1, width, len(self.label) * 4))

        def make(n: int) -> Floats:
            rows = []
            for start in range(0, n, step):
                rows.append(self._statistics(self.exchange.draw(min(step, n - start), rng)))
            return np.concatenate(rows)

        return Draws(make)


def of_axis(grouping: Grouping, axis: str | None) -> list[Group]:
    """The compared groups that fix this axis alone; without an axis, the marked ones that fix several."""
    if axis is None:
        return [group for group in grouping.compared if len(group.fixed) > 1]
    return [group for group in grouping.compared if list(group.fixed) == [axis]]
