"""Terminal output: results on standard output, everything else on standard error."""

from __future__ import annotations

import functools
import io
import json
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TextIO

import typer

from .. import report
from ..core import (
    ConfigError,
    RagwrightError,
    SourceError,
    StoppedError,
    counted,
    replace_text,
    replacing,
)
from ._main import ctrl_c

if TYPE_CHECKING:
    from ..flow import Progress, RunSummary

P = ParamSpec("P")

EXIT_ERROR = 1
EXIT_FAILED = 100
EXIT_UNTRUSTED = 101

_NARROWEST, _WIDEST = 40, 200
_IN_A_FILE = 100
"""Characters of a line if the result goes to a file or a pipe."""
_BAR = 24
"""Characters of a bar."""
_PRINTED_EVERY = 10.0
"""Seconds between two lines of progress if standard error is not a terminal."""
_UNSEEN = re.compile(
    "[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069]|\\r(?!\\n)"
)
"""Control characters except tab and line end; marks that change the text direction."""
_STYLES = {
    "head": "bold",
    "rule": "bright_black",
    "good": "green",
    "bad": "red",
    "mark": "yellow",
}
_STYLED = re.compile(
    r"^(?P<head>.+)(?=\n-{2,}(?:  -+)*$)|^(?P<rule>-{2,}(?:  -+)*)$"
    r"|(?P<good>(?<=^gate: )passed$)|(?P<bad>(?<=^gate: )(?:failed|cannot be trusted)$|^FAULT\b)"
    r"|^(?P<mark>error:|warning:|fault:)",
    re.MULTILINE,
)
"""Parts of a result that a terminal shows in a style."""


@dataclass(frozen=True, slots=True)
class Step:
    """Progress of some work.

    Attributes:
        done: Finished amount, in ``unit``.
        total: Total amount, in ``unit``; None if unknown.
        unit: The unit: ``rows``, ``trials``, ``MB``.
        rate: Units per second.
        eta: Seconds to the end, None if unknown.
        cost: Money spent so far.
        before: Shown first: the present work or wait.
        after: Shown last: further counts.
    """

    done: float
    total: float | None
    unit: str
    rate: float = 0.0
    eta: float | None = None
    cost: float = 0.0
    before: str = ""
    after: str = ""

    @property
    def text(self) -> str:
        """The numbers: done, total, rate, time left, spend."""
        digits = 1 if self.unit == "MB" else 0
        done = f"{self.done:,.{digits}f}"
        total = "" if self.total is None else f"/{self.total:,.{digits}f}"
        said = [f"{done}{total} {self.unit}"]
        if self.rate > 0:
            said.append(_rate(self.rate, self.unit))
        if self.eta is not None:
            said.append(f"{_duration(self.eta)} left")
        if self.cost:
            said.append(f"spent {self.cost:.4f}")
        return ", ".join([*said, *filter(None, [self.after])])

    def line(self) -> str:
        """One line for a log."""
        return f"{self.before}{self.text}"


def _rate(rate: float, unit: str) -> str:
    """Units per second, or per minute where that is less than one."""
    unit = unit.split()[0]  # chunks, of "chunks embedded"
    return f"{rate:,.1f} {unit}/s" if rate >= 1 else f"{rate * 60:,.1f} {unit}/min"


