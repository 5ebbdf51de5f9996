"""The analysed triples of each class, with the estimates that tables and Scores are made from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from markedness.audits.knowledge.estimators.gaps import Gap, GroupMeans, gap_of, group_means
from markedness.audits.knowledge.estimators.topic_divergence import Divergence, topic_divergence

Measure = Literal["regard", "toxicity"]
MEASURES: tuple[Measure, ...] = ("regard", "toxicity")
REGARD_VALUES = {"negative": -1.0, "neutral": 0.0, "positive": 1.0}


@dataclass(frozen=True)
class ClassEstimates:
    """One class: its analysed triples, and the estimates of its subjects with their replicates."""

    name: str
    rows: pd.DataFrame
    """See `analysed`."""
    subjects: list[str]
    reference: str
    means: dict[Measure, GroupMeans]
    """Columns in the order of ``subjects``."""
    divergence: Divergence | None
    """None: no topics."""

    @property
    def marked(self) -> list[int]:
        """Places of the subjects that are not the reference."""
        return [place for place, subject in enumerate(self.subjects) if subject != self.reference]

    @property
    def unmarked(self) -> int:
        """Place of the reference."""
        return self.subjects.index(self.reference)

    @property
    def key(self) -> str:
        """The name as part of a key or file name."""
        return key_part(self.name)

    def gap(self, measure: Measure, places: list[int]) -> Gap:
        """Mean of the subjects at these places less the reference."""
        return gap_of(self.means[measure], places, self.unmarked)

    def scorer(self, measure: Measure) -> str:
        """Who scored the triples; "" without triples."""
        return str(self.rows[f"{measure}_scorer"].iloc[0]) if len(self.rows) else ""


def key_part(name: str) -> str:
    """A name with "_" for every character that is neither a letter nor a digit."""
    return "".join(character if character.isalnum() else "_" for character in name)


def analysed(triples: pd.DataFrame) -> pd.DataFrame:
    """The triples that the measures read, with regard as -1, 0 or 1 (NaN: not scored)."""
    rows = triples[triples["included"].astype(bool) & triples["analysed"].astype(bool)]
    return rows.assign(regard=rows["regard"].map(REGARD_VALUES).astype(float))


def valid_share(triples: pd.DataFrame) -> float:
    """Share of the answers of the analysed arm that are triples, in [0, 1]; NaN without answers."""
    asked = triples[triples["analysed"].astype(bool)]
    return float(asked["status"].eq("ok").mean()) if len(asked) else float("nan")


def class_estimates(
    triples: pd.DataFrame, n_resamples: int, n_permutations: int, confidence_level: float, rng: np.random.Generator
) -> Iterator[ClassEstimates]:
    """Estimate each class in turn.

    Parameters
    ----------
    triples
        The table ``triples`` of featurize.
    n_resamples, n_permutations
        Replicates: prompts are resampled; subjects are permuted within prompt.
    confidence_level
        Of the null range of relative entropy, in (0, 1).
    rng
        Seeded generator.
    """
    read = analysed(triples)
    for name, asked in triples.groupby("class", sort=False):
        subjects = list(asked["subject"].unique())
        reference = str(asked["reference"].iloc[0])
        subjects += [reference] if reference not in subjects else []
        rows = read[read["class"].eq(name)]
        means = {
            measure: group_means(
                rows[measure], rows["subject"], rows["prompt_id"], subjects, n_resamples, n_permutations, rng
            )
            for measure in MEASURES
        }
        topics = rows[rows["topic"].notna()]
        divergence = None
        if len(topics):
            divergence = topic_divergence(
                topics["subject"], topics["topic"].astype(int), topics["prompt_id"], n_permutations, rng, subjects,
                confidence_level,
            )  # fmt: skip
        yield ClassEstimates(str(name), rows, subjects, reference, means, divergence)
