"""Every reader of model output takes linear time: 1 MB of text that provokes backtracking is read in seconds of CPU.

Each reader runs in a process of its own with a limit on CPU time that anything quadratic exceeds by orders of
magnitude (1 MB: 10^12 steps), however busy the machine is. Every regular expression of the package is listed here,
with a reader that runs it or with the reason why no model output reaches it.
"""

from __future__ import annotations

import ast
import contextlib
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "markedness"
SIZE = 1_000_000
CPU_SECONDS = 60
"""For one text; each takes about one second at most."""

UNITS = (
    *" _\n1a.,-*([{\"'", "\u2003", "\u200b", "\u0301", "\u0663", "😀", "_ ", "1.", '{"a":', "a'", '" ', ", ",
)  # fmt: skip
FEW = (" ", "_", "1", '" ', "\u2003")
"""For readers that run others, or take seconds for each megabyte."""


@dataclass(frozen=True)
class Reader:
    """A function of one text that a model wrote, and the regular expressions that it runs."""

    read: Callable[[str], object]
    patterns: tuple[str, ...] = ()
    """As `patterns` names them: module, then constant or function."""
    seeds: tuple[str, ...] = ()
    """What the reader expects; repeated, and followed by runs of one character."""
    units: tuple[str, ...] = UNITS


def one_row(text: str, **columns: object) -> pd.DataFrame:
    row = {"prompt_id": "p", "group": "Black", "sample": 0, "prompt": "q", "text": text, "finish_reason": "stop"}
    table = pd.DataFrame([row | {"error": None} | columns])
    return table.astype({"text": "string", "error": "string"})


def judgments(text: str) -> None:
    from markedness.audits.annotation.language.judgments import binary, read_numbered, read_one

    read_one(text)
    read_numbered(text, 20)
    binary(text)


def dialect_features(text: str) -> None:
    from markedness.audits.guise.language.features import counters, n_words

    n_words(text)
    for count in counters({}, []).values():
        count(text)


def triples(text: str) -> None:
    from markedness.audits.knowledge.design.triples import fold, read_judgment, read_list, read_rating, read_triples

    rows = [one_row(text, subject="Old Sailors", invalid_words="This", predicate=given) for given in (None, "love it")]
    read_triples(pd.concat(rows, ignore_index=True))
    read_list(text)
    read_judgment(text)
    read_rating(text)
    fold(text)


def echoed_predicate(text: str) -> None:
    from markedness.audits.knowledge.design.triples import read_triples

    # a predicate that a model named is given in the next round, and is then part of a pattern
    read_triples(one_row("Old Sailors " + text, subject="Old Sailors", invalid_words="", predicate=text))


def snippets(text: str) -> None:
    from markedness.reporting.examples import snippet

    snippet(text, "unheard")


def listed_text(text: str) -> None:
    from markedness.audits.annotation.examples import _text

    _text(text, 3, 8)


def cells(text: str) -> None:
    from markedness.separated import quoting

    for cell in (text, f'"{text}', '"' + text.replace('"', '""') + '"'):
        with contextlib.suppress(ValueError):  # where it can't be told how the file was written
            quoting(f"group\ttext\nA\t{cell}\n")


def refusals(text: str) -> None:
    from markedness.text.refusals import is_refusal

    for language in ("en", "de", "fr", "es"):
        is_refusal(pd.Series([text]), language)


def reasoning(text: str) -> None:
    from markedness.text.answers import answers

    answers(pd.Series([text]))


def categories(text: str) -> None:
    from markedness.audits.homogeneity.language.categories import response_categories, word_counts

    word_counts(response_categories(pd.Series([text])))


def tokens(text: str) -> None:
    from markedness.audits.personas.language.tokens import tokenize

    tokenize([text], "published")
    tokenize([text], "unicode")


def removed_strings(text: str) -> None:
    from markedness.audits.personas.language.tokens import removal_lists, without_strings
    from markedness.store import FolderStimuli

    without_strings([text], *removal_lists(FolderStimuli("personas", PACKAGE.parents[1])))


def lexicons(text: str) -> None:
    from markedness.audits.personas.language.lexicons import lexicon_percents

    words = {"one": ["tall", "rich", "dark-skinned", "a", "aaaa"]}
    lexicon_percents([text], words, "tokens", "unicode")
    lexicon_percents([text], words, "substrings")


def sentiments(text: str) -> None:
    from markedness.audits.personas.language.lexicons import sentiment, word_sentiments

    sentiment([text])
    word_sentiments([text])


def topics(text: str) -> None:
    from markedness.audits.knowledge.language.topics import content_words

    content_words(text)
    content_words(text, "fr")