def _duration(seconds: float) -> str:
    """A duration as text: ``42 s``, ``3 min 20 s``, ``2 h 05 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole // 60 % 60:02} min"


_NOTE = re.compile(r"(?m)^note: .*(?:\n  .*)*\n*")
"""A note of a result with its further lines, which are indented."""


class Console:
    """Output of a command.

    Args:
        quiet: Print no progress and no remarks.
        output: File that takes the result instead of standard output.
        as_json: Print the result as JSON in :meth:`show`.
    """

    def __init__(
        self, quiet: bool = False, output: Path | None = None, as_json: bool = False
    ) -> None:
        self.quiet = quiet
        self._output = output
        self._as_json = as_json
        self._lock = threading.Lock()
        self._drawn = False

    def result(self, text: str) -> None:
        """The result of a command; with ``quiet`` a text without its notes."""
        if self.quiet:
            text = _NOTE.sub("", text).rstrip("\n")
        if self._output is not None:
            self.make_folder_of(self._output)
            replace_text(self._output, text + "\n")
            self.remark(f"written to {self._output}")
            return
        write(sys.stdout, _coloured(visible(text), sys.stdout) + "\n")

    def data(self, data: bytes) -> None:
        """The result of a command as the bytes of its output file."""
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
        terminal = self._output is None and sys.stdout is not None and sys.stdout.isatty()
        return _terminal_width() if terminal else in_file

    def json(self, value: Any) -> None:
        """The result as one JSON document."""
        self.result(json.dumps(value, ensure_ascii=False, indent=2, default=list))

    def show(self, document: Callable[[], Any], text: Callable[[], str]) -> None:
        """The result as JSON or as text, whichever was requested."""
        if self._as_json:
            self.json(document())
        else:
            self.result(text())

    def remark(self, text: str) -> None:
        """A remark besides the result."""
        if not self.quiet:
            write(sys.stderr, visible(text) + "\n")

    def ended(self, run: RunSummary, scored: bool) -> int:
        """Print why a run was stopped; returns the exit code of its command."""
        if run.reason is not None:
            fail(run.reason)
            self.remark("run it again with --resume to go on")
        return 0 if run.complete and scored else EXIT_UNTRUSTED

    def piece(self, text: str) -> None:
        """A piece of a streamed answer; a line of progress before it is cleared."""
        with self._lock:
            self._clear()
            write(sys.stdout, visible(text))

    @contextmanager
    def progress(
        self,
        line: Callable[[], str | Step],
        warnings: Callable[[], Sequence[str]] = tuple,
        work: Callable[[], Progress] | None = None,
    ) -> Iterator[None]:
        """Show progress on standard error while the block runs.

        On a terminal the line, with a bar for a step, is redrawn twice a second; elsewhere a line
        is printed every ten seconds. An empty line is not shown. Each of the ``warnings``, also
        those added later, is printed once. ``work`` returns the counters of the runner: after
        Ctrl-C a message names the models that the command waits for, and those it gave up.
        """
        with _named(work):
            if self.quiet:
                yield
            else:
                with self._shown(line, warnings):
                    yield

    @contextmanager
    def _shown(
        self, line: Callable[[], str | Step], warnings: Callable[[], Sequence[str]]
    ) -> Iterator[None]:
        """Draw the line of progress while the block runs."""
        done = threading.Event()
        terminal = sys.stderr is not None and sys.stderr.isatty()
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
                        now = line()
                    except RagwrightError:  # the command itself fails with it, and says so
                        return
                    text = visible(now.line() if isinstance(now, Step) else now)
                    if terminal and text:
                        write(sys.stderr, f"\r\x1b[K{_drawn(now, text)}")
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
        """Remove the line of progress from the terminal, if there is one."""
        if self._drawn:
            self._drawn = False
            write(sys.stderr, "\r\x1b[K")


def _bar(step: Step, stream: TextIO) -> str:
    """The bar of a step as a terminal shows it; empty where the total is unknown."""
    if not step.total:
        return ""
    from rich.console import Console
    from rich.progress_bar import ProgressBar

    colour = _has_colour(stream)
    drawn = io.TextIOWrapper(io.BytesIO(), encoding=stream.encoding or "ascii")
    console = Console(
        file=drawn,
        width=_BAR,
        force_terminal=True,
        color_system="standard" if colour else None,
        no_color=not colour,
        legacy_windows=False,
    )
    shown = ProgressBar(
        total=step.total,
        completed=min(step.done, step.total),
        width=_BAR,
        style="bright_black",
        complete_style="cyan",
        finished_style="green",
    )
    console.print(shown, end="")
    drawn.seek(0)
    text = drawn.read()
    return f"{text if colour else text.ljust(_BAR)} "


def _has_colour(stream: TextIO | None) -> bool:
    """True for a terminal that shows colour, unless the environment has NO_COLOR."""
    if stream is None or not stream.isatty() or os.environ.get("NO_COLOR"):
        return False
    return os.environ.get("TERM", "") not in ("", "dumb", "unknown")


def _drawn(now: str | Step, text: str) -> str:
    """A line of progress, cut to the columns of the terminal, behind its bar."""
    room = shutil.get_terminal_size().columns - 1
    shown = _bar(now, sys.stderr) if isinstance(now, Step) and room > _NARROWEST + _BAR else ""
    return shown + text[: room - (_BAR + 1 if shown else 0)]


def width() -> int:
    """Characters of a line: as many as the terminal shows, 200 at most; 100 on a pipe."""
    if sys.stdout is None or not sys.stdout.isatty():
        return _IN_A_FILE
    return _terminal_width()


def _terminal_width() -> int:
    return min(_WIDEST, max(_NARROWEST, shutil.get_terminal_size().columns))


def table(
    rows: Sequence[Sequence[str]], right: Sequence[int] = (), whole: Sequence[int] = ()
) -> str:
    """A table of the line width; columns in ``right`` are right-aligned, in ``whole`` unbroken."""
    return report.text_table(rows, right, width(), whole)


def given_text(word: str, command: str) -> str:
    """A question as it was given; that on standard input where it is ``-``.

    Raises:
        ConfigError: Nothing was written there.
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
    """A text with control characters escaped.

    Text of models and rows must not control the terminal or reorder text. In JSON the escape means
    the character.
    """
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _coloured(text: str, stream: Any) -> str:
    """Cleaned text with table heads, marks and outcomes styled if the terminal shows colour."""
    if not _has_colour(stream) or not _STYLED.search(text):
        return text
    from rich.color import ColorSystem
    from rich.style import Style

    def style(found: re.Match[str]) -> str:
        name = found.lastgroup or ""
        return Style.parse(_STYLES[name]).render(found[0], color_system=ColorSystem.STANDARD)

    return _STYLED.sub(style, text)


