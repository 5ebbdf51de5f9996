"""Measures of each text and of each word: bag of words, log-odds, divergence, lexicons, sentiment, vectors, SVM."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
from pydantic import Field, field_validator

from markedness.audits.personas import AXES
from markedness.audits.personas.language.classifiers import (
    PREDICTION_COLUMNS,
    SVM_WORD_COLUMNS,
    Classifiers,
    SvmParams,
    classify,
)
from markedness.audits.personas.language.comparisons import COMPARISON_COLUMNS, WORD_COLUMNS, compare_words
from markedness.audits.personas.language.contrasts import LogOddsPrior
from markedness.audits.personas.language.groups import Grouping
from markedness.audits.personas.language.lexicons import (
    Counting,
    lexicon_percents,
    phrases,
    read_lexicons,
    sentiment,
    word_sentiments,
)
from markedness.audits.personas.language.log_odds import Prior
from markedness.audits.personas.language.readability import unread_measures
from markedness.audits.personas.language.sampling import every_nth
from markedness.audits.personas.language.tokens import Rule, removal_lists, tokenize
from markedness.audits.personas.language.word_counts import WordCounts, count_words
from markedness.axes import Axes, about_a_group
from markedness.cards import count
from markedness.records import FILE_ROW, Features, Status, Stimuli, Strict
from markedness.text.embeddings import DEFAULT_MODEL, Dtype, EmbeddingError, embed
from markedness.text.languages import ENGLISH, language_name, latin_alone, no_embeddings, unreadable


class Params(Strict):
    """What is measured of each text; the defaults are the published ones, but for lexicon counting."""

    axes: Axes = AXES
    exclude: tuple[Status, ...] = (Status.REFUSAL, Status.FAILED)
    """Statuses left out of all measures but the refusals; [] reproduces the published tables."""
    tokens: Rule = "published"
    """How texts are cut into words, see `markedness.audits.personas.language.tokens.tokenize`. The published rule
    knows the letters of English: words of another language are cut by the rule unicode, and a note says so."""
    prior: Prior = "corpus"
    """Prior of the log-odds, see `markedness.audits.personas.language.log_odds.prior_counts`."""
    prior_scale: float = Field(default=1.0, gt=0)
    lexicon_counting: Counting = "tokens"
    """Whole words, or "substrings" as in the published figure."""
    lexicon_language: str | None = ENGLISH
    """Language of lexicon.csv and evaluate.word_share, as an ISO 639 code; null: texts of any language are counted."""
    embeddings: str | None = DEFAULT_MODEL
    """Sentence-embedding model; null: no similarity."""
    embeddings_dtype: Dtype = "float32"
    """See `markedness.text.embeddings.Dtype`."""
    embeddings_max_texts: int = Field(default=20_000, ge=2)
    """Texts above which every n-th is embedded."""
    svm: SvmParams = SvmParams()

    @field_validator("lexicon_language")
    @classmethod
    def _has_a_dictionary(cls, language: str | None) -> str | None:
        if language not in (None, ENGLISH):
            from simplemma import in_target_language

            try:
                in_target_language("language", lang=language)
            except ValueError as error:
                raise ValueError(f"no dictionary of the language '{language}'; null counts all texts") from error
        return language


def featurize(responses: pd.DataFrame, params: Params, stimuli: Stimuli) -> Features:
    """Measure each text, and each word in each comparison.

    Parameters
    ----------
    responses
        From clean: kind, prompt_id, group, one column per axis, answer, status, duplicate, dropped.
    params
        See `Params`.
    stimuli
        lexicon.csv (lexicon, word) and removed_strings.csv (stage, string).

    Returns
    -------
    Features
        - ``texts``: one row per response: text (its number), kind, prompt_id, group, the axes, sample, status,
          duplicate; ``included``: whether the measures use it; ``sentiment``: VADER compound, in [-1, 1];
          ``lexicon: <name>``: percent of the words that are in that lexicon. Missing where not included.
          ``cluster``: what belongs together, from the corpus, else "#" and a hash of prompt and text.
        - ``bag_of_words``: text, word, count; the word "" is a token without letters.
        - ``comparisons`` and ``words``: see `markedness.audits.personas.language.comparisons.compare_words`.
        - ``embeddings``: text, embedding (unit vector), of the texts that have one.
        - ``svm_words``: kind, labeling, group, word, rank, weight; ``svm_predictions``: text, labeling, group,
          is_group, predicted, of the texts of the test splits.
        - ``word_sentiment``: word, compound (VADER), of the words that are not neutral.
        - ``prompt_words``: kind, group, word: the words of the prompts that the texts of a group answer.
        - ``unread``: kind, measure (words, lexicon, sentiment, refusals, similarity, svm), reason: what is not measured
          of the texts of a kind.

        Models: one pipeline per kind and labeling.
    """
    table, answers = _included(responses, params)
    notes = [*_without_cluster(responses)]
    language, rule = stimuli.language, params.tokens
    if language != ENGLISH and rule == "published":
        rule = "unicode"
        notes.append(
            f"Words of {language_name(language)} are cut by the rule unicode: the published one knows a to z alone."
        )
    unread: dict[str, dict[str, str]] = {}
    lacking = _without_files(params, stimuli)
    for kind, rows in table.groupby("kind"):
        of_kind = [text for text in answers[rows.index] if text is not None]
        found = unread_measures(of_kind, str(kind), rule, params.lexicon_language, language)
        unread[str(kind)], why = found[0] | lacking, found[1]
        notes += why

    def readable(measure: str) -> list[str | None]:
        return [None if measure in unread[kind] else text for kind, text in zip(table["kind"], answers, strict=True)]

    counts = count_words(tokenize(readable("words"), rule))
    table["sentiment"] = sentiment(readable("sentiment"))
    lexicons = read_lexicons(stimuli)
    notes += filter(None, [phrases(lexicons, params.lexicon_counting)])
    percents = lexicon_percents(readable("lexicon"), lexicons, params.lexicon_counting, rule)
    table = table.assign(**{f"lexicon: {name}": values for name, values in percents.items()})
    embeddings = _embeddings(answers, params, notes, lacking.get("similarity", ""))
    rows = table.assign(answer=answers)
    if params.svm.order == "file" and FILE_ROW in responses:
        rows = rows.iloc[np.argsort(responses[FILE_ROW].to_numpy(np.int64), kind="stable")]
    classifiers = [] if "svm" in lacking else _classifiers(rows, params, stimuli)
    notes += [note for of_kind in classifiers for note in of_kind.notes]
    valence = word_sentiments(sorted(counts.words))
    bag = counts.table()
    missing = [(kind, measure, why) for kind, measures in unread.items() for measure, why in sorted(measures.items())]
    tables = {
        "texts": table,
        "bag_of_words": bag,
        **_compared(table, bag, params),
        "embeddings": embeddings,
        "svm_words": _stacked([one.words for one in classifiers], SVM_WORD_COLUMNS),
        "svm_predictions": _stacked([one.predictions for one in classifiers], PREDICTION_COLUMNS),
        "word_sentiment": pd.DataFrame({"word": list(valence), "compound": list(valence.values())}),
        "prompt_words": _prompt_words(responses, table, rule),
        "unread": pd.DataFrame(missing, columns=["kind", "measure", "reason"], dtype="str"),
    }
    return Features(tables, models={k: v for one in classifiers for k, v in one.models.items()}, notes=notes)


def _without_cluster(responses: pd.DataFrame) -> Iterator[str]:
    """That some texts name their cluster and others do not."""
    named = responses["cluster"].astype("string").fillna("").str.strip().ne("") if "cluster" in responses else None
    if named is not None and named.any() and not named.all():
        yield (
            f"{count(int((~named).sum()), 'text')} of {len(named):,} have no cluster: each different one counts as a "
            "cluster of its own. Name the author or source of all where some texts belong together."
        )


def _without_files(params: Params, stimuli: Stimuli) -> dict[str, str]:
    """Measures that have no stimuli, or no model, in the language: measure -> what is lacking."""
    found: dict[str, str] = {}
    if params.embeddings is not None and (why := no_embeddings(stimuli.language, params.embeddings)):
        found["similarity"] = f"{why} (personas.featurize.embeddings)"
    if not stimuli.has("removed_strings.csv"):
        found["svm"] = f"no list of words that name groups in {language_name(stimuli.language)} (removed_strings.csv)"
    return found


def _included(responses: pd.DataFrame, params: Params) -> tuple[pd.DataFrame, pd.Series[str]]:
    """The table of texts as far as clean knows it, and the answer of each included text, None elsewhere."""
    columns = ["kind", "prompt_id", "group", *params.axes, "sample", "status", "duplicate", "cluster"]
    table = responses.reindex(columns=columns).reset_index(drop=True)
    table.insert(0, "text", np.arange(len(table), dtype=np.int32))
    table["kind"] = table["kind"].fillna("persona").astype(str)
    answers = responses["answer"].reset_index(drop=True)
    left_out = table["status"].isin([status.value for status in params.exclude]) | answers.isna()
    left_out |= ~table.groupby("kind")["group"].transform(about_a_group).astype(bool)
    if "dropped" in responses:
        left_out |= responses["dropped"].reset_index(drop=True).astype(bool)
    table["included"] = ~left_out
    table["cluster"] = _clusters(table, answers)
    return table, answers.astype(object).mask(left_out, None)


def _clusters(table: pd.DataFrame, answers: pd.Series[str]) -> pd.Series[str]:
    """The corpus's own, else a hash of the prompt and the text in lower case with single spaces; "" without text.

    A text that a group has word for word under several prompts is one cluster over these: the hash of the text alone.
    """
    plain = answers.astype("string").str.lower().str.split().str.join(" ")
    prompt = table["prompt_id"].astype("string").fillna("")
    of_group = [table["kind"], table["group"].astype("string").fillna(""), plain]
    moved = plain.isin(plain[prompt.groupby(of_group, dropna=True).transform("nunique").gt(1)])
    keys = prompt.mask(moved.astype(bool), "") + "\n" + plain.fillna("")
    hashed = ["#" + hashlib.blake2b(key.encode(), digest_size=8).hexdigest() for key in keys]
    hashed = [key if there else "" for key, there in zip(hashed, plain.notna(), strict=True)]
    given = table["cluster"].astype("string").fillna("").str.strip()
    given = given.mask(given.str.startswith("#"), " " + given)  # the corpus's own "#12" is no hash of a text
    return given.where(given.ne(""), pd.Series(hashed, index=table.index, dtype="string")).astype("str")


def _prompt_words(responses: pd.DataFrame, table: pd.DataFrame, rule: Rule) -> pd.DataFrame:
    """Columns kind, group, word, each combination once."""
    asked = pd.DataFrame({"kind": table["kind"], "group": table["group"].fillna(""), "prompt": responses.get("prompt")})
    asked = asked.dropna(subset=["prompt"]).drop_duplicates()
    said = tokenize(asked["prompt"], rule)
    found = {
        (kind, group, word)
        for kind, group, words in zip(asked["kind"], asked["group"], said, strict=True)
        for word in (words or "").split(" ")
        if word
    }
    return pd.DataFrame(sorted(found), columns=["kind", "group", "word"], dtype="str")


def _compared(table: pd.DataFrame, bag: pd.DataFrame, params: Params) -> dict[str, pd.DataFrame]:
    """The tables comparisons and words, of all kinds of text."""
    comparisons, words = [], []
    for kind, rows in table[table["included"]].groupby("kind", sort=False):
        counts = WordCounts.of_texts(bag, rows["text"].to_numpy(np.int64))
        prior = LogOddsPrior(params.prior, params.prior_scale)
        of_kind = compare_words(counts, Grouping(rows, params.axes), str(kind), prior)
        comparisons.append(of_kind[0])
        words.append(of_kind[1])
    return {"comparisons": _stacked(comparisons, COMPARISON_COLUMNS), "words": _stacked(words, WORD_COLUMNS)}


def _classifiers(rows: pd.DataFrame, params: Params, stimuli: Stimuli) -> list[Classifiers]:
    """Those of each kind of text; ``rows``: the table of texts with their answers, in the order of the split."""
    if not params.svm.enabled:
        return []
    removed = removal_lists(stimuli)
    kinds = rows[rows["included"]].groupby("kind", sort=False)
    return [classify(of_kind, removed, params.axes, params.svm) for _, of_kind in kinds]


def _stacked(parts: Sequence[pd.DataFrame], dtypes: Mapping[str, str]) -> pd.DataFrame:
    """The parts as one table with exactly these columns."""
    parts = [part for part in parts if len(part)]
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(dtypes))
    return table[list(dtypes)].astype(dict(dtypes))


def _embeddings(answers: pd.Series[str], params: Params, notes: list[str], why_none: str = "") -> pd.DataFrame:
    """Columns text and embedding; no rows, with a note, where the vectors cannot be computed."""
    present = np.flatnonzero(answers.notna())
    if params.embeddings is not None and not why_none and len(present):
        strange = np.array(unreadable([str(text) for text in answers.iloc[present]], params.embeddings))
        if strange.any():
            notes.append(
                f"{strange.sum()} of {len(present):,} texts have no sentence embedding, because they have no letter or "
                f"digit or are {latin_alone(params.embeddings, 'personas.featurize.embeddings')}"
            )
        present = present[~strange]
    chosen = every_nth(present, params.embeddings_max_texts) if params.embeddings is not None else present[:0]
    vectors: list[object] = []
    if why_none and len(chosen):
        notes.append(f"No similarity of texts: {why_none}.")
    elif params.embeddings is not None and len(chosen):
        texts = [str(text) for text in answers.iloc[chosen]]
        try:
            vectors = list(embed(texts, params.embeddings, params.embeddings_dtype))
        except EmbeddingError as error:
            notes.append(f"No similarity of texts: {error}.")
    if vectors and len(chosen) < len(present):
        notes.append(f"Similarity rests on {len(chosen):,} of {len(present):,} texts (embeddings_max_texts).")
    found = pd.Series(vectors, dtype=object)
    return pd.DataFrame({"text": chosen[: len(found)].astype(np.int32), "embedding": found})
