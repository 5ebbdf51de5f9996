"""`markedness corpora | model | names | scorers | downstream`: what comes before a study, and what its results mean."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from markedness.lm.progress import tell
from markedness.options import DEFAULT, ParamsFile

corpora_app = typer.Typer(help="Published data, pinned by commit and checksum.", no_args_is_help=True)
model_app = typer.Typer(help="Local models.", no_args_is_help=True)
names_app = typer.Typer(help="Choose names that stand for a group.", no_args_is_help=True)
scorers_app = typer.Typer(help="Check the scorers of a study against people.", no_args_is_help=True)


@model_app.command("prepare")
def model_prepare(
    names: Annotated[list[str] | None, typer.Argument(help="Keys of models; all that are run when left out.")] = None,
    params: ParamsFile = DEFAULT,
) -> None:
    """Convert or fetch local models ahead, and say what they are; without this the first generate does it."""
    from markedness.lm.config import TransformersModel
    from markedness.lm.local import LocalModel
    from markedness.params import load

    loaded = load(params)
    for name in names or loaded.run:
        config = loaded.model(name)
        if isinstance(config, TransformersModel):
            tell(f"{name}: {LocalModel(config, loaded.root, loaded.seed).check()}")


@corpora_app.command("get")
def corpora_get(
    prefix: Annotated[str, typer.Argument(help="Start of the path below data/corpora; all when left out.")] = "",
    source: Annotated[Path | None, typer.Option("--from", help="A folder with copies, found by checksum.")] = None,
    params: ParamsFile = DEFAULT,
) -> None:
    """Fetch what is missing, from a folder, DVC's remotes or the URL; exit status 1 names what failed."""
    from markedness import corpora
    from markedness.credentials import hide

    root = params.resolve().parent
    errors = corpora.get(root, prefix, source)
    for error in errors:
        tell(hide(str(error)), error=True)
    hint = "; 'markedness corpora get --from FOLDER' finds copies by their checksum" if errors else ""
    print(f"{len(corpora.pins(root, prefix)) - len(errors)} files in place, {len(errors)} missing{hint}")
    if errors:
        raise typer.Exit(1)


@names_app.command("score")
def names_score(
    file: Annotated[Path, typer.Argument(help="CSV with a column name; optional group (candidate for) and gender.")],
    output: Annotated[Path, typer.Option("--output", help="CSV to write; usable as annotation.generate.names.file.")],
    model: Annotated[str, typer.Option("--model", help="Embedding model: a folder or hub id.")] = "all-MiniLM-L6-v2",
    anchors: Annotated[Path | None, typer.Option("--anchors", help="Templates, groups, controls; else ours.")] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="Names chosen per group and gender.")] = 20,
) -> None:
    """Score names by distinctiveness and purity in an embedding space, and choose the best of each group."""
    from markedness import strict_yaml
    from markedness.params import ParamsError
    from markedness.store import Store
    from markedness.text import embeddings, names

    store = Store(file.resolve().parent)
    candidates = store.stimuli("annotation").table(file.name, ("name",))
    try:
        if anchors is None:
            content = store.stimuli("annotation").data("name_anchors.yaml")
        else:
            content = strict_yaml.load(anchors)
        found = names.Anchors.read(content)
        names.check_listed(candidates, file.name)
        table = names.score(candidates, found, lambda texts: embeddings.embed(texts, model=model), top)
    except (ValueError, OSError, strict_yaml.YamlFileError, embeddings.EmbeddingError) as error:
        raise ParamsError(f"names score: {' '.join(str(error).split())}") from error
    store.write_csv(output, table)
    for group, rows in table.groupby("group"):
        tell(f"{group}: {rows['selected'].sum()} of {len(rows)} names chosen")


