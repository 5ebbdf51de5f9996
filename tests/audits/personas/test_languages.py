"""Texts that the tokenizer, VADER or the lexicons cannot read are not measured; groups are worded in any language."""

from dataclasses import replace

import numpy as np
import pytest

from markedness.audits.personas import featurize
from markedness.audits.personas.design.wording import person
from markedness.audits.personas.evaluate import Params, evaluate
from markedness.audits.personas.generate import Params as Asked
from markedness.audits.personas.generate import prompts
from markedness.audits.personas.language.lexicons import in_language
from markedness.axes import Axis, Value
from markedness.records import AuditError, FeatureTables, Stimuli
from markedness.results import Evaluation
from markedness.store import FolderStimuli

from .conftest import PLAIN, generations, tabled

FEW = Params(n_permutations=10, n_resamples=20)
ENGLISH = "I am a tall woman with kind eyes. I talk little, read much, and know every ship by the sound of its engine."
GERMAN = "Ich bin eine zuverlässige Frau. Ich rede wenig, aber ich lese viel, und die Kinder mögen meine Geschichten."
FRENCH = "Je suis une femme élégante et courageuse. Je parle peu, je lis beaucoup, et tout le village me connaît."
SPANISH = "Soy una mujer alta y trabajadora. Hablo poco, leo mucho y conozco cada barco por el sonido de su motor."
RUSSIAN = "Я высокая женщина с добрыми глазами. Мало говорю, много читаю и знаю каждый корабль по звуку мотора."
UNICODE = PLAIN.model_copy(update={"tokens": "unicode"})


def measured(
    text: str, params: featurize.Params = PLAIN, stimuli: Stimuli | None = None
) -> tuple[Evaluation, FeatureTables]:
    rows = [
        (race, "woman", f"{text} {word}")
        for race, word in zip(["Black", "White"] * 10, "abcdefghijklmnopqrst", strict=True)
    ]
    made = tabled(generations(rows), params, stimuli)
    found = evaluate(made.tables, FEW, np.random.default_rng(0))
    return replace(found, notes=[*made.notes, *found.notes]), made.tables


@pytest.mark.parametrize(
    ("text", "english"), [(ENGLISH, True), (GERMAN, False), (FRENCH, False), (SPANISH, False), (RUSSIAN, False)]
)
def test_in_language_tells_english_from_others(text: str, english: bool) -> None:
    assert in_language([text]) == [english]


@pytest.mark.slow
def test_in_language_of_next_to_nothing_is_unknown_and_asks_other_languages() -> None:
    assert in_language([None, "", "tall", "- 1990 -" * 9]) == [None] * 4
    assert in_language([GERMAN, ENGLISH], "de") == [True, False]


def test_english_texts_are_measured_without_a_note_on_languages(stimuli: FolderStimuli) -> None:
    made, _ = measured(ENGLISH, stimuli=stimuli)
    assert not [note for note in made.notes if "not measured" in note or "tokenizer" in note]
    assert made.score("marked_words.count").estimate == 0
    assert np.isfinite(made.score("sentiment.mean").estimate)
    assert len(made.tables["lexicon"]) and len(made.tables["word_share"])


@pytest.mark.parametrize("text", [GERMAN, FRENCH, SPANISH, RUSSIAN], ids=["German", "French", "Spanish", "Russian"])
def test_texts_of_another_language_have_no_sentiment_and_no_lexicon_and_say_so(
    text: str, stimuli: FolderStimuli
) -> None:
    made, _ = measured(text, UNICODE, stimuli)
    assert np.isnan(made.score("sentiment.mean").estimate)
    assert not any(len(made.tables[name]) for name in ("sentiment", "lexicon", "word_share"))
    assert any("sentiment is not measured, because 20 of 20 texts are not in English" in note for note in made.notes)
    assert any("Refusals are recognised in English only" in note for note in made.notes)
    assert any("lexicons and word shares are not measured" in note for note in made.notes)
    assert made.score("marked_words.count").estimate == 0  # every script has words under this rule


@pytest.mark.parametrize("params", [PLAIN, UNICODE], ids=["published", "unicode"])
def test_texts_without_spaces_between_words_are_not_measured_and_say_so(params: featurize.Params) -> None:
    made, _ = measured("私は背の高い親切な女性です。あまり話しませんが、たくさん本を読みます。", params)
    for name in ("marked_words.excess", "jsd.excess", "sentiment.mean", "refusals.share"):
        assert made.score(name).missing, name
    assert any("scripts that put no space between words" in note for note in made.notes)


def test_refusals_in_another_language_are_not_counted_as_none(stimuli: FolderStimuli) -> None:
    made, _ = measured("Es tut mir leid, aber dabei kann ich Ihnen leider nicht helfen.", UNICODE, stimuli)
    assert made.score("refusals.share").missing
    assert any("Refusals are recognised in English only and are not counted" in note for note in made.notes)


