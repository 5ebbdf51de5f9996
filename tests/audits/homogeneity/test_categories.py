from __future__ import annotations

import pandas as pd
import pytest

from markedness.audits.homogeneity.language.categories import response_categories, word_counts


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("Basketball", "basketball"),
        ("  basketball. ", "basketball"),
        ('"Schindler\'s List"', "schindler s list"),
        ("rock‑and—roll", "rock and roll"),  # non-breaking hyphen, em dash: class Pd
        ("C++", "c"),  # plus signs: class Sm
        ("tea\u00adtime", "teatime"),  # soft hyphen: class Cf
        ("THE\u0301A\u0302TRE", "théâtre"),  # decomposed
        ("हिन्दी।", "हिन्दी"),  # vowel signs and virama: classes Mc and Mn; danda: Po
        ("❤\ufe0f", ""),  # a symbol and its variation selector
        ("Pokémon\u00a0GO", "pokémon go"),
        ("NA", "na"),
        ("", ""),
    ],
)
def test_response_categories_of(text: str, category: str) -> None:
    assert response_categories(pd.Series([text])).tolist() == [category]


def test_response_categories_keep_index_and_missing() -> None:
    cleaned = response_categories(pd.Series(["A!", None, "a"], index=[5, 6, 7]))
    assert cleaned.index.tolist() == [5, 6, 7]
    assert cleaned[5] == cleaned[7] == "a" and pd.isna(cleaned[6])
    assert response_categories(pd.Series([], dtype="string")).empty


def test_word_counts_count_runs_of_word_characters() -> None:
    words = ["हिन्दी", "the\u0301a\u0302tre", "می\u200cروم", "स्त्री पुरुष", "snake_case 2²"]
    assert word_counts(pd.Series(words)).tolist() == [1, 1, 1, 2, 2]
    assert word_counts(pd.Series(["to kill a mockingbird", "", "re-do"])).tolist() == [4, 0, 2]
    assert word_counts(pd.Series([None], dtype="string")).isna().all()
