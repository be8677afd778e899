"""Fuzzing of the doors through which strangers' data comes in.

A target is one door: a corpus of sound input, a way to damage it, and a run. Whatever comes in,
only a :class:`~ragwright.core.RagwrightError` may come out; what else must hold, the run asserts.

To add one, write a module beside this one and name its targets in ``targets.py``. The tests try
each target for a bounded number of seeded cases (``test_fuzz.py``); for longer::

    python -m tests.fuzz --seconds 600 --target chat
    RAGWRIGHT_FUZZ_SECONDS=60 pytest tests/fuzz
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias

from ragwright.core import RagwrightError

Run: TypeAlias = Callable[[Any], None]


@dataclass(frozen=True)
class Target:
    """One door."""

    name: str
    corpus: Sequence[Any]
    damaged: Callable[[random.Random, Any], Any]
    opened: Callable[[], AbstractContextManager[Run]]
    cases: int = 60


def explore(target: Target, seed: int = 0, seconds: float = 0.0) -> int:
    """Try the corpus, then damaged cases: as many as the target says, or for some seconds."""
    tried = 0
    end = time.monotonic() + seconds
    with target.opened() as run:
        for case in target.corpus:
            _attempt(target, run, case, "of the corpus")
            tried += 1
        number = 0
        while time.monotonic() < end if seconds else number < target.cases:
            chance = random.Random(f"{seed}/{target.name}/{number}")
            case = target.damaged(chance, chance.choice(target.corpus))
            _attempt(target, run, case, f"{number} of seed {seed}")
            number += 1
    return tried + number


def _attempt(target: Target, run: Run, case: Any, where: str) -> None:
    try:
        run(case)
    except RagwrightError:
        return
    except Exception as error:
        shown = repr(case)
        raise AssertionError(
            f"{target.name}, case {where}: {type(error).__name__}: {error}\n{shown[:4000]}"
        ) from error
