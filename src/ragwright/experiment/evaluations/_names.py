"""Runs by name: ``latest``, ``latest~1``, a given name, the beginning of an id."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...core import ConfigError, StoreError, counted
from ...flow import Run, Runs

BASELINE = "baseline"
"""Kind of runs that hold pairs with their distances."""

_KINDS = ("eval", "score")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_STEPS = re.compile(r"(?P<name>.+?)~(?P<back>[0-9]+)")
_TRIAL = re.compile(r"(?:(?P<sweep>[0-9a-z-]+):)?(?P<trial>T[0-9]{3,})")
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class KnownRun:
    """A stored evaluation in a list.

    Attributes:
        id: Its id, which sorts by time.
        name: Its name, or empty.
        started: Local time, ``2026-11-21 14:31``.
        testset: The testset's address.
        measures: Measures in order.
        state: ``complete``, ``stopped`` or ``open``.
    """

    id: str
    name: str
    started: str
    testset: str
    measures: tuple[str, ...]
    state: str

    @property
    def line(self) -> str:
        """All of it in one line."""
        called = f" {self.name}" if self.name else ""
        open_ = "" if self.state == "complete" else f", {self.state}"
        taken = f": {', '.join(self.measures)}" if self.measures else ""
        return f"{self.id}{called}  ({self.started}, {self.testset}{taken}{open_})"


def check_run_name(name: str) -> str:
    """A valid name for a run.

    Raises:
        ConfigError: It is ``latest``, or could be taken for an id or a step back.
    """
    if name and (not _NAME.fullmatch(name) or name == "latest"):
        raise ConfigError(
            f"{name!r} cannot be the name of a run",
            where="--name",
            hint="a letter, then letters, digits, _ . and -; and not `latest`",
        )
    return name


def known_runs(runs: Runs) -> tuple[KnownRun, ...]:
    """Every stored evaluation, newest first."""
    return tuple(map(known_run, reversed(_evaluations(runs))))


def find_run(runs: Runs, name: str) -> str:
    """The id of the run with a name.

    ``latest`` is the newest one, ``latest~1`` the one before it; runs that were stopped before a
    row was done do not count. A name of several runs means the newest of them, and ``name~1`` the
    one before. ``T007`` is a trial of the latest sweep,
    ``RUN:T007`` of that one. The id of a baseline, or its beginning, names that.

    Raises:
        StoreError: No run, or several, match; the newest ones are listed.
    """
    trial = _TRIAL.fullmatch(name)
    if trial is not None:
        return _trial_run(runs, trial["sweep"] or "latest", trial["trial"])
    known = _evaluations(runs)
    step = _STEPS.fullmatch(name)
    wanted, back = (step["name"], int(step["back"])) if step else (name, 0)
    called = (
        _with_rows(runs, known, back)
        if wanted == "latest"
        else [run.id for run in known if run.name == wanted]
    )
    if len(called) > back:
        return called[-1 - back]
    listed = () if step else (*known, *runs.list(BASELINE))
    begun = [run.id for run in listed if run.id.startswith(name)]
    exact = [run for run in begun if run == name]
    if len(exact or begun) == 1:
        return (exact or begun)[0]
    if not known:
        raise StoreError(
            f"unknown run {name!r}", hint="no run is stored yet: run `ragwright eval` first"
        )
    if called:
        what = f"only {counted(len(called), 'run has', 'runs have')} the name {wanted!r}"
    elif begun:
        what = f"{counted(len(begun), 'run begins', 'runs begin')} with {name!r}"
    else:
        what = f"unknown run {name!r}, and no file of that name"
    shown = [run for run in listed if run.id in begun] or known
    lines = "".join(f"\n  {known_run(run).line}" for run in reversed(shown[-_SHOWN:]))
    more = f"\n  … {len(shown)} in all: `ragwright compare` lists them" if shown[_SHOWN:] else ""
    raise StoreError(what, hint=f"the newest:{lines}{more}")


def sweeps_by_use(runs: Runs) -> list[Run]:
    """Stored sweeps, the most recently run or shown last."""
    return sorted(runs.list("sweep"), key=lambda run: (run.ended or run.started, run.id))


def _trial_run(runs: Runs, sweep: str, trial: str) -> str:
    """The run with the rows of a trial."""
    sweeps = sweeps_by_use(runs)
    if sweep != "latest":
        sweeps = [run for run in sweeps if run.id.startswith(sweep)]
    if len(sweeps) != 1 and (sweep != "latest" or not sweeps):
        what = f"{len(sweeps)} sweeps begin with" if sweeps else "unknown sweep"
        raise StoreError(
            f"{what} {sweep!r}", hint="run `ragwright sweep STUDY` first, or give its name"
        )
    rows = {row.id: str(row.body.get("run", "")) for row in runs.rows(sweeps[-1].id)}
    if not rows.get(trial):
        held = ", ".join(name for name, run in rows.items() if run) or "none"
        raise StoreError(
            f"the sweep {sweeps[-1].id} has no rows of {trial}", hint=f"it has those of: {held}"
        )
    return rows[trial]


def _evaluations(runs: Runs) -> Sequence[Run]:
    return [run for run in runs.list() if run.kind in _KINDS]


def _with_rows(runs: Runs, known: Sequence[Run], back: int) -> list[str]:
    """Newest ``back + 1`` runs with a row that is done, oldest first; all where there is none."""
    found: list[str] = []
    for run in reversed(known):
        if run.state == "complete" or "done" in runs.states(run.id).values():
            found.insert(0, run.id)
        if len(found) > back:
            return found
    return found or [run.id for run in known]


def known_run(run: Run) -> KnownRun:
    """A stored run as a line of a list."""
    manifest: Mapping[str, Any] = run.manifest
    return KnownRun(
        run.id,
        run.name or str(manifest.get("name", "")),
        time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started)),
        str(manifest.get("testset", "")),
        tuple(manifest.get("measures", ())),
        run.state,
    )
