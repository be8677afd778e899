"""The first lines of the program, and Ctrl-C from there to its last: 130, never a traceback.

An exception can be lost where it is raised: within an import, or while an object is being deleted.
So it is raised only while a command works, and there once more where it was lost. Little is
imported here: what comes before :func:`main` Python answers in its own way.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from contextlib import suppress
from importlib import import_module
from types import FrameType

EXIT_INTERRUPTED = 130

_PATIENCE = 1.0
"""Seconds after which a person is told what is waited for."""

_AGAIN = 0.05
"""Seconds after which an interrupt that was lost is raised again."""


class CtrlC:
    """What Ctrl-C does to this process once :meth:`take` was called; nothing before that.

    While the program loads and after the command has ended, it ends the program. While a command
    works it raises KeyboardInterrupt, and the second time ends the program at once.
    """

    def __init__(self) -> None:
        self._phase = "away"  # then loading, working, ending
        self._code = 0
        self._lost = False
        self.pressed = False

    def take(self) -> None:
        """Answer Ctrl-C from now on, unless it is ignored (nohup) or somebody else's already.

        Where the system has no timers of its own (Windows), it stays as Python has it.
        """
        ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if ours and hasattr(signal, "setitimer"):
            self._phase = "loading"
            signal.signal(signal.SIGINT, self._answer)
            signal.signal(signal.SIGALRM, self._remind)
            sys.unraisablehook = self._unraisable
            # the last that runs of Python; whoever presses then would be told "killed"
            atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)

    def also(self, number: signal.Signals) -> None:
        """Answer another signal as Ctrl-C is answered."""
        ours = self._phase != "away"
        signal.signal(number, self._answer if ours else signal.default_int_handler)

    def working(self) -> None:
        """A command begins."""
        if self._phase != "away":
            self._phase = "working"

    def ending(self, code: int) -> None:
        """The command has ended, and what it has to say is said."""
        if self._phase != "away":
            self._phase, self._code = "ending", code
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _answer(self, _number: int, _frame: FrameType | None) -> None:
        if self._phase == "loading":
            _leave("stopped before anything was done", EXIT_INTERRUPTED)
        if self._phase == "ending":
            _leave("", self._code)
        if self.pressed:
            _leave("stopped at once; what was written down is kept", EXIT_INTERRUPTED)
        self.pressed = True
        signal.setitimer(signal.ITIMER_REAL, _PATIENCE)
        raise KeyboardInterrupt

    def _remind(self, _number: int, _frame: FrameType | None) -> None:
        if self._phase != "working":
            return
        if self._lost:
            self._lost = False
            signal.setitimer(signal.ITIMER_REAL, _PATIENCE)
            raise KeyboardInterrupt
        _say("stopping: what is under way is waited for and kept; Ctrl-C again stops at once")

    def _unraisable(self, lost: sys.UnraisableHookArgs) -> None:
        if issubclass(lost.exc_type, KeyboardInterrupt):
            self._lost = True
            signal.setitimer(signal.ITIMER_REAL, _AGAIN)
        else:
            sys.__unraisablehook__(lost)


ctrl_c = CtrlC()
"""That of this process."""


def main() -> None:
    """Run the command line; modules in the present folder can be named in settings."""
    ctrl_c.take()
    if "" not in sys.path:
        sys.path.append("")  # last, so that no file here takes the place of an installed module
    if sys.argv[1:] == ["--version"]:
        from importlib.metadata import version

        sys.stdout.write(f"ragwright {version('ragwright')}\n")
        return
    commands = import_module("._commands", __package__)
    called = [word for word in sys.argv[1:] if word in commands.COMMANDS]
    try:
        commands.command_line(called[:1])()
    except SystemExit as end:
        ctrl_c.ending(end.code if isinstance(end.code, int) else 1)
        raise


def _say(text: str) -> None:
    """A line on standard error, past its buffer: that may be what was interrupted."""
    with suppress(OSError):
        end = b"\r\x1b[K" if os.isatty(2) else b""
        os.write(2, end + text.encode() + b"\n")


def _leave(text: str, code: int) -> None:
    if text:
        _say(text)
    os._exit(code)
