"""Measures as values, and the statistics beside them."""

from __future__ import annotations

__all__: list[str] = []