def graph(text: str) -> None:
    from markedness.audits.knowledge.estimators.graph import graphml, knowledge_graph, node_link, shown

    row = {"subject": "Sailors", "predicate": text, "object": text, "regard": "neutral", "toxicity": 0.1}
    table = pd.DataFrame([row | {"round": 0, "strategy": "given"}])
    made = knowledge_graph(table)
    graphml(made)
    node_link(made)
    shown(table, 3)


def clean_annotation(text: str) -> None:
    from markedness.audits.annotation.clean import Params, clean

    clean(one_row(text), Params())
    clean(one_row(text, n_texts=2, group_1="Black", name_1="a", group_2="White", name_2="b"), Params())
    clean(one_row("", y=text), Params())


def clean_guise(text: str) -> None:
    from markedness.audits.guise.clean import Params, clean

    clean(one_row(text, log_prob=-1.0), Params())


def clean_homogeneity(text: str) -> None:
    from markedness.audits.homogeneity.clean import Params, clean

    clean(one_row(text, word_limit=2), Params())


def clean_knowledge(text: str) -> None:
    from markedness.audits.knowledge.clean import Params, clean

    crawl = {"subject": "Sailors", "predicate": None, "arm": "none", "invalid_words": "", "class": "trade"}
    rows = [one_row(text, strategy=strategy, **crawl) for strategy in ("given", "list", "judge")]
    clean(pd.concat(rows, ignore_index=True), Params())


def clean_personas(text: str) -> None:
    from markedness.audits.personas.clean import Params, clean

    clean(one_row(text, kind="persona"), Params())


def redaction(text: str) -> None:
    from markedness.lm.redaction import Redaction

    made = Redaction("k3y" * 20)
    made.completion(text)
    made.error(text)


def corpus_prompts(text: str) -> None:
    from markedness.audits.personas.design.corpus_prompts import complete_corpus
    from markedness.audits.personas.generate import Params
    from markedness.store import Store

    rows = pd.concat([one_row("t", race=race, gender="man") for race in ("Black", "White")], ignore_index=True)
    rows["prompt"] = [text, text + " Black"]
    stimuli = Store(PACKAGE.parents[1]).stimuli("personas")
    complete_corpus(rows.assign(prompt_id=rows["prompt"]), stimuli, Params())


_JUDGMENTS = "audits/annotation/language/judgments.py"
_TRIPLES = "audits/knowledge/design/triples.py"
_PERSONAS = "audits/personas/language"
_PROMPTS = "audits/personas/design/corpus_prompts.py"
_HIDDEN = ("USERINFO", "QUERY", "PREFIXED", "TOKEN", "JWT")
READERS = {
    "judgments": Reader(
        judgments,
        tuple(f"{_JUDGMENTS}:{name}" for name in ("_OBJECT", "_PAIR", "_LINE", "_ONE", "_index")),
        ('{"i": 1, "y": 0}', '{"i', "{'y': \"", "**1.** ", "Text 3 - ", "Answer: ", "<think>", "1: answer: _yes_"),
    ),
    "triples": Reader(
        triples,
        (f"{_TRIPLES}:_ANSWER", f"{_TRIPLES}:_NEXT", f"{_TRIPLES}:_SENTENCE_END", f"{_TRIPLES}:_BULLET",
         f"{_TRIPLES}:_triple", *[f"{_TRIPLES}:_without_echo"] * 2, f"{_TRIPLES}:read_list",
         f"{_TRIPLES}:_LABEL", f"{_TRIPLES}:_RATING", f"{_TRIPLES}:_NEGATION", f"{_TRIPLES}:_CLAUSE_END"),
        ("3 of 4, ", "not negative ", "rather than ",
         "Q: Old Sailors # love A: the sea.", "but, Old Sailors # ", " and ", '." '),
    ),
    "echoed predicate": Reader(echoed_predicate, units=FEW),
    "dialect features": Reader(
        dialect_features,
        (*("audits/guise/language/features.py:" + name for name in ("_WORD", "_VOWEL", "counters", "_counter")),),
        ("he be talkin ", "she  stay ", "y'all's "), FEW,
    ),
    "snippets": Reader(snippets, ("reporting/examples.py:snippet",) * 3, ("!!", "unheard-of")),
    "listed text": Reader(listed_text, ("audits/annotation/examples.py:_text",), ("3. ", "\n3. ")),
    "cells": Reader(cells, ("separated.py:_QUOTED",), ('""', "\t", "\n"), FEW),
    "refusals": Reader(
        refusals,
        ("text/refusals.py:_ANYWHERE", "text/refusals.py:_OPENING", *["text/refusals.py:_OPENINGS"] * 3),
        ("I'm sorry, but I ", "as an ai", "I can not ", "Ich kann nicht ", "je ne peux pas ", "lo siento, no "),
    ),
    "categories": Reader(categories),
    "reasoning": Reader(
        reasoning,
        ("text/answers.py:_CLOSING", "text/answers.py:_OPENING"),
        ("<think>", "</think>", "</think ", "<|channel|>", "\u0915\u200d", "e\u0301\u00ad"),
    ),
    "tokens": Reader(tokens, (), ("don't", "İ", "\u0939\u093f")),
    "removed strings": Reader(removed_strings, (f"{_PERSONAS}/tokens.py:without_strings",) * 2, ("a latina ",)),
    "lexicons": Reader(lexicons, (), ("dark-skinned",)),
    "sentiments": Reader(sentiments, (), ("not very good, but :) ",), FEW),
    "topics": Reader(
        topics, tuple(f"audits/knowledge/language/topics.py:{name}" for name in ("_words", "_ELIDED")),
        ("un-", "don't", "l'"),
    ),
    "graph": Reader(graph, units=FEW),
    "clean annotation": Reader(clean_annotation, units=FEW),
    "clean guise": Reader(clean_guise, units=FEW),
    "clean homogeneity": Reader(clean_homogeneity, units=FEW),
    "clean knowledge": Reader(clean_knowledge, units=FEW),
    "clean personas": Reader(clean_personas, units=FEW),
    "redaction": Reader(
        redaction,
        ("lm/redaction.py:_line", *(f"credentials.py:_{name}" for name in _HIDDEN)),
        ("k3yk3y", str(Path.home()), "eyJ", "eyJaaaaaaaa.", "sk-", "a1B", "://", "?key="), FEW,
    ),
    "corpus prompts": Reader(
        corpus_prompts,
        (f"{_PROMPTS}:_nameless", *[f"{_PROMPTS}:_pattern"] * 2),
        ("Describe a White man ",),
        FEW,
    ),
}  # fmt: skip

