"""Matched guise probing: what a model thinks of a speaker, from the probability of what comes next."""

from __future__ import annotations

from markedness.records import Card, Measure

_PAPER = (
    "Valentin Hofmann, Pratyusha Ria Kalluri, Dan Jurafsky and Sharese King. 2024. AI generates covertly racist "
    "decisions about people based on their dialect. Nature 633, 147-154."
)
_SI = "Hofmann et al. (2024), Supplementary Information"
_RATE = "rate of the guise minus rate of its reference, calibrated as guise.evaluate.rule says"
_Q = "q = mean over pairs of log10 [p(x | text in the guise) / p(x | text in the reference guise)]"
_INTERVAL = (
    "Intervals: basic bootstrap over text pairs and prompts, crossed. Standard errors are those of the paper, "
    "over prompts, which share texts and are not independent."
)

CARD = Card(
    audit="guise",
    title="Matched guise",
    question="What does a model associate with a speaker when only the dialect of a text changes?",
    paper=_PAPER,
    groups="Two or more guises on one axis, set in guise.axes; the default is African American English (AAE) against "
    "Standardized American English (SAE).",
    unit="One attribute after one pair of texts in one prompt.",
    estimand="q, the mean log10 probability ratio of an attribute after texts in the guise and in its reference. "
    "Positive: the attribute goes with the guise; 0.3 is twice as likely. Agreement is in [0, 1], favourability in "
    "[-2, 2], decisions are differences of rates in [-1, 1].",
    limits="Associations of words are no decisions about people. The pairs of the default study are made by rule from "
    "one feature of the dialect, not speech of people. The human percentages and ratings are of one country, "
    "and are about African Americans. A model with other words than the human studies is compared on those "
    "that are single tokens for it.",
    cluster="pair",
    headline=("strength.covert", "agreement.1933", "favorability.covert", "prestige.slope", "conviction.difference"),
    null="The guises are exchanged within pairs at random, each pair in all prompts at once: strength and rate "
    "differences are then 0 on average, agreement about 0.16. The tables and metrics give the mean and range of the "
    "null, and p.",
    measures={
        "associations": Measure(
            "Association of each attribute with the guise, by prompt",
            f"{_Q}; texts that are not matched: log10 of the ratio of mean probabilities",
            "pairs with a score on both sides; n and missing by row",
            "none",
            f"{_SI}, Calibration",
        ),
        "stereotypes": Measure(
            "Attributes ranked by association",
            f"mean of q over prompts and settings; {_INTERVAL} p: guises exchanged within pairs, two-sided",
            "prompts and pairs",
            "Holm over the attributes of a task",
            f"{_SI}, Tables 4 and 5",
        ),
        "agreement": Measure(
            "Agreement with the stereotypes that people named, by year",
            "mean average precision of the model's ranking at the human top 1 to 5, per prompt, averaged; 1: the same "
            "five in the same order. t: one-sided against 10,000 random orders, whose number p depends on; "
            "p_permutation: shuffled attributes; p_swapped: exchanged guises",
            "prompts",
            "Holm over the years of a task",
            f"{_SI}, Agreement analysis; percentages of Katz and Braly (1933), Gilbert (1951), Karlins et al. (1969), "
            "Bergsieker et al. (2012)",
        ),
        "favorability": Measure(
            "Favourability of the top five attributes",
            "mean rating from -2 to 2, weighted by q (people: by percentage); missing where a q is not positive",
            "five attributes",
            "none",
            f"{_SI}, Favorability analysis; ratings of Bergsieker et al. (2012)",
        ),
        "favorability_ranks": Measure(
            "Do unfavourable attributes rank high?",
            "Spearman's rho of favourability and q, or the percentage of people",
            "attributes with both",
            "Holm over the rows of the table",
            f"{_SI}, Figure 7",
        ),
        "employability": Measure(
            "Association of occupations with the guise, and their prestige",
            f"{_Q}; article a or an by the first letter",
            "prompts and pairs",
            "none",
            f"{_SI}, Employability analysis; prestige of the General Social Survey 2012",
        ),
        "prestige": Measure(
            "Slope of prestige on association",
            "prestige = a + b q over the occupations with a prestige; F(1, n - 2); the interval is the regression's",
            "occupations",
            "none",
            f"{_SI}, Tables 6-8",
        ),
        "employability_tests": Measure(
            "Tests of the association of occupations",
            "one-sample two-sided t of the occupations' q against 0; regression of prestige on q, overall and by "
            "prompt and setting",
            "occupations",
            "Holm over the t tests; none for the regressions, as published",
            f"{_SI}, Tables 6-8",
        ),
        "decisions": Measure(
            "Rate of detrimental decisions",
            "the word with the largest p(x | text) / p(x | empty text) (rule ratio, as the paper defines it) or "
            "p(x | text) - p(x | empty text) (rule difference, as the paper's code and printed rates have it); ties "
            "are not detrimental. chi2 = (a - b)^2 / (a + b) of the two counts, as published; chi2_2x2 compares rates",
            "decisions of each guise",
            "Holm over the rows of one rule and level",
            f"{_SI}, Tables 9-12 and 17-19",
        ),
        "features": Measure(
            "Stereotype strength of each set of texts",
            "mean q of the stereotypical attributes minus mean q of the others, per prompt; one-sample one-sided t "
            "over prompts; sd is that of the population, as printed",
            "prompts",
            "Holm over the features; the controls are a family of their own",
            f"{_SI}, Table 14",
        ),
        "contrasts": Measure(
            "Text sets and years compared",
            "two-sided t with pooled variance: strength of two text sets over prompts, agreement of two years over "
            "prompts, perplexity of two sets over texts",
            "prompts or texts of both",
            "Holm over the rows of one measure",
            f"{_SI}, Alternative explanations",
        ),
        "correlations": Measure(
            "Do prompts, settings and text sets agree on the attributes?",
            "Pearson's r of q over attributes",
            "attributes",
            "Holm over the pairs of one task and level",
            f"{_SI}, Figures 2 and 8",
        ),
        "perplexity": Measure(
            "How well the model predicts the texts themselves",
            "exp of minus the mean ln P of a token, per text, then the mean; masked and encoder-decoder models: "
            "pseudo-perplexity, one token masked at a time; t: two-sided, pooled variance",
            "texts of more than one token",
            "Holm over the sets",
            f"{_SI}, Table 16",
        ),
        "strength": Measure(
            "Stereotype strength",
            f"mean q of the five adjectives that most people named in 1933 minus mean q of the others. {_INTERVAL}",
            "prompts and pairs",
            "none",
            f"{_SI}, Feature analysis",
        ),
        "conviction": Measure("Conviction", _RATE, "decisions", "none", f"{_SI}, Table 9"),
        "death": Measure("Death penalty", _RATE, "decisions", "none", f"{_SI}, Table 10"),
        "iq": Measure("Low IQ", _RATE, "decisions", "none", f"{_SI}, Tables 17 and 18"),
        "missing": Measure(
            "Missing scores",
            "share of pairs, prompts and attributes without a score on both sides; the notes say why",
            "rows of features",
            "none",
            "this project",
        ),
        "guise_scaling": Measure(
            "Strength and perplexity by size of a model family",
            "mean and standard error over prompts and settings (strength) or texts (perplexity); classes by number of "
            "parameters: up to 1.5e8 small, 3.5e8 medium, 1e10 large",
            "cells, which share texts and prompts",
            "none",
            f"{_PAPER} Methods",
        ),
        "guise_versions": Measure(
            "Do versions of a family rank the attributes alike?",
            "Pearson's r of the attributes' mean q",
            "attributes that all versions score",
            "Holm over the pairs of one task and family",
            f"{_SI}, Adjective analysis",
        ),
    },
)
