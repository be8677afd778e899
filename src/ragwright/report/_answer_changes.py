"""What gates and files show row by row: changed answers, weak rows, JUnit, CSV, Excel."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import Any, Literal, TypeAlias
from xml.etree import ElementTree

from ..core import ConfigError, GoldSpan, Score, count_noun, csv_lines, require
from ..experiment import Evaluation, RowResult, WeakRow, WeakSlice, weak_rows, weak_slices
from ..measure import GateOutcome, parse_rule
from ._subject import Subject
from ._text import WIDTH, make_json, text_table

ChangeKind: TypeAlias = Literal[
    "text", "now abstains", "now answers", "lost citations", "new citations", "now fails", "failed"
]

_SHOWN = 20
"""Answers that the text shows."""
_CELL = 160
"""Characters of a question or an answer that the text shows."""


@dataclass(frozen=True, slots=True)
class AnswerChange:
    """A row whose answer differs between two runs.

    Attributes:
        row_id: The row.
        user_input: Its question.
        kinds: What differs; ``failed`` if the first run has no answer, ``now fails`` if the second.
        a: Answer of the first run; None if it has none.
        b: Answer of the second run.
        lost: Citations of the first answer, of which the second cites no character.
        gained: Citations of the second answer, of which the first cites no character.
    """

    row_id: str
    user_input: str
    kinds: tuple[ChangeKind, ...]
    a: str | None
    b: str | None
    lost: tuple[GoldSpan, ...] = ()
    gained: tuple[GoldSpan, ...] = ()


def answer_changes(a: Evaluation, b: Evaluation) -> tuple[tuple[AnswerChange, ...], int]:
    """The rows whose answers differ, in the order of the first run, and how many were compared.

    Rows that only one run holds, or that neither answers (those of rankings alone), are not
    compared. Citations are known only of the project's own answers.
    """
    others = {result.row_id: result for result in b.results}
    pairs = [
        (result, other)
        for result in a.results
        if (other := others.get(result.row_id)) is not None
        and result.row is not None
        and other.row is not None
        and (result.row.response is not None or other.row.response is not None)
    ]
    changes = [_change(*pair) for pair in pairs]
    return tuple(change for change in changes if change.kinds), len(pairs)


def _change(a: RowResult, b: RowResult) -> AnswerChange:
    assert a.row is not None
    assert b.row is not None
    texts = a.row.response, b.row.response
    kinds: list[ChangeKind] = []
    lost: tuple[GoldSpan, ...] = ()
    gained: tuple[GoldSpan, ...] = ()
    if None in texts:
        if texts[0] != texts[1]:
            kinds.append("failed" if texts[0] is None else "now fails")
    else:
        abstained = [row.metadata.get("abstained") is True for row in (a.row, b.row)]
        if abstained[0] != abstained[1]:
            kinds.append("now abstains" if abstained[1] else "now answers")
        if a.row.response_text.strip() != b.row.response_text.strip():
            kinds.append("text")
        cited = [result.made.citations if result.made else () for result in (a, b)]
        lost, gained = _find_uncited(cited[0], cited[1]), _find_uncited(cited[1], cited[0])
        changed: Mapping[ChangeKind, object] = {"lost citations": lost, "new citations": gained}
        kinds += [kind for kind, spans in changed.items() if spans]
    return AnswerChange(a.row_id, a.row.user_input, tuple(kinds), *texts, lost, gained)


def _find_uncited(spans: Sequence[GoldSpan], others: Sequence[GoldSpan]) -> tuple[GoldSpan, ...]:
    """The spans that share no character with the others."""
    return tuple(
        span
        for span in spans
        if not any(
            span.document_id == other.document_id
            and span.start < other.end
            and other.start < span.end
            for other in others
        )
    )


def answer_changes_json(changes: Sequence[AnswerChange], compared: int) -> dict[str, Any]:
    """The part ``answers`` of ``compare --json``: every row whose answer differs."""
    return {"compared": compared, "changed": [make_json(change) for change in changes]}


def answer_changes_text(
    changes: Sequence[AnswerChange],
    compared: int,
    names: tuple[str, str] = ("A", "B"),
    width: int = WIDTH,
) -> str:
    """How many answers differ and in what, and the first of them; empty if none was compared."""
    if not compared:
        return ""
    counts = Counter(kind for change in changes for kind in change.kinds)
    kinds = ", ".join(f"{kind} {number}" for kind, number in counts.most_common())
    head = f"answers that differ: {len(changes)} of {compared}{f' ({kinds})' if kinds else ''}"
    if not changes:
        return head
    rows = [["row", "question", *names, "what differs"]]
    rows += [
        [
            change.row_id,
            *(shorten(text or "-", _CELL) for text in (change.user_input, change.a, change.b)),
            ", ".join(change.kinds),
        ]
        for change in changes[:_SHOWN]
    ]
    lines = [head, text_table(rows, width=width)]
    if len(changes) > _SHOWN:
        lines.append(f"{count_noun(len(changes) - _SHOWN, 'more row')}: --json shows all")
    return "\n".join(lines)


_QUESTION = 100
"""Most characters of a question in a table."""

_SLICES, _ROWS = 10, 5
"""Most slices of a report, and most rows of each measure."""

ROW_HEAD = ("measure", "row", "value", "question")
SLICE_HEAD = ("measure", "rows with", "mean", "n", "others", "n", "p, corrected")


@dataclass(frozen=True, slots=True)
class WeakSpots:
    """Weak slices and lowest rows of one entry."""

    slices: tuple[WeakSlice, ...] = ()
    rows: tuple[WeakRow, ...] = ()


def weak_of(subject: Subject) -> WeakSpots:
    """Return weak slices and lowest rows of a run, or of the compared entry of a report."""
    entry = subject.focus[-1] if subject.focus else None
    if entry is None or not entry.rows or subject.baselines:
        return WeakSpots()
    results = list(entry.read(True))
    rows = [row for name in subject.measures for row in weak_rows(results, name, most=_ROWS)]
    return WeakSpots(weak_slices(results, subject.measures)[:_SLICES], tuple(rows))


def row_line(row: WeakRow) -> tuple[str, ...]:
    """Return a low row as a line of a table."""
    value = row.state if row.value is None else f"{row.value:.3f}"
    text = " ".join(row.question.split())
    short = text if len(text) <= _QUESTION else f"{text[: _QUESTION - 1]}…"
    return (row.measure, row.id, value, short)


def slice_line(weak: WeakSlice) -> tuple[str, ...]:
    """Return a weak slice as a line of a table."""
    p = "< 0.001" if weak.p < 0.001 else f"{weak.p:.3f}"
    means = (f"{weak.mean:.3f}", str(weak.n), f"{weak.rest:.3f}", str(weak.others))
    return (weak.measure, f"{weak.by} = {weak.value}", *means, p)


def failing(
    results: Sequence[RowResult], outcome: GateOutcome
) -> tuple[tuple[WeakSlice, ...], tuple[WeakRow, ...]]:
    """Return weak slices and lowest rows of the measures whose rules are not met."""
    rows: list[WeakRow] = []
    missed = [check for check in outcome.checks if check.state != "passed"]
    for check in missed:
        rule = parse_rule(check.rule)
        rows += weak_rows(results, check.measure, below=rule.bound if rule.margin is None else None)
    slices = weak_slices(results, dict.fromkeys(check.measure for check in missed))
    return slices, tuple(dict.fromkeys(rows))


def failing_text(results: Sequence[RowResult], outcome: GateOutcome, width: int = WIDTH) -> str:
    """Return :func:`failing` as two tables; empty if every rule is met."""
    slices, rows = failing(results, outcome)
    return weak_text(slices, rows, width)


def failing_json(results: Sequence[RowResult], outcome: GateOutcome) -> dict[str, Any]:
    """Return :func:`failing` as ``{"slices": […], "rows": […]}``."""
    return weak_json(*failing(results, outcome))


def weak_text(slices: Iterable[WeakSlice], rows: Iterable[WeakRow], width: int = WIDTH) -> str:
    """Return weak slices and low rows as tables."""
    blocks = []
    if lines := [slice_line(weak) for weak in slices]:
        table = text_table([SLICE_HEAD, *lines], right=(2, 3, 4, 5, 6), width=width)
        blocks.append(f"weak slices:\n{table}")
    if lines := [row_line(weak) for weak in rows]:
        table = text_table([ROW_HEAD, *lines], right=(2,), width=width, whole=(1,))
        blocks.append(f"worst rows:\n{table}")
    return "\n\n".join(blocks)


def weak_json(slices: Iterable[WeakSlice], rows: Iterable[WeakRow]) -> dict[str, Any]:
    """Return weak slices and low rows as JSON."""
    return {"slices": make_json(list(slices)), "rows": make_json(list(rows))}


_LONGEST = 60_000
"""Most characters: GitHub takes 65,536."""

_MARK = "<!-- ragwright gate -->"
"""The first line, by which a workflow finds the comment again (`examples/github/gate.yml`)."""

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~>])")


def gate_markdown(evaluation: Evaluation, outcome: GateOutcome) -> str:
    """Return the rules, the failing rows and slices, and the cost of the answers as Markdown.

    Questions are text of the data: no character of theirs formats, links or mentions anybody.
    """
    parts = [
        _MARK,
        f"### ragwright gate: {outcome.state}",
        _table(
            ("rule", "outcome", "because"),
            ((check.rule, check.state, check.reason) for check in outcome.checks),
        ),
    ]
    hints = dict.fromkeys(check.hint for check in outcome.checks if check.hint)
    parts += [f"To do: {_escape(hint)}" for hint in hints]
    parts += [f"Warning: {_escape(warning)}" for warning in outcome.warnings]
    slices, rows = failing(evaluation.results, outcome)
    if slices:
        parts.append(_fold("Weak slices", _table(SLICE_HEAD, map(slice_line, slices))))
    if rows:
        parts.append(
            _fold(count_noun(len(rows), "failing row"), _table(ROW_HEAD, map(row_line, rows)))
        )
    parts.append(_footer(evaluation))
    text = "\n\n".join(parts)
    if len(text) > _LONGEST:
        text = "\n\n".join([*parts[:3], "Too many rows to list here; see the run.", parts[-1]])
    return text


def _footer(evaluation: Evaluation) -> str:
    costs = (result.made.usage.cost for result in evaluation.results if result.made is not None)
    paid = sum(cost for cost in costs if cost is not None)
    cost = f", answers cost {paid:.4f}" if paid else ""
    rows = count_noun(len(evaluation.results), "row")
    return f"Run {_escape(evaluation.name)}: {rows}{cost}."


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *([_escape(cell) for cell in line] for line in lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _fold(title: str, table: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{table}\n\n</details>"


def _escape(text: str) -> str:
    """Text on one line that Markdown shows as it is."""
    plain = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    plain = _SPECIAL.sub(r"\\\1", plain)
    # An empty comment keeps GitHub from mentioning people and from linking addresses and issues,
    # an element from reading formulas.
    plain = plain.replace("\\#", "#<!-- -->").replace("$", "<span>$</span>")
    plain = re.sub(r"(?i)\bwww\.", "www<!-- -->.", plain)
    plain = re.sub(r"(?i)\bgh-(?=\d)", "GH<!-- -->-", plain)
    return plain.replace("@", "@<!-- -->").replace("://", ":<!-- -->//")


_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow, even escaped."""

