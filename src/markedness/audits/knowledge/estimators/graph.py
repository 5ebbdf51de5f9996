"""The knowledge graph: subjects, objects, and a link for every triple."""

from __future__ import annotations

import io
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from markedness.axes import key_part

if TYPE_CHECKING:
    import networkx

_LINK = ("predicate", "regard", "toxicity", "round", "strategy")


def knowledge_graph(triples: pd.DataFrame) -> networkx.MultiDiGraph:
    """Subjects and objects as two kinds of node (a name may be both), one link per triple.

    Parameters
    ----------
    triples
        Columns subject, predicate, object, regard, toxicity, round, strategy; missing scores are left off the link.

    Returns
    -------
    networkx.MultiDiGraph
        As many links as triples. Nodes have ``kind`` (subject, object) and ``label``; objects are one node
        where they differ in case and spaces only. Characters that XML does not allow are dropped.
    """
    import networkx

    graph = networkx.MultiDiGraph()
    for row in triples.to_dict("records"):
        subject, thing = _plain(row["subject"]), _plain(row["object"])
        source, target = f"subject: {subject}", f"object: {' '.join(thing.casefold().split())}"
        graph.add_node(source, kind="subject", label=subject)
        if target not in graph:
            graph.add_node(target, kind="object", label=thing)
        link = {name: row[name] for name in _LINK if name in row and not pd.isna(row[name])}
        graph.add_edge(source, target, **{name: _plain(value) for name, value in link.items()})
    return graph


def _plain(value: Any) -> Any:
    """Python's own types; a text without control characters and surrogates."""
    if isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, str):
        return value
    no_xml = {c for c in value if c not in "\t\n\r" and (c < " " or "\ud800" <= c <= "\udfff" or c in "\ufffe\uffff")}
    return "".join(c for c in value if c not in no_xml)


def graphml(graph: networkx.MultiDiGraph) -> bytes:
    """The graph as GraphML, for Gephi, Cytoscape, igraph and networkx."""
    import networkx

    content = io.BytesIO()
    networkx.write_graphml_xml(graph, content, encoding="utf-8")
    return content.getvalue()


def shown(triples: pd.DataFrame, links_per_subject: int) -> pd.DataFrame:
    """The triples of a picture: for each subject its most frequent objects, those that others share before the rest.

    Returns
    -------
    DataFrame
        One row per subject and object, at most ``links_per_subject`` of a subject: the columns of its first such
        triple, ``count``, and ``shared``, the number of subjects that have the object.
    """
    folded = triples["object"].str.casefold().str.split().str.join(" ")
    keys = triples.assign(_object=folded)
    keys["shared"] = keys.groupby("_object")["subject"].transform("nunique")
    keys["count"] = keys.groupby(["subject", "_object"])["subject"].transform("size")
    once = keys.drop_duplicates(["subject", "_object"])
    chosen = once.sort_values(["count", "shared"], ascending=False, kind="stable")
    chosen = chosen.groupby("subject", sort=False).head(links_per_subject)
    return chosen.sort_index().drop(columns="_object").reset_index(drop=True)


def layout(graph: networkx.MultiDiGraph, seed: int = 0) -> pd.DataFrame:
    """Places of the nodes: subjects on a circle, pulled together by what they share; seeded.

    Returns
    -------
    DataFrame
        node, kind, label, degree, x, y in [-1, 1].
    """
    import networkx

    rng = np.random.default_rng(seed)
    subjects = [node for node, kind in graph.nodes(data="kind") if kind == "subject"]
    start = {
        node: (math.cos(2 * math.pi * place / len(subjects)), math.sin(2 * math.pi * place / len(subjects)))
        for place, node in enumerate(subjects)
    }
    plain = networkx.Graph(graph)
    for node in plain:
        if node not in start:
            near = [start[other] for other in plain[node]]
            angle = rng.uniform(0, 2 * math.pi)  # two nodes at one place would never part
            start[node] = (
                sum(x for x, _ in near) / len(near) + 0.3 * math.cos(angle),
                sum(y for _, y in near) / len(near) + 0.3 * math.sin(angle),
            )
    places = networkx.spring_layout(
        plain, k=1.6 / math.sqrt(max(len(plain), 1)), pos=start, iterations=60, seed=seed, scale=1.0
    ) if len(plain) else {}  # fmt: skip
    rows = [
        {
            "node": node, "kind": graph.nodes[node]["kind"], "label": graph.nodes[node]["label"],
            "degree": graph.degree(node), "x": float(places[node][0]), "y": float(places[node][1]),
        }
        for node in graph
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["node", "kind", "label", "degree", "x", "y"])


def node_link(graph: networkx.MultiDiGraph) -> dict[str, list[dict[str, Any]]]:
    """The graph as plain data: nodes (id, kind, label, degree), links (source, target, predicate, regard, ...)."""
    nodes = [{"id": node, **data, "degree": graph.degree(node)} for node, data in graph.nodes(data=True)]
    links = [{"source": source, "target": target, **data} for source, target, data in graph.edges(data=True)]
    return {"nodes": nodes, "links": links}


def graph_files(classes: dict[str, pd.DataFrame]) -> dict[str, bytes]:
    """graph_<key>.graphml for each class, and graph.json with all nodes and links.

    Parameters
    ----------
    classes
        Class -> its triples. Nodes with the same name in two classes are one node of graph.json.
    """
    files: dict[str, bytes] = {}
    nodes: dict[str, dict[str, Any]] = {}
    links: list[dict[str, Any]] = []
    for name, triples in classes.items():
        graph = knowledge_graph(triples)
        files[f"graph_{key_part(name)}.graphml"] = graphml(graph)
        plain = node_link(graph)
        links += [{"class": name, **link} for link in plain["links"]]
        for node in plain["nodes"]:
            known = nodes.setdefault(node["id"], {**node, "degree": 0})
            known["degree"] += node["degree"]
    files["graph.json"] = json.dumps({"nodes": list(nodes.values()), "links": links}, ensure_ascii=False).encode()
    return files