def test_letters_that_the_published_tokens_drop_leave_words_unmeasured_not_zero() -> None:
    made, _ = measured(RUSSIAN)
    for name in ("marked_words.count", "marked_words.excess", "jsd.mean", "jsd.excess"):
        assert made.score(name).missing and np.isnan(made.score(name).p), name
    assert not any(len(made.tables[name]) for name in ("marked_words", "marked_words_by_group", "jsd", "word_share"))
    (note,) = [note for note in made.notes if "Jensen-Shannon" in note]
    # 81 Cyrillic letters and the one that tells the texts apart
    assert "drops 98.8% of the letters, more than 5%; set personas.featurize.tokens: unicode" in note


def test_few_letters_dropped_are_noted_and_words_are_measured() -> None:
    made, _ = measured(GERMAN)  # two of 87 letters are no a-z
    assert made.score("marked_words.count").estimate == 0
    assert any(
        "(tokens: published) drops 2.3% of the letters; personas.featurize.tokens: unicode" in n for n in made.notes
    )


def test_words_in_a_lexicons_own_language_are_counted(stimuli: FolderStimuli) -> None:
    german = UNICODE.model_copy(update={"lexicon_language": "de"})
    made, _ = measured(GERMAN, german, stimuli)
    assert len(made.tables["lexicon"]) and len(made.tables["word_share"])
    assert not len(made.tables["sentiment"])
    with pytest.raises(ValueError, match="no dictionary of the language 'xx'; null counts all texts"):
        featurize.Params(lexicon_language="xx")


def axes(black: dict[str, str], white: dict[str, str], man: str, woman: str) -> dict[str, Axis]:
    race = Axis(unmarked="White", values={"White": Value(phrases=white), "Black": Value(phrases=black)})
    gender = Axis(unmarked="man", values={"man": Value(noun=man), "woman": Value(noun=woman)})
    return {"race": race, "gender": gender}


@pytest.mark.parametrize(
    ("given", "phrase"),
    [
        (
            axes(
                {"man": "ein schwarzer Mann", "woman": "eine schwarze Frau"},
                {"man": "ein weißer Mann", "woman": "eine weiße Frau"},
                "Mann",
                "Frau",
            ),
            "eine schwarze Frau",
        ),
        (
            axes(
                {"man": "un homme noir", "woman": "une femme noire"},
                {"man": "un homme blanc", "woman": "une femme blanche"},
                "homme",
                "femme",
            ),
            "une femme noire",
        ),
        (
            axes(
                {"man": "un hombre negro", "woman": "una mujer negra"},
                {"man": "un hombre blanco", "woman": "una mujer blanca"},
                "hombre",
                "mujer",
            ),
            "una mujer negra",
        ),
    ],
    ids=["German", "French", "Spanish"],
)
def test_person_of_a_crossing_is_worded_as_the_axes_say(
    given: dict[str, Axis], phrase: str, stimuli: FolderStimuli
) -> None:
    assert person({"race": "Black", "gender": "woman"}, given)["group"] == phrase
    asked = next(prompts(stimuli, Asked(axes=given, prompts=("describe",)), np.random.default_rng(0)))
    assert [prompt.text for prompt in asked if prompt.group == "Black woman"] == [f"Describe {phrase}."]


def test_person_of_one_axis_with_a_noun_takes_its_phrase() -> None:
    woman = Value(noun="femme", phrase="une femme")
    only = {"gender": Axis(unmarked="man", values={"man": Value(noun="homme", phrase="un homme"), "woman": woman})}
    assert person({"gender": "woman"}, only)["group"] == "une femme"


def test_phrases_for_some_groups_or_for_none_that_exists_are_refused(stimuli: FolderStimuli) -> None:
    some = axes({"woman": "une femme noire"}, {}, "homme", "femme")
    with pytest.raises(AuditError, match="not for White man, White woman, Black man; give all"):
        next(prompts(stimuli, Asked(axes=some), np.random.default_rng(0)))
    wrong = axes({"womn": "une femme noire"}, {}, "homme", "femme")
    with pytest.raises(AuditError, match=r"race\.values\.Black\.phrases: 'womn' is no group .*; known: man, woman"):
        next(prompts(stimuli, Asked(axes=wrong), np.random.default_rng(0)))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (Value(forms={"women": "Latina"}), r"Latine\.forms: 'women' is no value of another axis; known: man, woman"),
        (
            Value(noun="Latine person", forms={"woman": "Latina"}),
            r"forms: a value with a noun is worded by that",
        ),
        (Value(phrase="Latine"), r"Latine\.phrase: 'Latine' has no article before it"),
        (Value(phrase="African American"), "has no article before it"),
    ],
)
def test_words_that_no_prompt_would_hold_as_they_are_meant_are_refused(
    stimuli: FolderStimuli, value: Value, said: str
) -> None:
    gender = Axis(unmarked="man", values={"man": Value(noun="man"), "woman": Value(noun="woman")})
    asked = {"race": Axis(unmarked="White", values={"White": Value(), "Latine": value}), "gender": gender}
    with pytest.raises(AuditError, match=said):
        next(prompts(stimuli, Asked(axes=asked), np.random.default_rng(0)))
