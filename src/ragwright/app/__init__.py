"""The command line: parse, call, show."""

from __future__ import annotations

__all__: list[str] = []
