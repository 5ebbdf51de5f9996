"""The words of each comparison: log-odds ratios with intervals, and p-values by exchange of labels."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from markedness.audits.personas.estimators.corpus import Corpus
from markedness.audits.personas.estimators.marked_words import Exchanged, of_axis
from markedness.audits.personas.language.contrasts import contrast_log_odds
from markedness.audits.personas.language.groups import Group
from markedness.audits.personas.language.log_odds import prior_counts
from markedness.stats.inference import Floats, benjamini_hochberg, max_t, pooled_p


@dataclass
class WordTests:
    """Tests of all words of all comparisons of one kind of text.

    Parameters
    ----------
    n_draws
        Exchanges of labels; 0: no p.
    """

    corpus: Corpus
    threshold: float
    n_draws: int
    confidence_level: float
    rng: np.random.Generator
    _p: dict[str, tuple[Floats, Floats]] = field(default_factory=dict)
    """Group -> p by max-T and p adjusted by Benjamini-Hochberg, each (references, V)."""

    def __post_init__(self) -> None:
        units = self.corpus.units
        if not self.corpus.compared or self.n_draws < 1 or units.missing_column:
            return
        for axis in (*self.corpus.axes, None):
            groups = of_axis(self.corpus.grouping, axis)
            own = Exchanged(self.corpus, groups, axis, self.threshold)
            if groups and own.exchange.smallest_p < 1:
                self._test(own)

    def _test(self, own: Exchanged) -> None:
        """Fill in the p-values of the groups of one exchange, one group at a time to save memory."""
        n_words, words = len(self.corpus.counts.words), own.markable
        state = self.rng.integers(2**63)
        observed = own.z(own.label[None, :])[0]
        for place, group in enumerate(own.groups):
            rows = np.flatnonzero(own.contrasts.group == place)
            drawn = own.z_draws(self.n_draws, rows, np.random.default_rng(state))
            corrected, adjusted = np.ones((2, len(rows), n_words))
            for k, row in enumerate(rows):
                corrected[k, words] = max_t(observed[row], drawn[:, k])
                adjusted[k, words] = benjamini_hochberg(pooled_p(observed[row], drawn[:, k]))
            self._p[group.name] = corrected, adjusted

    def columns(self, group: Group, words: NDArray[np.int64]) -> dict[str, Floats]:
        """Columns of the table of marked words: per reference q, p and log-odds ratio with interval; p of the word.

        ``p_<reference>``: by max-T over the words of the comparison. ``p``: the largest of these, since a word must
        differ from every reference. ``q_<reference>``: adjusted by Benjamini-Hochberg instead.
        """
        nothing = np.full((len(group.references), len(words)), np.nan)
        corrected, adjusted = (
            (part[:, words] for part in self._p[group.name]) if group.name in self._p else [nothing] * 2
        )
        ratio, low, high = self._ratios(group, words)
        found: dict[str, Floats] = {"p": corrected.max(axis=0) if len(group.references) else nothing}
        for k, (reference, _) in enumerate(group.references):
            found |= {
                f"q_{reference}": adjusted[k], f"p_{reference}": corrected[k], f"log_odds_ratio_{reference}": ratio[k],
                f"log_odds_ratio_{reference}_ci_low": low[k], f"log_odds_ratio_{reference}_ci_high": high[k],
            }  # fmt: skip
        return found

    def _ratios(self, group: Group, words: NDArray[np.int64]) -> tuple[Floats, Floats, Floats]:
        """Log-odds ratios against each reference with intervals, each (references, words).

        The smoothed ratio of the published z. With f1 = y1 + a and f2 = y2 + a, an occurrence adds 1/f1 + 1/(N1 - f1)
        to it where it raises f1 and takes 1/f2 + 1/(N2 - f2) where it raises f2; any other word takes 1/(N1 - f1) and
        adds 1/(N2 - f2).
        """
        corpus, units = self.corpus, self.corpus.units
        contrasts = corpus.grouping.contrasts_of([group])
        totals = corpus.pooled.sum(axis=1)
        ratio = contrast_log_odds(corpus.pooled[:, words], contrasts, corpus.prior, totals).log_ratio
        low, high = np.full_like(ratio, np.nan), np.full_like(ratio, np.nan)
        if not units.supports(group) or units.missing_column or not len(words):
            return ratio, low, high
        x = np.asarray(corpus.unit_counts[:, words].todense(), dtype=float)
        lengths = np.asarray(corpus.unit_counts.sum(axis=1), dtype=float)
        for k, (target, reference) in enumerate(zip(contrasts.targets, contrasts.references, strict=True)):
            sides = []
            y1, y2 = target @ corpus.pooled[:, words], reference @ corpus.pooled[:, words]
            a = prior_counts(corpus.pooled[:, words].sum(axis=0), y1, y2, corpus.prior.prior, corpus.prior.scale)
            inside = self._in_prior(target, reference)
            for side, y in ((target, y1), (reference, y2)):
                weight = (side + inside)[units.combination][:, None]
                first, total = y + a, float((side + inside) @ totals)
                with np.errstate(divide="ignore", invalid="ignore"):
                    sides.append(weight * (x * (1 / first + 1 / (total - first)) - lengths / (total - first)))
            influences = units.clustered(np.nan_to_num(sides[0] - sides[1]))
            low[k], high[k] = units.intervals(ratio[k], influences, self.confidence_level)
        return ratio, low, high

    def _in_prior(self, target: Floats, reference: Floats) -> Floats:
        """How much an occurrence of each combination adds to the prior count of its word, (C,)."""
        prior, either = self.corpus.prior, np.minimum(target + reference, 1.0)
        share = {"corpus": np.ones_like(either), "compared": target + reference, "others": 1.0 - either}
        return prior.scale * share.get(prior.prior, np.zeros_like(either))
