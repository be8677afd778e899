"""Terminal output: results on standard output, everything else on standard error."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec

import typer

from .. import report
from ..core import (
    ConfigError,
    RagwrightError,
    SourceError,
    StoppedError,
    count_noun,
    replace_text,
    replacing,
)
from ..flow import Progress, RunSummary
from ._main import ctrl_c

P = ParamSpec("P")

EXIT_ERROR = 1
EXIT_FAILED = 100
EXIT_UNTRUSTED = 101

_NARROWEST, _WIDEST = 40, 200
_IN_A_FILE = 100
"""Characters of a line if the result goes to a file or a pipe."""
_PRINTED_EVERY = 10.0
"""Seconds between two lines of progress if standard error is not a terminal."""
_UNSEEN = re.compile(
    "[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069]|\\r(?!\\n)"
)
"""Control characters except tab and line end; marks that change the text direction."""
_STYLES = {"head": 1, "rule": 90, "good": 32, "bad": 31, "mark": 33}
"""Codes of the terminal: bold, grey, green, red, yellow."""
_STYLED = re.compile(
    r"^(?P<head>.+)(?=\n-{2,}(?:  -+)*$)|^(?P<rule>-{2,}(?:  -+)*)$"
    r"|(?P<good>(?<=^gate: )passed$)|(?P<bad>(?<=^gate: )(?:failed|cannot be trusted)$|^FAULT\b)"
    r"|^(?P<mark>error:|warning:|fault:)",
    re.MULTILINE,
)
"""Parts of a result that a terminal shows in a style."""
MARKED = ("\ue010", "\ue011")
"""Around what a terminal shows bold, and everything else plain."""


@dataclass(frozen=True, slots=True)
class ProgressStep:
    """Progress of some work.

    Attributes:
        done: Finished amount, in ``unit``.
        total: Total amount, in ``unit``; None if unknown.
        unit: The unit: ``rows``, ``trials``, ``MB``.
        expected: What the total will be, for the time left, where ``total`` is unknown yet.
        cost: Money spent so far.
        before: Shown first: the present work or wait.
        after: Shown last: further counts.
    """

    done: float
    total: float | None
    unit: str
    expected: float | None = None
    cost: float = 0.0
    before: str = ""
    after: str = ""

    def text(self, rate: float | None = None) -> str:
        """The step as one line; with the units a second also the rate and the time left."""
        digits = 1 if self.unit == "MB" else 0
        total = "" if self.total is None else f"/{self.total:,.{digits}f}"
        parts = [f"{self.before}{self.done:,.{digits}f}{total} {self.unit}"]
        if rate:
            per, time_unit = (1, "s") if rate >= 1 else (60, "min")
            parts.append(f"{rate * per:,.1f} {self.unit.split()[0]}/{time_unit}")
            expected = self.total if self.expected is None else self.expected
            if expected is not None:
                parts.append(f"{_duration(max(0.0, expected - self.done) / rate)} left")
        if self.cost:
            parts.append(f"spent {self.cost:.4f}")
        return ", ".join(filter(None, [*parts, self.after]))


def _duration(seconds: float) -> str:
    """Format a duration: ``42 s``, ``3 min 20 s``, ``2 h 05 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole // 60 % 60:02} min"


_LEAST = 3.0
"""Fewest seconds since the first count that a rate is computed from."""


class _PacedLine:
    """A line of progress with its rate since the first count, and the time left by it.

    The time before the first count may include opening a model, or what an earlier run had done.
    """

    def __init__(self, line: Callable[[], str | ProgressStep]) -> None:
        self._line = line
        self._unit, self._begin, self._first = "", 0.0, 0.0

    def __call__(self) -> str:
        step, now = self._line(), time.monotonic()
        if isinstance(step, str):
            return step
        if step.unit != self._unit or not self._first <= step.done or not self._first:
            self._unit, self._begin, self._first = step.unit, now, step.done
        elapsed = now - self._begin
        return step.text((step.done - self._first) / elapsed if elapsed >= _LEAST else None)


_NOTE = re.compile(r"(?m)^note: .*(?:\n  .*)*\n*")
"""A note of a result with its further lines, which are indented."""


