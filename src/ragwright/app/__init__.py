"""The command line: parse, call, show."""

from __future__ import annotations

from ._main import app, main

__all__ = ["app", "main"]
