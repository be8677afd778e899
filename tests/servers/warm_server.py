"""A process that has the package loaded and forks for each run: what is loaded is not paid again.

``WarmServer`` starts it. A run is a process of its own with its own folder, environment and
streams; only the time of the imports is saved. ``folder`` holds a ``ragwright`` for shells.
Elsewhere than on Linux, where a fork of a loaded process is not safe, runs are plain processes.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, Self

LOADED = (
    *(f"ragwright.{room}" for room in ("core", "flow", "models", "ingest", "index", "retrieve")),
    *(f"ragwright.{room}" for room in ("answer", "measure", "project", "testsets", "drafting")),
    *(
        f"ragwright.{room}"
        for room in ("records", "audit", "experiment", "report", "jobs", "workbench", "testing")
    ),
    "httpcore2",
    "jinja2",
    "numpy",
    "numpy.ma",
    "openai",
    "optuna",
    "yaml",
)
SECONDS = 180
"""That a run may take."""

CLIENT = """#!{python} -IS
import json, os, socket, sys
link = socket.socket(socket.AF_UNIX)
link.connect({address!r})
asked = {{"argv": sys.argv, "cwd": os.getcwd(), "env": dict(os.environ)}}
socket.send_fds(link, [json.dumps(asked).encode() + b"\\n"], [0, 1, 2])
sys.exit(int(link.makefile().read() or 70))
"""


class WarmServer:
    """The server, and runs of it; a context manager."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="warm"))
        self._address = str(self.folder / "socket")
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        if sys.platform == "linux":
            client = self.folder / "ragwright"
            client.write_text(CLIENT.format(python=sys.executable, address=self._address), "utf-8")
            client.chmod(0o755)
            command = [sys.executable, "-W", "error", __file__, self._address]
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, start_new_session=True
            )
            assert self._process.stdout is not None
            assert self._process.stdout.readline() == b"ready\n"
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGTERM)  # runs that never ended, too
            self._process.communicate()
        shutil.rmtree(self.folder)

    def run(self, code: str, *, typed: str, cwd: Path, env: dict[str, str]) -> tuple[int, str]:
        """Exit code and printed text of Python code, run as ``python -W error -c CODE`` runs it."""
        with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile("w+") as said:
            given.write(typed)
            given.seek(0)
            if self._process is None:
                command = [sys.executable, "-W", "error", "-c", code]
                plain = subprocess.run(
                    command,
                    cwd=cwd,
                    env=env,
                    stdin=given,
                    stdout=said,
                    stderr=said,
                    timeout=SECONDS,
                )
                ended = plain.returncode
            else:
                asked = {"code": code, "cwd": str(cwd), "env": env}
                ended = self._forked(asked, [given.fileno(), said.fileno(), said.fileno()])
            said.seek(0)
            return ended, said.read()

    def _forked(self, asked: dict[str, Any], streams: list[int]) -> int:
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(SECONDS)
            link.connect(self._address)
            socket.send_fds(link, [json.dumps(asked).encode() + b"\n"], streams)
            return int(link.makefile().read() or 70)


def serve(address: str) -> None:
    """Fork for each connection, until terminated."""
    for name in LOADED:
        module = import_module(name)
        for offered in getattr(module, "__all__", ()) if name.startswith("ragwright") else ():
            getattr(module, offered)
    import_module("ragwright.app").command_line()
    gc.collect()
    gc.freeze()  # what is loaded is never looked through again, so its memory stays shared
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries what has ended
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen(64)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        link, _ = listening.accept()
        if not os.fork():
            listening.close()
            _answer(link)
        link.close()


def _answer(link: socket.socket) -> None:
    """Fork once more, and tell how that process ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    data, streams, _, _ = socket.recv_fds(link, 1 << 20, 3)
    while not data.endswith(b"\n"):
        data += link.recv(1 << 20)
    run = os.fork()
    if not run:
        link.close()
        _take(json.loads(data), streams)
    for stream in streams:
        os.close(stream)
    _, status = os.waitpid(run, 0)
    code = os.waitstatus_to_exitcode(status)
    link.sendall(str(code if code >= 0 else 128 - code).encode())
    os._exit(0)


def _take(asked: dict[str, Any], streams: list[int]) -> NoReturn:
    """Become what was asked for, and end as it ends.

    Python's own end would take down every module that is loaded, which costs more than they did.
    """
    code = 0
    try:
        _run(asked, streams)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


def _run(asked: dict[str, Any], streams: list[int]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    if "code" in asked:
        sys.argv = ["-c"]
        exec(asked["code"], {"__name__": "__main__"})
    else:
        sys.argv = asked["argv"]
        import_module("ragwright.app").main()


if __name__ == "__main__":
    serve(sys.argv[1])
