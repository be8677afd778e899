"""One process at a time, and whoever waits is told for whom."""

from __future__ import annotations

import fcntl
import json
import math
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragwright.core import JobError, StoreBusyError, StoreError
from ragwright.index import SqliteStore
from ragwright.ledger import FileLock, Ledger, LockHolder, _locks, process_runs

HOST = socket.gethostname()
AT = 1_800_000_000.0

HOLDING = """
import sys
from pathlib import Path
from ragwright.ledger import FileLock
with FileLock(Path(sys.argv[1]), "nightly refresh"):
    print("held", flush=True)
    sys.stdin.readline()
"""
SHARING = """
import subprocess, sys
from pathlib import Path
from ragwright.ledger import FileLock
lock = FileLock(Path(sys.argv[1]), "first")
assert lock.acquire()
lock.note_item(3)
sleep = [sys.executable, "-c", "import sys; sys.stdin.readline()"]
subprocess.Popen(sleep, pass_fds=(lock.share(),))
print("held", flush=True)
input()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who holds a lock has a tenth of a second to say so."""
    monkeypatch.setattr(_locks, "_NAMING", 0.1)


def child(path: Path, code: str = HOLDING) -> subprocess.Popen[bytes]:
    """Another process, which holds the lock until it is told or killed."""
    command = [sys.executable, "-c", code, str(path)]
    started = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert started.stdout is not None
    assert started.stdout.readline() == b"held\n"
    return started


def take(path: Path, wait: float = 0.0) -> None:
    with FileLock(path, "second", wait=wait):
        assert json.loads(path.read_text())["what"] == "second"


def refused(path: Path, words: str, wait: float = 0.0) -> None:
    with pytest.raises(StoreBusyError, match=words):
        take(path, wait)


# -- processes -----------------------------------------------------------------------------


def test_a_second_process_is_told_who_holds_it_and_waits_as_long_as_it_may(path: Path) -> None:
    other = child(path)
    told = f"by 'nightly refresh', process {other.pid} on {HOST}"
    refused(path, rf"(?s){told}.*waited 0\.3 s|waited 0\.3 s.*{told}", wait=0.3)
    letting_go = threading.Timer(0.3, other.communicate, (b"\n",))
    letting_go.start()
    with FileLock(path, "second", wait=30):
        assert json.loads(path.read_text())["pid"] == os.getpid()
    letting_go.join()
    assert path.read_text() == ""
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_lock_of_a_killed_process_is_free(path: Path) -> None:
    other = child(path)
    other.kill()
    other.communicate()
    assert str(other.pid) in path.read_text()  # its word is still there
    take(path)


@pytest.mark.usefixtures("hasty")
def test_what_a_dead_process_started_may_hold_the_lock_that_it_shared(path: Path) -> None:
    other = child(path, SHARING)
    assert other.stdin is not None
    assert other.stdout is not None
    other.kill()
    other.wait()
    holder = FileLock(path, "").holder()
    assert holder is not None
    assert (holder.pid, holder.number, holder.alive) == (other.pid, 3, False)
    refused(path, "a child process still runs")
    other.stdin.close()  # which ends the child
    take(path, wait=30)
    other.stdout.close()


def test_releasing_frees_it_for_processes_that_share_it_as_well(path: Path) -> None:
    lock = FileLock(path, "first")
    assert lock.acquire()
    sleep = [sys.executable, "-c", "import sys; sys.stdin.readline()"]
    started = subprocess.Popen(sleep, stdin=subprocess.PIPE, pass_fds=(lock.share(),))
    lock.release()
    lock.release()
    take(path)
    started.communicate(b"\n")


# -- what is said of a holder --------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("records refresh", "records refresh"),
        ("job run nightly --flag refresh", "job run nightly --flag …"),
        (
            "records refresh --source=db://u@h/d?token=hush --full",
            "records refresh --source=… --full",
        ),
        ("records refresh --full --source db://u:hush@h/d", "records refresh --full --source …"),
        ("draft -n5 hush --client hush -khush", "draft -n… … --client … -k…"),
        ("ingest postgresql://u:hush@h/d -q", "ingest … -q"),
    ],
)
def test_the_command_is_told_without_values_of_options(
    path: Path, words: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["ragwright", *words.split()])
    with FileLock(path, "first") as lock:
        assert "hush" not in path.read_text()
        holder = lock.holder()
    assert holder is not None
    assert holder.command == f"ragwright {told}"


