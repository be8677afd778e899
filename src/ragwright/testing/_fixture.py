"""What the pytest fixture ``rag_gate`` does: it holds rows, or a system, to rules."""

from __future__ import annotations

from typing import Protocol

import pytest

from ..experiment import Evaluation, Questions, evaluate
from ..measure import GateOptions, MeasureSetup, gate, parse_rule
from ..report import gate_table, summary_table


class RagGate(Protocol):
    """Scores rows and fails the test unless they meet every rule; see :func:`hold`."""

    def __call__(
        self,
        rows: Questions,
        *rules: str,
        system: object = None,
        setup: MeasureSetup | None = None,
        floor: float = 0.95,
        least: int = 10,
    ) -> Evaluation:
        """The evaluation, where every rule is met."""


def hold(
    rows: Questions,
    *rules: str,
    system: object = None,
    setup: MeasureSetup | None = None,
    floor: float = 0.95,
    least: int = 10,
) -> Evaluation:
    """Score rows by the measures of the rules, and fail the running test unless all are met.

    Args:
        rows: Answered rows, or questions for ``system``: a file, objects, a data frame.
        rules: ``TokenF1>=0.6``, ``Recall@5>=0.8``.
        system: Answers the questions first: a function, a LangChain or LlamaIndex object, an
            address; as ``ragwright eval --system``.
        setup: Judge and other models.
        floor: Least share of the rows with gold that have a score, 0 to 1.
        least: Least number of scored rows; a mean of fewer is not trusted, and fails too.

    Raises:
        MeasureError: A rule cannot be read, or its measure needs a model that is not set.
        SystemCallError: The system fails on the first rows.
    """
    parsed = [parse_rule(rule) for rule in rules]
    measures = list(dict.fromkeys(rule.measure for rule in parsed))
    found = evaluate(rows, measures, setup, system=system)
    outcome = gate(found.summaries, parsed, GateOptions(floor, least=least))
    if outcome.state != "passed":
        table = summary_table(found.summaries, notes=found.notes)
        pytest.fail(f"{gate_table(outcome)}\n\n{table}", pytrace=False)
    return found
