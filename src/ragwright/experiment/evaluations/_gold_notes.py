"""Checks for missing gold, before any question is asked."""

from __future__ import annotations

from collections.abc import Sequence

from ...core import TestsetError
from ...measure import GOLD, Measure, lacks_gold
from ...testsets import Testset


def check_gold(testset: Testset, measures: Sequence[Measure]) -> None:
    """Refuse a run in which no row has the gold that the measures need.

    Raises:
        TestsetError: No row has it; the message names what is missing.
    """
    if testset.rows and measures and len(without_gold(testset, measures)) == len(measures):
        raise TestsetError(
            f"no row has what {', '.join(map(str, measures))} compares with",
            where=testset.name,
            hint="give the rows a `reference` (ground_truth, expected_output), reference_contexts "
            "or reference_ids; or name measures without gold, such as KPrecision",
        )


def without_gold(testset: Testset, measures: Sequence[Measure]) -> tuple[str, ...]:
    """Return the measures for which no row of a testset has gold."""
    return tuple(
        str(measure)
        for measure in measures
        if all(lacks_gold(row, measure.definition) for row in testset.rows)
    )


def gold_warning(testset: Testset, measures: Sequence[Measure]) -> str:
    """Return a warning about missing gold before any question is asked; empty if there is none.

    Args:
        testset: The rows to ask.
        measures: The measures that were named; none for the defaults.
    """
    if not testset.rows:
        return ""
    if measures:
        without = without_gold(testset, measures)
        if not without:
            return ""
        return (
            f"no row of {testset.name} has what {', '.join(without)} compares with: "
            f"{'it' if len(without) == 1 else 'they'} will have no score"
        )
    if any(getattr(row, name) for row in testset.rows for name in GOLD):
        return ""
    return (
        f"no row of {testset.name} has a reference answer or gold passages: only what needs "
        "neither is measured, such as whether answers follow from their passages"
    )
