from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, roc_auc_score

from markedness.text import scorers
from markedness.text.scorers import (
    ModelRegard,
    ModelToxicity,
    ModerationEndpoint,
    OfflineRegard,
    OfflineToxicity,
    ProfanityCheck,
    ScorerError,
    labelled_statements,
)

HELD_OUT = labelled_statements().query("set == 'test'")


def test_labelled_statements_hold_none_of_the_test_statements_in_train() -> None:
    table = labelled_statements()
    assert not table.duplicated("statement").any()
    assert table.groupby("set").size().to_dict() == {"train": 135, "test": 84}


def test_offline_regard_is_right_for_the_stated_share_of_the_held_out_statements() -> None:
    predicted = OfflineRegard()(HELD_OUT["statement"].tolist())
    assert accuracy_score(HELD_OUT["regard"], predicted) == pytest.approx(0.88, abs=0.02)


def test_offline_toxicity_ranks_insults_above_harmless_statements_as_stated() -> None:
    statements = HELD_OUT["statement"].tolist()
    score = OfflineToxicity()(statements)
    assert ((score >= 0) & (score <= 1)).all()
    assert roc_auc_score(HELD_OUT["offensive"], score) == pytest.approx(0.93, abs=0.02)
    assert roc_auc_score(HELD_OUT["offensive"], ProfanityCheck()(statements)) == pytest.approx(0.65, abs=0.02)


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


# ---------------------------------------------------------------- a moderation endpoint


class _Service(BaseHTTPRequestHandler):
    requests: ClassVar[list[tuple[dict[str, str], dict[str, Any]]]] = []
    busy: ClassVar[int] = 0

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.requests.append((dict(self.headers), body))
        if _Service.busy:
            _Service.busy -= 1
            self.send_response(429)
            self.send_header("Retry-After", "0")
            self.end_headers()
            return
        if self.path.startswith("/denied"):
            self.send_response(403)
            self.end_headers()
            return
        text = body["comment"]["text"] if "comment" in body else body["input"]
        value = 0.9 if "hate" in text else 0.1
        answer: dict[str, Any] = {"attributeScores": {"IDENTITY_ATTACK": {"summaryScore": {"value": value}}}}
        if "comment" not in body:
            answer = {"results": [{"category_scores": {"hate": value}}]}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@pytest.fixture
def service() -> Iterator[str]:
    _Service.requests, _Service.busy = [], 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_moderation_endpoint_scores_each_different_statement_once(
    service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_KEY", "s3cret")
    scorer = ModerationEndpoint(f"{service}/v1?x=1", api_key_env="SERVICE_KEY")
    found = scorer(["They hate tea", "They love tea", "They hate tea"])
    np.testing.assert_allclose(found, [0.9, 0.1, 0.9])
    assert len(_Service.requests) == 2
    assert all(
        {k.lower(): v for k, v in headers.items()}["x-goog-api-key"] == "s3cret" for headers, _ in _Service.requests
    )
    assert "s3cret" not in scorer.name and "?" not in scorer.name


def test_moderation_endpoint_of_the_openai_form_reads_its_category(service: str) -> None:
    assert ModerationEndpoint(service, "openai", "hate")(["They hate tea"]).tolist() == [0.9]


def test_moderation_endpoint_that_is_busy_is_asked_again(service: str) -> None:
    _Service.busy = 2
    assert ModerationEndpoint(service)(["They hate tea"]).tolist() == [0.9]
    assert len(_Service.requests) == 3


def test_moderation_endpoint_that_denies_is_asked_once_and_named(service: str) -> None:
    with pytest.raises(ScorerError, match="gave no score: status 403"):
        ModerationEndpoint(f"{service}/denied?key=s3cret")(["They hate tea"])
    assert len(_Service.requests) == 1


def test_moderation_endpoint_without_its_key_names_the_variable() -> None:
    with pytest.raises(ScorerError, match="set the environment variable NO_SUCH_KEY"):
        ModerationEndpoint("http://127.0.0.1:9", api_key_env="NO_SUCH_KEY")(["x"])


def test_moderation_endpoint_without_the_attribute_says_so(service: str) -> None:
    with pytest.raises(ScorerError, match="without a score for 'TOXICITY'"):
        ModerationEndpoint(service, attribute="TOXICITY")(["x"])
