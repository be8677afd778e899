"""Steps that tell where they ran, or fail there; workers import them by name."""

from __future__ import annotations

import importlib
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragwright.core import PatternError
from ragwright.records import KEY

WORST = "7"
"""Key of the row that steps fail on."""


class Odd(Exception):
    """An error that cannot be pickled back: its arguments are not those of its constructor."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


@dataclass(frozen=True)
class Telling:
    """Says of every row in which process it was met, and what that process looks like."""

    def seen(self) -> str:
        names = ("DO_NOT_TRACK", "DAFT_ANALYTICS_ENABLED", "RAY_USAGE_STATS_ENABLED")
        switches = ",".join(os.environ.get(name, "unset") for name in names)
        stores = [path for path in opened() if path.endswith((".sqlite", ".db"))]
        return f"{os.getpid()} {switches} {len(stores)}"

    def __call__(self, batch: Any) -> Any:
        pa = importlib.import_module("pyarrow")
        rows = batch.num_rows
        made = batch.append_column("left_out", pa.nulls(rows, pa.string()))
        return made.append_column("seen", pa.array([self.seen()] * rows))


def opened() -> list[str]:
    """Files that this process holds open."""
    found = []
    for handle in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(str(handle.readlink()))
    return found


@dataclass(frozen=True)
class Failing(Telling):
    """Fails on the worst row: with an error (``house``, ``plain``), or dies, once where marked."""

    how: str = "house"
    mark: str = ""

    def __call__(self, batch: Any) -> Any:
        if WORST in batch.column(KEY).to_pylist():
            self.fail()
        return super().__call__(batch)

    def fail(self) -> None:
        if self.how == "house":
            raise PatternError("the pattern took too long", where="row 7", hint="mend it")
        if self.how == "plain":
            raise ZeroDivisionError("by zero")
        if self.how == "odd":
            raise Odd(1, 2)
        if not self.mark or not Path(self.mark).exists():
            if self.mark:
                Path(self.mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
