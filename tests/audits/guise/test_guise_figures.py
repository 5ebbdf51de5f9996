"""Every figure of the paper's supplement that a study has the data for is drawn, and none that it has not."""

from __future__ import annotations

import numpy as np
import pytest
from tests.audits.guise.test_guise_stages import measured

from markedness.audits.guise import controls, evaluate, generate
from markedness.audits.guise.design.tasks import Task
from markedness.audits.guise.design.texts import TextSource
from markedness.axes import Axis, Value
from markedness.reporting.figures import specification
from markedness.results import Evaluation

OF_PROMPTS = {"correlations", "favorability_ranks", "decisions_prompts", "decisions_increase"}
OF_TEXTS = {"density", "dialects", "perplexity", "text_features", "text_topics"}


def study() -> Evaluation:
    """Two dialects, two densities, texts that are not matched, perplexity."""
    tweets = tuple((f"we finna go {place}", f"we are going {place}") for place in range(8))
    of = {"guises": ("AAE", "SAE"), "sample": 6}
    params = generate.Params(
        axes={"guise": Axis(unmarked="SAE", values={name: Value() for name in ("SAE", "AAE", "AppE")})},
        pairs={
            "high": TextSource(rule="g_dropping", **of),
            "low": TextSource(rule="habitual_be", **of),
            "mountain": TextSource(rule="fixin_to", sample=6, guises=("AppE", "SAE"), control=False),
            "tweets": TextSource(texts=tweets, guises=("AAE", "SAE"), matched=False),
        },
        tasks={"traits": Task(prompts=("T1", "T3", "T5")), "iq": Task(prompts=("I1", "I3")), "perplexity": Task()},
    )
    tables = dict(measured(params, controls.rule("planted", 1.0)))
    unmatched = tables["texts"]["setting"].eq("unmatched")
    tables["texts"].loc[unmatched, "topic"] = ["music", "film"] * 8
    return evaluate.evaluate(tables, evaluate.Params(n_orders=100), np.random.default_rng(0))


@pytest.mark.slow
def test_figures_of_the_supplement_are_drawn_where_there_are_data() -> None:
    import vl_convert

    made = study()
    assert set(made.figures) >= OF_PROMPTS | OF_TEXTS
    drawn = {name: vl_convert.vegalite_to_svg(specification(made.figures[name])) for name in OF_PROMPTS | OF_TEXTS}
    for name, words in {
        "correlations": ("AAE: covert stereotypes", "T3"), "favorability_ranks": ("AAE, model", "people", "rho"),
        "decisions_prompts": ("Low IQ, I3", "calibrated by ratio"), "perplexity": ("Mean perplexity of a text", "high"),
        "decisions_increase": ("Relative increase of detrimental decisions",), "density": ("per 100 words", "low"),
        "dialects": ("AAE - AppE", "AppE - SAE"), "text_features": ("finna", "tweets"), "text_topics": ("music",),
    }.items():  # fmt: skip
        assert all(word in drawn[name] for word in words), name


@pytest.mark.slow
def test_figures_of_texts_are_left_out_where_there_are_none() -> None:
    params = generate.Params(
        pairs={"be": TextSource(rule="habitual_be", sample=6)}, tasks={"traits": Task(prompts=("T1", "T3"))}
    )
    made = evaluate.evaluate(
        measured(params, controls.rule("none", 1.0)), evaluate.Params(n_orders=100), np.random.default_rng(0)
    )
    assert not set(made.figures) & OF_TEXTS
    assert {"correlations", "favorability_ranks"} <= set(made.figures)
