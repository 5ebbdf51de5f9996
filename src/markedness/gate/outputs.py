"""What the gate leaves: a table, JUnit XML for a CI system, a summary for a pull request, a tag for MLflow."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import file_digest, sha256

import pandas as pd

from markedness.files import StoreError
from markedness.gate.cases import Decision, Outcome
from markedness.gate.rules import whole
from markedness.results import not_estimated
from markedness.store import Store

GATE_COLUMNS = (
    "model", "baseline", "audit", "score", "outcome", "reason", "rule", "margin", "worse", "candidate_estimate",
    "baseline_estimate", "difference", "standard_error", "df", "low", "high", "p", "p_adjusted", "clusters",
    "clusters_needed", "candidate_p", "baseline_p", "candidate_n", "candidate_n_missing", "baseline_n",
    "baseline_n_missing", "caveat", "digest", "baseline_digest",
)  # fmt: skip
LOOK_COLUMNS = ("look", "of", "digest", "outcome")
NO_RESULT = "none"
MARKS = {Outcome.PASSED: "✓", Outcome.FAILED: "✗", Outcome.INCONCLUSIVE: "?"}


def table(decisions: Sequence[Decision], baseline: str, digests: Mapping[tuple[str, str], str]) -> pd.DataFrame:
    """gate.csv: `GATE_COLUMNS`, a Score of a model a row.

    ``digests``: (audit, model) -> of the results gated; of the baseline too, where it is a model.
    """
    rows = []
    for one in decisions:
        pair, empty = one.pair, not_estimated(one.pair.key)
        candidate, before = pair.candidate or empty, pair.baseline or empty
        rows.append(
            (
                pair.model, baseline, pair.audit, pair.key, str(one.outcome), one.reason, _rule(one), pair.margin,
                candidate.worse, candidate.estimate, before.estimate, one.difference, one.standard_error, one.df,
                one.low, one.high, one.p, one.p_adjusted, one.clusters, one.clusters_needed, candidate.p, before.p,
                candidate.n, candidate.n_missing, before.n, before.n_missing, one.caveat,
                digests[pair.audit, pair.model], digests.get((pair.audit, baseline), ""),
            )
        )  # fmt: skip
    return pd.DataFrame(rows, columns=list(GATE_COLUMNS))


def tag(gated: pd.DataFrame, model: str, digests: Callable[[str, str], str]) -> str:
    """Of a model, "passed against model-v1"; "" where it was not gated, or its or its baseline's results are new.

    Parameters
    ----------
    digests
        (audit, model) -> digest of the results as they are now.
    """
    own = gated[gated["model"].astype(str) == model]
    sides = [own[["audit", "model", "digest"]]]
    if "baseline_digest" in own:  # not of an earlier version
        sides.append(own.loc[own["baseline_digest"].ne(""), ["audit", "baseline", "baseline_digest"]])
    if own.empty or any(digests(*of) != digest for side in sides for *of, digest in side.astype(str).to_numpy()):
        return ""
    outcomes = set(own["outcome"])
    found = next((one for one in (Outcome.FAILED, Outcome.INCONCLUSIVE) if str(one) in outcomes), Outcome.PASSED)
    return f"{found} against {own['baseline'].iloc[0]}"


def tags(store: Store, runs: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Model -> what the gate said of the results that there are now, from results/gate; see `tag`."""
    path = store.gated() / "gate.csv"
    if not path.exists():
        return {}
    try:
        found = pd.read_csv(path, dtype=str, keep_default_na=False)

        @cache
        def now(audit: str, model: str) -> str:
            return NO_RESULT if audit not in runs.get(model, (audit,)) else digest(store, audit, model)

        return {model: said for model in runs if (said := tag(found, model, now))}
    except (OSError, ValueError, KeyError) as error:
        raise StoreError(f"{path}: cannot be read ({error}); run 'markedness gate' again") from error


@dataclass(frozen=True)
class Look:
    """Which look at growing data this is."""

    number: int
    of: int
    digest: str
    """Of all data that are looked at."""
    rows: tuple[tuple[int, int, str, str], ...]
    """Those of looks.csv before."""

    @property
    def earlier(self) -> list[tuple[int, int, str, str]]:
        """Rows of looks.csv but for this look's."""
        return [row for row in self.rows if row[0] != self.number]

    @property
    def said(self) -> str:
        """For the summary."""
        return f"Look {self.number} of {self.of}; each is corrected for all {self.of}."

    @property
    def beyond(self) -> str:
        """Why this look does not count; "" where it does."""
        if self.number <= self.of:
            return ""
        return f"this is look {self.number}, planned were {self.of}: no error rate holds for it; a new study decides"

    def table(self, outcome: Outcome | None) -> pd.DataFrame:
        """looks.csv: `LOOK_COLUMNS`; without an outcome nothing was looked at, and it is as it was."""
        rows = self.rows if outcome is None else [*self.earlier, (self.number, self.of, self.digest, str(outcome))]
        return pd.DataFrame(sorted(rows), columns=list(LOOK_COLUMNS))


