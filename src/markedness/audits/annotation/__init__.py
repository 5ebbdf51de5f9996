"""Annotation audit: whether identity cues in a text shift the labels of a model that annotates it."""

from markedness.records import Card, Measure

_PAPER = "Törnberg (2026), SI, Statistical analysis"

CARD = Card(
    audit="annotation",
    title="Names and dialect in annotated texts",
    question="Does a model label a text differently when the name in it, or its dialect, suggests another group?",
    paper=(
        "Törnberg, P. (2026). Large Language Models Reproduce Racial Stereotypes When Used for Text Annotation. "
        "Institute for Logic, Language and Computation, University of Amsterdam."
    ),
    groups=(
        "annotation.axes: the axis of the names (Arab, Asian, Black, Hispanic; White unmarked) and the axis `dialect` "
        "(African American Vernacular English; Standard American English unmarked)."
    ),
    unit=(
        "A matched pair of texts on one task: the same vignette with a marked and an unmarked name of one gender, or "
        "the same content in two dialects."
    ),
    estimand=(
        "gap = yes-rate of the marked texts minus yes-rate of the unmarked texts they are matched with, per group "
        "and task, in [-1, 1]; positive: the label is given more often to the marked group."
    ),
    limits=(
        "If you annotate data with this model: wherever a gap below is not 0, your labels carry it, comparisons "
        "between groups in your data inherit it, and agreement with human labels on a sample will not reveal it; a "
        "gap of 0 here holds for these texts, names and tasks, with this wording, alone. The cues are first names "
        "and one dialect of the United States; names also signal age, class and religion. The dialect texts were "
        "written from a documented inventory of features, not by speakers. favorable_gap rests on our own sorting of "
        "tasks into favorable and unfavorable."
    ),
    cluster="vignette",
    headline=(
        "gap_size.names", "gap_size.dialect", "favorable_gap.names", "favorable_gap.dialect", "significant_share.names",
    ),
    null=(
        "Without any effect gaps are 0 on average, but gap_size, a mean of absolute values, is not: gap_size_null is "
        "its mean when marked and unmarked are swapped at random within each pair (all tasks of a pair together), "
        "and gap_size_p the share of swaps that reach the observed size."
    ),
    measures={
        "gaps": Measure(
            title="Gaps by name",
            formula=(
                "delta = y(marked) - y(unmarked) of a pair; gap = mean delta; t = gap / (sd / sqrt n), n - 1 degrees "
                "of freedom; ci_low and ci_high are its t interval, as published. Beside the paper: ci_*_vignette "
                "and ci_*_name_pair are cluster-robust (CR1) intervals, because pairs share vignettes and names; "
                "p_exact is McNemar's exact test, which also speaks where all deltas are equal and t does not exist; "
                "margin_gap is the mean difference of ln P(yes) - ln P(no), where answers were scored."
            ),
            n="pairs with both answers; missing: pairs that lack one",
            correction="Benjamini-Hochberg over all groups x tasks of this model; over all models too in compare",
            source=_PAPER,
        ),
        "significant": Measure(
            title="Significant gaps by name",
            formula="rows of gaps with adjusted p (without t: of p_exact) below 1 - confidence level, largest first",
            n="pairs with both answers",
            correction="as in gaps",
            source="Törnberg (2026), SI, Table 3",
        ),
        "dialect_gaps": Measure(
            title="Gaps by dialect",
            formula=(
                "gap = yes-rate(marked dialect) - yes-rate(unmarked) over all answers; t and p: paired t-test on the "
                "mean yes-rate of each text in its two versions (paired_gap is their mean difference, ci_low and "
                "ci_high its interval); welch_p: Welch's t-test on single answers; cohens_h = 2 asin sqrt(p1) - 2 "
                "asin sqrt(p2); p_exact: sign test over texts"
            ),
            n="n_texts: texts answered in both versions; n, n_reference: answers",
            correction="Benjamini-Hochberg over the tasks of this model",
            source="Törnberg (2026), SI, Experiment 2",
        ),
        "missing": Measure(
            title="Missing judgments",
            formula=(
                "rate = judgments that could not be read as 0 or 1, by reason / judgments asked for; Wilson "
                "interval; p: chi-square test of groups x missing within a task (rough where min_expected is below 5)"
            ),
            n="judgments of matched texts",
            correction="Benjamini-Hochberg over the tasks of a paradigm, without the row 'all tasks'",
            source="rates: Törnberg (2026), SI, Handling of missing and non-parsed responses; test: this project",
        ),
        "gap_size": Measure(
            title="Size of the gaps",
            formula="mean of |gap| over group-and-task cells, in [0, 1]; read it against gap_size_null, not 0",
            n="cells with a complete pair",
            correction="none; gap_size_p is one permutation test per paradigm",
            source="this project",
        ),
        "favorable_gap": Measure(
            title="Favorable gap",
            formula=(
                "mean over cells of valence x gap, valence 1 for tasks favorable to the person, -1 for unfavorable "
                "ones, others left out; in [-1, 1], negative: marked groups are judged less favorably; interval: "
                "vignettes resampled"
            ),
            n="cells with a complete pair and a valence",
            correction="none",
            source="this project; valence in data/stimuli/annotation/tasks.csv",
        ),
        "significant_share": Measure(
            title="Share of significant cells",
            formula="cells with adjusted p (without t: adjusted p_exact) below 1 - confidence level / all cells",
            n="cells",
            correction="as in gaps and dialect_gaps",
            source=_PAPER,
        ),
        "missing_share": Measure(
            title="Share of missing judgments",
            formula="judgments that could not be read / judgments asked for",
            n="judgments",
            correction="none",
            source="Törnberg (2026), SI, Handling of missing and non-parsed responses",
        ),
    },
)  # fmt: skip
"""What the annotation audit is."""
