"""The one door to Daft: telemetry off before it is imported, here and in every worker."""

from __future__ import annotations

import os
from typing import Any

from ..core import require

_QUIET = {
    "DO_NOT_TRACK": "1",
    "DAFT_ANALYTICS_ENABLED": "0",
    "SCARF_NO_ANALYTICS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "DAFT_PROGRESS_BAR": "0",
}
"""Read when Daft and Ray are imported, so set before; workers inherit them."""


def daft_module() -> Any:
    """The module ``daft``, imported without telemetry.

    Raises:
        MissingExtraError: It is not installed.
    """
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    return require("daft", "records", "cleaning and tagging records")
