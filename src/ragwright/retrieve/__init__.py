"""Search, fusion and selection as flows."""

from __future__ import annotations

__all__: list[str] = []
