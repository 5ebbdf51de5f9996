"""Homogeneity: whether some groups are described with less variety than others."""

from __future__ import annotations

from markedness.records import Axes, Axis, Card, Measure, Value

DEFAULT_AXES: Axes = {
    "race": Axis(
        unmarked="White",
        values={"Black": Value(label="African"), "Asian": Value(), "Hispanic": Value(), "White": Value()},
    ),
    "gender": Axis(
        unmarked="man",
        values={
            "man": Value(noun="man", aliases=("M", "male")),
            "woman": Value(noun="woman", aliases=("F", "female")),
        },
    ),
}
"""The groups of the publication, where params name none."""

_PAPER = "Lee, M. H. J. & Lai, C. K. Probability of Differentiation Reveals Brittleness of Homogeneity Bias in GPT-4."
_BH = "Benjamini-Hochberg (q) over all comparisons and cues of the axes; the crossed groups are a family of their own"

CARD = Card(
    audit="homogeneity",
    title="Homogeneity: variety of short answers",
    question="Are some groups described with less variety than others?",
    paper=_PAPER,
    groups="The values of homogeneity.axes, each against the unmarked value of its axis, and the crossed groups. A "
    "group is signalled by first names or by a label (homogeneity.generate.study).",
    unit="The answers of one name in one cue that fall into one response category, with their count.",
    estimand="P_d, the probability that two answers drawn from a group differ, in [0, 1), and its difference, unmarked "
    "minus marked group. Positive: the marked group is described with less variety (homogeneity bias).",
    limits="Single words about a handful of situations; names stand for groups and carry age and class too. The "
    "publication finds effects that a change of one word in the prompt turns around: compare studies (replicate) "
    "before believing one.",
    cluster="cluster",
    headline=("pd_difference.Black", "pd_difference.Asian", "pd_difference.Hispanic", "pd_difference.woman", "pd.mean"),
    null="The names' labels of one axis are permuted among names that share their other values; differences.csv and "
    "its bounds show how far apart groups get that way.",
    measures={
        "probability_of_differentiation": Measure(
            title="Probability of differentiation by group and cue",
            formula="P_d = 1 - sum of squared shares of the response categories. Reported: median of the bootstrap "
            "replicates, interval from their 2.5 % and 97.5 % quantiles; pd_sample is P_d of the answers themselves",
            n="Answers kept; n_clusters names. Whole names are drawn, with all their answers; answers without a name "
            "are drawn one by one",
            correction="none",
            source=f"{_PAPER} Sections 2.3 and 2.4, tables A4, A6, A9, A10",
        ),
        "effects": Measure(
            title="Effects by cue",
            formula="d = (mean a - mean b) / sqrt((var a + var b)/2) of the two vectors of replicates, unmarked minus "
            "marked, with the published interval d +- t S_d. That interval shrinks with the number of replicates "
            "R and is no sampling error; z = d / sqrt(2), p, q and the interval of the difference are",
            n="R bootstrap replicates in each group",
            correction=_BH,
            source=f"{_PAPER} Section 2.5, table A5; z ours",
        ),
        "meta_analysis": Measure(
            title="Effects pooled over cues",
            formula="Random effects, tau^2 by restricted maximum likelihood, Wald interval; standard errors from the "
            "published intervals of d, (upper - lower) / 3.92. The prediction interval is where d would lie in "
            "one more cue. These errors are far smaller than the sampling error, and cues share names: with few "
            "cues the pooled d of a model that ignores the group excludes 0 too often (see control-none). Judge "
            "by differences",
            n="k cues",
            correction="none",
            source=f"{_PAPER} Section 2.5, table 2",
        ),
        "differences": Measure(
            title="Mean difference over cues, against permuted labels",
            formula="P_d of the unmarked minus P_d of the marked group, averaged over cues; interval: percentiles of "
            "replicates in which a drawn name is drawn in all its cues; null: 95 % of the same number after names "
            "have swapped labels",
            n="Answers of both groups",
            correction="Benjamini-Hochberg (q) over the comparisons",
            source="Ours",
        ),
        "pd_difference": Measure(
            title="Mean difference over cues",
            formula="See differences; null_low and null_high hold 95 % of differences after names have swapped labels",
            n="Answers of both groups",
            correction="none",
            source="Ours",
        ),
        "pooled_d": Measure(
            title="Pooled effect",
            formula="See meta_analysis: as published, and no test; judge by pd_difference",
            n="k cues",
            correction="none",
            source=f"{_PAPER} Table 2",
        ),
        "noncompliance": Measure(
            title="Answers that were left out, by group",
            formula="Share of answers that decline, or have more words than the cue allows; p: chi-square of shares "
            "against names that have swapped labels",
            n="Answers received",
            correction="Benjamini-Hochberg (q) over the axes",
            source=f"{_PAPER} Table A16; test ours",
        ),
        "similarity": Measure(
            title="Similarity of longer texts within a group",
            formula="Mean cosine of sentence embeddings over pairs of texts of one group and prompt format, averaged "
            "over formats; differences by a mixed model with a random intercept per format, and by a bootstrap over "
            "formats. Positive: the marked group's texts are more alike",
            n="Texts; n_prompts formats",
            correction="none",
            source="Lee, Montgomery & Lai 2024, Large Language Models Portray Socially Subordinate Groups as More "
            "Homogeneous, Consistent with a Bias Observed in Humans, FAccT '24",
        ),
        "replication": Measure(
            title="Do the effects of one study replicate in another?",
            formula="d to r by t = d sqrt(R/2); an effect replicates when r of the first study lies inside that "
            "of the second study. Expected if both had the same effects: 83.4 %",
            n="Comparisons in both studies",
            correction="none",
            source=f"{_PAPER} Section 4",
        ),
    },
)
