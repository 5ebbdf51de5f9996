"""The one inference engine: intervals, exchange tests, corrections and smallest effects that can be found.

An audit reduces its answers to *units* (a name, a text with its copies, a pair of judgments), says how its estimate
follows from them, which factors were sampled and which labels could be exchanged if the claim were false; everything
with an error rate is computed here. What a paper resamples or corrects itself stays in functions named
``published_*``. ``markedness calibrate`` shows by simulation that the error rates hold.

Sources: Efron & Stein 1981, Annals of Statistics 9(3):586-596 (jackknife variance); Cameron, Gelbach & Miller 2011,
Journal of Business & Economic Statistics 29(2):238-249 (crossed clusters); Satterthwaite 1946, Biometrics Bulletin
2(6):110-114 (degrees of freedom); Besag & Clifford 1991, Biometrika 78(2):301-304 (sequential permutation p-values);
Westfall & Young 1993, Resampling-based multiple testing (max-T); Chung & Romano 2013, Annals of Statistics
41(2):484-507 (studentised permutation tests).
"""

from __future__ import annotations

from markedness.stats.inference.alike import alike_variance, within_clusters
from markedness.stats.inference.arrays import (
    NO_TEST,
    UNLIKE,
    Codes,
    Estimator,
    Floats,
    LeaveOut,
    crossing,
    equal_shares,
    unlike_shares,
)
from markedness.stats.inference.claims import NO_INTERVAL, claim, difference, holds_for, withdrawn
from markedness.stats.inference.contrasts import (
    Contrast,
    contrast_score,
    group_difference_score,
    studentised,
)
from markedness.stats.inference.corrections import (
    adjusted,
    adjusted_apart,
    benjamini_hochberg,
    holm,
    max_t,
    pooled_p,
)
from markedness.stats.inference.influences import (
    HALF_SAMPLES,
    half_sample_spread,
    influence_errors,
    influence_spread,
    pair_detectable,
    pair_mean,
    pair_null,
    t_intervals,
)
from markedness.stats.inference.permutation import (
    Draws,
    Exchange,
    Null,
    count_detectable,
    draws_needed,
    exchange_test,
    flip_test,
    null_detectable,
)
from markedness.stats.inference.power import ALPHA, POWER, detectable, redetected
from markedness.stats.inference.shares import ShareTests, share_tests
from markedness.stats.inference.spreads import (
    CROSSED,
    MIN_CLUSTERS,
    NO_SPREAD,
    Spread,
    effective,
    leave_out,
    mean_leave_out,
    spread,
)

__all__ = [
    "ALPHA",
    "CROSSED",
    "HALF_SAMPLES",
    "MIN_CLUSTERS",
    "NO_INTERVAL",
    "NO_SPREAD",
    "NO_TEST",
    "POWER",
    "UNLIKE",
    "Codes",
    "Contrast",
    "Draws",
    "Estimator",
    "Exchange",
    "Floats",
    "LeaveOut",
    "Null",
    "ShareTests",
    "Spread",
    "adjusted",
    "adjusted_apart",
    "alike_variance",
    "benjamini_hochberg",
    "claim",
    "contrast_score",
    "count_detectable",
    "crossing",
    "detectable",
    "difference",
    "draws_needed",
    "effective",
    "equal_shares",
    "exchange_test",
    "flip_test",
    "group_difference_score",
    "half_sample_spread",
    "holds_for",
    "holm",
    "influence_errors",
    "influence_spread",
    "leave_out",
    "max_t",
    "mean_leave_out",
    "null_detectable",
    "pair_detectable",
    "pair_mean",
    "pair_null",
    "pooled_p",
    "redetected",
    "share_tests",
    "spread",
    "studentised",
    "t_intervals",
    "unlike_shares",
    "withdrawn",
    "within_clusters",
]
