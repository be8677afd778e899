"""Commands on a terminal, each in a process of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import sys
import termios
import warnings
from collections.abc import Mapping, Sequence
from contextlib import chdir
from pathlib import Path

from children import started

from ragwright.app import main


def on_terminal(
    folder: Path,
    *words: str,
    unread: bool = False,
    environment: Mapping[str, str] | None = None,
) -> str:
    """All that a command writes on a terminal of no width; if ``unread``, on standard output."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 0, 0, 0))
    process = started(_at_terminal, os.ttyname(theirs), folder, words, environment or {}, unread)
    read = b""
    os.set_blocking(ours, False)
    ending = False
    while True:
        try:
            read += os.read(ours, 65536)
        except BlockingIOError:
            if ending:
                break
            ending = not process.is_alive()
            process.join(0.02)
    os.close(ours)
    os.close(theirs)
    assert process.exitcode == 0, read
    return read.decode()


def _at_terminal(
    name: str, folder: Path, words: Sequence[str], environment: Mapping[str, str], unread: bool
) -> None:
    warnings.simplefilter("error")
    terminal = os.open(name, os.O_RDWR | os.O_NOCTTY)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number, stream in enumerate((nothing, terminal, nothing if unread else terminal)):
        os.dup2(stream, number)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    os.environ.pop("COLUMNS", None)
    os.environ.update(environment)
    sys.argv = ["ragwright", *words]
    with chdir(folder):
        main()