def write(stream: Any, text: str) -> None:
    """Write text and ignore errors on the terminal.

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


@contextmanager
def _named(work: Callable[[], Progress] | None) -> Iterator[None]:
    """Let a stop name the models whose calls it waits for, or gave up, while the block runs."""
    if work is None:
        yield
        return
    ctrl_c.waits = lambda: _calls_text(work().awaited)
    try:
        yield
    finally:
        ctrl_c.waits = str
        if ctrl_c.pressed:
            ctrl_c.lost = _calls_text(work().given_up)


def _calls_text(calls: Mapping[str, int]) -> str:
    """Calls by model: ``2 calls to http://localhost:8000/v1#m``."""
    told = [f"{counted(n, 'call')} to {name}" for name, n in sorted(calls.items()) if n]
    return " and ".join(told)


def fail(error: RagwrightError) -> int:
    """Print the error and return its exit code."""
    write(sys.stderr, _coloured(visible(f"error: {error}\n"), sys.stderr))
    return EXIT_UNTRUSTED if isinstance(error, StoppedError) else EXIT_ERROR


def stopped(error: BaseException, resumes: bool = False) -> int:
    """Print in one line what is kept after a stop; returns the exit code.

    ``resumes`` is True for a command that continues only with ``--resume``.
    """
    kept = "; ".join(getattr(error, "__notes__", ()))
    lost = ctrl_c.lost
    line = "\n" if sys.stderr is not None and sys.stderr.isatty() else ""  # below the ^C
    message = kept or "finished work is kept"
    if resumes:
        message += "; to continue, run it again with --resume"
    elif not kept:
        message += "; to continue, run it again"
    if lost:
        message = f"{lost} got no reply in time and may be billed; {message}"
    write(sys.stderr, f"{line}stopped{ctrl_c.by}; {message}\n")
    return ctrl_c.code


def reported(command: Callable[P, int | None]) -> Callable[P, None]:
    """Turn our errors into a message and an exit code; other exceptions are bugs."""

    @functools.wraps(command)
    def reported(*args: P.args, **kwargs: P.kwargs) -> None:
        ctrl_c.working()
        resumes = "resume" in kwargs
        try:
            code = command(*args, **kwargs) or 0
            if ctrl_c.pressed:  # a library swallowed it: the result may be incomplete
                code = stopped(KeyboardInterrupt(), resumes)
        except KeyboardInterrupt as error:
            code = stopped(error, resumes)
        except Exception as error:
            code = _told(error, resumes)
        ctrl_c.ending(code)
        if code:
            raise typer.Exit(code)

    return reported


def _told(error: Exception, resumes: bool) -> int:
    """Report the error of a command; returns the exit code.

    Raises:
        Exception: It is a bug, or a usage error.
    """
    if ctrl_c.pressed:  # a library turned Ctrl-C into its own error
        return stopped(error, resumes)
    if isinstance(error, RagwrightError):
        return fail(error)
    if not isinstance(error, OSError):
        raise error
    error_ = SourceError(
        f"cannot read or write: {error.strerror or error}",
        where=str(error.filename) if error.filename else None,
        hint="check the path, its permissions and the free disk space",
    )
    return fail(error_)
