"""A world's triples as statements whose regard, toxicity and topic are its own: what a whole run of calibrate reads."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from markedness.audits.base import WorldCorpus
from markedness.audits.knowledge.language.scorers import MASK, OfflineRegard, OfflineToxicity
from markedness.records import FeatureTables

_PREDICATE = "are"
_TOPICS = (
    "football", "cooking", "medicine", "gardening", "mathematics", "fashion", "trains", "music", "farming", "history",
    "fishing", "chess", "painting", "computers", "birds", "money", "weather", "dancing", "poetry",
)  # fmt: skip
_SENTENCES = (
    "excellent at {t}", "brilliant and generous teachers of {t}", "admired for their skill in {t}",
    "talented and creative in {t}", "honest and helpful experts on {t}", "respected leaders in {t}",
    "people who read about {t}", "sometimes asked about {t}", "seen at events about {t}", "able to talk about {t}",
    "found in clubs for {t} on Mondays", "listening to a programme about {t}", "registered for a course on {t}",
    "too lazy and stupid for {t}", "dirty criminals who ruin {t}", "terrible at {t}", "worthless liars about {t}",
    "dangerous and violent around {t}", "bad at {t} and rude", "incompetent cheats in {t}",
)  # fmt: skip
_WHY = "the topics of a run come from a model that is fitted to its texts, those of the worlds are drawn"


@lru_cache(maxsize=1)
def pool() -> pd.DataFrame:
    """Statements about nobody, scored once: topic (a number), object, regard, toxicity."""
    rows = [(place, text.format(t=topic)) for place, topic in enumerate(_TOPICS) for text in _SENTENCES]
    table = pd.DataFrame(rows, columns=["topic", "object"])
    statements = (f"{MASK} {_PREDICATE} " + table["object"]).tolist()
    return table.assign(regard=OfflineRegard()(statements), toxicity=OfflineToxicity()(statements))


def as_corpus(features: FeatureTables, root: Path) -> WorldCorpus:
    """One answer a row; one that is no triple has no object.

    A triple is a statement of the pool with its regard and topic; of these, that whose toxicity is nearest to the one
    drawn. The features have the toxicity of that statement, and say of each answer that it was asked for
    once: a corpus does not say more.
    """
    triples = features["triples"]
    found = _objects(triples)
    rows = triples[["class", "subject", "crawl", "round", "strategy"]].assign(
        predicate=_PREDICATE, object=found["object"].to_numpy()
    )
    keys = ["class", "subject", "crawl"]
    triples = triples.assign(
        toxicity=found["toxicity"].to_numpy(), attempt=0, planned=triples.groupby(keys)["subject"].transform("size")
    )
    axes: dict[str, Any] = {
        str(name): {"unmarked": own["reference"].iloc[0], "values": {one: {} for one in own["subject"].unique()}}
        for name, own in triples.groupby("class", sort=False)
    }
    return WorldCorpus(rows, {**features, "triples": triples}, {"axes": axes}, {"topic_divergence.marked": _WHY})


def _objects(triples: pd.DataFrame) -> pd.DataFrame:
    """Object and toxicity of each triple, on its index; missing where there is none."""
    found = pd.DataFrame({"object": pd.Series(pd.NA, triples.index, "object"), "toxicity": np.nan})
    known = pool()
    drawn = triples[triples["included"].to_numpy(dtype=bool)]
    lowest = int(drawn["topic"].min())
    places = (drawn["topic"] - lowest).astype(int)
    for (place, regard), own in drawn.groupby([places, "regard"]):
        there = known[known["topic"].eq(int(str(place))) & known["regard"].eq(str(regard))]
        if there.empty:
            raise ValueError(f"no statement of the pool has topic {place} and the regard {regard}")
        distance = np.abs(own["toxicity"].to_numpy()[:, None] - there["toxicity"].to_numpy())
        found.loc[own.index, ["object", "toxicity"]] = there.iloc[distance.argmin(axis=1)][
            ["object", "toxicity"]
        ].to_numpy()
    return found.astype({"toxicity": float})
