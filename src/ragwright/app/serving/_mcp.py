"""`ragwright mcp`."""

from __future__ import annotations

from pathlib import Path

from ... import serve as served
from ...core import require
from .._console import reported
from .._options import HERE, Overrides, Project, Reload


@reported
def command(
    project: Project = HERE,
    overrides: Overrides = None,
    reload: Reload = False,
) -> None:
    """Serve search, fetch, ask and list_sources to an agent that starts this command (MCP)."""
    require("mcp", "serve", "serving tools to agents")
    require("fastapi", "serve", "serving tools to agents")
    served.serve_stdio(served.Serving(Path(project), tuple(overrides or ()), own=reload))
