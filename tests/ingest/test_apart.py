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


def read(name: str, size: int = 10) -> int:
    data = b"%PDF-" + b"x" * size
    options = SourceOptions(parser=f"{__name__}:Number")
    process, length = extract_bytes(f"{name}.pdf", data, options).text.split()
    assert int(length) == len(data)
    return int(process)


@pytest.mark.slow
def test_workers_answer_again_are_replaced_and_end_with_the_step() -> None:
    with workers():
        first = read("a")
        assert read("b", 200_000) == first
        with pytest.raises(UnsupportedSourceError, match="status -9"):
            read("killed")
        second = read("next")
        os.kill(second, signal.SIGKILL)  # between two files
        while True:  # until the process has ended
            try:
                third = read("b", 200_000)
            except UnsupportedSourceError:
                continue
            if third != second:
                break
        with ThreadPoolExecutor(4) as threads:
            assert 1 <= len(set(threads.map(read, "abcdefghijkl"))) <= 4
    for ended in (first, third):
        with pytest.raises(ProcessLookupError):
            os.kill(ended, 0)
