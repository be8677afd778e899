"""`ragwright serve`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from typer import Option

from ... import serve  # its server needs an extra, which the command checks first
from ...core import require
from .._console import Console
from .._flags import Flags, takes


@takes("project overrides reload")
def command(
    flags: Flags,
    host: str = Option("", help="Address to listen on; by default serve.host."),
    port: int | None = Option(
        None, min=0, max=65535, help="Port; by default serve.port; 0 takes any free port."
    ),
    workers: int = Option(1, min=1, help="Number of processes that answer."),
) -> None:
    """Serve the project over HTTP.

    It offers OpenAI-compatible chat, retrieval, MCP, sources and pages.
    """
    require_serving()
    # Searches run side by side already: further threads of numpy spin while they wait for work.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    serving = serve.ServedProject(flags.project, flags.settings, own=flags.reload)
    announce = make_announcer(flags.console, str(flags.project))
    serve.serve(serving, serve.ListenAddress(host, port, workers, announce))


def require_serving() -> None:
    """Check that the packages of the server are installed.

    Raises:
        MissingExtraError: One is missing; the message says how to install it.
    """
    for module in ("fastapi", "uvicorn", "mcp", "prometheus_client"):
        require(module, "serve", "serving a project")


def make_announcer(console: Console, project: str) -> Callable[[str, str], None]:
    """A callback that prints the addresses of a served project, once its port is open."""

    def started(address: str, form: str) -> None:
        if console.quiet:
            console.result(address)
        if form == "json":
            body = {"level": "info", "message": f"serving {project} on {address}"}
            console.remark(json.dumps(body))
            return
        console.remark(f"serving {project} on {address}")
        console.remark(f"  pages: {address} (in a browser)")
        console.remark(f"  OpenAI-compatible programs: base URL {address}/v1")
        console.remark(f"  agents (MCP): {address}/mcp/")

    return started


def serve_demo(console: Console, folder: Path, port: int | None) -> None:
    """Serve a demo project until it is stopped; follow changes of its files."""
    serving = serve.ServedProject(folder, own=True)
    serve.serve(serving, serve.ListenAddress("", port, 1, make_announcer(console, str(folder))))
