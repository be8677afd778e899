"""Talking to a person: results on standard output, everything else on standard error."""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec

import typer

from ..core import RagwrightError, SourceError, StoppedError
from ._main import EXIT_INTERRUPTED, ctrl_c

P = ParamSpec("P")

EXIT_ERROR = 1
EXIT_UNTRUSTED = 101


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
            self._output.write_text(text + "\n", "utf-8")
            self.remark(f"written to {self._output}")
            return
        write(sys.stdout, text + "\n")

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
            write(sys.stderr, text + "\n")

    def piece(self, text: str) -> None:
        """A piece of an answer as it is being written."""
        write(sys.stdout, text)

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
    write(sys.stderr, f"error: {error}\n")
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
