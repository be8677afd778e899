"""The app, and the process or processes that run it."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import multiprocessing.connection
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import APIRouter, FastAPI, Response
from fastapi.responses import PlainTextResponse
from starlette.types import ASGIApp
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

from .. import __version__
from ..core import ConfigError, StoreError, import_plugins_from, plugin_folder, spawning
from . import _audit, _chat, _limits, _mcp, pages
from ._auth import AccessCheck, CleanPaths, OtherOrigins
from ._errors import describe_errors, install_errors, log, log_to_stderr
from ._keys import is_loopback
from ._options import LogForm
from ._responses import knowledge_router
from ._service import ServedProject, Service

_SERVING = "RAGWRIGHT_SERVING"
"""Variable by which a worker process learns what to serve."""

_PATIENCE = 30
"""Seconds that answers under way have to end when the server is stopped."""

_BACKLOG = 2048
"""Connections that wait while the project is opened; the address is announced before."""

_IDLE = 75
"""Seconds that an idle connection is kept, more than most proxies keep theirs."""


_SILENCE = 60.0
"""Seconds without a reply after which a worker counts as stuck: loading models takes long."""

_PING = 0.2
"""Seconds that a worker has for its reply before the next one is asked."""


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """The address to listen on.

    Attributes:
        host: Address; that of the project file where empty.
        port: Port; that of the project file where None, any free one where 0.
        workers: Processes.
        started: Gets the address once the port is open, and the form of the log.
    """

    host: str = ""
    port: int | None = None
    workers: int = 1
    started: Callable[[str, LogForm], None] | None = None


def make_app(serving: ServedProject) -> ASGIApp:
    """The ASGI app of a project, for an ASGI server of your own.

    Raises:
        ConfigError: The project's settings are wrong.
    """
    service = Service(serving)
    tools = _mcp.mcp_server(service)
    agents = _mcp.http_app(tools)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await service.start()
        try:
            async with tools.session_manager.run():
                yield
        finally:
            await service.close()

    app = FastAPI(
        title="ragwright",
        version=__version__,
        summary="Answers with citations from the documents of a project.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.state.service = service
    install_errors(app, pages.error_page)
    for router in (_chat.router, knowledge_router, pages.router, _metrics_router):
        app.include_router(router)
    app.mount("/mcp", agents)
    guarded = OtherOrigins(AccessCheck(app, service), service)
    return CleanPaths(_audit.RequestRecords(guarded, service, app), service)


_metrics_router = APIRouter()


@_metrics_router.get("/metrics", response_class=PlainTextResponse, responses=describe_errors())
async def show_metrics(service: _chat.Serves, caller: _chat.Calls) -> Response:
    """Show counters in the text format of Prometheus."""
    caller.require_owner()
    body, media_type = service.metrics.page()
    return Response(body, media_type=media_type)


def serve(serving: ServedProject, listening: ListenAddress) -> None:
    """Serve a project until it is stopped by SIGINT or SIGTERM; answers under way end first.

    Raises:
        ConfigError: The settings are wrong, the port is taken, or the address is not a loopback
            one and there is no key.
    """
    service = Service(serving)  # settings and keys are checked before a port is opened
    form = service.options.log
    log_to_stderr(form)
    try:
        service.check()
        host = listening.host or service.options.host
        port = service.options.port if listening.port is None else listening.port
        known = bool(service.keys.all()) or service.options.knows_people
        if not is_loopback(host) and not known:
            raise ConfigError(
                f"{host} can be reached from other machines, but no key has been made",
                hint="make one: ragwright keys add NAME   (or listen on 127.0.0.1)",
            )
        if not is_loopback(host) and not service.options.public_url.startswith("https://"):
            log.warning(
                "%s is served without TLS: keys, questions and answers can be read on the way. "
                "Put a proxy with TLS in front of it and set serve.public_url to its https "
                "address, or listen on 127.0.0.1.",
                host,
            )
    finally:
        service.close_ledger()
    with (
        _listening_socket(host, port) as listener,
        _environment_for_workers(serving, listening.workers, form),
    ):
        if listening.started is not None:
            url_host = f"[{host}]" if ":" in host else host
            listening.started(f"http://{url_host}:{listener.getsockname()[1]}", form)
        many = listening.workers > 1
        config = uvicorn.Config(
            "ragwright.serve:worker_app" if many else make_app(serving),
            factory=many,
            workers=listening.workers,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_PATIENCE,
            timeout_keep_alive=_IDLE,
            proxy_headers=False,
        )
        if many:
            workers = _Workers(config, sockets=[listener])
            workers.run()
            if workers.failed:
                raise StoreError("a worker did not start", hint="the log above says why")
        else:
            server = _Server(config)
            server.run([listener])
            if not server.started:
                raise StoreError("the server did not start", hint="the log above says why")


class _Server(uvicorn.Server):
    """A server that ends with exit code 0 after SIGTERM, which is how services are stopped."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals; uvicorn raises them again at the end, SIGTERM too."""
        with super().capture_signals():
            yield
            self._captured_signals = [
                number for number in self._captured_signals if number != signal.SIGTERM
            ]


