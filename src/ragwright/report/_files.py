"""Results as files: a comment for a pull request, JUnit XML, and rows as CSV and Parquet."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from ..core import count_noun, csv_lines, require
from ..experiment import Evaluation
from ..measure import GateOutcome
from ._results import failing, rules_block, weak_blocks
from ._text import ResultBlock

_LONGEST = 60_000
"""Most characters: GitHub takes 65,536."""

_MARK = "<!-- ragwright gate -->"
"""The first line, by which a workflow finds the comment again (`examples/github/gate.yml`)."""

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~>])")


def gate_markdown(evaluation: Evaluation, outcome: GateOutcome) -> str:
    """Return the rules, the failing rows, and the cost of the answers as Markdown.

    Questions are text of the data: no character of theirs formats, links or mentions anybody.
    """
    rules = rules_block(outcome)
    weak = weak_blocks(failing(evaluation.results, outcome))
    costs = (result.made.usage.cost for result in evaluation.results if result.made is not None)
    paid = sum(cost for cost in costs if cost is not None)
    rows = count_noun(len(evaluation.results), "row")
    cost = f", answers cost {paid:.4f}" if paid else ""
    opening = [_MARK, f"### ragwright gate: {outcome.state}", _print_table(rules)]
    parts = [*opening, *(_escape(text[0].upper() + text[1:]) for text in rules.remarks)]
    parts += [
        f"<details><summary>{block.title}</summary>\n\n{_print_table(block)}\n\n</details>"
        for block in weak
    ]
    footer = f"Run {_escape(evaluation.name)}: {rows}{cost}."
    text = "\n\n".join([*parts, footer])
    if len(text) > _LONGEST:
        text = "\n\n".join([*opening, "Too many rows to list here; see the run.", footer])
    return text


def _print_table(block: ResultBlock) -> str:
    lines = ([_escape(cell) for cell in row] for row in block.rows)
    rows = [block.head, ["---"] * len(block.head), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


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


def gate_junit(outcome: GateOutcome) -> str:
    """Return a test case per rule: ``failure`` if it failed, ``error`` if it is untrusted.

    The reason is the message; the text adds what to do, if known.
    """

    def clean(text: str) -> str:
        return _FORBIDDEN.sub("\ufffd", text)

    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(root, "testsuite", name="ragwright gate")
    for check in outcome.checks:
        names = {"classname": clean(check.measure), "name": clean(check.rule)}
        case = ElementTree.SubElement(suite, "testcase", names)
        if check.state != "passed":
            tag = "failure" if check.state == "failed" else "error"
            facts = {"message": clean(check.reason), "type": check.state}
            failed = ElementTree.SubElement(case, tag, facts)
            failed.text = clean(f"to do: {check.hint}") if check.hint else None
        if check.warning:
            warned = ElementTree.SubElement(case, "system-out")
            warned.text = clean(f"warning: {check.warning}")
    for name, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error")):
        for counted in (root, suite):
            counted.set(name, str(len(root.findall(f".//{tag}"))))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


Record = Mapping[str, Any]


def row_file(records: Sequence[Record], suffix: str) -> bytes:
    """Return records with the same keys as a file of CSV or Parquet.

    In CSV lists and objects are JSON, and text that a spreadsheet would run gets an apostrophe.

    Raises:
        MissingExtraError: The package for Parquet is missing.
    """
    if suffix == ".parquet":
        return _write_parquet(records)
    head = list(records[0]) if records else ["id"]
    lines = [[_text(record[name]) for name in head] for record in records]
    return "".join(csv_lines([head, *lines])).encode()


def _text(value: Any) -> Any:
    if isinstance(value, list | tuple | Mapping):
        return json.dumps(value, ensure_ascii=False, default=list)
    return value


def _write_parquet(records: Sequence[Record]) -> bytes:
    arrow = require("pyarrow", "records", "writing Parquet files")
    parquet = require("pyarrow.parquet", "records", "writing Parquet files")
    head = records[0] if records else ()
    columns = {name: _column([record[name] for record in records], arrow) for name in head}
    out = io.BytesIO()
    parquet.write_table(arrow.table(columns), out)
    return out.getvalue()


def _column(values: Sequence[Any], arrow: Any) -> Any:
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
