"""A project opened: configuration, store, runner, ingest, retrieve, ask."""

from __future__ import annotations

__all__: list[str] = []