class _Workers(Multiprocess):
    """Worker processes; the open requests of a worker are dropped from the count when it exits.

    uvicorn's own loop waits up to its limit for one silent worker, and signals wait with it.

    Attributes:
        failed: True where one ended by an error before it served: others would end the same way.
    """

    failed = False

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        self._heard: dict[int | None, float] = {}
        self._served: set[int | None] = set()

    def keep_subprocess_alive(self) -> None:
        """Replace workers that have ended after they served, and silent ones; else stop."""
        for at, process in enumerate(self.processes):
            now, alive = time.monotonic(), process.process.is_alive()
            if alive and process.ping(_PING):
                self._heard[process.pid] = now
                if process.pid not in self._served and process.is_ready(_PING):
                    self._served.add(process.pid)
                continue
            if alive and now - self._heard.setdefault(process.pid, now) < _SILENCE:
                continue
            if not alive and process.pid not in self._served and (process.exitcode or 0) > 0:
                self.failed = True
                self.should_exit.set()
                return
            process.kill()
            process.join()
            log.warning(
                "worker %s %s; another one is started", process.pid, _end_of(process, alive)
            )
            _limits.forget_process(process.pid)
            self.processes[at] = Process(self.config, self.sockets)
            self.processes[at].start()


def _end_of(process: Process, alive: bool) -> str:
    """How a worker ended, and the likely cause."""
    if alive:
        return (
            f"did not reply to the server for {_SILENCE:g} s and was killed: it was stuck, or the "
            "processors are too busy (not a lack of memory)"
        )
    if process.exitcode == -signal.SIGKILL:
        return "was killed by the system or a person; systems do that when memory is short"
    return f"ended with exit code {process.exitcode}"


def worker_app() -> ASGIApp:
    """The app of a worker process; what it serves is in the environment."""
    os.environ.pop("PYTHONSAFEPATH", None)  # for the start of this process alone
    threading.Thread(target=_end_with_parent, name="ragwright-parent", daemon=True).start()
    body: dict[str, Any] = json.loads(os.environ[_SERVING])
    log_to_stderr(body["log"])
    import_plugins_from(body["plugins"])
    return make_app(
        ServedProject(
            Path(body["folder"]), tuple(body["overrides"]), bool(body["own"]), body["watch"]
        )
    )


def _end_with_parent() -> None:
    """End this worker at once when the process that started it has ended, however it ended.

    A worker that is left alone would keep the port, with nobody to stop or replace it. Answers
    under way are cut off, as they would be if a single process were killed.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        log.warning("worker %d ends: the process that started it has ended", os.getpid())
        os._exit(1)


@contextlib.contextmanager
def _listening_socket(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sends each piece at once (TCP_NODELAY); else the body of a
    # reply waits up to 40 ms for the client to acknowledge its head.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen(_BACKLOG)
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {host}:{port}: {error.strerror or error}",
                hint="choose another one: --port 0 takes any free port",
            ) from error
        yield listener
    finally:
        listener.close()


@contextlib.contextmanager
def _environment_for_workers(
    serving: ServedProject, count: int, log_form: LogForm
) -> Iterator[None]:
    """Tell worker processes what they serve, by the environment; it is removed at the end."""
    if count == 1:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="ragwright-metrics-") as folder:
        body = {**asdict(serving), "folder": str(serving.folder.resolve()), "log": log_form}
        body["plugins"] = plugin_folder()
        os.environ |= {_SERVING: json.dumps(body), _limits.FOLDER: folder}
        try:
            with spawning():
                yield
        finally:
            for name in (_SERVING, _limits.FOLDER):
                os.environ.pop(name, None)
