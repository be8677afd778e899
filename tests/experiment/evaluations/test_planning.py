"""The spread of stored scores is that of the mean which a gate reads."""

from __future__ import annotations

from typing import TypeAlias

import ragwright
from ragwright.experiment import Evaluation, spreads_of

Row: TypeAlias = dict[str, object]

RIGHT: Row = {"user_input": "When?", "response": "in May", "reference": "in May"}
WRONG: Row = {**RIGHT, "response": "in June"}
SILENT: Row = {**RIGHT, "response": "", "abstained": True}


def run(*rows: Row) -> Evaluation:
    numbered = [{**row, "id": str(at)} for at, row in enumerate(rows)]
    return ragwright.evaluate(numbered, "Contains")


def test_abstentions_vary_as_wrong_answers_do() -> None:
    rows = (RIGHT,) * 6 + (WRONG,) * 2
    [wrong] = spreads_of(run(*rows))
    [silent] = spreads_of(run(*(SILENT if row is WRONG else row for row in rows)))
    assert silent == wrong
    assert silent.n == 8
    assert silent.sd > 0.4


def test_equal_runs_do_not_show_that_two_systems_correlate_fully() -> None:
    first = run(RIGHT, RIGHT, WRONG, WRONG)
    [alone] = spreads_of(first)
    [beside_itself] = spreads_of(first, run(RIGHT, RIGHT, WRONG, WRONG))
    assert beside_itself == alone
    assert beside_itself.smallest
