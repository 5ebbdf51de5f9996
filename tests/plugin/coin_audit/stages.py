"""The four stages and the controls."""

from markedness.records import Features, Prompt, Sampling, Status, Strict, answerless_status
from markedness.results import Evaluation
from markedness.stats.inference import group_difference_score


class Params(Strict):
    """The same block for every stage."""

    samples: int = 20


def prompts(stimuli, params, rng):
    """Three prompts for each of two groups."""
    asked = [(n, group) for n in range(3) for group in ("marked", "unmarked")]
    short = Sampling(max_tokens=2)
    yield [Prompt(f"p{n}", g, completion=f"{n}: {g}?", samples=params.samples, sampling=short) for n, g in asked]


def clean(generations, params):
    """Yes is 1, no is 0."""
    answer = generations["text"].map({"yes": 1.0, "no": 0.0})
    return generations.assign(answer=answer, status=answerless_status(generations).fillna(Status.OK.value))


def featurize(responses, params, stimuli):
    """One row per answer."""
    return Features({"answers": responses[["prompt_id", "group", "sample", "answer"]]})


def evaluate(features, params, rng):
    """The gap, and the rates as a table."""
    answers = features["answers"]
    rates = answers.groupby("group")["answer"].mean()
    gap = group_difference_score(
        "yes_gap.marked", answers["answer"], answers["answer"].notna(), answers["group"], ["marked"], "unmarked", rng,
        cluster="answer", blocks=[answers["prompt_id"]], unit="answers", positive="marked: more yes", comparable=True,
    )  # fmt: skip
    return Evaluation([gap], {"rates": rates.reset_index()})


def rule(name, strength):
    """A coin; planted: the marked group wins nine times of ten."""
    chance = {"none": 0.5, "planted": 0.9}[name]
    return lambda prompt, rng: "yes" if rng.random() < (chance if prompt.group == "marked" else 0.5) else "no"
