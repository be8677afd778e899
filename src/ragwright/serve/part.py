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
        "serve": "Serve the project over HTTP: OpenAI-compatible chat, retrieval, MCP, sources.",
        "mcp": "Serve search, fetch, ask and list_sources to an agent that starts this command "
        "(MCP).",
        "keys": "Keys of `ragwright serve`: make, list, change and revoke them.",
    },
)
