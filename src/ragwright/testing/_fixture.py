"""A pytest fixture that holds rows to rules; it does nothing until a test asks for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

from ..core import Row
from ..experiment import Evaluation, evaluate
from ..measure import GateOptions, MeasureSetup, gate, parse_rule
from ..report import gate_table, summary_table

Rows = str | Path | Iterable[Row | Mapping[str, Any]]


class RagGate(Protocol):
    """Scores rows and fails the test unless they meet every rule."""

    def __call__(
        self,
        rows: Rows,
        *rules: str,
        setup: MeasureSetup | None = None,
        floor: float = 0.95,
        least: int = 10,
    ) -> Evaluation:
        """The evaluation, where every rule is met."""


@pytest.fixture(name="rag_gate")
def rag_gate_fixture() -> RagGate:
    """The fixture ``rag_gate``, once a conftest says ``from ragwright.testing import …`` it.

    In a test: ``rag_gate("rows.jsonl", "TokenF1>=0.6", "Contains>=0.5")``. A mean on too
    few scored rows (``floor``, a share, and ``least``, a number) fails too: a gate passes on no
    numbers it cannot trust.
    """
    return hold


def hold(
    rows: Rows,
    *rules: str,
    setup: MeasureSetup | None = None,
    floor: float = 0.95,
    least: int = 10,
) -> Evaluation:
    """Score rows by the measures of the rules, and fail the running test unless all are met.

    Raises:
        MeasureError: A rule cannot be read, or its measure needs a model that is not set.
    """
    parsed = [parse_rule(rule) for rule in rules]
    measures = list(dict.fromkeys(rule.measure for rule in parsed))
    found = evaluate(rows, measures, setup)
    outcome = gate(found.summaries, parsed, GateOptions(floor, least=least))
    if outcome.state != "passed":
        pytest.fail(f"{gate_table(outcome)}\n\n{summary_table(found.summaries)}", pytrace=False)
    return found
