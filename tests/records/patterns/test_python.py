"""Worker processes: what they answer, and what becomes of one that hangs."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ragwright.records.patterns._python import _POOL, RowTooLongError, run_python, workers

BOMB = "a" * 60 + "!"


def test_searches_and_replacements() -> None:
    with workers():
        assert run_python(r"(a)\1", None, ["aa", "a", ""], 1.0) == [True, False, False]
        assert run_python(r"(?P<x>a)(b)?", (2, "-", 1), ["ab", "a", "é😀"], 1.0) == [
            "b-a",
            "-a",
            "é😀",
        ]
        assert run_python("a", None, [], 1.0) == []
    assert not _POOL.idle


def test_the_row_that_hangs_is_named_and_the_worker_replaced() -> None:
    with workers():
        run_python("a", None, ["a"], 1.0)
        before = _POOL.idle[0].process
        with pytest.raises(RowTooLongError) as caught:
            run_python("(a+)+$", None, ["a", "b", BOMB, "c"], 0.1)
        assert (caught.value.row, caught.value.how) == (2, "")
        assert before.returncode == -signal.SIGPROF
        assert run_python("a", None, ["a"], 1.0) == [True]


def test_a_worker_that_someone_kills_is_told_apart() -> None:
    with workers():
        run_python("a", None, ["a"], 1.0)
        pid = _POOL.idle[0].process.pid
        threading.Timer(0.2, os.kill, (pid, signal.SIGKILL)).start()
        with pytest.raises(RowTooLongError, match="status -9"):
            run_python("(a+)+$", None, [BOMB], 30.0)
        assert run_python("a", None, ["a"], 1.0) == [True]


def test_a_worker_that_died_between_requests() -> None:
    with workers():
        run_python("a", None, ["a"], 1.0)
        os.kill(_POOL.idle[0].process.pid, signal.SIGKILL)
        _POOL.idle[0].process.wait()
        assert run_python("a", None, ["a" * 200_000], 1.0) == [True]


def test_the_limit_counts_one_row_not_all() -> None:
    with workers():
        begun = time.monotonic()
        rows = ["a" * 17 + "!"] * 30
        assert run_python("(a+)+$", None, rows, 0.25) == [False] * 30
        assert time.monotonic() - begun > 0.25


def test_threads_have_a_worker_each() -> None:
    with workers(), ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(run_python, "b", None, ["ab"] * 2000, 1.0) for _ in range(12)]
        assert all(job.result() == [True] * 2000 for job in asked)
        assert 1 <= len(_POOL.idle) <= 4
    assert not _POOL.idle
