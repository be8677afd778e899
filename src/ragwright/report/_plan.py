"""The table of `gate --plan`: rows needed to see a difference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..measure import PLAN_MARGINS, ScoreSpread
from ._text import WIDTH, number, text_table

_METHOD = (
    "rows for 80 % power at the 5 % level, two-sided, normal approximation (Cohen 1988); margins "
    "are shares of the scale"
)


def plan_json(spreads: Sequence[ScoreSpread]) -> dict[str, Any]:
    """The document of ``gate --plan --json``: ``{"method", "kinds": [{…, "rows": […]}]}``."""
    kinds = []
    for spread in spreads:
        rows = [
            dict(zip(("margin", "paired", "unpaired", "clustered"), (margin, *counts), strict=True))
            for margin in PLAN_MARGINS
            for counts in [spread.rows(margin)]
        ]
        kinds.append(
            {
                "kind": spread.kind,
                "sd": round(spread.sd, 4),
                "correlation": round(spread.correlation, 4),
                "design_effect": round(spread.design_effect, 4),
                "source": spread.source,
                "n": spread.n,
                "smallest": None if spread.smallest is None else round(spread.smallest, 4),
                "rows": rows,
            }
        )
    return {"method": _METHOD, "kinds": kinds}


def plan_table(spreads: Sequence[ScoreSpread], width: int = WIDTH) -> str:
    """Return rows needed by kind of score and margin, and what measured rows can see."""
    heads = [f"{margin:.2f}" for margin in PLAN_MARGINS]
    table = [["kind of score", "rows", *heads]]
    lines = []
    for spread in spreads:
        counts = [spread.rows(margin) for margin in PLAN_MARGINS]
        for at, design in enumerate(("paired", "unpaired, each", "paired, clustered")):
            cells = [f"{count[at]:,}" for count in counts]
            table.append(["" if at else spread.kind, design, *cells])
        lines.append(
            f"{spread.kind}: standard deviation {spread.sd:.2f}, correlation of two systems "
            f"{spread.correlation:.2f}, design effect of clusters {spread.design_effect:.2f} "
            f"({spread.source})"
        )
        if spread.smallest is not None:
            lines.append(
                f"{spread.kind}: the {spread.n} rows of this run can see a difference of "
                f"{number(spread.smallest)}"
            )
    right = range(2, len(heads) + 2)
    return "\n".join([text_table(table, right=right, width=width), *lines, _METHOD])
