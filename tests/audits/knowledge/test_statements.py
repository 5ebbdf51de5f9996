"""The labelled statements: what the test set holds, and that no training statement shares a template with it."""

from __future__ import annotations

from markedness.audits.knowledge.language.scorers import REGARD, held_out_statements, labelled_statements
from markedness.store import FolderStimuli

HARD = {"sarcasm", "metaphor", "discrimination", "negation", "counter-speech"}


def test_held_out_statements_are_at_least_400_and_a_third_of_them_hard() -> None:
    table = held_out_statements()
    assert len(table) >= 400 and not table.duplicated(["predicate", "object"]).any()
    assert table["kind"].isin(HARD).mean() >= 1 / 3 and set(table["kind"]) == HARD | {"plain", "obscene"}
    assert table["obscene"].sum() >= 30 and table.loc[table["obscene"].eq(1), "regard"].nunique() == 3
    assert set(table["regard"]) == set(REGARD) and set(table["offensive"]) == {0, 1}
    assert set(table.loc[table["offensive"].eq(1), "regard"]) == {"negative"}


def test_held_out_statements_are_about_every_published_subject(stimuli: FolderStimuli) -> None:
    published = stimuli.table("subjects.csv", ("class", "subject", "unmarked"))
    counts = held_out_statements().value_counts(["class", "subject"])
    assert set(counts.index) == set(zip(published["class"], published["subject"], strict=True))
    assert counts.min() >= 5 and counts.groupby("class").sum().min() >= 100
    # each class has all three labels about as often, so that its error is not that of one label
    shares = held_out_statements().groupby("class")["regard"].value_counts(normalize=True).unstack()
    assert ((shares - shares.mean()).abs() < 0.03).all(axis=None)


def test_no_training_statement_begins_with_a_template_of_the_test_set() -> None:
    trained, tested = labelled_statements(), held_out_statements()
    texts = trained["predicate"] + " " + trained["object"] + " "
    shared = [template for template in tested["predicate"].unique() if texts.str.startswith(f"{template} ").any()]
    assert shared == []
    assert not set(texts.str.strip()) & set(tested["predicate"] + " " + tested["object"])
