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
from ._main import EXIT_INTERRUPTED, ctrl_c

P = ParamSpec("P")

EXIT_ERROR = 1
EXIT_UNTRUSTED = 101

_NARROWEST, _WIDEST = 40, 100
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
        """A piece of an answer as it is being written."""
        write(sys.stdout, visible(text))

    @contextmanager
    def progress(self, line: Callable[[], str]) -> Iterator[None]:
        """Show a line on standard error, redrawn twice a second while the block runs.

        Where standard error is no terminal, a line is printed every ten seconds.
        """
        if self.quiet:
            yield
            return
        done = threading.Event()
        terminal = sys.stderr is not None and sys.stderr.isatty()

        def draw() -> None:
            drawn = time.monotonic()
            while not done.wait(0.5):
                if terminal:
                    write(sys.stderr, f"\r\x1b[K{line()[:119]}")
                elif time.monotonic() - drawn >= 10:
                    drawn = time.monotonic()
                    write(sys.stderr, line() + "\n")

        thread = threading.Thread(target=draw, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            if terminal:
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


def stopped(error: BaseException) -> int:
    """Say in one line what was kept where a command was stopped; the exit code."""
    kept = "; ".join(getattr(error, "__notes__", ()))
    line = "\n" if sys.stderr is not None and sys.stderr.isatty() else ""  # below the ^C
    told = kept or "what was done is kept, run it again to go on"
    write(sys.stderr, f"{line}stopped; {told}\n")
    return EXIT_INTERRUPTED


def reported(command: Callable[P, int | None]) -> Callable[P, None]:
    """Turn our errors into a message and an exit code; anything else is a fault of ours."""

    @functools.wraps(command)
    def reported(*args: P.args, **kwargs: P.kwargs) -> None:
        ctrl_c.working()
        try:
            code = command(*args, **kwargs) or 0
            if ctrl_c.pressed:  # a library swallowed it: nobody knows what is missing
                code = stopped(KeyboardInterrupt())
        except KeyboardInterrupt as error:
            code = stopped(error)
        except Exception as error:
            code = _told(error)
        ctrl_c.ending(code)
        if code:
            raise typer.Exit(code)

    return reported


def _told(error: Exception) -> int:
    """Say what a command ended with; the exit code.

    Raises:
        Exception: It is a fault of ours, or of how the command was called.
    """
    if ctrl_c.pressed:  # a library turned Ctrl-C into an error of its own
        return stopped(error)
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
