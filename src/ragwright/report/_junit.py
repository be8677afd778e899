"""JUnit XML, which every CI server shows: gates, and scores row by row."""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.etree import ElementTree

from ..core import Score
from ..experiment import RowResult
from ..measure import GateOutcome

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
            out = ElementTree.SubElement(case, "system-out")
            out.text = f"warning: {_clean(check.warning)}"
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
        element = ElementTree.SubElement(case, kind, message=_clean(score.reason))
        element.set("type", score.state)


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
