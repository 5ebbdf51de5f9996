from __future__ import annotations

import io
import json

import networkx
import pandas as pd

from markedness.audits.knowledge.estimators.graph import graphml, knowledge_graph, layout, node_link, shown

TRIPLES = pd.DataFrame(
    {
        "subject": ["Bakers", "Bakers", "Sailors", "Sailors", "Sailors"],
        "predicate": ["love", "love", "love", "hate", "are"],
        "object": ["the sea", "The  Sea", "the sea", "Bakers", "bad\x00\x1b 😀 <b>&"],
        "regard": ["positive", "positive", None, "negative", "negative"],
        "toxicity": [0.1, 0.1, float("nan"), 0.9, 0.8],
        "round": [0, 1, 0, 1, 1],
        "strategy": ["initial", "object", "initial", "relation", "relation"],
    }
)


def test_knowledge_graph_has_a_link_for_every_triple() -> None:
    graph = knowledge_graph(TRIPLES)
    assert graph.number_of_edges() == 5
    kinds = [kind for _, kind in graph.nodes(data="kind")]
    # the sea, Bakers (as an object) and the last one; a name may be both a subject and an object
    assert kinds.count("subject") == 2 and kinds.count("object") == 3


def test_graphml_of_any_text_reads_back_the_same() -> None:
    back = networkx.read_graphml(io.BytesIO(graphml(knowledge_graph(TRIPLES))))
    assert back.number_of_edges() == 5
    assert "bad 😀 <b>&" in [label for _, label in back.nodes(data="label")]
    assert sorted(data["predicate"] for *_, data in back.edges(data=True)) == ["are", "hate", "love", "love", "love"]


def test_node_link_is_plain_json_without_missing_numbers() -> None:
    content = json.loads(json.dumps(node_link(knowledge_graph(TRIPLES)), allow_nan=False))
    assert {"id", "kind", "degree"} <= set(content["nodes"][0])
    assert {"source", "target", "predicate", "regard"} <= set(content["links"][0])
    assert next(node["degree"] for node in content["nodes"] if node["id"] == "object: the sea") == 3


def test_shown_has_each_object_of_a_subject_once_the_frequent_first() -> None:
    picture = shown(TRIPLES, 1)
    assert picture[["subject", "object", "count", "shared"]].to_numpy().tolist() == [
        ["Bakers", "the sea", 2, 2],
        ["Sailors", "the sea", 1, 2],
    ]


def test_layout_is_seeded_and_places_every_node() -> None:
    graph = knowledge_graph(TRIPLES)
    first, again = layout(graph), layout(graph)
    pd.testing.assert_frame_equal(first, again)
    assert len(first) == 5 and not first[["x", "y"]].duplicated().any()
    assert layout(networkx.MultiDiGraph()).empty
