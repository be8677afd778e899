"""The structured door: rows become bronze, silver and gold tables, then documents."""

from __future__ import annotations

__all__: list[str] = []
