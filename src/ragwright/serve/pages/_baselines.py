"""Baselines on the page of experiments: S_b and S_e of each, over their null bands."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from ...experiment import BaselineResult
from ...report import null_bands
from ._plots import distances, span_of

SHOWN = 20
"""Baselines on the page, the newest ones; a report shows more."""

_BANDS = {"shuffled answers": "shuffled", "question echoed": "echoed"}


def baseline_lines(baselines: Sequence[BaselineResult]) -> list[dict[str, Any]]:
    """Baselines as lines of a table, all drawn on one axis."""
    bands = [
        [(_BANDS[name], low, high) for name, (low, high) in null_bands(baseline).items()]
        for baseline in baselines
    ]
    means = [[side.summary for side in baseline.sets[:2]] for baseline in baselines]
    ends = [
        end
        for sides in means
        for baseline in sides
        for end in (baseline.low, baseline.mean, baseline.high)
    ]
    ends += [end for band_rows in bands for _, *both in band_rows for end in both]
    span = span_of(ends)
    lines: list[dict[str, Any]] = []
    for baseline, sides, drawn in zip(baselines, means, bands, strict=True):
        points = [
            (kind, side.mean, side.low, side.high)
            for kind, side in zip(("given", "answered"), sides, strict=True)
            if side.mean is not None
        ]
        lines.append(
            {
                "id": baseline.run,
                "name": baseline.label,
                "started": time.strftime("%Y-%m-%d %H:%M", time.localtime(baseline.started)),
                "testset": baseline.testset,
                "embedder": baseline.embedder,
                "pairs": len(baseline.sets[1].pairs),
                "means": [side.mean for side in sides],
                "outcome": baseline.shift.outcome,
                "drawing": distances(points, drawn, span),
            }
        )
    return lines
