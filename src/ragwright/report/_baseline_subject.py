"""Stored baselines as the subject of a report."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import partial

from ..core import count_noun
from ..experiment import (
    BaselineResult,
    DistanceSet,
    RowResult,
    baseline_runs,
    load_baseline,
    load_baselines,
)
from ..flow import Run, Runs
from ._baseline import SET_NAMES
from ._subject import ScoredRun, Subject

_MOST = 40
"""Experiments on a board, the newest ones."""


def baseline_subject(runs: Runs, chosen: Sequence[Run]) -> Subject:
    """Return one baseline with its sets side by side, or the answers of two; others on the board.

    Raises:
        StoreError: The pairs of one of them were forgotten.
    """
    about = [load_baseline(runs, name) for name in dict.fromkeys(run.id for run in chosen)]
    first = about[0]
    if len(about) == 1:
        entries = [_entry(first, side, SET_NAMES[side.name]) for side in first.sets if side.pairs]
        title = f"Baseline of {first.testset}"
    else:
        labels = [result.label for result in about]
        if len(set(labels)) < len(labels):
            labels = [f"{result.label} ({result.run})" for result in about]
        entries = [
            _entry(result, result.sets[1], f"S_e of {label}")
            for result, label in zip(about, labels, strict=True)
        ]
        title = f"{labels[0]} and {labels[1]}, side by side"
    others = _others(runs, [result.run for result in about])
    return Subject(
        title,
        "pair" if len(entries) > 1 else "run",
        tuple(entries),
        measures=("QADistance",),
        facts=_facts(about),
        notes=(*dict.fromkeys(note for result in about for note in result.notes), *_left_out(runs)),
        baselines=(*about, *others),
        about=len(about),
    )


def _others(runs: Runs, shown: Sequence[str]) -> Iterable[BaselineResult]:
    return [result for result in load_baselines(runs, _MOST) if result.run not in shown]


def _left_out(runs: Runs) -> Iterable[str]:
    count = len(baseline_runs(runs)) - _MOST
    if count > 0:
        older = count_noun(count, "older one")
        yield f"the board shows the newest {_MOST} experiments; {older} not"


def _entry(result: BaselineResult, side: DistanceSet, label: str) -> ScoredRun:
    return ScoredRun(
        f"{result.run}-{side.name}",
        (side.summary,),
        label,
        rows=len(side.pairs),
        run=result.run,
        judge=result.embedder,
        read=partial(_rows, side),
    )


def _rows(side: DistanceSet, _texts: bool) -> Iterable[RowResult]:
    return side.results()


def _facts(about: Sequence[BaselineResult]) -> dict[str, str]:
    def each(values: Iterable[str]) -> str:
        return " and ".join(dict.fromkeys(values))

    first = about[0]
    return {
        "pairs": each(result.testset for result in about),
        "embedding model": each(result.embedder for result in about),
        "the experiment changes": each(
            ", ".join(result.changed) or "nothing: the project as it is" for result in about
        ),
        "run": each(result.run for result in about),
        "started": time.strftime("%Y-%m-%d %H:%M", time.localtime(first.started)),
    }
