"""The fixture that holds rows to rules."""

from __future__ import annotations

import pytest

from ragwright.core import MeasureError
from ragwright.testing import RagGate, rag_gate_fixture

__all__ = ["rag_gate_fixture"]

ROWS = [{"user_input": "Who?", "response": "Ada Byron", "reference": "Ada"}] * 10


def test_rows_that_meet_the_rules_pass(rag_gate: RagGate) -> None:
    assert rag_gate(ROWS, "Contains>=1")["Contains"].mean == 1.0


def test_rows_that_miss_a_rule_fail_the_test_with_the_table(rag_gate: RagGate) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"(?s)ExactMatch.*failed"):
        rag_gate(ROWS, "Contains>=1", "ExactMatch>=0.5")


def test_too_few_scored_rows_are_not_trusted(rag_gate: RagGate) -> None:
    rows = [*ROWS, {"user_input": "Where?", "reference": "Here"}]
    with pytest.raises(pytest.fail.Exception, match="untrusted"):
        rag_gate(rows, "Contains>=0.9")
    with pytest.raises(pytest.fail.Exception, match="at least 10 are required"):
        rag_gate(ROWS[:3], "Contains>=0.9")
    assert rag_gate(ROWS[:3], "Contains>=0.9", least=3)["Contains"].n == 3


def test_a_rule_that_cannot_be_read_is_an_error(rag_gate: RagGate) -> None:
    with pytest.raises(MeasureError):
        rag_gate(ROWS, "Contians>=1")
