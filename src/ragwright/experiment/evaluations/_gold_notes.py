"""Measures that need gold, and testsets without it: said before anything is asked."""

from __future__ import annotations

from collections.abc import Sequence

from ...core import TestsetError
from ...measure import GOLD, Measure, lacks_gold
from ...testsets import Testset


def check_gold(testset: Testset, measures: Sequence[Measure]) -> None:
    """Refuse a run in which no measure could be taken of any row, for want of gold.

    Raises:
        TestsetError: So it is; names what the rows lack.
    """
    if testset.rows and measures and len(without_gold(testset, measures)) == len(measures):
        raise TestsetError(
            f"no row has what {', '.join(map(str, measures))} compares with",
            where=testset.name,
            hint="give the rows a `reference` (ground_truth, expected_output), reference_contexts "
            "or reference_ids; or name measures without gold, such as KPrecision",
        )


def without_gold(testset: Testset, measures: Sequence[Measure]) -> tuple[str, ...]:
    """The measures that no row of a testset has gold for."""
    return tuple(
        str(measure)
        for measure in measures
        if all(lacks_gold(row, measure.definition) for row in testset.rows)
    )


def gold_warning(testset: Testset, measures: Sequence[Measure]) -> str:
    """What to say of missing gold before anything is asked; empty if there is nothing to say.

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
