"""A PostgreSQL server of a test's own: a fresh cluster on a Unix socket, no network."""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path


def binaries() -> Path:
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    on_path = shutil.which("initdb")
    if on_path:
        found.append(Path(on_path).resolve().parent)
    assert found, "no PostgreSQL server is installed (looked for initdb)"
    return max(found, key=lambda path: path.parent.name)


def plain_user() -> str | None:
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise AssertionError("PostgreSQL refuses to run as root, and there is no other user")


def call(command: Sequence[str], folder: Path) -> None:
    """Run one of the server's programs as the user it runs as."""
    done = subprocess.run(
        command, user=plain_user(), cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def stop_server(folder: str) -> None:
    """End a server at once, as a crash would; nothing where it is down already."""
    data = Path(folder) / "data"
    if (data / "postmaster.pid").exists():
        programs = binaries()
        call([f"{programs}/pg_ctl", "-D", str(data), "-m", "immediate", "stop"], Path(folder))


def start_server(folder: str) -> None:
    place = Path(folder)
    flags = f"-k {folder} -c listen_addresses='' -c fsync=off"
    start = [f"{binaries()}/pg_ctl", "-D", str(place / "data"), "-w", "-o", flags]
    call([*start, "-l", str(place / "log"), "start"], place)


def empty_folder() -> Path:
    folder, user = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp")), plain_user()
    if user:
        shutil.chown(folder, user)
    return folder


@cache
def fresh_cluster() -> Path:
    """The data of a new cluster, which each process of the tests makes once."""
    folder = empty_folder()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    data = str(folder / "data")
    call([f"{binaries()}/initdb", "-D", data, "-U", "admin", "-A", "trust", "-N"], folder)
    return folder / "data"


@contextmanager
def running_server() -> Iterator[str]:
    """The folder of the socket of a server with superuser ``admin`` and trust on the socket."""
    cluster, folder = fresh_cluster(), empty_folder()
    try:
        call(["cp", "-a", str(cluster), str(folder / "data")], folder)
        start_server(str(folder))
        try:
            yield str(folder)
        finally:
            stop_server(str(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
