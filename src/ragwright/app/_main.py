"""The entry point, and signals: Ctrl-C ends with exit code 130, without a traceback.

SIGTERM and SIGHUP (a closed terminal) act like Ctrl-C, with exit codes 143 and 129.
An exception can be lost where it is raised: within an import, or while an object is being deleted.
So it is raised only while a command works, and raised again if it was lost. Few modules are
imported here: before :func:`main` runs, Python handles signals itself.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import FrameType

SIGNALS = {
    getattr(signal, name): label
    for name, label in (("SIGINT", "Ctrl-C"), ("SIGTERM", "SIGTERM"), ("SIGHUP", "SIGHUP"))
    if hasattr(signal, name)
}
"""Signals that end a command, and their names."""

_PATIENCE = 1.0
"""Seconds after which a message says what the program waits for."""

_LAST = 0.5
"""Seconds after which a stopped program ends, whatever its threads still do."""

_AGAIN = 0.05
"""Seconds after which an interrupt that was lost is raised again."""

_COLLECT_AFTER = 50_000
"""New objects between two garbage collections. With Python's own 700, loading the modules of a
command triggers collections that cost about a tenth of a cold `ask` and free nothing."""


class CtrlC:
    """Handling of Ctrl-C in this process, once :meth:`take` is called.

    While the program loads and after the command has ended, Ctrl-C ends the program. While a
    command works, it raises KeyboardInterrupt; the second time it ends the program at once. SIGTERM
    and SIGHUP do the same. One after the other counts once, since the end of a session sends both;
    a second SIGHUP does not count, since shells send two.
    """

    def __init__(self) -> None:
        self._phase = "loading"  # then working, ending
        self._code = 0
        self._lost = False
        self._by: int = signal.SIGINT
        self._got: set[int] = set()
        self.pressed = False
        self.waits: Callable[[], str] = str
        """Returns the calls that the command waits for, as text; empty for none."""
        self.lost = ""
        """The calls that were given up, as text; empty for none."""

    def take(self) -> None:
        """Handle Ctrl-C from now on, unless it is ignored (nohup) or has another handler. On
        systems without timers (Windows) Python's handling stays.
        """
        ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if ours and hasattr(signal, "setitimer"):
            for number in SIGNALS:
                if number == signal.SIGINT or signal.getsignal(number) is signal.SIG_DFL:
                    signal.signal(number, self._on_signal)
            signal.signal(signal.SIGALRM, self._on_alarm)
            sys.unraisablehook = self._on_lost
            # the end of Python's shutdown; here Ctrl-C would make the shell print "killed"
            atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
            # threads have ended by then; later Python drops the handler, and an alarm would kill
            atexit.register(signal.setitimer, signal.ITIMER_REAL, 0)

    @property
    def code(self) -> int:
        """The exit code of a command that was stopped: 128 and the number of the signal."""
        return 128 + self._by

    @property
    def by(self) -> str:
        """The signal that stopped the command, empty for Ctrl-C."""
        return "" if self._by == signal.SIGINT else f" by {SIGNALS[self._by]}"

    def working(self) -> None:
        """Note that a command begins."""
        self._phase = "working"

    def ending(self, code: int) -> None:
        """Note that the command has ended, with all output written."""
        self._phase, self._code = "ending", code
        if self.pressed:
            # Python waits for threads at its end, also for one that a library keeps busy
            signal.setitimer(signal.ITIMER_REAL, _LAST)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self._phase == "ending":
            os._exit(self._code)
        again = number in self._got and SIGNALS[number] != "SIGHUP"
        self._got.add(number)
        if self.pressed and not again:
            return
        self._by = number
        if self._phase == "loading":
            _leave(f"stopped{self.by} before any work was done", self.code)
        if again:
            _leave(f"stopped{self.by} at once; stored results are kept", self.code)
        self.pressed = True
        signal.setitimer(signal.ITIMER_REAL, _PATIENCE)
        raise KeyboardInterrupt

    def _on_alarm(self, _number: int, _frame: FrameType | None) -> None:
        if self._phase == "ending":
            os._exit(self._code)
        if self._lost:
            self._lost = False
            signal.setitimer(signal.ITIMER_REAL, _PATIENCE)
            raise KeyboardInterrupt
        again = "SIGTERM twice" if SIGNALS[self._by] == "SIGHUP" else f"{SIGNALS[self._by]} again"
        awaited = self.waits() or "work under way"
        _say(f"stopping: waiting for {awaited}; results are kept; {again} stops at once")

    def _on_lost(self, lost: sys.UnraisableHookArgs) -> None:
        if issubclass(lost.exc_type, KeyboardInterrupt):
            self._lost = True
            signal.setitimer(signal.ITIMER_REAL, _AGAIN)
        else:
            sys.__unraisablehook__(lost)


ctrl_c = CtrlC()
"""The handler of this process."""


def main() -> None:
    """Run the command line; modules in the present folder can be named in settings."""
    ctrl_c.take()
    gc.set_threshold(_COLLECT_AFTER)
    if sys.argv[1:] == ["--version"]:
        from importlib.metadata import version

        sys.stdout.write(f"ragwright {version('ragwright')}\n")
        return
    commands = import_module("._commands", __package__)
    core = import_module("..core", __package__)
    core.import_plugins_from(str(Path.cwd()))
    try:
        commands.command_line(sys.argv[1:2])()
    except core.PluginError as error:  # the commands themselves cannot be listed
        _leave(f"error: {error}", 1)
    except SystemExit as end:
        ctrl_c.ending(end.code if isinstance(end.code, int) else 1)
        raise


def _say(text: str) -> None:
    """Print a line on standard error, unbuffered: the buffered stream may be interrupted."""
    with suppress(OSError):
        end = b"\r\x1b[K" if os.isatty(2) else b""
        os.write(2, end + text.encode() + b"\n")


def _leave(text: str, code: int) -> None:
    _say(text)
    os._exit(code)
