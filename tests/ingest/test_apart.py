"""Worker processes that read documents: reused, replaced when they end, ended with the step."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from ragwright.core import UnsupportedSourceError
from ragwright.ingest import Parser, SourceOptions, extract_bytes, workers


class Number(Parser):
    """A parser that gives the number of its process, and kills it for some files."""

    name = "number"

    def parse(self, data: bytes, name: str, kind: str) -> Sequence[str]:
        if "killed" in name:
            os.kill(os.getpid(), signal.SIGKILL)
        return [f"{os.getpid()} {len(data)}"]


def read(name: str, size: int = 10) -> tuple[int, int]:
    data = b"%PDF-" + b"x" * size
    options = SourceOptions(parser=f"{__name__}:Number")
    process, length = extract_bytes(f"{name}.pdf", data, options).text.split()
    assert int(length) == len(data)
    return int(process), int(length)


def test_a_worker_answers_again_and_ends_with_the_step() -> None:
    with workers():
        first, _ = read("a")
        assert read("b", 200_000)[0] == first
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


def test_a_worker_that_is_killed_is_named_and_replaced() -> None:
    with workers():
        with pytest.raises(UnsupportedSourceError, match="status -9"):
            read("killed")
        read("next")


def test_a_worker_that_died_between_files_is_replaced() -> None:
    with workers():
        first, _ = read("a")
        os.kill(first, signal.SIGKILL)
        while True:  # until the process has ended
            try:
                second, _ = read("b", 200_000)
            except UnsupportedSourceError:
                continue
            if second != first:
                break


@pytest.mark.slow
def test_threads_have_a_worker_each() -> None:
    with workers(), ThreadPoolExecutor(4) as threads:
        numbers = [number for number, _ in threads.map(read, "abcdefghijkl")]
        assert 1 <= len(set(numbers)) <= 4
