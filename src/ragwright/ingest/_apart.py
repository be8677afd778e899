"""Documents read in a separate process, so that a hostile one cannot harm others.

Parsers of complex formats are native code, or a small file can make them use any amount of time and
memory. They run in worker processes within the limits ``max_memory`` and ``max_seconds``; a worker
serves many files. Text, Markdown and CSV are read here: their cost is linear in their size.
"""

from __future__ import annotations

import atexit
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeAlias

from ..core import RagwrightError, UnsupportedSourceError, import_plugins_from, plugin_folder
from ._extract import Extract
from ._ocr import ScannedPage, engine_name, faults_of, may_recognise, read_page
from ._options import OURS, SourceOptions
from ._pdf import LISTENERS, read_image
from .parsers import PLAIN, choose, parse_file, parser_of

_SPENT = 300_000_000
"""Bytes that a worker may keep between files; one that keeps more is replaced."""

_SLOW = "took longer than"


@dataclass(slots=True)
class ScanProgress:
    """Counters of OCR, for a progress bar and a note; can be read from any thread.

    Attributes:
        pages: Pages read so far, in ``seconds``.
        files: Files with such pages.
        current: File under way, or the last one, and its page.
        unread: Files that hold pages without text, which were not read since OCR is not installed.
    """

    pages: int = 0
    seconds: float = 0.0
    files: int = 0
    current: str = ""
    unread: int = 0

    def add(self, other: ScanProgress) -> None:
        """Add the counters of another process."""
        self.pages += other.pages
        self.seconds += other.seconds
        self.files += other.files
        self.unread += other.unread

    def taken(self) -> ScanProgress:
        """Return the counters so far, and set them to 0."""
        counters = replace(self)
        self.pages = self.files = self.unread = self.seconds = 0
        return counters


@dataclass(frozen=True, slots=True)
class _Job:
    """A call for a worker, of a function of this room, and its limits.

    ``name`` says in messages what works on the document at ``where``; ``extra`` is the address
    space that it takes beside ``max_memory`` and may keep; ``seconds`` are those of the processor,
    ``waiting`` those of the clock (0: any).
    """

    work: partial[Any]
    options: SourceOptions
    where: str
    size: int
    seconds: float
    name: str = "reading it"
    extra: int = 0
    waiting: float = 0.0

    def failed(self, what: str, key: str) -> UnsupportedSourceError:
        """Return the error of a document that passes a limit, ``key``."""
        unit = "bytes" if key == "max_memory" else "s of processor time"
        return UnsupportedSourceError(
            f"{self.name} {what} `{key}` ({getattr(self.options, key):,} {unit})",
            where=self.where,
            hint=f"if you trust the file, raise `{key}`",
        )


_Answer: TypeAlias = tuple[Any, float, bool]
"""The result or its error, processor time in seconds, whether the worker kept too much memory."""


def extract_bytes(
    name: str, data: bytes, options: SourceOptions, progress: ScanProgress | None = None
) -> Extract:
    """Read a file by its content; the suffix decides only between kinds of text.

    Images and pages without a text layer are read by OCR where it is installed.

    Args:
        name: Id of the file; its suffix is a hint to the format.
        data: The whole file.
        options: Limits and settings.
        progress: Counts the pages that OCR reads.

    Raises:
        MalformedSourceError: Damaged, or not of the kind that its name says.
        UnsupportedSourceError: No reader knows it, or reading it takes more than `max_memory` or
            `max_seconds`.
        MissingExtraError: ``ocr: always``, and OCR is not installed.
        SourceError: Any other reason, as the format's reader says.
    """
    progress = progress or ScanProgress()
    progress.current = name
    # the directory of a zip file alone may be a bomb, so a worker looks at it
    kind = "" if data.startswith(b"PK\x03\x04") else choose(name, data, options)
    if kind in PLAIN:
        return parse_file(name, kind, data, options)
    recognising = kind in ("image", "pdf") and may_recognise(options)
    if kind == "image":
        if recognising:
            return read_image(name, _recognise(name, "image", data, options, progress))
        never = options.ocr == "never"
        raise UnsupportedSourceError(
            "images are read by text recognition (OCR), which is "
            + ("switched off (`ocr: never`)" if never else "not installed"),
            where=name,
            hint="leave it out with `exclude`"
            + ("" if never else ", or read it: pip install 'ragwright[ocr]'"),
        )
    extract = _parse(name, kind, data, options, progress, {} if recognising else None)
    if not recognising or not extract.unread:
        progress.unread += bool(extract.unread) and not engine_name() and options.ocr != "never"
        return extract
    scans = _recognise(name, kind, data, options, progress, extract.unread)
    faults = faults_of(scans)
    if len(faults) == len(scans) and not extract.text:
        raise faults[0]
    return _parse(name, kind, data, options, progress, scans)


