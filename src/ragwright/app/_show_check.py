"""The result of `records check` as text: faults first, then hints."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping

from ..core import count_noun
from ..records import CheckReport, PatternFacts
from ._console import table, width

_PATTERN = 44
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Control characters of terminals, which texts of a source may contain."""


def check_text(report: CheckReport) -> str:
    """A check as text."""
    blocks = [_head(report), *_faults(report)]
    if report.rows:
        blocks += [
            *_patterns(report),
            *_rules(report),
            *_left_out(report),
            *_records(report),
            *_examples(report),
        ]
    return _CONTROLS.sub(_escaped, "\n\n".join(blocks))


def _escaped(control: re.Match[str]) -> str:
    return control[0].encode("unicode_escape").decode("ascii")


def _head(report: CheckReport) -> str:
    count = len(report.faults)
    verdict = count_noun(count, "fault") if count else "no faults"
    if report.notes:
        verdict += f", {count_noun(len(report.notes), 'note')}"
    if not report.source:
        return verdict
    if not report.scanned:
        return f"{verdict}; {report.source} gave no rows"
    if report.stopped:
        return f"{verdict}; reading {report.source} stopped at the first rows: a column is missing"
    read = count_noun(report.scanned, "row") + ("" if report.whole else ", there are more")
    usable = "" if report.usable == report.scanned else f", {report.usable:,} of them usable"
    tried = "all" if report.rows == report.usable else f"a sample of {report.rows:,}"
    return f"{verdict}; read {report.source}: {read}{usable}; tried on {tried}"


def _faults(report: CheckReport) -> Iterator[str]:
    kinds = [("fault", fault) for fault in report.faults] + [("note", n) for n in report.notes]
    for kind, fault in kinds:
        lines = [f"{kind}: {fault.what}"]
        if fault.where:
            lines.append(f"  where: {fault.where}")
        if fault.hint:
            lines.append(f"  do: {fault.hint}")
        yield "\n".join(lines)


def _patterns(report: CheckReport) -> Iterator[str]:
    for use, title in (("cleaning", "step"), ("tag", "tag")):
        shown = [pattern for pattern in report.patterns if pattern.use == use]
        if not shown:
            continue
        body = [
            [
                pattern.name,
                _cut(pattern.pattern.replace("\n", "\\n"), _PATTERN),
                f"{pattern.rows:,}",
                _share(pattern.rows, report.rows),
                _remark(pattern),
            ]
            for pattern in shown
        ]
        yield table([[title, "pattern", "rows", "share", "remark"], *body], right=(2, 3))


def _remark(pattern: PatternFacts) -> str:
    if pattern.rows:
        return ""
    return f"never matches ({pattern.where})" if pattern.where else "changes nothing"


def _rules(report: CheckReport) -> Iterator[str]:
    if not report.rules:
        return
    body = [
        [
            rule.kind,
            rule.name,
            f"{rule.rows:,}",
            "" if rule.rows else f"never {_acts(rule.kind)} ({rule.where})",
        ]
        for rule in report.rules
    ]
    yield table([["rule", "sets / name", "rows", "remark"], *body], right=(2,))


def _acts(kind: str) -> str:
    return "hits" if kind == "contradiction" else "sets anything"


def _left_out(report: CheckReport) -> Iterator[str]:
    rows = [[f"{name} is empty", f"{count:,}", ""] for name, count in report.lacking.items()]
    rows += [
        [why, f"{count:,}", _cut(", ".join(report.left_out_keys.get(why, ())), 60)]
        for why, count in report.left_out.items()
    ]
    if rows:
        yield table([["left out because", "rows", "such as"], *rows], right=(1,))


def _records(report: CheckReport) -> Iterator[str]:
    gold = report.gold
    of = count_noun(report.rows, "row")
    lines = [f"records: {gold:,} of {of}", f"length: {_shares(report.lengths)}"]
    others = {name: count for name, count in report.fields.items() if name != "length"}
    lines.append(f"with a value: {_shares(others, gold)}")
    if report.unknown_clients:
        names = ", ".join(f"{name} ({count:,})" for name, count in report.unknown_clients)
        lines.append(f"clients that rollups.yaml does not list: {names}")
    if report.unused_fields:
        lines.append(f"not used by the text format: {', '.join(report.unused_fields)}")
    if report.empty_variables:
        names = ", ".join(report.empty_variables)
        lines.append(f"variables of the text format that no record has: {names}")
    wrap = {"width": width(), "subsequent_indent": "  "}
    yield "\n".join(textwrap.fill(line, **wrap) for line in lines)  # type: ignore[arg-type]


def _examples(report: CheckReport) -> Iterator[str]:
    for example in report.examples:
        tags = ", ".join(example.tags) or "none"
        lines = [
            f"row {_cut(example.key, 40)}, changed by {', '.join(example.steps)}",
            _indented("before", repr(example.before)),
            _indented("after ", repr(example.after)),
            f"  tags    {tags}",
        ]
        yield "\n".join(lines)
    for document in report.assembled:
        yield f"assembled:\n{textwrap.indent(_cut(document, 400), '  | ')}"


def _indented(name: str, text: str) -> str:
    return textwrap.fill(
        _cut(text, 400), width(), initial_indent=f"  {name}  ", subsequent_indent=" " * 10
    )


def _shares(counts: Mapping[str, int], of: int | None = None) -> str:
    total = sum(counts.values()) if of is None else of
    return ", ".join(f"{name} {count:,} ({_share(count, total)})" for name, count in counts.items())


def _share(count: int, of: int) -> str:
    return f"{count / of:.1%}" if of else "-"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
