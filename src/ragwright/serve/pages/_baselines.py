"""Baselines on the page of experiments: S_b and S_e of each, over their null bands."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...report import null_bands
from ._plots import distances, span_of

if TYPE_CHECKING:
    from ...experiment import BaselineResult

SHOWN = 20
"""Baselines on the page, the newest ones; a report shows more."""

_BANDS = {"shuffled answers": "shuffled", "question echoed": "echoed"}


def baseline_lines(found: Sequence[BaselineResult]) -> list[dict[str, Any]]:
    """Baselines as lines of a table, all drawn on one axis."""
    bands = [
        [(_BANDS[name], low, high) for name, (low, high) in null_bands(one).items()]
        for one in found
    ]
    means = [[side.summary for side in one.sets[:2]] for one in found]
    ends = [end for sides in means for one in sides for end in (one.low, one.mean, one.high)]
    ends += [end for each in bands for _, *both in each for end in both]
    span = span_of(ends)
    lines: list[dict[str, Any]] = []
    for one, sides, drawn in zip(found, means, bands, strict=True):
        points = [
            (kind, side.mean, side.low, side.high)
            for kind, side in zip(("given", "answered"), sides, strict=True)
            if side.mean is not None
        ]
        lines.append(
            {
                "id": one.run,
                "name": one.label,
                "started": time.strftime("%Y-%m-%d %H:%M", time.localtime(one.started)),
                "testset": one.testset,
                "embedder": one.embedder,
                "pairs": len(one.sets[1].pairs),
                "means": [side.mean for side in sides],
                "outcome": one.shift.outcome,
                "drawing": distances(points, drawn, span),
            }
        )
    return lines
