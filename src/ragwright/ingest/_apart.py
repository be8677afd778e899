"""Documents read in a separate process, so that a hostile one cannot harm others.

Parsers of complex formats are native code, or a small file can make them use any amount of time and
memory. They run in worker processes within the limits ``max_memory`` and ``max_seconds``; a worker
serves many files. Text, Markdown and CSV are read here: their cost is linear in their size.
"""

from __future__ import annotations

import resource
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ..core import (
    RagwrightError,
    UnsupportedSourceError,
    WorkerEndedError,
    ask_worker,
    serve_requests,
)
from ._extract import Extract
from ._formats import choose, parse_file
from ._html import readable
from ._options import SourceOptions

_HERE = frozenset({"text", "markdown", "csv"})
"""Kinds that are read in this process."""

_ARCHIVE = b"PK\x03\x04"
"""First bytes of a zip file, whose directory alone may be a bomb."""

_STATUS = Path("/proc/self/statm")
_SPENT = 300_000_000
"""Bytes that a worker may keep between files; one that keeps more is replaced."""


@dataclass(frozen=True, slots=True)
class _Page:
    """A web page to reduce to its main part."""

    where: str
    html: str


@dataclass(frozen=True, slots=True)
class _File:
    """A file of a kind; the worker finds the kind where it is empty."""

    where: str
    kind: str
    data: bytes


_Task: TypeAlias = _File | _Page
_Answer: TypeAlias = tuple[Extract | RagwrightError, bool]
"""The result, and whether the worker kept too much memory."""


def extract_bytes(name: str, data: bytes, options: SourceOptions) -> Extract:
    """Read a file by its content; the suffix decides only between kinds of text.

    Raises:
        MalformedSourceError: Damaged, or not of the kind that its name says.
        UnsupportedSourceError: No reader knows it, or reading it takes more than `max_memory` or
            `max_seconds`.
        SourceError: Any other reason, as the format's reader says.
    """
    kind = "" if data.startswith(_ARCHIVE) else choose(name, data, options)
    if kind in _HERE:
        return parse_file(name, kind, data, options)
    return _apart(_File(name, kind, data), options)


def main_part(html: str, where: str, options: SourceOptions) -> Extract:
    """The main part of a web page; raises as :func:`extract_bytes`."""
    return _apart(_Page(where, html), options)


def _apart(task: _Task, options: SourceOptions) -> Extract:
    code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve; serve()"
    try:
        answer: _Answer = ask_worker(
            ("-P", "-c", code), (task, options), options.max_seconds, lambda a: bool(a[1])
        )
    except WorkerEndedError as error:
        if error.how:
            raise UnsupportedSourceError(
                "its parser crashed, or needed more than `max_memory` "
                f"({options.max_memory:,} bytes): {error.how}",
                where=task.where,
                hint="if you trust the file, raise `max_memory`",
            ) from error
        raise UnsupportedSourceError(
            f"reading it took longer than `max_seconds` ({options.max_seconds:g} s of processor "
            "time)",
            where=task.where,
            hint="if you trust the file, raise `max_seconds`",
        ) from error
    found = answer[0]
    if isinstance(found, RagwrightError):
        raise found
    return found


def serve() -> None:
    """Run as a worker: read documents until there are no more requests."""
    _read(_File("warm.txt", "text", b"warm"), SourceOptions())
    before = _memory()

    def answer(request: tuple[_Task, SourceOptions]) -> _Answer:
        task, options = request
        room = options.max_memory + 3 * len(task.html if isinstance(task, _Page) else task.data)
        _limit(before + room if before else resource.RLIM_INFINITY)
        signal.setitimer(signal.ITIMER_PROF, options.max_seconds)
        try:
            found: Extract | RagwrightError = _read(task, options)
        except RagwrightError as error:
            found = error
        except MemoryError:
            found = UnsupportedSourceError(
                f"reading it takes more than `max_memory` ({options.max_memory:,} bytes)",
                where=task.where,
                hint="if you trust the file, raise `max_memory`",
            )
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            _limit(resource.RLIM_INFINITY)
        return found, _memory() > before + _SPENT

    serve_requests(answer)


def _read(task: _Task, options: SourceOptions) -> Extract:
    if isinstance(task, _Page):
        return readable(task.html, task.where, main_only=True)
    return parse_file(task.where, task.kind, task.data, options)


def _memory() -> int:
    """Address space of this process in bytes; 0 where the system does not say."""
    try:
        return int(_STATUS.read_text("ascii").split()[0]) * resource.getpagesize()
    except OSError:
        return 0


def _limit(most: int) -> None:
    with suppress(OSError, ValueError):  # systems that bound no address space
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        if hard != resource.RLIM_INFINITY:
            most = hard if most == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
