"""`ragwright serve`."""

from __future__ import annotations

from collections.abc import Callable
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
    require_serving()
    console = Console()
    serving = served.Serving(Path(project), tuple(overrides or ()), own=reload)
    served.serve(serving, served.Listening(host, port, workers, announced(console, str(project))))


def require_serving() -> None:
    """Check that the packages of the server are installed.

    Raises:
        MissingExtraError: One is missing; the message says how to install it.
    """
    for module in ("fastapi", "uvicorn", "mcp", "prometheus_client"):
        require(module, "serve", "serving a project")


def announced(console: Console, project: str) -> Callable[[str], None]:
    """Says on which address a project is served, once its port is open."""

    def started(address: str) -> None:
        if console.quiet:
            console.result(address)
        console.remark(f"serving {project} on {address}")
        console.remark(f"  pages: {address} (in a browser)")
        console.remark(f"  OpenAI-compatible programs: base URL {address}/v1")
        console.remark(f"  agents (MCP): {address}/mcp/")

    return started


def serve_demo(console: Console, folder: Path, port: int | None) -> None:
    """Serve a demo project until it is stopped; its own files are followed."""
    serving = served.Serving(folder, own=True)
    served.serve(serving, served.Listening("", port, 1, announced(console, str(folder))))
