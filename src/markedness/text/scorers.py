"""Scorers of statements about groups, behind one interface: regard (a label) and toxicity (a number in [0, 1]).

Whoever scores is named in every table. The offline scorers are two logistic regressions on sentence embeddings,
trained on the project's own 135 labelled statements and measured on 84 others (``data/statements.csv``): regard is
right for 88 % of them (VADER's polarity: 68 %), an insult ranks above a harmless statement in 93 % of pairs
(alt-profanity-check: 65 %). They were written by the same hands as the training statements, so other texts do
worse. They fail on irony, on negation ("are not lazy"), on insults by comparison and on obscenity, of which the
statements hold none, and know no language but English.
"""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.text.classifiers import class_probabilities
from markedness.text.embeddings import DEFAULT_MODEL, embed

REGARD = ("negative", "neutral", "positive")
"""The labels of regard (Sheng et al. 2019, The Woman Worked as a Babysitter, section 3)."""
MASK = "They"
"""What the offline scorers read in place of a subject: a group's name alone shifts what they say of it."""


class ScorerError(RuntimeError):
    """A scorer that cannot be used, or an endpoint that does not answer; with the remedy."""


class Scorer(Protocol):
    """What a scorer owes."""

    @property
    def name(self) -> str:
        """As it stands in the tables."""
        ...

    @property
    def masked(self) -> bool:
        """Whether it reads `MASK` in place of the subject."""
        ...

    def __call__(self, statements: Sequence[str]) -> NDArray[Any]:
        """One label of `REGARD` ("" for none), or one number in [0, 1] (NaN for none), for each statement."""
        ...


# ---------------------------------------------------------------- offline


def labelled_statements() -> pd.DataFrame:
    """The project's statements: set (train, test), regard, offensive (0, 1), statement."""
    with files("markedness.text").joinpath("data/statements.csv").open(encoding="utf-8") as lines:
        table = pd.read_csv(lines)
    return table.assign(statement=MASK + " " + table["predicate"] + " " + table["object"])


@lru_cache(maxsize=4)
def _fitted(target: str, model: str) -> Any:
    """Logistic regression of one column of the training statements on their embeddings."""
    from sklearn.linear_model import LogisticRegression

    train = labelled_statements().query("set == 'train'")
    fitted = LogisticRegression(C=3.0, class_weight="balanced", max_iter=2000)
    return fitted.fit(embed(train["statement"].tolist(), model), train[target])


@dataclass(frozen=True)
class OfflineRegard:
    """Regard from sentence embeddings; see the module for how good it is."""

    embedding: str = DEFAULT_MODEL
    masked = True

    @property
    def name(self) -> str:
        """Names the embedding."""
        return f"offline ({self.embedding}, logistic regression, subject masked)"

    def __call__(self, statements: Sequence[str]) -> NDArray[Any]:
        """The most probable label."""
        if not len(statements):
            return np.empty(0, dtype=object)
        predicted = _fitted("regard", self.embedding).predict(embed(_stripped(statements), self.embedding))
        return np.asarray(predicted, dtype=object)


@dataclass(frozen=True)
class OfflineToxicity:
    """Probability of an insulting generalisation from sentence embeddings; see the module for how good it is."""

    embedding: str = DEFAULT_MODEL
    masked = True

    @property
    def name(self) -> str:
        """Names the embedding."""
        return f"offline ({self.embedding}, logistic regression, subject masked)"

    def __call__(self, statements: Sequence[str]) -> NDArray[Any]:
        """P(insult)."""
        if not len(statements):
            return np.empty(0)
        fitted = _fitted("offensive", self.embedding)
        return np.asarray(fitted.predict_proba(embed(_stripped(statements), self.embedding))[:, 1])


@dataclass(frozen=True)
class ProfanityCheck:
    """Offensiveness by alt-profanity-check: a linear model on words, good at obscenity and slurs."""

    masked = True
    name = "alt-profanity-check (subject masked)"

    def __call__(self, statements: Sequence[str]) -> NDArray[Any]:
        """P(offensive)."""
        try:
            import profanity_check
        except ImportError as error:
            raise ScorerError(
                "toxicity by profanity_check needs the extra 'text': pip install 'markedness[text]'"
            ) from error
        return np.asarray(profanity_check.predict_prob(list(statements))) if len(statements) else np.empty(0)


def _stripped(statements: Sequence[str]) -> list[str]:
    """Without a final stop, as the training statements are."""
    return [statement.rstrip(" .") for statement in statements]


# ---------------------------------------------------------------- text-classification models


@dataclass(frozen=True)
class ModelRegard:
    """Regard by a text-classification model: a local folder or a hub id.

    The paper's is the BERT model of Sheng et al. (2019), version 2.1_3.
    """

    path: str
    revision: str | None = None
    labels: Mapping[str, str] | None = None
    """The model's label -> negative, neutral or positive; others are no label. None: labels of these names."""
    masked: bool = False

    @property
    def name(self) -> str:
        """Names the model, never the folders above it."""
        return _model_name(self.path, self.revision, self.masked)

    def __call__(self, statements: Sequence[str]) -> NDArray[Any]:
        """The most probable label."""
        names, probabilities = class_probabilities(statements, self.path, self.revision)
        ours = {label.lower(): label for label in REGARD} if self.labels is None else dict(self.labels)
        meaning = [ours.get(name, ours.get(name.lower(), "")) for name in names]
        if not set(REGARD) & set(meaning):
            raise ScorerError(
                f"regard model '{self.name}' has the labels {', '.join(names)}; "
                "say under regard.labels which of them are negative, neutral and positive"
            )
        return np.asarray(meaning, dtype=object)[probabilities.argmax(axis=1)]


