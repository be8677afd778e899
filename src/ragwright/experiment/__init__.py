"""Testsets and evaluation runs."""

from __future__ import annotations

__all__: list[str] = []
