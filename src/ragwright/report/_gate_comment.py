"""The comment of a gate on a pull request, as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ..core import count_noun
from ..experiment import Evaluation
from ..measure import GateOutcome
from ._weak import ROW_HEAD, SLICE_HEAD, failing, row_line, slice_line

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
    parts += [f"To do: {_escaped(hint)}" for hint in hints]
    parts += [f"Warning: {_escaped(warning)}" for warning in outcome.warnings]
    slices, rows = failing(evaluation.results, outcome)
    if slices:
        parts.append(_folded("Weak slices", _table(SLICE_HEAD, map(slice_line, slices))))
    if rows:
        parts.append(
            _folded(count_noun(len(rows), "failing row"), _table(ROW_HEAD, map(row_line, rows)))
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
    return f"Run {_escaped(evaluation.name)}: {rows}{cost}."


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *([_escaped(cell) for cell in line] for line in lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _folded(title: str, table: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{table}\n\n</details>"


def _escaped(text: str) -> str:
    """Text on one line that Markdown shows as it is."""
    plain = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    plain = _SPECIAL.sub(r"\\\1", plain)
    # An empty comment keeps GitHub from mentioning people and from linking addresses and issues,
    # an element from reading formulas.
    plain = plain.replace("\\#", "#<!-- -->").replace("$", "<span>$</span>")
    plain = re.sub(r"(?i)\bwww\.", "www<!-- -->.", plain)
    plain = re.sub(r"(?i)\bgh-(?=\d)", "GH<!-- -->-", plain)
    return plain.replace("@", "@<!-- -->").replace("://", ":<!-- -->//")