@scorers_app.command("validate")
def scorers_validate(
    labels: Annotated[Path, typer.Argument(help="CSV: rows of triples.csv drawn at random, with a column human.")],
    model: Annotated[str, typer.Option("--model", help="Key of the model whose triples they are.")],
    measure: Annotated[
        Literal["regard", "toxicity"],
        typer.Option("--measure", help="What people labelled: regard (negative, neutral, positive), or toxicity, a "
                     "number from 0 (no insult) to 1."),
    ] = "regard",
    output: Annotated[Path | None, typer.Option("--output", help="CSV to write.")] = None,
    params: ParamsFile = DEFAULT,
) -> None:  # fmt: skip
    """The scorer against labels of people: agreement and error by subject, and corrected estimates."""
    from markedness.audits.knowledge.estimators.validation import validated
    from markedness.params import ParamsError
    from markedness.separated import read_separated
    from markedness.store import Store

    store = Store(params.resolve().parent)
    path, remedy = store.results("knowledge", model) / "tables" / "triples.csv", f"run knowledge for {model}"
    try:
        triples = read_separated(path)
        path, remedy = labels, "give a CSV with the columns of triples.csv and human"
        given = read_separated(path)
    except (OSError, ValueError) as error:
        said = " ".join(str(error).split())
        raise ParamsError(f"scorers validate: {path} cannot be read ({said}); {remedy}") from error
    table = validated(given, triples, measure=measure)
    if output is not None:
        store.write_csv(output, table)
    shown = ["class", "subject", "n_labels", "agreement", "error", "p_adjusted", f"mean_{measure}", "corrected"]
    print(table[shown].round(3).to_string(index=False))


@scorers_app.command("test")
def scorers_test(
    output: Annotated[Path | None, typer.Option("--output", help="CSV to write.")] = None,
    page: Annotated[Path | None, typer.Option("--page", help="Markdown page to write.")] = None,
    params: ParamsFile = DEFAULT,
) -> None:
    """Error of the offline scorers, and of local models in params, on the project's labelled statements, by group."""
    from markedness import scorer_tests
    from markedness.audits.knowledge.language.choice import RegardParams, ToxicityParams
    from markedness.audits.knowledge.language.scorers import ScorerError
    from markedness.params import ParamsError, load
    from markedness.store import Store
    from markedness.text.classifiers import ClassifierError
    from markedness.text.embeddings import EmbeddingError

    asked = load(params).stage("knowledge", "featurize") if params.exists() else None
    regard = [RegardParams(), *([asked.regard] if asked and asked.regard.scorer == "transformers" else [])]
    toxicity = [ToxicityParams(), ToxicityParams(scorer="profanity_check")]
    toxicity += [asked.toxicity] if asked and asked.toxicity.scorer == "transformers" else []
    try:
        table = scorer_tests.measured(regard, toxicity)
    except (ClassifierError, EmbeddingError, ScorerError) as error:
        raise ParamsError(f"scorers test: {error}") from error
    if output is not None:
        Store(output.resolve().parent).write_csv(output, table)
    if page is not None:
        Store(page.resolve().parent).write_bytes(page, scorer_tests.page(table).encode())
    shown = table[table["statements"].isin(["all", "hard", "class"])]
    columns = ["measure", "scorer", "statements", "group", "statistic", "estimate", "ci_low", "ci_high", "n"]
    print(shown[columns].round(3).to_string(index=False))


def downstream(
    gap: Annotated[float, typer.Option("--gap", help="Yes-rate of marked less unmarked texts, from the audit.")],
    base_rate: Annotated[float, typer.Option("--base-rate", help="True share of yes in the marked group.")],
    reference: Annotated[float, typer.Option("--base-rate-reference", help="And in the reference group.")],
    share: Annotated[float, typer.Option("--share", help="Share of texts of the marked group.")] = 0.5,
    disagreement: Annotated[float, typer.Option("--disagreement", help="Share of labels unlike gold ones.")] = 0.2,
    n: Annotated[int, typer.Option("--n", help="Texts of the study.")] = 1000,
    left: Annotated[float, typer.Option("--left", help="Share of the gap that may be left.")] = 0.5,
) -> None:
    """What a gap in labels does to a regression that uses them, and how many gold labels correct it."""
    from markedness.downstream import downstream as calculated

    table = calculated(share, base_rate, reference, gap, disagreement, n, left)
    for row in table.to_dict("records"):
        print(f"{row['quantity']:24} {row['value']:10.4g}  {row['meaning']}")
