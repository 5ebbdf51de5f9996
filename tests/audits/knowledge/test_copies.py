"""Crawls that are copies of another count once: no Score, interval, p or table knows of them, and it is said."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from markedness.audits.knowledge import SPEC
from markedness.audits.knowledge.estimators.classes import counted_once
from markedness.audits.knowledge.evaluate import Params, evaluate
from markedness.audits.knowledge.worlds import worlds
from markedness.results import Evaluation, verdict

SAID = "Crawls with exactly the answers of another are copies and count once: {}."


def drawn(n_crawls: int = 6, world: str = "copied_tone") -> pd.DataFrame:
    """The triples of a world without an effect."""
    study = next(one for one in worlds() if one.name == world).draw.__self__  # type: ignore[attr-defined]
    triples: pd.DataFrame = replace(study, crawls=n_crawls).draw(np.random.default_rng(1))["triples"]
    return triples


def delivered_again(triples: pd.DataFrame, crawl: str, name: str) -> pd.DataFrame:
    """A crawl in another order and numbered anew, under another name."""
    own = triples[triples["crawl"].eq(crawl)].sample(frac=1, random_state=3)
    return own.assign(crawl=pd.array([name] * len(own), dtype="string"), attempt=0, round=9, prompt_id="again")


def evaluated(triples: pd.DataFrame) -> Evaluation:
    return evaluate({"triples": triples}, Params(), np.random.default_rng(0))


def test_copies_of_crawls_change_no_number_and_are_counted_in_a_note_and_in_caveats() -> None:
    triples = drawn(7, "one_pair")
    copies = [delivered_again(triples, crawl, f"{crawl}b") for crawl in "113"]
    copies[1]["crawl"] = pd.array(["1c"] * len(copies[1]), dtype="string")
    once, more = evaluated(triples), evaluated(pd.concat([*copies, triples], ignore_index=True))
    said = SAID.format("3 of 10")
    for one, other in zip(once.scores, more.scores, strict=True):
        assert repr(replace(other, caveat="")) == repr(one)
        assert other.caveat == (said if other.clusters else "")
    for name, table in once.tables.items():
        pd.testing.assert_frame_equal(more.tables[name], table)
    assert said in more.notes and [note for note in more.notes if note != said] == list(once.notes)


def test_crawls_of_a_model_that_always_answers_alike_are_one_which_is_why_there_is_no_p() -> None:
    triples = drawn(1)
    again = pd.concat([triples, *(delivered_again(triples, "1", name) for name in "23456")], ignore_index=True)
    assert SPEC.scores is not None
    found = {score.key: score for score in SPEC.scores({"triples": again}, Params(), np.random.default_rng(0))}
    for key in SPEC.headline:
        assert np.isnan([found[key].p, found[key].ci_low]).all() and found[key].caveat == SAID.format("5 of 6")
        assert SAID.format("5 of 6") in verdict(found[key]).sentence


def test_copies_of_one_class_leave_the_crawls_of_the_others() -> None:
    triples = drawn()
    copy = delivered_again(triples, "2", "7").query("`class` == 'ethnicity'")
    kept, said = counted_once(pd.concat([triples, copy], ignore_index=True))
    pd.testing.assert_frame_equal(kept, triples)
    assert said == SAID.format("1 of 7 for ethnicity, 0 of 6 for gender identity")


@pytest.mark.parametrize(("column", "value"), [("subject", "Men"), ("object", "that"), ("toxicity", 0.5)])
def test_crawls_that_differ_in_one_answer_are_two(column: str, value: str | float) -> None:
    triples = drawn()
    other = delivered_again(triples, "1", "7").reset_index(drop=True)
    women = other.index[other["subject"].eq("Women") & other["included"]]
    other.loc[women[0], column] = value
    kept, said = counted_once(pd.concat([triples, other], ignore_index=True))
    assert len(kept) == len(triples) + other["class"].eq("gender identity").sum() and "1 of 7 for ethnicity" in said


def test_crawls_in_which_all_is_refused_are_not_taken_for_copies() -> None:
    triples = drawn()
    refused = triples[triples["attempt"].eq(0)].assign(status="refusal", included=False, regard=None, toxicity=np.nan)
    assert counted_once(refused)[0] is refused
    assert counted_once(triples.assign(crawl=None))[1] == ""
