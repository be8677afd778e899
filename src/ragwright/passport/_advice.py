"""Which judge to use: a sentence, and whether gates may trust the judge."""

from __future__ import annotations

from dataclasses import replace

from ..measure import Estimate
from ._passport import FreeDifference, JudgeFigures


def advised(figures: JudgeFigures, name: str, dimension: str, best: str) -> JudgeFigures:
    """Add the advice, and whether the judge may be trusted.

    Args:
        figures: Figures of the judge, with its differences to free measures.
        name: The judge.
        dimension: The dimension.
        best: The free measure with the highest rank correlation; empty if there is none.
    """
    above = figures.spearman.low is not None and figures.spearman.low > 0
    against = next((free for free in figures.versus if free.name == best), None)
    below = against is not None and against.spearman.high is not None and against.spearman.high < 0
    text = _advice_text(figures, name, dimension, best, against)
    return replace(figures, advice=text, trusted=above and not below)


def _advice_text(
    figures: JudgeFigures, name: str, dimension: str, best: str, against: FreeDifference | None
) -> str:
    agreement = figures.spearman
    if agreement.value is None:
        return f"{name} gives every answer the same value, so nothing can be said about it."
    if agreement.low is None:
        return f"Too few tasks to say whether {name} agrees with people on {dimension}."
    if agreement.low <= 0:
        return (
            f"Do not use {name} for {dimension}: its agreement with people is not shown to be "
            f"above chance ({_estimate_text(agreement)})."
        )
    if name == best:
        return f"{name} agrees best with people on {dimension} of the free measures here."
    if against is None:
        return (
            f"{name} agrees with people on {dimension} above chance "
            f"({_estimate_text(agreement)}); no free measure was computed on these rows."
        )
    difference = against.spearman
    if difference.high is not None and difference.high < 0:
        lead = f"difference of Spearman {_estimate_text(_negative(difference), sign=True)}"
        return (
            f"Use {best} instead of {name} for {dimension}: it is free and agrees better with "
            f"people ({lead})."
        )
    text = f"difference of Spearman {_estimate_text(difference, sign=True)}"
    if difference.low is not None and difference.low > 0:
        return f"Use {name} for {dimension}: it agrees better with people than {best} ({text})."
    return (
        f"Use {best} for {dimension}: {name} is not shown to agree better with people, and "
        f"{best} is free ({text})."
    )


def _negative(estimate: Estimate) -> Estimate:
    """The same difference from the other side."""
    value, low, high = (
        None if number is None else -number
        for number in (estimate.value, estimate.high, estimate.low)
    )
    return Estimate(value, low, high)


def _estimate_text(estimate: Estimate, *, sign: bool = False) -> str:
    form = "+.3f" if sign else ".3f"
    if estimate.value is None:
        return "unknown"
    text = format(estimate.value, form)
    if estimate.low is None or estimate.high is None:
        return text
    return f"{text}, 95 % interval {format(estimate.low, form)} to {format(estimate.high, form)}"
