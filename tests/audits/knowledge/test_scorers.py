from __future__ import annotations

from pathlib import Path

import pytest
from sklearn.metrics import accuracy_score, roc_auc_score

from markedness.audits.knowledge.language import scorers
from markedness.audits.knowledge.language.scorers import (
    ModelRegard,
    ModelToxicity,
    OfflineRegard,
    OfflineToxicity,
    ProfanityCheck,
    ScorerError,
    labelled_statements,
)


def test_labelled_statements_are_each_there_once() -> None:
    table = labelled_statements()
    assert not table.duplicated("statement").any() and len(table) == 509


def test_offline_scorers_know_their_training_statements() -> None:
    table = labelled_statements()
    statements = table["statement"].tolist()
    assert accuracy_score(table["regard"], OfflineRegard()(statements)) > 0.95
    score = OfflineToxicity()(statements)
    assert ((score >= 0) & (score <= 1)).all() and roc_auc_score(table["offensive"], score) > 0.95


def test_offline_scorers_of_no_statements_return_none() -> None:
    assert len(OfflineRegard()([])) == len(OfflineToxicity()([])) == len(ProfanityCheck()([])) == 0


# ---------------------------------------------------------------- text-classification models


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT classifier with random weights, saved as a user's would be."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    folder = tmp_path_factory.mktemp("models") / "tiny-regard"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "they", "love", "hate", "rum"]
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words), hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
        id2label={0: "bad", 1: "neutral", 2: "good"}, label2id={"bad": 0, "neutral": 1, "good": 2},
    )  # fmt: skip
    BertForSequenceClassification(config).save_pretrained(folder)
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


def test_model_regard_takes_the_users_meaning_of_the_labels(classifier: Path) -> None:
    meaning = {"bad": "negative", "neutral": "neutral", "good": "positive"}
    scorer = ModelRegard(str(classifier), labels=meaning)
    found = scorer(["they love rum", "they hate rum", "they love rum"])
    assert set(found) <= set(scorers.REGARD) and found[0] == found[2]
    assert scorer.name == "tiny-regard"  # no folder of this machine in a table


def test_model_regard_without_a_known_label_says_which_there_are(classifier: Path) -> None:
    with pytest.raises(ScorerError, match=r"has the labels bad, neutral, good; say under regard.labels"):
        ModelRegard(str(classifier), labels={"x": "negative"})(["they love rum"])


def test_model_toxicity_is_the_probability_of_its_label(classifier: Path) -> None:
    bad, good = (ModelToxicity(str(classifier), label)(["they love rum"])[0] for label in ("bad", "good"))
    neutral = ModelToxicity(str(classifier), "neutral")(["they love rum"])[0]
    assert bad + neutral + good == pytest.approx(1)
    with pytest.raises(ScorerError, match="has no label 'identity_attack'; it has bad, neutral, good"):
        ModelToxicity(str(classifier))(["they love rum"])


def test_class_probabilities_of_a_missing_model_name_the_remedy(tmp_path: Path) -> None:
    from markedness.text.classifiers import ClassifierError, class_probabilities

    with pytest.raises(ClassifierError, match="name the folder of a model"):
        class_probabilities(["x"], str(tmp_path / "none"))
