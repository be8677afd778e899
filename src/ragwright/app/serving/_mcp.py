"""`ragwright mcp`."""

from __future__ import annotations

from ...core import require
from ...serve import Serving, serve_stdio
from .._flags import Flags, takes


@takes("project overrides reload")
def command(flags: Flags) -> None:
    """Serve the project to an agent (MCP).

    The agent starts this command and can call search, fetch, ask and list_sources.
    """
    require("mcp", "serve", "serving tools to agents")
    require("fastapi", "serve", "serving tools to agents")
    serve_stdio(Serving(flags.project, flags.settings, own=flags.reload))