_BROKEN = frozenset({"judge_invalid", "errored"})


def gate_junit(outcome: GateOutcome, *, name: str = "ragwright gate") -> str:
    """Return a test case per rule: ``failure`` if it failed, ``error`` if it is untrusted.

    The reason is the message; the text adds what to do, if known.
    """
    suite = ElementTree.Element("testsuite", name=_clean(name))
    for check in outcome.checks:
        case = ElementTree.SubElement(
            suite, "testcase", classname=_clean(check.measure), name=_clean(check.rule)
        )
        if check.state != "passed":
            kind = "failure" if check.state == "failed" else "error"
            element = ElementTree.SubElement(
                case, kind, message=_clean(check.reason), type=check.state
            )
            if check.hint:
                element.text = f"to do: {_clean(check.hint)}"
        if check.warning:
            ElementTree.SubElement(case, "system-out").text = f"warning: {_clean(check.warning)}"
    return _document(suite)


def rows_junit(rows: Iterable[RowResult], *, name: str = "ragwright eval") -> str:
    """Return a test case per row and measure; a score is never a failure, as it has no bound.

    ``errored`` and ``judge_invalid`` are errors with the reason; ``abstained``,
    ``not_applicable`` and ``skipped`` are skipped with it; a value is in ``system-out``, followed
    by the judge's reasoning.
    """
    suite = ElementTree.Element("testsuite", name=_clean(name))
    for row in rows:
        for score in row.scores:
            case = ElementTree.SubElement(
                suite, "testcase", classname=_clean(score.measure), name=_clean(row.row_id)
            )
            _add(case, score)
    return _document(suite)


