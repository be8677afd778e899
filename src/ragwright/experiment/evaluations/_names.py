"""Runs by name: ``latest``, ``latest~1``, a given name, the beginning of an id."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...core import ConfigError, StoreError, count_noun
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
    """A stored evaluation or sweep, as an entry of a list.

    Attributes:
        id: Its id, which sorts by time.
        name: Its name, that of a sweep's study, or empty.
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
        """The whole entry on one line."""
        name_text = f" {self.name}" if self.name else ""
        state_text = "" if self.state == "complete" else f", {self.state}"
        measures_text = f": {', '.join(self.measures)}" if self.measures else ""
        return f"{self.id}{name_text}  ({self.started}, {self.testset}{measures_text}{state_text})"


def check_run_name(name: str) -> str:
    """Return the name if it is valid for a run.

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


def list_evaluations(runs: Runs) -> tuple[KnownRun, ...]:
    """Return the stored evaluations, newest first: the ones that ``latest~N`` counts."""
    return tuple(map(find_known_run, reversed(_keep_with_rows(runs, _evaluation_runs(runs)))))


def find_run(runs: Runs, name: str) -> str:
    """Return the id of the run with a name.

    ``latest`` is the newest run, ``latest~1`` the one before it; runs that were stopped before a
    row was done do not count. A name of several runs means the newest of them, and ``name~1`` the
    one before. ``T007`` is a trial of the latest sweep, ``RUN:T007`` of another. Baselines are
    named by their id or its beginning.

    Raises:
        StoreError: No run, or several, match; the newest ones are listed.
    """
    trial = _TRIAL.fullmatch(name)
    if trial is not None:
        return _trial_run(runs, trial["sweep"] or "latest", trial["trial"])
    known = _evaluation_runs(runs)
    step = _STEPS.fullmatch(name)
    run_name, back = (step["name"], int(step["back"])) if step else (name, 0)
    named = [run for run in known if run.name == run_name]
    ids_with_name = [
        run.id for run in (_keep_with_rows(runs, known) if run_name == "latest" else named)
    ]
    if len(ids_with_name) > back:
        return ids_with_name[-1 - back]
    candidates = () if step else (*known, *runs.list(BASELINE))
    ids_with_prefix = [run.id for run in candidates if run.id.startswith(name)]
    exact = [run for run in ids_with_prefix if run == name]
    if len(exact or ids_with_prefix) == 1:
        return (exact or ids_with_prefix)[0]
    if not known:
        raise StoreError(
            f"unknown run {name!r}", hint="no run is stored yet: run `ragwright eval` first"
        )
    if ids_with_name:
        problem = (
            f"only {count_noun(len(ids_with_name), 'run has', 'runs have')} the name {run_name!r}"
        )
    elif ids_with_prefix:
        problem = f"{count_noun(len(ids_with_prefix), 'run begins', 'runs begin')} with {name!r}"
    else:
        problem = f"unknown run {name!r}, and no file of that name"
    newest = [run for run in candidates if run.id in ids_with_prefix] or known
    lines = "".join(f"\n  {find_known_run(run).line}" for run in reversed(newest[-_SHOWN:]))
    rest = f"\n  … {len(newest)} in all: `ragwright compare` lists them" if newest[_SHOWN:] else ""
    raise StoreError(problem, hint=f"the newest:{lines}{rest}")


def list_sweeps(runs: Runs) -> tuple[KnownRun, ...]:
    """Return the stored sweeps, newest first."""
    return tuple(map(find_known_run, reversed(runs.list("sweep"))))


def sweeps_by_use(runs: Runs) -> list[Run]:
    """Return stored sweeps, the most recently run or shown last."""
    return sorted(runs.list("sweep"), key=lambda run: (run.ended or run.started, run.id))


def _trial_run(runs: Runs, sweep: str, trial: str) -> str:
    """Return the run with the rows of a trial."""
    sweeps = sweeps_by_use(runs)
    if sweep != "latest":
        sweeps = [run for run in sweeps if run.id.startswith(sweep)]
    if len(sweeps) != 1 and (sweep != "latest" or not sweeps):
        problem = f"{len(sweeps)} sweeps begin with" if sweeps else "unknown sweep"
        raise StoreError(
            f"{problem} {sweep!r}", hint="run `ragwright sweep STUDY` first, or give its name"
        )
    rows = {row.id: str(row.body.get("run", "")) for row in runs.rows(sweeps[-1].id)}
    if not rows.get(trial):
        trials = ", ".join(name for name, run in rows.items() if run) or "none"
        raise StoreError(
            f"the sweep {sweeps[-1].id} has no rows of {trial}", hint=f"it has those of: {trials}"
        )
    return rows[trial]


def _evaluation_runs(runs: Runs) -> Sequence[Run]:
    return [run for run in runs.list() if run.kind in _KINDS]


def _keep_with_rows(runs: Runs, known: Sequence[Run]) -> Sequence[Run]:
    """Return the runs with a finished row, oldest first; all runs if none has one."""
    return [
        run for run in known if run.state == "complete" or "done" in runs.states(run.id).values()
    ] or known


def find_known_run(run: Run) -> KnownRun:
    """Return a stored run as an entry of a list."""
    manifest: Mapping[str, Any] = run.manifest
    return KnownRun(
        run.id,
        run.name or str(manifest.get("name") or manifest.get("study", {}).get("name", "")),
        time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started)),
        str(manifest.get("testset", "")),
        tuple(manifest.get("measures", ())),
        run.state,
    )