class Console:
    """Output of a command."""

    def __init__(
        self, quiet: bool = False, output: Path | None = None, as_json: bool = False
    ) -> None:
        self.quiet = quiet
        self._output = output
        self._as_json = as_json
        self._lock = threading.Lock()
        self._drawn = False

    def result(self, text: str) -> None:
        """Print the result of a command; with ``quiet`` without its notes."""
        if self.quiet:
            text = _NOTE.sub("", text).rstrip("\n")
        if self._output is not None:
            self.make_folder_of(self._output)
            replace_text(self._output, _unmarked(text) + "\n")
            self.remark(f"written to {self._output}")
            return
        write(sys.stdout, _coloured(visible(text), sys.stdout) + "\n")

    def data(self, data: bytes) -> None:
        """Write the result of a command as bytes to its output file."""
        assert self._output is not None
        self.make_folder_of(self._output)
        with replacing(self._output) as file:
            file.write(data)
        self.remark(f"written to {self._output}")

    def make_folder_of(self, path: Path) -> None:
        """Create the folder of a file if it is missing, and report it."""
        folder = path.parent
        if not folder.is_dir():
            folder.mkdir(parents=True)
            self.remark(f"created folder {folder}")

    def columns(self, in_file: int = _IN_A_FILE) -> int:
        """Characters of a line of the result: ``in_file`` if it does not go to a terminal."""
        if self._output is not None or not _is_terminal(sys.stdout):
            return in_file
        return min(_WIDEST, max(_NARROWEST, shutil.get_terminal_size().columns))

    def json(self, value: Any) -> None:
        """Print the result as one JSON document."""
        self.result(json.dumps(value, ensure_ascii=False, indent=2, default=list))

    def show(self, document: Callable[[], Any], text: Callable[[], str]) -> None:
        """Print the result as JSON or as text, whichever was requested."""
        if self._as_json:
            self.json(document())
        else:
            self.result(text())

    def remark(self, text: str) -> None:
        """Print a remark on standard error."""
        if not self.quiet:
            write(sys.stderr, visible(text) + "\n")

    def ended(self, run: RunSummary, scored: bool) -> int:
        """Print why a run was stopped; returns the exit code of its command."""
        if run.reason is not None:
            fail(run.reason)
            self.remark("run it again with --resume to go on")
        return 0 if run.complete and scored else EXIT_UNTRUSTED

    def piece(self, text: str) -> None:
        """Print a piece of a streamed answer, after clearing the line of progress."""
        with self._lock:
            self._clear()
            write(sys.stdout, visible(text))

    @contextmanager
    def progress(
        self,
        line: Callable[[], str | ProgressStep],
        warnings: Callable[[], Sequence[str]] = tuple,
        work: Callable[[], Progress] | None = None,
    ) -> Iterator[None]:
        """Show progress on standard error while the block runs.

        On a terminal the line is redrawn twice a second; elsewhere a line
        is printed every ten seconds. An empty line is not shown. Each of the ``warnings``, also
        those added later, is printed once. ``work`` returns the counters of the runner: after
        Ctrl-C a message names the models that the command waits for, and those it gave up.
        """
        if work is not None:
            ctrl_c.waits = lambda: _calls_text(work().awaited)
        try:
            with nullcontext() if self.quiet else self._shown(line, warnings):
                yield
        finally:
            ctrl_c.waits = str
            if work is not None and ctrl_c.pressed:
                ctrl_c.lost = _calls_text(work().given_up)

    @contextmanager
    def _shown(
        self, line: Callable[[], str | ProgressStep], warnings: Callable[[], Sequence[str]]
    ) -> Iterator[None]:
        paced = _PacedLine(line)
        done = threading.Event()
        warned = 0

        def warn() -> None:
            nonlocal warned
            for text in warnings()[warned:]:
                warned += 1
                self._clear()
                write(sys.stderr, _coloured(visible(f"warning: {text}"), sys.stderr) + "\n")

        def draw() -> None:
            printed = time.monotonic()
            while not done.wait(0.5):
                with self._lock:  # pieces of an answer are printed before or after, not in between
                    try:
                        warn()
                        step = paced()
                    except RagwrightError:  # the command itself fails with it, and prints it
                        return
                    text = visible(step)
                    if text and _is_terminal(sys.stderr):
                        shown = text[: shutil.get_terminal_size().columns - 1]
                        write(sys.stderr, f"\r\x1b[K{shown}")
                        self._drawn = True
                    elif text and time.monotonic() - printed >= _PRINTED_EVERY:
                        printed = time.monotonic()
                        write(sys.stderr, text + "\n")

        thread = threading.Thread(target=draw, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            warn()
            self._clear()

    def _clear(self) -> None:
        if self._drawn:
            self._drawn = False
            write(sys.stderr, "\r\x1b[K")


def _is_terminal(stream: Any) -> bool:
    return stream is not None and stream.isatty()


def _has_colour(stream: Any) -> bool:
    """True for a terminal that shows colour, unless the environment has NO_COLOR."""
    if not _is_terminal(stream) or os.environ.get("NO_COLOR"):
        return False
    return os.environ.get("TERM", "") not in ("", "dumb", "unknown")


def width() -> int:
    """Characters of a line: as many as the terminal shows, 200 at most; 100 on a pipe."""
    return Console().columns()


def table(
    rows: Sequence[Sequence[str]], right: Sequence[int] = (), whole: Sequence[int] = ()
) -> str:
    """A table of the line width; columns in ``right`` are right-aligned, in ``whole`` unbroken."""
    return report.text_table(rows, right, width(), whole)


def question_text(word: str, command: str) -> str:
    """Return the question of a command line; for ``-`` read it from standard input.

    Raises:
        ConfigError: Standard input is empty.
    """
    if word != "-":
        return word
    text = sys.stdin.read().strip()
    if not text:
        raise ConfigError(
            "standard input holds no question",
            where=f"ragwright {command} -",
            hint=f"for example: echo 'How often?' | ragwright {command} -",
        )
    return text


def visible(text: str) -> str:
    """Escape the control characters of a text.

    Text of models and rows must not control the terminal or reorder text. In JSON the escape means
    the character.
    """
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _coloured(text: str, stream: Any) -> str:
    """Colour table heads, marks and outcomes of a text if the terminal shows colour."""
    if not _has_colour(stream):
        return _unmarked(text)
    text = _unmarked(text, f"\x1b[{_STYLES['head']}m", "\x1b[0m")
    return _STYLED.sub(lambda m: f"\x1b[{_STYLES[m.lastgroup or '']}m{m[0]}\x1b[0m", text)


def _unmarked(text: str, begin: str = "", end: str = "") -> str:
    return text.replace(MARKED[0], begin).replace(MARKED[1], end)


def write(stream: Any, text: str) -> None:
    """Write text; ignore errors of the terminal.

    Characters outside the terminal's encoding are escaped. If the reader has closed the pipe, this
    and later text is discarded. A result that cannot be written for another reason is an error.
    """
    if stream is None:  # closed by the shell: 2>&-
        return
    try:
        try:
            stream.write(text)
        except UnicodeEncodeError:
            encoding = stream.encoding or "ascii"
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        _to_nowhere(stream)
    except OSError:  # a full disk, a closed terminal
        if stream is not sys.stderr:
            raise


def _to_nowhere(stream: Any) -> None:
    """Redirect a stream to the null device; Python flushes it once more at the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    finally:
        os.close(nowhere)


def _calls_text(calls: Mapping[str, int]) -> str:
    """Calls by model: ``2 calls to http://localhost:8000/v1#m``."""
    return " and ".join(
        f"{count_noun(n, 'call')} to {name}" for name, n in sorted(calls.items()) if n
    )


def fail(error: RagwrightError) -> int:
    """Print the error and return its exit code."""
    write(sys.stderr, _coloured(visible(f"error: {error}\n"), sys.stderr))
    return EXIT_UNTRUSTED if isinstance(error, StoppedError) else EXIT_ERROR


def report_stop(error: BaseException, resumes: bool = False) -> int:
    """Print in one line what is kept after a stop; returns the exit code.

    ``resumes`` is True for a command that continues only with ``--resume``.
    """
    kept = "; ".join(getattr(error, "__notes__", ()))
    line = "\n" if _is_terminal(sys.stderr) else ""  # below the ^C
    message = kept or "finished work is kept"
    if resumes:
        message += "; to continue, run it again with --resume"
    elif not kept:
        message += "; to continue, run it again"
    if ctrl_c.lost:
        message = f"{ctrl_c.lost} got no reply in time and may be billed; {message}"
    write(sys.stderr, f"{line}stopped{ctrl_c.by}; {message}\n")
    return ctrl_c.code


def report_errors(command: Callable[P, int | None]) -> Callable[P, None]:
    """Make a command print its errors and end with an exit code; other exceptions are bugs."""

    @functools.wraps(command)
    def reported(*args: P.args, **kwargs: P.kwargs) -> None:
        ctrl_c.working()
        try:
            code = command(*args, **kwargs) or 0
            if ctrl_c.pressed:  # a library swallowed it: the result may be incomplete
                raise KeyboardInterrupt
        except (KeyboardInterrupt, Exception) as error:
            # a library may turn Ctrl-C into its own error
            if ctrl_c.pressed or isinstance(error, KeyboardInterrupt):
                code = report_stop(error, "resume" in kwargs)
            elif isinstance(error, RagwrightError):
                code = fail(error)
            elif isinstance(error, OSError):
                code = fail(
                    SourceError(
                        f"cannot read or write: {error.strerror or error}",
                        where=str(error.filename) if error.filename else None,
                        hint="check the path, its permissions and the free disk space",
                    )
                )
            else:
                raise
        ctrl_c.ending(code)
        if code:
            raise typer.Exit(code)

    return reported
