from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from markedness.audits.personas import generate
from markedness.audits.personas.language.lexicons import read_lexicons
from markedness.audits.personas.language.tokens import dropped_letters, removal_lists, tokenize, without_strings
from markedness.files import StoreError
from markedness.records import AuditError
from markedness.store import FolderStimuli


def test_tokenize_published_deletes_all_but_letters_inside_words() -> None:
    assert tokenize(["Almond-shaped eyes, don't\n\nYOU  know?"]) == ["almondshaped eyes dont you know"]


def test_tokenize_published_keeps_a_dash_or_number_as_an_empty_word() -> None:
    # "-" and "1990" have no letter: each leaves an empty word between two spaces.
    assert tokenize(["born - in 1990"]) == ["born  in "]


def test_tokenize_without_words_is_none() -> None:
    assert tokenize([None, "", " \n\u00a0"]) == [None, None, None]


def test_tokenize_published_cuts_letters_of_other_scripts() -> None:
    assert tokenize(["José wears a \u062d\u062c\u0627\u0628"]) == ["jos wears a "]


def test_tokenize_unicode_keeps_letters_marks_and_inner_signs() -> None:
    text = "Jose\u0301 wears a \u062d\u0650\u062c\u0627\u0628, \u201calmond\u2010shaped\u201d, don\u2019t - 'quoted' 42"
    assert tokenize([text], "unicode") == ["josé wears a \u062d\u0650\u062c\u0627\u0628 almond-shaped don't  quoted "]


def test_tokenize_unicode_keeps_vowel_signs_of_devanagari() -> None:
    assert tokenize(["\u0939\u093f\u0928\u094d\u0926\u0940!"], "unicode") == ["\u0939\u093f\u0928\u094d\u0926\u0940"]


@pytest.mark.slow
@given(st.text())
def test_tokenize_published_equals_the_rule_word_by_word(text: str) -> None:
    expected = ["".join(c for c in word if "a" <= c <= "z") for word in text.lower().split()]
    assert tokenize([text]) == [" ".join(expected) if expected else None]


@given(st.text())
def test_tokenize_rules_agree_on_the_number_of_words(text: str) -> None:
    (published,), (unicode) = tokenize([text]), tokenize([text], "unicode")
    count = None if published is None else len(published.split(" "))
    assert count == (None if unicode[0] is None else len(unicode[0].split(" ")))


def test_without_strings_cuts_whole_words_first_then_pieces_in_order() -> None:
    # "he" goes only where it stands alone; "latina" before "latin" in the second list; "son" also in "person".
    cut = without_strings(["He said: the Latina-born person, heroic."], ["he"], ["latina", "latin"], ["son"])
    assert cut == [" said the born per heroic"]


def own_table(folder: Path, name: str, content: str) -> FolderStimuli:
    """Stimuli of which one table is in other words."""
    path = folder / "data" / "stimuli" / "personas" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return FolderStimuli("personas", folder)


def test_removal_lists_splits_rows_by_stage_as_a_spreadsheet_writes_them(tmp_path: Path) -> None:
    stimuli = own_table(tmp_path, "removed_strings.csv", "stage,string\n1,He \n3,mom\n2.0,asia\n3 ,boy\n")
    removed = removal_lists(stimuli)
    assert removed == [["He"], ["asia"], ["mom", "boy"]]
    # "She" in the list, "she" in the text: a classifier told groups apart by it alone, p = .002
    assert without_strings(["He saw the boys"], *removed) == [" saw the s"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("4,he\n", "has the stage '4' and the string 'he'; stages are 1 to 3"),
        ("1,\n", "the string ''"),
        ("1,(?i)latinos?\n", r"'\(\?i\)latinos\?' is no regular expression .global flags"),
        ("1,(he|she)\n", "has a group, which a string of stage 1 must not; write"),
        ("2,*innen\n", r"'\*innen' is no regular expression .nothing to repeat"),
        ("1,he,\n", "rows have more cells than the header; put cells with a comma in quotes"),
    ],
)
def test_strings_to_remove_that_cannot_be_are_refused_before_anything_is_asked(
    content: str, message: str, tmp_path: Path
) -> None:
    stimuli = own_table(tmp_path, "removed_strings.csv", f"stage,string\n{content}")
    with pytest.raises((AuditError, StoreError), match=message):
        next(generate.prompts(stimuli, generate.Params(), np.random.default_rng(0)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("Pos,strong\nPos,\n", "1 row without a lexicon or a word"),
        ("Pos,strong\npos,kind\n", "the lexicon pos has two spellings"),
    ],
)
def test_lexicons_with_empty_words_or_in_two_spellings_are_refused_before_anything_is_asked(
    content: str, message: str, tmp_path: Path
) -> None:
    stimuli = own_table(tmp_path, "lexicon.csv", f"lexicon,word\n{content}")
    with pytest.raises(AuditError, match=message):  # an empty word was counted everywhere: 507 %
        next(generate.prompts(stimuli, generate.Params(), np.random.default_rng(0)))
    stimuli = own_table(tmp_path, "lexicon.csv", "lexicon,word\nPos,strong \nPos ,kind\n")
    assert read_lexicons(stimuli) == {"Pos": ["strong", "kind"]}


def test_dropped_letters_of_published_tokens_are_all_but_a_to_z() -> None:
    # "zuverlässig" has eleven letters, one of them no a-z; "мир" has three, all dropped; digits are no letters
    assert dropped_letters(["Zuverlässig 42", None, "мир", "tall"]) == (4, 18)
    assert dropped_letters(["Zuverlässig", "мир"], "unicode") == (0, 14)