@dataclass(frozen=True)
class ModelToxicity:
    """Toxicity by one label of a text-classification model, such as identity_attack."""

    path: str
    label: str = "identity_attack"
    revision: str | None = None
    masked: bool = False

    @property
    def name(self) -> str:
        """Names the model and the label."""
        return f"{_model_name(self.path, self.revision, self.masked)}: {self.label}"

    def __call__(self, statements: Sequence[str]) -> NDArray[Any]:
        """P(label)."""
        names, probabilities = class_probabilities(statements, self.path, self.revision)
        if self.label not in names:
            raise ScorerError(
                f"toxicity model '{_model_name(self.path)}' has no label '{self.label}'; it has {', '.join(names)}"
            )
        return probabilities[:, names.index(self.label)]


def _model_name(path: str, revision: str | None = None, masked: bool = False) -> str:
    name = path.rstrip("/").split("/")[-1] if path.startswith(("/", ".", "~")) else path
    return name + (f"@{revision}" if revision else "") + (" (subject masked)" if masked else "")


# ---------------------------------------------------------------- a moderation endpoint

_ATTEMPTS = 5
_LONGEST_WAIT = 60.0


@dataclass(frozen=True)
class ModerationEndpoint:
    """Toxicity by a moderation service over HTTP, where a user has one."""

    url: str
    protocol: Literal["perspective", "openai"] = "perspective"
    """perspective: comments:analyze of the Perspective API, or a service of its form; openai: moderations."""
    attribute: str = "IDENTITY_ATTACK"
    """The attribute or category whose score is read."""
    api_key_env: str = ""
    """Name of the environment variable with the key; "" for a service without one."""
    concurrency: int = 4
    timeout: float = 30.0
    masked: bool = False

    @property
    def name(self) -> str:
        """Names the service without the query of its address."""
        return f"{self._place}: {self.attribute}" + (" (subject masked)" if self.masked else "")

    @property
    def _place(self) -> str:
        return self.url.split("?")[0].split("://")[-1]

    def __call__(self, statements: Sequence[str]) -> NDArray[Any]:
        """The attribute's score; each different statement is sent once."""
        headers = {"Content-Type": "application/json"}
        if self.api_key_env:
            key = os.environ.get(self.api_key_env, "")
            if not key:
                raise ScorerError(f"{self._place} needs a key: set the environment variable {self.api_key_env}")
            headers |= {"x-goog-api-key": key} if self.protocol == "perspective" else {"Authorization": f"Bearer {key}"}
        different = list(dict.fromkeys(statements))
        with ThreadPoolExecutor(self.concurrency) as pool:
            scores = dict(zip(different, pool.map(lambda text: self._score(text, headers), different), strict=True))
        return np.array([scores[statement] for statement in statements], dtype=float)

    def _score(self, text: str, headers: dict[str, str]) -> float:
        if self.protocol == "perspective":
            body: dict[str, Any] = {
                "comment": {"text": text}, "requestedAttributes": {self.attribute: {}}, "languages": ["en"],
                "doNotStore": True,
            }  # fmt: skip
        else:
            body = {"input": text}
        answer = self._post(json.dumps(body).encode(), headers)
        try:
            if self.protocol == "perspective":
                return float(answer["attributeScores"][self.attribute]["summaryScore"]["value"])
            return float(answer["results"][0]["category_scores"][self.attribute])
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise ScorerError(
                f"{self._place} answered without a score for '{self.attribute}'; check attribute and protocol"
            ) from error

    def _post(self, body: bytes, headers: dict[str, str]) -> Any:
        """Send, and again while the service says later: Retry-After first, else doubling waits."""
        reason = ""
        for attempt in range(_ATTEMPTS):
            try:
                request = urllib.request.Request(self.url, body, headers)
                with urllib.request.urlopen(request, timeout=self.timeout) as response:
                    return json.loads(response.read())
            except urllib.error.HTTPError as error:
                reason, wait = f"status {error.code}", error.headers.get("Retry-After", "")
                if error.code not in (408, 409, 429) and error.code < 500:
                    break
                pause = float(wait) if wait.replace(".", "", 1).isdigit() else 0.5 * 2.0**attempt
            except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
                reason, pause = f"no connection ({type(error).__name__})", 0.5 * 2.0**attempt
            except ValueError:
                reason = "no JSON, or an address that is none"
                break
            if attempt < _ATTEMPTS - 1:
                time.sleep(min(pause, _LONGEST_WAIT))
        raise ScorerError(
            f"{self._place} gave no score: {reason}; check toxicity.url, the key and the service's limits"
        )