def look(
    store: Store, planned: int | None, known: Sequence[tuple[str, str]], at_revision: Sequence[str] = ()
) -> Look | None:
    """This look, by results/gate/looks.csv: the same data again are the same look; None where none are planned.

    Parameters
    ----------
    known
        (audit, model) of all that is looked at.
    at_revision
        Digests of the features of a baseline that is a revision: where it moved, other data are looked at.

    Raises
    ------
    StoreError
        When looks.csv cannot be read, or counts looks of which another number was planned: the earlier ones were not
        corrected for this number, so that no error rate would hold.
    """
    path, earlier = store.gated() / "looks.csv", []
    if path.exists():
        types = {"look": int, "of": int, "digest": str, "outcome": str}
        try:
            found = pd.read_csv(path, dtype=types, keep_default_na=False)
            earlier = list(zip(*(found[name].tolist() for name in LOOK_COLUMNS), strict=True))
        except (OSError, ValueError, KeyError) as error:
            why = " ".join(str(error).split())
            raise StoreError(f"{path}: cannot be read ({why}); remove it, and the first look is a new one") from error
    if others := sorted({of for _, of, *_ in earlier} - {planned}):
        raise StoreError(
            f"{path}: counts looks of which {others[0]} were planned; set gate.looks: {others[0]} again, or remove the "
            "file where a new version begins: looks that were not corrected for each other hold no error rate"
        )
    if planned is None:
        return None
    now = sha256(
        " ".join([*(_data(store, audit, model) for audit, model in known), *at_revision]).encode()
    ).hexdigest()[:16]
    number = next((n for n, _, data, _ in earlier if data == now), max((n for n, *_ in earlier), default=0) + 1)
    return Look(number, planned, now, tuple(earlier))


def _data(store: Store, audit: str, model: str) -> str:
    """Of the Scores of one result and of the features, which the gate reads."""
    whole = sha256(digest(store, audit, model).encode())
    for path in sorted(store.features_path(audit, model).glob("*.parquet")):
        with path.open("rb") as file:
            whole.update(file_digest(file, "sha256").digest())
    return whole.hexdigest()


def digest(store: Store, audit: str, model: str) -> str:
    """Of the Scores of one result; `NO_RESULT` where it was not evaluated."""
    path = store.results(audit, model) / "scores.csv"
    return sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else NO_RESULT


def junit(decisions: Sequence[Decision], baseline: str) -> bytes:
    """gate.xml: a test case for each Score of each model; failed is a failure, inconclusive is skipped."""
    failed, skipped = (
        str(sum(one.outcome is outcome for one in decisions)) for outcome in (Outcome.FAILED, Outcome.INCONCLUSIVE)
    )
    counts = {"tests": str(len(decisions)), "failures": failed, "errors": "0", "skipped": skipped}
    suites = ET.Element("testsuites", {"name": "markedness gate", **counts})
    suite = ET.SubElement(suites, "testsuite", {"name": _xml(f"gate against {baseline}"), **counts})
    for one in decisions:
        name = f"{one.pair.audit}.{one.pair.key} [{one.pair.model}]"
        case = ET.SubElement(suite, "testcase", {"classname": one.pair.audit, "name": _xml(name)})
        if one.outcome is Outcome.FAILED:
            ET.SubElement(case, "failure", {"message": _xml(one.reason), "type": _rule(one)}).text = _xml(one.said)
        elif one.outcome is Outcome.INCONCLUSIVE:
            ET.SubElement(case, "skipped", {"message": _xml(f"inconclusive: {one.said}")})
        else:
            ET.SubElement(case, "system-out").text = _xml(one.said)
    ET.indent(suites)
    return bytes(ET.tostring(suites, encoding="utf-8", xml_declaration=True)) + b"\n"


def summary(decisions: Sequence[Decision], baseline: str, left_out: Sequence[str], looked: str = "") -> str:
    """summary.md, for a pull request: what does not pass comes first.

    Parameters
    ----------
    left_out
        Sentences on Scores that the gate did not look at.
    looked
        Which look this is, where several are planned.
    """
    lines = [f"## Gate: {whole(decisions)} against {_cell(baseline)}", "", *([looked, ""] if looked else [])]
    for model in dict.fromkeys(one.pair.model for one in decisions):
        own = [one for one in decisions if one.pair.model == model]
        counts = ", ".join(f"{sum(one.outcome is outcome for one in own)} {outcome}" for outcome in Outcome)
        lines += [f"### {_cell(model)}: {whole(own)} ({counts})", "", "| | Score | Rule | |", "|---|---|---|---|"]
        order = [Outcome.FAILED, Outcome.INCONCLUSIVE, Outcome.PASSED]
        for one in sorted(own, key=lambda one: order.index(one.outcome)):
            score = f"{one.pair.audit} {one.pair.key}"
            answer = f"{one.outcome}: {_cell(one.said)}"
            lines.append(f"| {MARKS[one.outcome]} | {_cell(score)} | {_rule(one)} | {answer} |")
        lines.append("")
    if left_out:
        lines += ["Not looked at:", "", *(f"- {_cell(sentence)}" for sentence in left_out), ""]
    return "\n".join(lines)


def _rule(one: Decision) -> str:
    return "no new finding" if one.pair.margin is None else f"not worse by more than {one.pair.margin:g}"


def _cell(text: str) -> str:
    """Text that stays text in a Markdown table."""
    for sign in "\\|<`*_[":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())


def _xml(text: str) -> str:
    """Without the signs that XML 1.0 has no way to write."""
    return "".join(sign for sign in text if sign in "\t\n" or (sign >= " " and not "\ud800" <= sign <= "\udfff"
                                                              and sign not in "\ufffe\uffff"))  # fmt: skip
