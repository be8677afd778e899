"""Switches that keep Daft and Ray from sending usage reports, here and in every worker."""

from __future__ import annotations

import os

_QUIET = {
    "DO_NOT_TRACK": "1",
    "DAFT_ANALYTICS_ENABLED": "0",
    "SCARF_NO_ANALYTICS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "DAFT_PROGRESS_BAR": "0",
}
"""Read when Daft and Ray are imported, so set before; workers inherit them."""


def quiet() -> dict[str, str]:
    """Set the variables that switch telemetry off, unless set; returns them for workers."""
    return {name: os.environ.setdefault(name, value) for name, value in _QUIET.items()}
