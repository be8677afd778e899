"""Serving a project over HTTP and to agents, as a part of the program."""

from __future__ import annotations

from ..core import Part

PART = Part(
    "serve",
    sections={
        "serve": "ragwright.serve:ServeOptions",
    },
    commands={
        "serve": "ragwright.app.serving._serve:command",
        "mcp": "ragwright.app.serving._mcp:command",
        "keys": "ragwright.app.serving._keys:group",
    },
    tables={
        "serve": "ragwright.serve:SERVE_TABLES",
    },
    sentences={
        "serve": "Serve the project over HTTP.",
        "mcp": "Serve the project to an agent (MCP).",
        "keys": "Make, list, change and revoke server keys.",
    },
)
