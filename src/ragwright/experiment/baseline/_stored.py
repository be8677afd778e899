"""Baselines in the run store: written once, read by reports and comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ...core import StoreError
from ...flow import Run, RunRow, Runs
from ...measure import QADistances, distances_of_vectors
from ...project import Project, ProjectFolder
from ..evaluations import BASELINE, KnownRun, find_known_run, find_run
from ._outcome import DistanceShift, distance_shift
from ._pairs import BaselineResult, DistanceSet, KeptPair

_T = TypeVar("_T")

_MARGIN = 0.1
"""Margin of runs that do not store theirs: it was the default when they were written."""

_OLDER = (
    "this run was stored before echoed questions and random chunks were kept with it; shuffled "
    "answers were drawn again (run `ragwright baseline` again to have all three)"
)
_FIELDS = frozenset(field.name for field in fields(KeptPair))
_TUPLES = ("passages", "question_vector", "answer_vector")


def keep_baseline(
    runs: Runs, result: BaselineResult, all_pairs: Sequence[KeptPair], pinned: Mapping[str, Any]
) -> BaselineResult:
    """Store a result as a run of its own, and return it with that run's id.

    Args:
        runs: The run store.
        result: The measured result.
        all_pairs: Every given pair, also those that the experiment did not answer.
        pinned: Further facts of the run's manifest.
    """
    manifest = {
        "testset": result.testset,
        "embedder": result.embedder,
        "changed": list(result.changed),
        "notes": list(result.notes),
        "name": result.name,
        "asked": {group.name: [group.asked, group.abstained] for group in result.sets},
        "runs": {group.name: group.run for group in result.sets if group.run},
        **pinned,
    }
    run = runs.start(BASELINE, manifest)
    compared = {pair.id: pair for pair in result.sets[0].pairs}
    # Of a pair that the experiment did not answer, the null baselines are those of another set.
    baseline = [
        compared.get(pair.id)
        or replace(pair, shuffled=None, echoed=None, random_chunk=None, rank=None)
        for pair in all_pairs
    ]
    pairs = [*baseline, *(pair for group in result.sets[1:] for pair in group.pairs)]
    for position, pair in enumerate(pairs):
        row = RunRow(position, f"{pair.set}/{pair.id}", "done", pair.body())
        runs.append(run, row, sources=pair.sources)
    runs.finish(run, "complete")
    return replace(result, run=run, started=runs.get(run).started)


def load_baseline(runs: Runs, name: str) -> BaselineResult:
    """A baseline that was run before, from its stored pairs alone.

    Raises:
        StoreError: No such run exists, it is not a baseline, or its pairs were forgotten.
    """
    run = runs.get(name if runs.holds(name) else find_run(runs, name))
    if run.kind != BASELINE:
        raise StoreError(f"the run {run.id} is not a baseline", hint="it is of `ragwright eval`")
    by_set: dict[str, list[KeptPair]] = {}
    for row in runs.rows(run.id):
        pair = _pair_of(row.body)
        by_set.setdefault(pair.set, []).append(pair)
    names = [BASELINE, *(set_name for set_name in by_set if set_name != BASELINE)]
    if len(names) < 2 or BASELINE not in by_set:
        raise StoreError(
            f"the baseline {run.id} has no answers that can be compared",
            hint="run `ragwright baseline` again",
        )
    answered = {pair.id for pair in by_set["experiment"]} if "experiment" in by_set else set()
    if answered:
        by_set[BASELINE] = [pair for pair in by_set[BASELINE] if pair.id in answered]
    manifest = run.manifest
    seed = int(manifest.get("seed", 0))
    sets = [_set_of(set_name, by_set[set_name], manifest, seed) for set_name in names]
    shift, context = shifts_of(sets, float(manifest.get("margin", _MARGIN)), seed)
    notes = tuple(manifest.get("notes", ()))
    complete = all(pair.echoed is not None for pairs in by_set.values() for pair in pairs)
    return BaselineResult(
        run.id,
        str(manifest["testset"]),
        str(manifest["embedder"]),
        tuple(manifest.get("changed", manifest.get("settings", ()))),
        tuple(sets),
        shift,
        context,
        notes if complete else (*notes, _OLDER),
        str(manifest.get("name", "")),
        run.started,
    )


def load_baselines(runs: Runs, most: int | None = None) -> tuple[BaselineResult, ...]:
    """Baselines of a project, newest first; those that cannot be compared are left out.

    Args:
        runs: The run store.
        most: Read only this many, the newest ones; None for all.
    """
    results: list[BaselineResult] = []
    for run in reversed(baseline_runs(runs)):
        if most is not None and len(results) == most:
            break
        try:
            results.append(load_baseline(runs, run.id))
        except StoreError:  # all its pairs are forgotten
            continue
    return tuple(results)


def list_baseline_entries(runs: Runs) -> tuple[KnownRun, ...]:
    """Return every stored baseline as an entry of a list, newest first."""
    return tuple(find_known_run(run) for run in reversed(baseline_runs(runs)))


def list_baselines(folder: str | Path) -> tuple[KnownRun, ...]:
    """Like :func:`list_baseline_entries`, for a project folder."""
    with Project.open(ProjectFolder(Path(folder)).root) as project:
        return list_baseline_entries(project.runs)


def open_baselines(folder: str | Path, names: Sequence[str]) -> tuple[BaselineResult, ...]:
    """Baselines of a project folder by their names; raises as :func:`load_baseline`."""
    with Project.open(ProjectFolder(Path(folder)).root) as project:
        return tuple(load_baseline(project.runs, name) for name in names)


def baseline_runs(runs: Runs) -> list[Run]:
    """Runs of baselines that are complete, oldest first."""
    return [run for run in runs.list(BASELINE) if run.state == "complete"]


def shifts_of(
    sets: Sequence[DistanceSet], share: float, seed: int
) -> tuple[DistanceShift, DistanceShift | None]:
    """The experiment against the baseline, and answers with the chunk against those without it.

    Args:
        sets: The baseline first, then the experiment.
        share: Largest mean change that counts as equal, as a share of the way from the baseline's
            own answers to shuffled ones.
        seed: Seed of intervals and tests.
    """
    known = sets[0].distances
    margin = 0.0
    if known is not None:
        own, other = (sum(values) / len(values) for values in (known.own, known.shuffled))
        margin = share * (other - own)
    shift = distance_shift(sets[0].own, sets[1].own, margin, seed=seed)
    by_name = {group.name: group.own for group in sets}
    if not {"with_chunk", "without_chunk"} <= by_name.keys():
        return shift, None
    context = distance_shift(by_name["without_chunk"], by_name["with_chunk"], margin, seed=seed)
    return shift, context


def _pair_of(body: Mapping[str, Any]) -> KeptPair:
    known = {key: value for key, value in body.items() if key in _FIELDS}
    return KeptPair(**known | {key: tuple(known[key]) for key in _TUPLES})


def _set_of(
    name: str, pairs: Sequence[KeptPair], manifest: Mapping[str, Any], seed: int
) -> DistanceSet:
    questions, abstained = manifest.get("asked", {}).get(name, (len(pairs), 0))
    run = str(manifest.get("runs", {}).get(name, ""))
    distances = _distances_of(pairs, seed) if len(pairs) > 1 else None
    return DistanceSet(name, questions, abstained, distances, tuple(pairs), run)


def _distances_of(pairs: Sequence[KeptPair], seed: int) -> QADistances:
    ids = tuple(pair.id for pair in pairs)
    questions = np.array([pair.question_vector for pair in pairs])
    answers = np.array([pair.answer_vector for pair in pairs])
    if any(pair.shuffled is None for pair in pairs):  # some were not answered
        return distances_of_vectors(ids, questions, answers, seed)
    return QADistances(
        ids,
        tuple(pair.distance for pair in pairs),
        _all_or_none(pair.shuffled for pair in pairs),
        _all_or_none(pair.echoed for pair in pairs),
        _all_or_none(pair.random_chunk for pair in pairs),
        _all_or_none(pair.rank for pair in pairs),
        questions,
        answers,
    )


def _all_or_none(values: Iterable[_T | None]) -> tuple[_T, ...]:
    """The values if all are known, else none."""
    all_values = tuple(values)
    known = tuple(value for value in all_values if value is not None)
    return known if len(known) == len(all_values) else ()