UNKNOWN = "another, unidentified process"
DEAD = 2**22 + 1
"""No process: the kernel's numbers end before it."""


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize(
    ("word", "told"),
    [
        *((word, UNKNOWN) for word in ("", "{", "[1]", '{"pid": 1}')),
        *((word, UNKNOWN) for word in ({"pid": "x"}, {"since": math.inf}, {"pid": DEAD})),
        ({"pid": DEAD, "host": "elsewhere"}, f"process {DEAD} on elsewhere"),
        ({}, "by 'first', process"),
    ],
)
def test_a_word_of_nobody_names_nobody(path: Path, word: str | dict[str, Any], told: str) -> None:
    with FileLock(path, "first"):
        said = json.loads(path.read_text())
        path.write_text(word if isinstance(word, str) else json.dumps(said | word))
        assert told != UNKNOWN or FileLock(path, "").holder() == LockHolder()
        refused(path, told)
    take(path)


def test_who_only_asks_is_told_and_takes_nothing(path: Path) -> None:
    asking = FileLock(path, "asking")
    assert asking.holder() is None
    assert not path.exists()
    first = FileLock(path, "first", clock=lambda: AT)
    for number in (7, 8):  # the same word is said again when the lock is taken again
        with first as lock:
            lock.note_item(number)
            holder = asking.holder()
            assert holder is not None
            assert (holder.what, holder.pid, holder.since) == ("first", os.getpid(), AT)
            assert (holder.host, holder.number, holder.alive) == (HOST, number, True)
            assert "since 2027-01-15 08:00:00 UTC" in str(holder)
            assert not asking.acquire()
    assert asking.holder() is None
    assert asking.acquire()
    with asking:  # which is held already
        holder = asking.holder()
        assert holder is not None
        assert (holder.what, holder.number) == ("asking", None)
    asking.release()
    assert asking.holder() is None


@pytest.mark.slow
def test_asking_in_a_loop_keeps_nobody_from_taking_it(path: Path) -> None:
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            FileLock(path, "").holder()

    asking = [threading.Thread(target=ask) for _ in range(2)]
    for thread in asking:
        thread.start()
    try:
        for _ in range(50):
            take(path, wait=5)
    finally:
        stop.set()
        for thread in asking:
            thread.join()


def test_who_asks_in_that_instant_does_not_make_it_taken(path: Path) -> None:
    path.touch()
    with path.open() as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        done = threading.Timer(0.01, fcntl.flock, (asking, fcntl.LOCK_UN))
        done.start()
        take(path)
        done.join()


# -- systems -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [StoreError, JobError])
def test_a_system_or_a_file_system_without_locks_is_said(
    path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[StoreError | JobError]
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    lock = FileLock(path, "first", error=kind)
    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", refuse)
        with pytest.raises(kind, match="gives no lock: No locks available"):
            lock.acquire()
    monkeypatch.setattr(_locks, "fcntl", None)
    for ask in (lock.acquire, lock.holder):
        with pytest.raises(kind, match=r"locks between processes \(flock\)"):
            ask()
    lock.release()


@pytest.mark.parametrize("open_file", [Ledger, SqliteStore])
def test_many_may_open_a_new_file_at_the_same_moment(
    tmp_path: Path, open_file: Callable[[Path], Ledger | SqliteStore]
) -> None:
    together, errors = threading.Barrier(8), list[StoreError]()

    def open_and_close(path: Path) -> None:
        together.wait()
        try:
            open_file(path).close()
        except StoreError as error:
            errors.append(error)

    for number in range(10):
        path = tmp_path / f"{number}.sqlite"
        threads = [threading.Thread(target=open_and_close, args=(path,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not errors


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system has no /proc")
def test_a_killed_process_that_nobody_waited_for_does_not_run() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert process_runs(child.pid)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended and keeps its id
        assert not process_runs(child.pid)
    assert not process_runs(child.pid)
