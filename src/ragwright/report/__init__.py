"""Tables and plots from stored runs alone."""

from __future__ import annotations

__all__: list[str] = []
