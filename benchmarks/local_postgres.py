"""A PostgreSQL server of this machine for a benchmark: fresh, with its own default settings."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class LocalPostgres:
    """A running server on a socket; every commit waits for the disk.

    Args:
        folder: Folder of its data and its socket.
        user: Whom it runs as; None: this process's user.
    """

    def __init__(self, folder: Path, user: str | None) -> None:
        [*_, self._programs] = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
        self._folder, self._user = folder, user
        self.address = f"postgresql://admin@/postgres?host={folder}"

    def _call(self, program: str, *words: str) -> None:
        data = ("-D", str(self._folder / "data"))
        command = [str(self._programs / program), *data, *words]
        subprocess.run(command, user=self._user, cwd=self._folder, check=True, capture_output=True)

    def create(self) -> None:
        """Make an empty cluster."""
        self._call("initdb", "-U", "admin", "-A", "trust")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        flags = f"-k {self._folder} -c listen_addresses=''"
        self._call("pg_ctl", "-w", "-o", flags, "-l", str(self._folder / "log"), "start")

    def stop(self) -> None:
        """End it at once, as a crash would."""
        self._call("pg_ctl", "-m", "immediate", "stop")


@contextmanager
def local_postgres() -> Iterator[LocalPostgres]:
    """A fresh server; it needs `initdb`."""
    user = None if os.geteuid() else pwd.getpwnam("postgres").pw_name
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
    if user:
        shutil.chown(folder, user)
    server = LocalPostgres(folder, user)
    try:
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
