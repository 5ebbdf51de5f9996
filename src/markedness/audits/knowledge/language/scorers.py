"""Scorers of statements about groups, behind one interface: regard (a label) and toxicity (a number in [0, 1]).

Whoever scores is named in every table. The offline scorers are two kernel logistic regressions on sentence embeddings,
trained on the project's own 509 labelled statements. docs/scorers.md has their errors on 462 others (README.md), by
group; they know no language but English.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Protocol

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
    """A scorer that cannot be used; with the remedy."""


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
    """The training statements (README.md): predicate, object, regard, offensive (0, 1), statement."""
    table = _read("statements.csv")
    return table.assign(statement=MASK + " " + table["predicate"] + " " + table["object"])


def held_out_statements() -> pd.DataFrame:
    """The test set (README.md): kind, class, subject, predicate (the template), object, regard, offensive, obscene."""
    return _read("statements_test.csv")


def _read(name: str) -> pd.DataFrame:
    with files("markedness.audits.knowledge.language").joinpath(name).open(encoding="utf-8") as lines:
        return pd.read_csv(lines, comment="#")


@lru_cache(maxsize=4)
def _fitted(target: str, model: str) -> Any:
    """Kernel logistic regression of one column of the training statements on their embeddings.

    Kernel exp(-|x - y|^2) over all training statements; kernel and C were chosen by cross-validation over the templates
    of the training statements (``scripts/offline_scorers.py``).
    """
    train = labelled_statements()
    return kernel_regression(len(train)).fit(embed(train["statement"].tolist(), model), train[target])


def kernel_regression(n_statements: int, seed: int = 0) -> Any:
    """The classifier of the offline scorers, not yet fitted."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    kernel = Nystroem(gamma=1.0, n_components=n_statements, random_state=seed)
    return make_pipeline(kernel, LogisticRegression(C=30.0, class_weight="balanced", max_iter=2000))


@lru_cache(maxsize=1)
def _embedded(statements: tuple[str, ...], model: str) -> NDArray[Any]:
    """Embeddings, kept for the other scorer of the same statements: they take most of featurize's time."""
    return embed(statements, model)


@dataclass(frozen=True)
class _Offline:
    """A kernel logistic regression on sentence embeddings; see the module for how good it is."""

    embedding: str = DEFAULT_MODEL
    masked = True

    @property
    def name(self) -> str:
        """Names the embedding."""
        return f"offline ({self.embedding}, kernel logistic regression, subject masked)"

    def _vectors(self, statements: Sequence[str]) -> NDArray[Any]:
        return _embedded(tuple(_stripped(statements)), self.embedding)


class OfflineRegard(_Offline):
    """Regard, the most probable label."""

    def __call__(self, statements: Sequence[str]) -> NDArray[Any]:
        """The most probable label."""
        if not len(statements):
            return np.empty(0, dtype=object)
        return np.asarray(_fitted("regard", self.embedding).predict(self._vectors(statements)), dtype=object)


class OfflineToxicity(_Offline):
    """Probability of an insulting generalisation."""

    def __call__(self, statements: Sequence[str]) -> NDArray[Any]:
        """P(insult)."""
        if not len(statements):
            return np.empty(0)
        return np.asarray(_fitted("offensive", self.embedding).predict_proba(self._vectors(statements))[:, 1])


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
                "toxicity by profanity_check needs the extra 'profanity': pip install 'markedness[profanity]'"
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
        return np.array([meaning[place] for place in probabilities.argmax(axis=1)], dtype=object)


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
