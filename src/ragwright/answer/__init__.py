"""Prompt parts, personas, generation, citations and abstention."""

from __future__ import annotations

__all__: list[str] = []
