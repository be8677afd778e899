"""Conformance suites and scripted back ends, for our tests and for plug-ins."""

from __future__ import annotations

__all__: list[str] = []
