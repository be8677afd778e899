"""Holds rows, or a system and its questions, to rules in a test."""

from __future__ import annotations

import re
from typing import Protocol

import pytest

from ..core import MeasureError
from ..experiment import Evaluation, Questions, evaluate
from ..measure import GateOptions, GateRule, MeasureSetup, gate, parse_rule
from ..report import failing_text, gate_table, summary_table


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

    The message names the rows and the slices that fail; a rule that cannot be read is one line.

    Args:
        rows: Answered rows, or questions for ``system``: a file, objects, a data frame.
        rules: ``TokenF1>=0.6``, ``Recall@5>=0.8``.
        system: Answers the questions first: a function, a LangChain or LlamaIndex object, an
            address; as ``ragwright eval --system``.
        setup: Judge and other models.
        floor: Least share of the rows with gold that have a score, 0 to 1.
        least: Least number of scored rows; a mean of fewer is not trusted, and fails too.

    Raises:
        MeasureError: A measure needs a model that is not set.
        SystemCallError: The system fails on the first rows.
    """
    parsed = [_parsed(rule) for rule in rules]
    measures = list(dict.fromkeys(rule.measure for rule in parsed))
    evaluation = evaluate(rows, measures, setup, system=system)
    outcome = gate(evaluation.summaries, parsed, GateOptions(floor, least=least))
    if outcome.state != "passed":
        table = summary_table(evaluation.summaries, notes=evaluation.notes)
        weak = failing_text(evaluation.results, outcome)
        blocks = [block for block in (gate_table(outcome), weak, table) if block]
        pytest.fail("\n\n".join(blocks), pytrace=False)
    return evaluation


def _parsed(rule: str) -> GateRule:
    """A rule; one that cannot be read fails the test in one line."""
    try:
        return parse_rule(rule)
    except MeasureError as error:
        meant = re.match("did you mean [^?]*[?]", error.hint or "")
        hint = meant[0] if meant else error.hint
        message = f"rule {rule!r}: {error.what}; {hint}"
    # Outside the except block, or pytest prints the cause above the one line.
    pytest.fail(message, pytrace=False)
