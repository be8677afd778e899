"""Talking to a person: results on standard output, everything else on standard error."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec

import typer

from .. import report
from ..core import RagwrightError, SourceError, StoppedError, replace_text
from ._main import ctrl_c

P = ParamSpec("P")

EXIT_ERROR = 1
EXIT_UNTRUSTED = 101

_NARROWEST, _WIDEST = 40, 100
_PRINTED_EVERY = 10.0
"""Seconds between two lines of progress where standard error is no terminal."""
_UNSEEN = re.compile(
    "[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069]|\\r(?!\\n)"
)
"""Controls but tab and line end; marks that change the direction of what follows."""


class Console:
    """Where a command prints.

    Args:
        quiet: No progress and no remarks.
        output: File that takes the result instead of standard output.
    """

    def __init__(self, quiet: bool = False, output: Path | None = None) -> None:
        self.quiet = quiet
        self._output = output
        self._lock = threading.Lock()
        self._drawn = False

    def result(self, text: str) -> None:
        """The result of a command."""
        if self._output is not None:
            self.make_folder_of(self._output)
            replace_text(self._output, text + "\n")
            self.remark(f"written to {self._output}")
            return
        write(sys.stdout, visible(text) + "\n")

    def make_folder_of(self, path: Path) -> None:
        """Make the folder that a file is to lie in, and say so, where it is not there."""
        folder = path.parent
        if not folder.is_dir():
            folder.mkdir(parents=True)
            self.remark(f"folder made: {folder}")

    def json(self, value: Any) -> None:
        """The result as one JSON document."""
        self.result(json.dumps(value, ensure_ascii=False, indent=2, default=list))

    def remark(self, text: str) -> None:
        """What a person may want to know beside the result."""
        if not self.quiet:
            write(sys.stderr, visible(text) + "\n")

    def piece(self, text: str) -> None:
        """A piece of an answer as it is being written; a line of progress before it is cleared."""
        with self._lock:
            self._clear()
            write(sys.stdout, visible(text))

    @contextmanager
    def progress(
        self, line: Callable[[], str], warnings: Callable[[], Sequence[str]] = tuple
    ) -> Iterator[None]:
        """Show a line on standard error, redrawn twice a second while the block runs.

        Where standard error is no terminal, a line is printed every ten seconds; an empty one is
        not shown. Each of the ``warnings``, to which some may be added, is printed once.
        """
        if self.quiet:
            yield
            return
        done = threading.Event()
        terminal = sys.stderr is not None and sys.stderr.isatty()
        warned = 0

        def warn() -> None:
            nonlocal warned
            for text in warnings()[warned:]:
                warned += 1
                self._clear()
                write(sys.stderr, visible(f"warning: {text}") + "\n")

        def draw() -> None:
            printed = time.monotonic()
            while not done.wait(0.5):
                with self._lock:  # a piece of an answer comes before or after, not between
                    warn()
                    text = visible(line())
                    if terminal and text:
                        write(sys.stderr, f"\r\x1b[K{text[:119]}")
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
        """Take the line of progress off the terminal, where there is one."""
        if self._drawn:
            self._drawn = False
            write(sys.stderr, "\r\x1b[K")


def width() -> int:
    """Characters of a line: as many as the terminal shows, and 100 at most."""
    if sys.stdout is None or not sys.stdout.isatty():
        return _WIDEST
    return min(_WIDEST, max(_NARROWEST, shutil.get_terminal_size().columns))


def table(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """A table as wide as lines are; columns named in ``right`` end flush."""
    return report.text_table(rows, right, width())


def visible(text: str) -> str:
    """A text whose control characters are spelt out.

    What models and rows hold must neither command a terminal nor turn the order of what is read.
    In JSON the spelling means the character.
    """
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def write(stream: Any, text: str) -> None:
    """Write text and go on, whatever becomes of it: what is printed decides nothing.

    What the terminal's encoding cannot show is escaped. Where the reader has gone, this text and
    what follows go nowhere. A result that cannot be written for another reason is an error.
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
    except OSError:  # a full disk, a terminal that hung up
        if stream is not sys.stderr:
            raise


def _to_nowhere(stream: Any) -> None:
    """Let a stream end in nothing; Python flushes it once more at the end of the program."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    finally:
        os.close(nowhere)


def fail(error: RagwrightError) -> int:
    """Say what went wrong; the exit code that goes with it."""
    write(sys.stderr, visible(f"error: {error}\n"))
    return EXIT_UNTRUSTED if isinstance(error, StoppedError) else EXIT_ERROR


def stopped(error: BaseException, resumes: bool = False) -> int:
    """Say in one line what was kept where a command was stopped; the exit code.

    ``resumes`` is True for a command that goes on only with ``--resume``.
    """
    kept = "; ".join(getattr(error, "__notes__", ()))
    line = "\n" if sys.stderr is not None and sys.stderr.isatty() else ""  # below the ^C
    told = kept or "what was done is kept"
    if resumes:
        told += ", run it again with --resume to go on"
    elif not kept:
        told += ", run it again to go on"
    write(sys.stderr, f"{line}stopped{ctrl_c.by}; {told}\n")
    return ctrl_c.code


def reported(command: Callable[P, int | None]) -> Callable[P, None]:
    """Turn our errors into a message and an exit code; anything else is a fault of ours."""

    @functools.wraps(command)
    def reported(*args: P.args, **kwargs: P.kwargs) -> None:
        ctrl_c.working()
        resumes = "resume" in kwargs
        try:
            code = command(*args, **kwargs) or 0
            if ctrl_c.pressed:  # a library swallowed it: nobody knows what is missing
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
    """Say what a command ended with; the exit code.

    Raises:
        Exception: It is a fault of ours, or of how the command was called.
    """
    if ctrl_c.pressed:  # a library turned Ctrl-C into an error of its own
        return stopped(error, resumes)
    if isinstance(error, RagwrightError):
        return fail(error)
    if not isinstance(error, OSError):
        raise error
    told = SourceError(
        f"the system refuses: {error.strerror or error}",
        where=str(error.filename) if error.filename else None,
        hint="see whether the folder can be written and the disk has room",
    )
    return fail(told)
