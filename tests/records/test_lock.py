"""One writer at a time, and whoever waits is told for whom."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ragwright.core import StoreBusyError, StoreError
from ragwright.records import _lock
from ragwright.records._lock import WriterLock

CHILD = """
import sys, time
from pathlib import Path
from ragwright.records._lock import WriterLock
with WriterLock(Path(sys.argv[1]), "nightly refresh", 0):
    print("held", flush=True)
    sys.stdin.readline()
"""


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
    started = time.monotonic()
    with pytest.raises(StoreBusyError) as caught, WriterLock(path, "second", 0.3):
        pass
    assert 0.25 < time.monotonic() - started < 5
    assert f"by 'nightly refresh', process {other.pid} on {socket.gethostname()}" in str(
        caught.value
    )
    assert "waited 0.3 s" in str(caught.value)
    other.communicate(b"\n")
    with WriterLock(path, "second", 0):
        assert json.loads(path.read_text())["pid"] == os.getpid()
    assert path.read_text() == ""
    assert path.stat().st_mode & 0o777 == 0o600


def test_it_waits_as_long_as_it_may(path: Path) -> None:
    other = child(path)
    letting_go = threading.Timer(0.3, other.communicate, (b"\n",))
    letting_go.start()
    with WriterLock(path, "second", 30):
        pass
    letting_go.join()


def test_the_lock_of_a_killed_process_is_free(path: Path) -> None:
    other = child(path)
    other.kill()
    other.communicate()
    assert str(other.pid) in path.read_text()  # its word is still there
    with WriterLock(path, "second", 0):
        assert json.loads(path.read_text())["holder"] == "second"


@pytest.mark.parametrize("word", ["", "{", "[1]", '{"pid": 1}'])
def test_a_word_that_is_none_names_nobody(
    path: Path, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_lock, "_SAID", 0.1)
    with WriterLock(path, "first", 0):
        path.write_text(word)
        with pytest.raises(StoreBusyError, match="another process, which does not say who"):
            WriterLock(path, "second", 0).__enter__()


def test_the_word_of_a_dead_process_names_nobody(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_lock, "_SAID", 0.1)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    with WriterLock(path, "first", 0):
        said = json.loads(path.read_text())
        path.write_text(json.dumps({**said, "pid": dead.pid}))
        with pytest.raises(StoreBusyError, match="another process, which does not say who"):
            WriterLock(path, "second", 0).__enter__()
        path.write_text(json.dumps({**said, "pid": dead.pid, "host": "elsewhere"}))
        with pytest.raises(StoreBusyError, match=f"process {dead.pid} on elsewhere"):
            WriterLock(path, "second", 0).__enter__()


def test_one_process_holds_it_once(path: Path) -> None:
    refused = pytest.raises(StoreBusyError, match=f"'first', process {os.getpid()} ")
    with WriterLock(path, "first", 0), refused:
        WriterLock(path, "second", 0).__enter__()
    with WriterLock(path, "third", 0):
        pass


def test_a_file_system_without_locks_is_said(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StoreError, match="gives no lock: No locks available"):
        WriterLock(path, "first", 0).__enter__()
