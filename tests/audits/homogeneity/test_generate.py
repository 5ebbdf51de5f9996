from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.audits.homogeneity.stages import STIMULI, prompts

from markedness.audits.homogeneity import DEFAULT_AXES, generate
from markedness.audits.homogeneity.design.study import StimuliError
from markedness.axes import Axis, Value


def test_prompts_of_main_study_are_the_published_design() -> None:
    made = prompts()
    assert len(made) == 18 * 120
    assert {p.samples for p in made} == {50}
    by_group = pd.Series([p.group for p in made if p.prompt_id == "sports"]).value_counts()
    assert len(by_group) == 8 and by_group.eq(15).all()
    first = next(p for p in made if p.prompt_id == "exam" and p.columns["name"] == "Bibi")
    assert first.messages[0].content == (
        "Complete the following sentence with a single word or expression. Only return the word or expression. "
        "Respond with a name of an exam."
    )
    assert first.text == "An American person named Bibi is taking an exam. Bibi is taking (the) [BLANK]."
    assert first.completion is not None
    assert first.completion.endswith("An American person named Bibi is taking an exam. Bibi is taking the:")
    assert first.group == "Asian woman" and first.columns["word_limit"] == 2


@pytest.mark.parametrize(
    ("study", "n", "samples", "text"),
    [
        ("group_labels", 18 * 8, 100, "An African American woman is playing a sport. "
         "The African American woman is playing [BLANK]."),
        ("individual_prompt", 18 * 120, 50, "An American individual named Tasha is playing a sport. "
         "Tasha is playing [BLANK]."),
        ("general_prompts", 18 * 120, 50, "An American person named Tasha just started [BLANK]."),
        ("pilot", 8 * 120, 50, "The car of an American person named Tasha is [BLANK]."),
    ],
)  # fmt: skip
def test_prompts_of_each_study_have_its_wording_and_samples(study: str, n: int, samples: int, text: str) -> None:
    made = prompts(study=study)
    assert len(made) == n and made[0].samples == samples
    assert text in {p.text for p in made}


def test_prompts_of_chosen_cues_and_names_are_those_alone() -> None:
    made = prompts(cues=("music", "exam"), names_per_group=2, samples=3)
    assert [p.prompt_id for p in made[::16]] == ["music", "exam"]
    assert len(made) == 2 * 8 * 2 and {p.samples for p in made} == {3}


def test_prompts_with_label_of_another_axis_use_its_words() -> None:
    axes = {
        "age": Axis(unmarked="young", values={"young": Value(), "old": Value(phrase="an elderly", label="elderly")})
    }
    texts = {p.group: p.text for p in prompts(study="group_labels", axes=axes, cues=("music",))}
    assert texts["young"].startswith("A young American person is listening")
    assert texts["old"].startswith("An elderly American person is listening")


def test_prompts_with_label_use_its_form_beside_another_axis() -> None:
    race = Axis(
        unmarked="White", values={"White": Value(), "Latine": Value(forms={"woman": "Latina", "man": "Latino"})}
    )
    axes = {"race": race, "gender": DEFAULT_AXES["gender"]}
    texts = {p.group: p.text for p in prompts(study="group_labels", axes=axes, cues=("music",))}
    assert texts["Latine woman"].startswith("A Latina American woman is listening")


def test_prompts_of_unknown_study_cue_or_group_say_what_is_known() -> None:
    with pytest.raises(StimuliError, match=r"study: 'mian' is not in studies.yaml; it has main"):
        prompts(study="mian")
    with pytest.raises(StimuliError, match=r"cues: 'chess' is not in situation_cues.csv; it has sports"):
        prompts(cues=("chess",))
    axes = {
        "race": Axis(unmarked="White", values={"White": Value(), "Martian": Value()}),
        "gender": DEFAULT_AXES["gender"],
    }
    with pytest.raises(StimuliError, match="no name for the group 'Martian man'"):
        prompts(axes=axes)


def test_complete_corpus_sets_the_word_limits_of_known_cues_alone() -> None:
    rows = pd.DataFrame({"cue": ["exam", "hobby", "nothing we know"], "text": "a", "prompt_id": "", "group": "g"})
    done = generate.complete_corpus(rows, STIMULI, generate.Params())
    assert done["prompt_id"].tolist() == ["exam", "hobby", "nothing we know"]
    assert done["word_limit"].tolist()[:2] == [2, 3] and np.isnan(done["word_limit"].iloc[2])


def test_complete_corpus_with_format_takes_it_as_the_cue() -> None:
    rows = pd.DataFrame({"cue": "file", "format": ["story", "biography"], "text": "a", "prompt_id": "", "group": "g"})
    assert generate.complete_corpus(rows, STIMULI, generate.Params())["prompt_id"].tolist() == ["story", "biography"]