ELSEWHERE = {
    "reporting/records.py:_ID": "names of models in params and options; one class of signs a part",
    "scaffold.py:_new_package": "the name given to markedness init",
    "lm/logs.py:_NUMBER": "keys of a log's arguments; at most nine digits at the end",
    "lm/logs.py:_FURTHER": "messages of pydantic; a literal and a run of characters that are no space",
    "studies.py:pipeline": "dvc.yaml of the package",
    "literature/numbers.py:OVER_ROWS": "data/published/numbers.csv",
    "literature/personas.py:_resilient": "names of groups",
    "tracking.py:_version": "names of models, and what changed in params.yaml",
    "naming.py:_MODEL": "keys of params.yaml",
    "separated.py:cells_of": "texts of the stimuli; one class of signs",
    "separated.py:_WITHIN": "one sign, and one after it that is not taken",
    "audits/personas/language/tokens.py:removal_lists": "strings of the stimuli",
    "naming.py:_AXIS": "keys of params.yaml",
    "audits/annotation/design/vignettes.py:_WORD": "phrases of the stimuli",
    "audits/annotation/estimators/cells.py:_COMPOSED": "names of vignettes; runs of digits between literals",
    "audits/homogeneity/worlds.py:draw": "names that the worlds make",
    "audits/annotation/design/vignettes.py:screen": "phrases of the stimuli",
    "audits/knowledge/language/topics.py:_fit": "runs of characters that are no space; each is one match",
    f"{_PROMPTS}:_literal_length": "templates of the stimuli",
    "audits/homogeneity/design/study.py:Study.check": "cues of the stimuli; one class of signs, at most 40",
    "audits/homogeneity/design/study.py:Study.fill": "templates of the stimuli",
    "ledgers.py:_adopt.adopt": "revisions in params.yaml",
    "judges.py:_servers": "URLs in params.yaml",
    "templates.py:_LITERAL": "templates of the stimuli",
    "templates.py:_parsed": "templates of the stimuli",
    "templates.py:_matched": "templates of the stimuli",
    "lm/answers.py:_FINISH_REASON": "at most 40 characters",
    "lm/answers.py:_WITHHELD": "at most 2,000 characters of an error",
    "lm/answers.py:_JUDGED": "at most 2,000 characters of an error",
    "lm/answers.py:_UNJUDGED": "at most 2,000 characters of an error",
    "lm/local_text.py:_REASONING": "special tokens of a tokenizer",
    "lm/served_by.py:_FILE": "model names: at most 200 characters",
    "lm/served_by.py:_VERSION": "model names: at most 200 characters",
    "lm/served_by.py:_words": "model names: at most 200 characters",
    "credentials.py:_VARIABLE": "params.yaml",
    "credentials.py:_UUID": "params.yaml",
    "credentials.py:_HEXADECIMAL": "params.yaml",
    "lm/config.py:_names_a_credential": "params.yaml",
    "lm/gguf.py:_PART": "files of installed packages",
    "lm/gguf.py:_distributions": "metadata of installed packages",
    "lm/gguf.py:is_same": "names of packages, in params and beside converted weights",
    "lm/scoring.py:Scorer._fit": "runs of characters that are no space; each is one match",
    "lm/scoring.py:Scorer._words": "runs of characters that are no space; each is one match",
    "audits/personas/figures.py:_lexicon": "names of lexicons",
    "reporting/export.py:_plain": "one character at a time",
    "provenance.py:public": "params and paths; literals",
    "tracking_store.py:_SECRET": "names of headers",
    "provenance.py:mlflow_name": "one character at a time",
    "provenance.py:key_of": "names in MLflow",
    "files.py:readable": "one character at a time",
}
"""Regular expressions without a reader above, and why none is needed."""


