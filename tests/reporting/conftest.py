"""A small study on disk: results as evaluate writes them, for an audit that does not exist."""

from __future__ import annotations

from pathlib import Path

import altair as alt
import numpy as np
import pandas as pd
import pytest

from markedness.audits.base import CONTEXT_COLUMNS, EXAMPLE_COLUMNS, Examples
from markedness.cards import Card, Measure
from markedness.lm.config import ScriptedModel, TransformersModel
from markedness.reporting.figures import save
from markedness.reporting.pages import Pages
from markedness.reporting.report import write
from markedness.results import Score, score_table
from markedness.store import Store

# Text that ends a script element, opens another, breaks out of an attribute, or is a line end in JavaScript.
NASTY = '</script><script>window.harmed = true</script><img src=x onerror="window.harmed=1">\'\u2028&amp;'

MEASURE = Measure(
    title="Word share", formula="texts with the word / texts", n="texts", correction="Holm over 3 groups", source="A, 1"
)
CARD = Card(
    audit="personas", title="Words <of> people", question="Which words set groups apart?", paper="A. Author (2020)",
    groups="from the axes", unit="one text", estimand="share", limits="words only",
    headline=("share.Black", "share.woman", "share.absent"), null="labels permuted", measures={"share": MEASURE},
    planted="Every text about Black people says strong.",
)  # fmt: skip
GROUPS = ("Black", "White", "woman")


def write_result(
    store: Store, model: str, shift: float, rng: np.random.Generator, rows: int = 60, p: float = 0.001
) -> None:
    """One result with tables, figures, notes, estimates, responses and generations."""
    folder = store.results("personas", model)
    share = 0.5 + shift
    scores = [
        Score(
            "share.Black",
            share,
            share - 0.1,
            share + 0.1,
            null_mean=0.5,
            p=p,
            p_adjusted=min(1.0, 2 * p),
            family=2,
            n=5,
            group="Black",
            positive="texts about Black people use more of these words",
            detectable=0.2,
            negative="texts about Black people use fewer of these words",
            caveat="half of the answers are missing",
        ),
        Score(
            "share.woman",
            0.25,
            n=400,
            group="woman",
            p=0.4,
            p_adjusted=0.4,
            family=2,
            detectable=0.3,
            positive="texts about women use more of these words",
        ),
        Score("share.White", 0.3, n=400, group="White"),
    ]
    store.write_csv(folder / "scores.csv", score_table(scores, CARD.headline))
    store.write_json(folder / "notes.json", ["12 texts were left out.", NASTY])
    marked = pd.DataFrame(
        [
            ("persona", group, word, rank, 9.0 - rank, 0.01 * rank)
            for group in GROUPS
            for rank, word in enumerate(("strong", "beautiful", NASTY, "proud"), start=1)
        ],
        columns=["kind", "group", "word", "rank", "z", "q_White"],
    )
    store.write_csv(folder / "tables" / "marked_words.csv", marked)
    numbers = pd.DataFrame({"group": np.resize(GROUPS, rows), "value": rng.normal(size=rows), "n": range(rows)})
    numbers.loc[3, "value"] = np.nan
    store.write_csv(folder / "tables" / "share.csv", numbers)
    store.write_json(
        folder / "tables" / "graph.json",
        {
            "nodes": [{"id": "Black"}, {"id": NASTY}, {"id": "kind"}],
            "links": [
                {"source": "Black", "target": NASTY, "predicate": "are", "class": "race"},
                {"source": "Black", "target": "kind", "predicate": "are", "class": "race"},
            ],
        },
    )
    chart = alt.Chart(numbers, title="Values by group").mark_point().encode(
        x="value", y="group", tooltip=["group", "value"]
    )  # fmt: skip
    save(chart, folder / "figures" / "share")
    store.write_table("estimates", "personas", model, score_table(scores, CARD.headline))
    answers = pd.DataFrame(
        {
            "prompt_id": np.resize(["p1", "p2"], rows), "group": np.resize(GROUPS, rows), "sample": range(rows),
            "prompt": "Describe <b>yourself</b>.", "text": f"A strong person. {NASTY}", "finish_reason": "stop",
            "error": None, "served_model": model,
        }
    )  # fmt: skip
    store.write_table("generations", "personas", model, answers)
    refused = answers["group"].eq("Black") & (answers["sample"] % 2 == 0)
    status = np.where(refused, "refusal", "ok")
    store.write_table("responses", "personas", model, answers.assign(answer=answers["text"], status=status))


def loud(audit: str, model: str) -> Examples | None:
    """Texts of "tiny" in an order, two of them with a listed word; of the other models nothing is known."""
    if model != "tiny":
        return None
    said = f"A strong person. {NASTY}"
    listed = [(group, "Describe <b>yourself</b>.", said, f"{n} words") for group in GROUPS for n in range(9, 1, -1)]
    rows = pd.DataFrame(listed, columns=list(EXAMPLE_COLUMNS))
    contexts = pd.DataFrame([("persona", "Black", "strong", said)] * 2, columns=list(CONTEXT_COLUMNS))
    return Examples("how loud they are", rows, {group: ["strong"] for group in GROUPS}, contexts)


def small_study(root: Path) -> Pages:
    """A study of one model, its control, and a model that was never run."""
    store = Store(root)
    rng = np.random.default_rng(1)
    write_result(store, "tiny", 0.3, rng)
    write_result(store, "control-none", 0.0, rng)
    store.write_csv(
        store.compared() / "differences.csv",
        pd.DataFrame({"audit": ["personas"], "model_a": ["tiny"], "model_b": ["control-none"], "difference": [0.3]}),
    )
    models = {
        "tiny": TransformersModel(backend="transformers", path="models/tiny"),
        "control-none": ScriptedModel(backend="scripted"),
        "never-run": TransformersModel(backend="transformers", path="models/other"),
    }
    return Pages(store, ("personas",), models, {"personas": CARD}, find_examples=loud)


@pytest.fixture
def pages(tmp_path: Path) -> Pages:
    """A study of its own for one test."""
    return small_study(tmp_path)


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """reports/ of a study that tests only read."""
    made = small_study(tmp_path_factory.mktemp("study"))
    write(made)
    return made.store.reports()
