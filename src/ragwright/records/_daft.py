"""Imports Daft with telemetry off."""

from __future__ import annotations

from typing import Any

from ..core import require
from ..engines import quiet


def daft_module() -> Any:
    """The module ``daft``, imported without telemetry.

    Raises:
        MissingExtraError: It is not installed.
    """
    quiet()
    return require("daft", "records", "cleaning and tagging records")