def patterns(path: Path) -> Iterator[str]:
    """Module, and constant or function, of each regular expression in a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))

    def walk(node: ast.AST, owner: str) -> Iterator[str]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            owner = f"{owner}.{node.name}" if owner else node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign) and not owner:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            owner = ast.unparse(target)
        elif isinstance(node, ast.Call) and is_regex(node):
            yield f"{path.relative_to(PACKAGE).as_posix()}:{owner}"
        for child in ast.iter_child_nodes(node):
            yield from walk(child, owner)

    yield from walk(tree, "")


def is_regex(call: ast.Call) -> bool:
    """Whether a call gives a pattern: to `re`, to a string method of pandas, or to a vectorizer of scikit-learn."""
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    if "token_pattern" in given:
        return True
    if not isinstance(call.func, ast.Attribute):
        return False
    module, name = call.func.value, call.func.attr
    if isinstance(module, ast.Name) and module.id in ("re", "regex"):
        return name not in ("escape", "error", "purge")
    if not (isinstance(module, ast.Attribute) and module.attr == "str"):
        return False
    plain = isinstance(given.get("regex"), ast.Constant) and not ast.literal_eval(given["regex"])
    if name in ("contains", "match", "fullmatch", "extract", "extractall", "findall", "count"):
        return not plain
    return name in ("replace", "split") and "regex" in given and not plain


def texts(reader: Reader) -> Iterator[tuple[str, str]]:
    """Label and text: runs of one unit; seeds, repeated or once before such a run, with an end that fits nothing."""
    for unit in reader.units:
        yield f"{unit!r} repeated", unit * (SIZE // len(unit))
    yield "different words", " ".join(f"w{number:x}" for number in range(SIZE // 7))
    for seed in reader.seeds:
        yield f"{seed!r} repeated", seed * (SIZE // len(seed))
        yield f"{seed!r} repeated, then a strange end", seed * (SIZE // len(seed)) + "☃"
        for unit in (" ", "_", '"'):
            yield f"{seed!r}, then {unit!r} repeated", seed + unit * SIZE + "☃"


def run(name: str, cpu_seconds: int = CPU_SECONDS) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, __file__, name, str(cpu_seconds)], capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_reader_of_a_megabyte_ends_within_the_limit(name: str) -> None:
    done = run(name)
    last = (done.stdout.splitlines() or ["nothing"])[-1]
    assert done.returncode == 0, f"{name}: an error, or more than {CPU_SECONDS} s of CPU, at {last}\n{done.stderr}"


def test_reader_that_is_quadratic_is_stopped() -> None:
    done = run("quadratic", 5)
    assert done.returncode < 0, "a quadratic reader got through: this file shows nothing"
    assert done.stdout.splitlines()[-1] == "' ' repeated"


def test_every_regular_expression_is_listed() -> None:
    found = Counter(key for path in sorted(PACKAGE.rglob("*.py")) for key in patterns(path))
    listed = Counter(key for reader in READERS.values() for key in reader.patterns)
    unlisted = {key: count for key, count in (found - listed).items() if key not in ELSEWHERE}
    assert not unlisted, "add a reader that runs it, or say in ELSEWHERE why no model output reaches it"
    assert not (listed - found) and not set(ELSEWHERE) - set(found), "listed here, but gone from the package"


def main(name: str, cpu_seconds: int) -> None:
    import resource

    reader = Reader(lambda text: re.search(r"\s+$", text + "x")) if name == "quadratic" else READERS[name]
    reader.read("a")  # imports and tables are loaded before the first limit
    for label, text in texts(reader):
        print(label, flush=True)
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = int(used.ru_utime + used.ru_stime) + 1 + cpu_seconds
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
        reader.read(text)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
