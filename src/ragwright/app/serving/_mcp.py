"""`ragwright mcp`."""

from __future__ import annotations

from ... import serve  # its server needs an extra, which the command checks first
from ...core import require
from .._flags import Flags, takes


@takes("project overrides reload")
def command(flags: Flags) -> None:
    """Serve the project to an agent (MCP).

    The agent starts this command and can call search, fetch, ask and list_sources.
    """
    require("mcp", "serve", "serving tools to agents")
    require("fastapi", "serve", "serving tools to agents")
    serve.serve_stdio(serve.ServedProject(flags.project, flags.settings, own=flags.reload))
