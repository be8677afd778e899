"""`ragwright serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ... import serve as served
from ...core import require
from .._console import Console, reported
from .._options import HERE, Overrides, Project, Reload


@reported
def command(
    project: Project = HERE,
    overrides: Overrides = None,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; serve.host where empty.")
    ] = "",
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="Port; serve.port by default, 0: any."),
    ] = None,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes that answer.")] = 1,
    reload: Reload = False,
) -> None:
    """Serve the project over HTTP: OpenAI-compatible chat, retrieval, MCP, sources."""
    for module in ("fastapi", "uvicorn", "mcp", "prometheus_client"):
        require(module, "serve", "serving a project")
    console = Console()

    def started(address: str) -> None:
        console.remark(f"serving {project} on {address}")
        console.remark(f"  OpenAI-compatible programs: base URL {address}/v1")
        console.remark(f"  agents (MCP): {address}/mcp/")

    served.serve(
        served.Serving(Path(project), tuple(overrides or ()), own=reload),
        served.Listening(host, port, workers, started),
    )
