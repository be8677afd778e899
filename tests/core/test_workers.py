"""Worker processes: what they answer, and what becomes of one that hangs."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ragwright.core import WorkerEndedError, run_pattern, workers
from ragwright.core._workers import _POOL

BOMB = "a" * 60 + "!"


def test_searches_and_replacements() -> None:
    with workers():
        assert run_pattern(r"(a)\1", None, ["aa", "a", ""], 1.0) == [True, False, False]
        assert run_pattern(r"(?P<x>a)(b)?", (2, "-", 1), ["ab", "a", "é😀"], 1.0) == [
            "b-a",
            "-a",
            "é😀",
        ]
        assert run_pattern("a", None, [], 1.0) == []
    assert not _POOL.idle


def test_the_row_that_hangs_is_named_and_the_worker_replaced() -> None:
    with workers():
        run_pattern("a", None, ["a"], 1.0)
        before = _POOL.idle[0][1].process
        with pytest.raises(WorkerEndedError) as caught:
            run_pattern("(a+)+$", None, ["a", "b", BOMB, "c"], 0.1)
        assert (caught.value.step, caught.value.reason) == (2, "")
        assert before.returncode == -signal.SIGPROF
        assert run_pattern("a", None, ["a"], 1.0) == [True]


def test_a_worker_that_someone_kills_is_told_apart() -> None:
    with workers():
        run_pattern("a", None, ["a"], 1.0)
        pid = _POOL.idle[0][1].process.pid
        threading.Timer(0.2, os.kill, (pid, signal.SIGKILL)).start()
        with pytest.raises(WorkerEndedError, match="status -9"):
            run_pattern("(a+)+$", None, [BOMB], 30.0)
        assert run_pattern("a", None, ["a"], 1.0) == [True]


def test_a_worker_that_died_between_requests() -> None:
    with workers():
        run_pattern("a", None, ["a"], 1.0)
        os.kill(_POOL.idle[0][1].process.pid, signal.SIGKILL)
        _POOL.idle[0][1].process.wait()
        assert run_pattern("a", None, ["a" * 200_000], 1.0) == [True]


@pytest.mark.slow
def test_the_limit_counts_one_row_not_all() -> None:
    with workers():
        count, seconds = 30, 0.0
        while seconds <= 0.25:  # more rows where the machine is fast
            count *= 2
            begun = time.monotonic()
            assert run_pattern("(a+)+$", None, ["a" * 17 + "!"] * count, 0.25) == [False] * count
            seconds = time.monotonic() - begun


def test_threads_have_a_worker_each() -> None:
    with workers(), ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(run_pattern, "b", None, ["ab"] * 2000, 1.0) for _ in range(12)]
        assert all(job.result() == [True] * 2000 for job in asked)
        assert 1 <= len(_POOL.idle) <= 4
    assert not _POOL.idle
