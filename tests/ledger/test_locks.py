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

import pytest

from ragwright.core import JobError, StoreBusyError, StoreError
from ragwright.index import SqliteStore
from ragwright.ledger import FileLock, Ledger, LockHolder, _locks

CHILD = """
import sys, time
from pathlib import Path
from ragwright.index import SqliteStore
from ragwright.ledger import FileLock
with FileLock(Path(sys.argv[1]), "nightly refresh"):
    print("held", flush=True)
    sys.stdin.readline()
"""


SAID = {
    "what": "first",
    "pid": os.getpid(),
    "host": socket.gethostname(),
    "command": "x",
    "since": 1.0,
    "number": None,
    "shared": False,
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


def child(path: Path) -> subprocess.Popen[bytes]:
    """Another process, which holds the lock until it is told or killed."""
    command = [sys.executable, "-c", CHILD, str(path)]
    started = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert started.stdout is not None
    assert started.stdout.readline() == b"held\n"
    return started


def test_a_second_process_is_told_who_holds_it(path: Path) -> None:
    other = child(path)
    with pytest.raises(StoreBusyError) as caught, FileLock(path, "second", wait=0.3):
        pass
    assert f"by 'nightly refresh', process {other.pid} on {socket.gethostname()}" in str(
        caught.value
    )
    assert "waited 0.3 s" in str(caught.value)
    other.communicate(b"\n")
    with FileLock(path, "second"):
        assert json.loads(path.read_text())["pid"] == os.getpid()
    assert path.read_text() == ""
    assert path.stat().st_mode & 0o777 == 0o600


def test_it_waits_as_long_as_it_may(path: Path) -> None:
    other = child(path)
    letting_go = threading.Timer(0.3, other.communicate, (b"\n",))
    letting_go.start()
    with FileLock(path, "second", wait=30):
        pass
    letting_go.join()


def test_the_lock_of_a_killed_process_is_free(path: Path) -> None:
    other = child(path)
    other.kill()
    other.communicate()
    assert str(other.pid) in path.read_text()  # its word is still there
    with FileLock(path, "second"):
        assert json.loads(path.read_text())["what"] == "second"


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


@pytest.mark.parametrize(
    "word",
    [
        "",
        "{",
        "[1]",
        '{"pid": 1}',
        json.dumps(SAID | {"pid": "x"}),
        json.dumps(SAID | {"since": math.inf}),
    ],
)
def test_a_word_that_is_none_names_nobody(
    path: Path, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_locks, "_NAMING", 0.1)
    with FileLock(path, "first"):
        path.write_text(word)
        assert FileLock(path, "").holder() == LockHolder()
        with pytest.raises(StoreBusyError, match="another, unidentified process"):
            FileLock(path, "second").__enter__()


def test_the_word_of_a_dead_process_names_nobody(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_locks, "_NAMING", 0.1)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    with FileLock(path, "first"):
        said = json.loads(path.read_text())
        path.write_text(json.dumps({**said, "pid": dead.pid}))
        with pytest.raises(StoreBusyError, match="another, unidentified process"):
            FileLock(path, "second").__enter__()
        path.write_text(json.dumps({**said, "pid": dead.pid, "host": "elsewhere"}))
        with pytest.raises(StoreBusyError, match=f"process {dead.pid} on elsewhere"):
            FileLock(path, "second").__enter__()


def test_one_process_holds_it_once(path: Path) -> None:
    refused = pytest.raises(StoreBusyError, match=f"'first', process {os.getpid()} ")
    with FileLock(path, "first"), refused:
        FileLock(path, "second").__enter__()
    with FileLock(path, "third"):
        pass


def test_a_file_system_without_locks_is_said(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StoreError, match="gives no lock: No locks available"):
        FileLock(path, "first").__enter__()


def test_who_only_asks_is_told_and_takes_nothing(path: Path) -> None:
    asking = FileLock(path, "asking")
    assert asking.holder() is None
    assert not path.exists()
    with FileLock(path, "first", clock=lambda: 1_800_000_000.0) as lock:
        lock.at(7)
        holder = asking.holder()
        assert holder is not None
        assert (holder.what, holder.pid, holder.since) == ("first", os.getpid(), 1_800_000_000.0)
        assert (holder.host, holder.number, holder.alive) == (socket.gethostname(), 7, True)
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


def test_the_same_word_is_said_again_when_the_lock_is_taken_again(path: Path) -> None:
    lock = FileLock(path, "first", clock=lambda: 1_800_000_000.0)
    for _ in range(2):
        with lock:
            assert json.loads(path.read_text())["what"] == "first"


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
            with FileLock(path, "first", wait=5):
                pass
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
        lock = FileLock(path, "first", wait=0)
        assert lock.acquire()
        lock.release()
        done.join()


SHARING = """
import subprocess, sys
from pathlib import Path
from ragwright.index import SqliteStore
from ragwright.ledger import FileLock
lock = FileLock(Path(sys.argv[1]), "first")
assert lock.acquire()
lock.at(3)
sleep = [sys.executable, "-c", "import sys; sys.stdin.readline()"]
subprocess.Popen(sleep, pass_fds=(lock.share(),))
print("held", flush=True)
input()
"""


def test_what_a_dead_process_started_may_hold_the_lock_that_it_shared(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_locks, "_NAMING", 0.1)
    command = [sys.executable, "-c", SHARING, str(path)]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout is not None
    assert other.stdin is not None
    assert other.stdout.readline() == b"held\n"
    other.kill()
    other.wait()
    holder = FileLock(path, "").holder()
    assert holder is not None
    assert (holder.pid, holder.number, holder.alive) == (other.pid, 3, False)
    goes_on = pytest.raises(StoreBusyError, match="a child process still runs")
    with goes_on, FileLock(path, "second"):
        pass
    other.stdin.close()  # which ends the child
    with FileLock(path, "second", wait=30):
        pass
    other.stdout.close()


def test_releasing_frees_it_for_processes_that_share_it_as_well(path: Path) -> None:
    lock = FileLock(path, "first")
    assert lock.acquire()
    sleep = [sys.executable, "-c", "import sys; sys.stdin.readline()"]
    started = subprocess.Popen(sleep, stdin=subprocess.PIPE, pass_fds=(lock.share(),))
    lock.release()
    lock.release()
    with FileLock(path, "second"):
        pass
    started.communicate(b"\n")


@pytest.mark.parametrize("kind", [StoreError, JobError])
def test_a_system_without_locks_is_said(
    path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[StoreError | JobError]
) -> None:
    monkeypatch.setattr(_locks, "fcntl", None)
    lock = FileLock(path, "first", error=kind)
    for ask in (lock.acquire, lock.holder):
        with pytest.raises(kind, match=r"locks between processes \(flock\)"):
            ask()
    lock.release()


@pytest.mark.parametrize("open_file", [Ledger, SqliteStore])
def test_many_may_open_a_new_file_at_the_same_moment(
    tmp_path: Path, open_file: Callable[[Path], Ledger | SqliteStore]
) -> None:
    together = threading.Barrier(8)
    errors: list[StoreError] = []

    def open_and_close(path: Path) -> None:
        together.wait()
        try:
            open_file(path).close()
        except StoreError as error:
            errors.append(error)

    for number in range(40):
        path = tmp_path / f"{number}.sqlite"
        threads = [threading.Thread(target=open_and_close, args=(path,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not errors
