"""Runs of a process that has the package loaded: what is loaded is not paid again.

A run is a process of its own, forked from the server of ``children``, with its own folder,
environment and streams; only the time of the imports is saved. ``folder`` holds a ``ragwright``
for shells, which asks for such a run.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import socket
import sys
import tempfile
import threading
import warnings
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Self

from children import started

from ragwright.app import main

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
    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="warm"))
        self._listening = socket.socket(socket.AF_UNIX)
        self._runs: list[BaseProcess] = []

    def __enter__(self) -> Self:
        address = str(self.folder / "socket")
        client = self.folder / "ragwright"
        client.write_text(CLIENT.format(python=sys.executable, address=address), "utf-8")
        client.chmod(0o755)
        self._listening.bind(address)
        self._listening.listen(64)
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()
        for run in self._runs:  # that never ended, too
            run.kill()
        shutil.rmtree(self.folder)

    def run(self, code: str, *, typed: str, cwd: Path, env: dict[str, str]) -> tuple[int, str]:
        """Exit code and printed text of Python code, run as ``python -W error -c CODE`` runs it."""
        with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile("w+") as said:
            given.write(typed)
            given.seek(0)
            asked = {"code": code, "cwd": str(cwd), "env": env}
            ended = self._run(asked, [os.dup(file.fileno()) for file in (given, said, said)])
            said.seek(0)
            return ended, said.read()

    def _run(self, asked: dict[str, Any], streams: list[int]) -> int:
        """Run it with these streams, which are closed here; its exit code, as shells tell it."""
        run = started(_become, asked, [Connection(stream) for stream in streams])
        self._runs.append(run)
        run.join(SECONDS)
        assert run.exitcode is not None, f"a run took longer than {SECONDS} s"
        return run.exitcode if run.exitcode >= 0 else 128 - run.exitcode

    def _serve(self) -> None:
        with suppress(OSError):  # closed at the end
            while True:
                link, _ = self._listening.accept()
                threading.Thread(target=self._answer, args=(link,), daemon=True).start()

    def _answer(self, link: socket.socket) -> None:
        with link:
            data, streams, _, _ = socket.recv_fds(link, 1 << 20, 3)
            while not data.endswith(b"\n"):
                data += link.recv(1 << 20)
            link.sendall(str(self._run(json.loads(data), streams)).encode())


def _become(asked: dict[str, Any], streams: list[Connection]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream.fileno(), number)
        stream.close()
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    warnings.simplefilter("error")
    try:
        if "code" in asked:
            sys.argv = ["-c"]
            exec(asked["code"], {"__name__": "__main__"})
        else:
            sys.argv = asked["argv"]
            main()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
