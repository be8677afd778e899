"""Worker processes: what they answer, and what becomes of one that ends."""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from ragwright.core import WorkerEndedError, ask_worker, workers

WORKER = (
    "-c",
    f"import os, sys; sys.path[:] = {sys.path!r}; from ragwright.core import serve_requests; "
    "serve_requests(lambda asked: "
    "os.kill(os.getpid(), asked) if asked == 9 else (os.getpid(), asked))",
)


def ask(request: object) -> tuple[int, object]:
    answer: tuple[int, object] = ask_worker(WORKER, request, 10.0)
    return answer


def test_a_worker_answers_again_and_ends_with_the_step() -> None:
    with workers():
        first, answer = ask({"a": "é😀"})
        assert answer == {"a": "é😀"}
        assert ask("x" * 200_000) == (first, "x" * 200_000)
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


def test_a_worker_that_is_done_is_replaced() -> None:
    with workers():
        first, _ = ask_worker(WORKER, "last", 10.0, lambda answer: True)
        assert ask("next")[0] != first


def test_a_worker_that_is_killed_is_told_apart_and_replaced() -> None:
    with workers():
        with pytest.raises(WorkerEndedError, match="status -9"):
            ask(signal.SIGKILL.value)
        assert ask("next")[1] == "next"


def test_a_worker_that_died_between_requests_is_replaced() -> None:
    with workers():
        first, _ = ask("a")
        os.kill(first, signal.SIGKILL)
        while True:  # until the process has ended
            try:
                second, answer = ask("x" * 200_000)
            except WorkerEndedError:
                continue
            if second != first:
                break
        assert answer == "x" * 200_000


@pytest.mark.slow
def test_threads_have_a_worker_each() -> None:
    with workers(), ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(ask, "abcdefghijkl"))
        assert [answer for _, answer in answers] == list("abcdefghijkl")
        assert 1 <= len({pid for pid, _ in answers}) <= 4