def main_part(html: str, where: str, options: SourceOptions) -> Extract:
    """Return the main part of a web page; raises as :func:`extract_bytes`."""
    options = replace(options, main_text=True, encoding="utf-8", parser=OURS)
    return _parse(where, "html", html.encode(errors="replace"), options, ScanProgress())


def _parse(
    where: str,
    kind: str,
    data: bytes,
    options: SourceOptions,
    progress: ScanProgress,
    scans: Mapping[int, ScannedPage] | None = None,
) -> Extract:
    """Read a document in a worker; ``progress`` names it meanwhile, and its page.

    ``scans`` are the pages of a PDF that OCR has read; None if it may not read any.
    """
    parser = parser_of(options)
    job = _Job(
        partial(parse_file, where, kind, data, options, scans),
        options,
        where,
        len(data),
        options.max_seconds,
        f"the parser {options.parser!r}" if parser else "reading it",
        parser.room if parser else 0,
        2 * options.max_seconds if parser else 0.0,  # it may wait, rather than work
    )
    extract, _ = _run(job, partial(setattr, progress, "current"))
    if isinstance(extract, Extract):
        return extract
    raise extract


def _recognise(
    where: str,
    kind: str,
    data: bytes,
    options: SourceOptions,
    progress: ScanProgress,
    pages: Sequence[int] = (),
) -> dict[int, ScannedPage]:
    """Recognise pages, by number from 1; without ``pages`` every page of the file.

    A page that cannot be read has a fault, and so have those that are not reached within
    `max_seconds` of processor time; the others are read all the same.
    """
    scans: dict[int, ScannedPage] = {}
    left = options.max_seconds

    def read(page: int) -> ScannedPage:
        nonlocal left
        job = _Job(
            partial(read_page, data, kind, page, options, where),
            options,
            f"{where}, page {page}",
            len(data),
            left,
            "OCR of the file",
            2_000_000_000,  # the models and their work on a page
        )
        scan, taken = _run(job) if left > 0 else (job.failed(_SLOW, "max_seconds"), 0.0)
        left -= taken
        return ScannedPage(fault=scan) if isinstance(scan, RagwrightError) else scan

    before = time.monotonic()
    wanted: Sequence[int] = pages or (1,)
    side_by_side = max(1, min(4, (os.cpu_count() or 1) // 2))  # processes of about 0.8 GB
    with ThreadPoolExecutor(side_by_side, thread_name_prefix="ragwright-ocr") as pool:
        try:
            while rest := wanted[len(scans) :]:
                for page, scan in zip(rest, pool.map(read, rest), strict=True):
                    scans[page] = scan
                    if scan.fault is None:
                        progress.pages += 1
                        progress.seconds += time.monotonic() - before
                    before = time.monotonic()
                wanted = pages or range(1, scans[1].pages + 1)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    progress.files += any(scan.fault is None for scan in scans.values())
    return scans


_PATIENCE = 120.0
"""Seconds without any processor time, beyond those that it may wait, after which a worker counts
as hung."""


class _Worker:
    """One process, which does jobs."""

    def __init__(self, command: tuple[str, ...]) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, *command],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self.connection = Connection(ours.detach())

    def ask(self, job: _Job, heard: Callable[[str], object]) -> _Answer:
        """Let it do a job; ``heard`` gets what it tells meanwhile.

        Raises:
            TimeoutError: It hangs.
            OSError: It ended.
            EOFError: It ended.
        """
        self.connection.send(job)
        spent = -1.0
        while True:
            while self.connection.poll(_PATIENCE + job.waiting):
                answer = self.connection.recv()
                if not isinstance(answer, str):
                    return answer  # type: ignore[no-any-return]
                heard(answer)
            before, spent = spent, _processor_time(self.process.pid)
            if spent == before:
                raise TimeoutError

    def close(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.wait()
        self.connection.close()


_IDLE: defaultdict[tuple[str, ...], list[_Worker]] = defaultdict(list)
"""Command -> its workers without a job: at most as many as ever ran at once."""


def _processor_time(process: int) -> float:
    try:
        return time.clock_gettime(~process << 3 | 2)  # Linux's number of that process's clock
    except OSError:
        return time.monotonic()


@contextmanager
def workers() -> Iterator[None]:
    """Keep worker processes while a step runs, and end them after it."""
    try:
        yield
    finally:
        _end_workers()


@atexit.register
def _end_workers() -> None:
    for idle in list(_IDLE.values()):
        with suppress(IndexError):  # no thread may look and then pop
            while True:
                idle.pop().close()


def _idle_worker(command: tuple[str, ...]) -> _Worker:
    with suppress(IndexError):
        while True:
            worker = _IDLE[command].pop()
            if worker.process.poll() is None:
                return worker
            worker.close()
    return _Worker(command)


def _run(job: _Job, heard: Callable[[str], object] = lambda _: None) -> tuple[Any, float]:
    """Return the result of a job, or its error, and the seconds of processor time that it took."""
    code = (
        f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve; "
        f"serve({plugin_folder()!r})  # {job.work.func.__name__}"
    )
    command = ("-P", "-c", code)
    worker = _idle_worker(command)
    keeps = True
    try:
        result, taken, keeps = worker.ask(job, heard)
    except (EOFError, OSError) as error:
        worker.close()
        status = worker.process.returncode
        if isinstance(error, TimeoutError) or status in (-signal.SIGPROF, -signal.SIGALRM):
            return job.failed(_SLOW, "max_seconds"), job.seconds
        why = f"crashed (its process ended with status {status}), or needed more than"
        return job.failed(why, "max_memory"), 0.0
    finally:
        if keeps:
            worker.close()
        else:
            _IDLE[command].append(worker)
    return result, taken


def serve(plugins: str = "") -> None:
    """Run as a worker: do jobs from standard input, a socket, until there are no more.

    ``plugins`` is the folder that modules of parsers may be imported from.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles Ctrl-C
    import_plugins_from(plugins)
    parse_file("warm.txt", "text", b"warm", SourceOptions())
    before = _address_space()
    parent = Connection(os.dup(0))
    LISTENERS.append(parent.send)
    with suppress(EOFError):
        while True:
            parent.send(_do(parent.recv(), before))


def _do(job: _Job, before: int) -> _Answer:
    if job.waiting:
        parser_of(job.options)  # its import takes no time of the document
    begun = time.process_time()
    room = job.options.max_memory + 3 * job.size + job.extra
    try:
        _limit(before + room if before else resource.RLIM_INFINITY, job.seconds, job.waiting)
        try:
            result = job.work()
        finally:
            _limit()
    except RagwrightError as error:
        result = error
    except MemoryError:
        result = job.failed("takes more than", "max_memory")
    return result, time.process_time() - begun, (_address_space() > before + _SPENT + job.extra)


def _address_space() -> int:
    """Return the address space of this process in bytes; 0 where the system does not say."""
    try:
        pages = Path("/proc/self/statm").read_text("ascii").split()[0]
    except OSError:
        return 0
    return int(pages) * resource.getpagesize()


def _limit(most: int = resource.RLIM_INFINITY, seconds: float = 0.0, waiting: float = 0.0) -> None:
    """Limit what this process may take; without arguments nothing is limited.

    More than ``most`` bytes of address space raise a MemoryError. More than ``seconds`` of
    processor time end the process by ``SIGPROF``, more than ``waiting`` seconds of wall time by
    ``SIGALRM``. 0 sets no limit.
    """
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, waiting)
    with suppress(OSError, ValueError):  # systems that bound no address space
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        bounds = [bound for bound in (most, hard) if bound != resource.RLIM_INFINITY]
        resource.setrlimit(resource.RLIMIT_AS, (min(bounds, default=hard), hard))