def _add(case: ElementTree.Element, score: Score) -> None:
    if score.value is not None:
        detail = f"\n{_clean(score.detail)}" if score.detail else ""
        ElementTree.SubElement(case, "system-out").text = f"{score.value:.6g}{detail}"
    else:
        kind = "error" if score.state in _BROKEN else "skipped"
        ElementTree.SubElement(case, kind, message=_clean(score.reason)).set("type", score.state)


def _document(suite: ElementTree.Element) -> str:
    """The suite with its counts, inside ``testsuites``."""
    counts = {
        "tests": len(suite.findall("testcase")),
        "failures": len(suite.findall("testcase/failure")),
        "errors": len(suite.findall("testcase/error")),
        "skipped": len(suite.findall("testcase/skipped")),
    }
    root = ElementTree.Element("testsuites")
    for key, count in counts.items():
        suite.set(key, str(count))
        root.set(key, str(count))
    root.append(suite)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)


Record = Mapping[str, Any]

_LONGEST_CELL = 32_767
"""Characters of a cell in Excel."""

_MOST_ROWS = 1_048_575
_CUT = " … (cut)"
_WIDE = frozenset({"user_input", "response", "reference", "retrieved_contexts"})


@dataclass(frozen=True, slots=True)
class ScoredRowFile:
    """A file of rows.

    Attributes:
        data: Its bytes.
        note: What it could not hold; empty if nothing.
    """

    data: bytes
    note: str = ""


