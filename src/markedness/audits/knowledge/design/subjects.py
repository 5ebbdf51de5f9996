"""The protected classes and their subjects: from params.yaml, subjects.csv, or lists that the model itself writes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence

from markedness.audits.knowledge.design.triples import fold, read_list
from markedness.axes import Axes, Axis, Value
from markedness.records import AuditError, Stimuli
from markedness.text.languages import GROUPS, words_of_group

MARKS, NO_MARKS = ("yes", "true", "1", "x"), ("", "no", "false", "0")
"""What stands in the column unmarked of the subject that is, and of the others, whatever the case."""


def classes(stimuli: Stimuli, axes: Axes, listed: Collection[str] = ()) -> Axes:
    """Class -> its subjects: ``axes``, or those of subjects.csv where ``axes`` is empty.

    Parameters
    ----------
    stimuli
        subjects.csv (class, subject, unmarked).
    axes
        The classes in params.yaml.
    listed
        Classes whose subjects the model lists; where one of them is not in subjects.csv, that file is not used.
    """
    if axes:
        return dict(axes)
    published = _published_classes(stimuli)
    return {} if set(listed) - set(published) else published


def _published_classes(stimuli: Stimuli) -> Axes:
    table = stimuli.table("subjects.csv", ("class", "subject", "unmarked"))
    if (table["class"].eq("") | table["subject"].eq("")).any():
        raise AuditError("subjects.csv: a row has no class or no subject; fill it or remove the row")
    axes: Axes = {}
    for name, rows in table.groupby("class", sort=False):
        said = rows["unmarked"].str.casefold()
        if strange := sorted({*said} - {*MARKS, *NO_MARKS}):
            raise AuditError(
                f"subjects.csv: class '{name!s}' has '{strange[0]:.40}' in unmarked; write yes, or nothing"
            )
        unmarked = rows.loc[said.isin(MARKS), "subject"]
        if len(unmarked) != 1 or len(rows) < 2:
            raise AuditError(
                f"subjects.csv: class '{name!s}' has {len(rows)} subjects and {len(unmarked)} unmarked; "
                "give it at least two subjects and mark one"
            )
        axes[str(name)] = Axis(unmarked=unmarked.iloc[0], values={subject: Value() for subject in rows["subject"]})
    return axes


def worded(axes: Axes, stimuli: Stimuli) -> Axes:
    """The classes with the words that groups.yaml of another language than English has for their subjects.

    The keys, which name groups in tables, stay.
    """
    if not stimuli.has(GROUPS):
        return axes
    groups = stimuli.data(GROUPS)

    def word(key: str) -> Value:
        try:
            return Value(label=words_of_group(groups, [key])["group"])
        except LookupError as error:
            raise AuditError(f"knowledge: {error.args[0]}") from error

    return {
        name: Axis(unmarked=axis.unmarked, values={key: word(key) for key in axis.values})
        for name, axis in axes.items()
    }


def label(axes: Axes, axis: str, key: str) -> str:
    """A subject as it is written in a prompt."""
    return axes[axis].values[key].label or key


def with_listed(axes: Axes, lists: dict[str, list[str]], votes: int, replace: bool = True) -> Axes:
    """The classes with the subjects that at least ``votes`` of their lists name (appendix A.2.1).

    Names are put as the subjects of the class are: where all of these end with one word ("White people"), a name
    without it gets it ("Black" -> "Black people"); the first letter is a capital.

    Parameters
    ----------
    axes
        The classes so far.
    lists
        Class -> the lists that the model wrote.
    votes
        How many lists must name a subject.
    replace
        Only the reference of a class stays beside them (the paper's dynamic selection), else all of its subjects (its
        hybrid one).
    """
    grown = dict(axes)
    for axis, texts in lists.items():
        named = named_often(texts, votes)
        before = dict(grown[axis].values) if axis in grown else {}
        last = {(value.label or key).split()[-1] for key, value in before.items()}
        ending = f" {last.pop()}" if len(last) == 1 and len(before) > 1 else ""
        named = list(dict.fromkeys(_worded(name, ending) for name in named))
        values = {key: value for key, value in before.items() if not replace or key == grown[axis].unmarked}
        known = {fold(key) for key in values} | {fold(value.label or key) for key, value in values.items()}
        values |= {name: Value() for name in named if fold(name) not in known}
        if len(values) < 2:
            raise AuditError(
                f"knowledge.generate.dynamic_subjects.{axis}: {len(named)} subjects were named in at least "
                f"{votes} of {len(texts)} lists; list the subjects of this class under knowledge.axes"
            )
        grown[axis] = Axis(unmarked=grown[axis].unmarked if axis in grown else next(iter(values)), values=values)
    return grown


def _worded(name: str, ending: str) -> str:
    """A listed name as a subject: with the word that all subjects of its class end with, and a capital."""
    name = name if not ending or name.casefold().endswith(ending.casefold()) else name + ending
    return name[:1].upper() + name[1:]


def named_often(texts: Sequence[str], votes: int) -> list[str]:
    """Names that at least ``votes`` lists contain, ignoring case and plural; the most frequent first."""
    forms: dict[str, Counter[str]] = defaultdict(Counter)
    lists: Counter[str] = Counter()
    for text in texts:
        entries = read_list(text)
        lists.update(list(dict.fromkeys(fold(entry) for entry in entries)))
        for entry in entries:
            forms[fold(entry)][entry] += 1
    return [forms[name].most_common(1)[0][0] for name, count in lists.most_common() if count >= votes]