def check_row_file(suffix: str) -> None:
    """Refuse a file of rows whose package is missing, before any request is made.

    Raises:
        MissingExtraError: It is; with the line that installs it.
    """
    if suffix == ".parquet":
        require("pyarrow.parquet", "records", "writing Parquet files")
    if suffix == ".xlsx":
        require("xlsxwriter", "docs", "writing Excel files")


def row_file(records: Sequence[Record], suffix: str) -> ScoredRowFile:
    """Return records with the same keys as a file: ``.csv``, ``.parquet`` or ``.xlsx``.

    In CSV and Excel lists and objects are JSON. Text that a spreadsheet would run gets an
    apostrophe in CSV; in Excel it is text. A cell of Excel holds 32,767 characters: longer ones are
    cut, and the note counts them.

    Raises:
        MissingExtraError: The package is missing.
        ConfigError: More rows than Excel has.
    """
    return _WRITERS[suffix](records)


def _csv(records: Sequence[Record]) -> ScoredRowFile:
    head = list(records[0]) if records else ["id"]
    lines = csv_lines([head, *([_text(record[name]) for name in head] for record in records)])
    return ScoredRowFile("".join(lines).encode())


def _text(value: Any) -> Any:
    """A value as a cell: lists and objects as JSON."""
    if isinstance(value, list | tuple | Mapping):
        return json.dumps(value, ensure_ascii=False, default=list)
    return value


def _parquet(records: Sequence[Record]) -> ScoredRowFile:
    arrow = require("pyarrow", "records", "writing Parquet files")
    parquet = require("pyarrow.parquet", "records", "writing Parquet files")
    columns = {
        name: [record[name] for record in records] for name in (records[0] if records else ())
    }
    out = io.BytesIO()
    table = arrow.table({name: _column(values, arrow) for name, values in columns.items()})
    parquet.write_table(table, out)
    return ScoredRowFile(out.getvalue())


def _column(values: Sequence[Any], arrow: Any) -> Any:
    """A column of numbers, of lists of texts, or else of texts."""
    known = [value for value in values if value is not None]
    if known and all(
        isinstance(value, list) and all(isinstance(text, str) for text in value) for value in known
    ):
        return arrow.array(values, arrow.list_(arrow.string()))
    if known and all(isinstance(value, bool) for value in known):
        return arrow.array(values)
    if known and all(isinstance(value, int | float) for value in known):
        return arrow.array([None if value is None else float(value) for value in values])
    texts = [None if (text := _text(value)) is None else str(text) for value in values]
    return arrow.array(texts, arrow.string())


def _xlsx(records: Sequence[Record]) -> ScoredRowFile:
    writer = require("xlsxwriter", "docs", "writing Excel files")
    if len(records) > _MOST_ROWS:
        raise ConfigError(
            f"{count_noun(len(records), 'row')}, and a sheet of Excel holds {_MOST_ROWS:,}",
            hint="write .parquet, .jsonl or .csv",
        )
    out, cut = io.BytesIO(), 0
    plain = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
    with writer.Workbook(out, {"in_memory": True, **plain}) as book:
        sheet = book.add_worksheet("rows")
        bold, wrapped = book.add_format({"bold": True}), book.add_format({"text_wrap": True})
        sheet.freeze_panes(1, 2)
        head = list(records[0]) if records else ["id"]
        for at, name in enumerate(head):
            sheet.write_string(0, at, name, bold)
            sheet.set_column(at, at, 40 if name in _WIDE else 14)
        for line, record in enumerate(records, 1):
            for at, name in enumerate(head):
                value = _text(record[name])
                if isinstance(value, bool) or not isinstance(value, int | float):
                    text = "" if value is None else str(value)
                    if len(text) > _LONGEST_CELL:
                        text, cut = text[: _LONGEST_CELL - len(_CUT)] + _CUT, cut + 1
                    if text:
                        sheet.write_string(line, at, text, wrapped if name in _WIDE else None)
                else:
                    sheet.write_number(line, at, value)
    note = (
        f"{cut} cells are cut at {_LONGEST_CELL:,} characters, the limit of Excel: .parquet, "
        ".jsonl and .csv hold them whole"
    )
    return ScoredRowFile(out.getvalue(), note if cut else "")


_WRITERS: Mapping[str, Callable[[Sequence[Record]], ScoredRowFile]] = {
    ".csv": _csv,
    ".parquet": _parquet,
    ".xlsx": _xlsx,
}
