"""A baseline as text, JSON, and the subject and charts of a report."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from ..core import count_noun, make_plain
from ..experiment import (
    BaselineResult,
    DistanceSet,
    DistanceShift,
    baseline_runs,
    load_baseline,
    load_baselines,
)
from ..flow import Run, Runs
from ._charts import Spec, amount, frame, kind, layer, tooltip
from ._subject import ScoredRun, Subject
from ._text import WIDTH, Cells, ResultBlock, fields_of, interval, number, print_result

SET_NAMES = {
    "baseline": "S_b: the pairs",
    "experiment": "S_e: the experiment",
    "with_chunk": "answered from its chunk",
    "without_chunk": "answered without it",
}
"""Names of the sets of a baseline in tables and charts."""

_HEAD = (
    *("answers", "n", "own", "95 % interval", "median", "shuffled", "echoed"),
    *("random chunk", "mean rank", "first"),
)
_READ = {
    "smaller": "the answers are nearer to their questions than those of the pairs. Good, unless "
    "they repeat the questions' words: compare with `echoed`",
    "about equal": "the answers are as near to their questions as those of the pairs. Good",
    "larger": "the answers are farther from their questions than those of the pairs. Not good",
    "undecided": "these pairs cannot tell whether the distances differ",
}


def baseline_table(result: BaselineResult, width: int = WIDTH) -> str:
    """Return the verdict, and a line per set."""
    changed = ", ".join(result.changed) or "nothing: the project as it is"
    sentences = [
        f"Distance of question and answer, 0 to 2, by {result.embedder}. Pairs: {result.testset}. "
        f"The experiment changes {changed}.",
        f"S_e against S_b: {shift_text(result.shift)}",
    ]
    if result.context is not None:
        effect = shift_text(result.context, pairs=False)
        sentences.append(f"With the chunk against without it: {effect}")
    block = ResultBlock("sets", "", "", _HEAD, tuple(map(_set_cells, result.sets)))
    return print_result(sentences, [block], run=result.run, notes=result.notes, width=width)


def baseline_json(result: BaselineResult) -> dict[str, Any]:
    """The document of ``baseline --json``: outcome, numbers of every set, runs."""
    return {
        **fields_of(result, "run", "testset", "embedder", "changed"),
        **make_plain(result.shift),
        "sets": {side.name: _numbers(side) for side in result.sets},
        **fields_of(result, "context", "notes"),
    }


def baselines_block(results: Sequence[BaselineResult]) -> ResultBlock:
    """Return a line per experiment: S_b, S_e, null baselines and the verdict."""
    apart = [
        name
        for name in ("testset", "embedder")
        if len({getattr(result, name) for result in results}) > 1
    ]
    rows = []
    for result in results:
        baseline, answered = map(_numbers, result.sets[:2])
        means = [baseline.get("mean"), *map(answered.get, ("mean", "shuffled", "echoed"))]
        rows.append(
            (
                *(result.run, result.label, str(len(result.sets[1].pairs))),
                *map(number, means),
                "-" if result.relative_shift is None else f"{result.relative_shift:+.0%}",
                result.shift.outcome,
                *(getattr(result, name) for name in apart),
            )
        )
    head = ("run", "experiment", "n", "S_b", "S_e", "shuffled", "echoed", "of the way")
    remarks = (
        "of the way: from S_b to shuffled answers; distances of different embedding models are not "
        "comparable.",
    )
    return ResultBlock(
        "distance-board",
        "Experiments",
        "",
        (*head, "S_e against S_b", *apart),
        tuple(rows),
        remarks=remarks,
    )


def shift_text(shift: DistanceShift, *, pairs: bool = True) -> str:
    """Return the outcome in words, with its evidence."""
    outcome = [f"{shift.outcome}.", *([f"{_capitalise(_READ[shift.outcome])}."] if pairs else [])]
    if shift.difference is None:
        return " ".join([*outcome, "No question has an answer in both."])
    ends = ""
    if shift.low is not None and shift.high is not None:
        ends = f" (95 % interval {shift.low:+.3f} to {shift.high:+.3f})"
    evidence: list[tuple[object, str]] = [
        (
            True,
            f"On {count_noun(shift.n, 'pair')} the mean distance changes by "
            f"{shift.difference:+.3f}{ends}; up to {shift.margin:.3f} counts as equal.",
        ),
        (shift.reason, f"{_capitalise(shift.reason)}."),
        (shift.rare, "So few pairs may lack a rare kind that would reverse this."),
    ]
    return " ".join([*outcome, *(text for known, text in evidence if known)])


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]


def _numbers(side: DistanceSet) -> dict[str, Any]:
    """The numbers of a set; without distances only its counts."""
    summary = side.summary
    counts = {"asked": side.asked, "n": len(side.pairs), **fields_of(side, "abstained", "run")}
    if len(side.pairs) < 2:
        return counts
    own, ranks = side.values("distance"), side.values("rank")
    return {
        **counts,
        "mean": _mean(own),
        **fields_of(summary, "low", "high"),
        "median": round(statistics.median(own), 6),
        "shuffled": _mean(side.values("shuffled")),
        "echoed": _mean(side.values("echoed")),
        "random_chunk": _mean(side.values("random_chunk")),
        "mean_rank": _mean(ranks),
        "first": sum(rank == 1 for rank in ranks),
    }


def _set_cells(side: DistanceSet) -> Cells:
    numbers, ranks = _numbers(side), ("-", "-")
    if len(side.pairs) > 1:
        ranks = f"{numbers['mean_rank']:.1f} of {numbers['n']}", str(numbers["first"])
    return (
        *(SET_NAMES[side.name], str(numbers["n"]), number(numbers.get("mean"))),
        interval(numbers.get("low"), numbers.get("high")),
        *map(number, map(numbers.get, ("median", "shuffled", "echoed", "random_chunk"))),
        *ranks,
    )


def _mean(values: Sequence[float]) -> float | None:
    return round(statistics.fmean(values), 6) if values else None


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
    shown = {result.run for result in about}
    others = [result for result in load_baselines(runs, _MOST) if result.run not in shown]
    left = len(baseline_runs(runs)) - _MOST
    older = count_noun(left, "older one")
    return Subject(
        title,
        "pair" if len(entries) > 1 else "run",
        tuple(entries),
        measures=("QADistance",),
        facts=_facts(about),
        notes=(
            *dict.fromkeys(note for result in about for note in result.notes),
            *([f"the board shows the newest {_MOST} experiments; {older} not"] if left > 0 else []),
        ),
        baselines=(*about, *others),
        about=len(about),
    )


def _entry(result: BaselineResult, side: DistanceSet, label: str) -> ScoredRun:
    return ScoredRun(
        f"{result.run}-{side.name}",
        (side.summary,),
        label,
        rows=len(side.pairs),
        run=result.run,
        judge=result.embedder,
        read=side.results,
    )


def _facts(about: Sequence[BaselineResult]) -> dict[str, str]:
    def each(values: Iterable[str]) -> str:
        return " and ".join(dict.fromkeys(values))

    return {
        "pairs": each(result.testset for result in about),
        "embedding model": each(result.embedder for result in about),
        "the experiment changes": each(
            ", ".join(result.changed) or "nothing: the project as it is" for result in about
        ),
        "run": each(result.run for result in about),
        "started": time.strftime("%Y-%m-%d %H:%M", time.localtime(about[0].started)),
    }


_BAND = (10, 90)
"""Percentiles at the ends of a band of null baselines."""

_DRAWN = 300
"""Most pairs of a chart; of more, this many are drawn, at equal steps."""

_LEAST_WIDE = 0.008
"""Least width of a band in a chart."""

_GROUPS = ("S_b", "S_e", "shuffled answers", "question echoed")
_COLOURS = ("@quiet", "@accent", "@bad", "@second")


def distance_charts(baselines: Sequence[BaselineResult], about: int = 1) -> Iterator[ResultBlock]:
    """Yield a chart of pairs for each baseline that the report is about, then all on one board."""
    for at, baseline in enumerate(baselines[:about], 1):
        if len(baseline.sets[1].pairs) > 1:
            yield _pairs_chart(baseline, at if about > 1 else 0)
    yield baselines_block(baselines)


def null_bands(baseline: BaselineResult) -> dict[str, tuple[float, float]]:
    """Return bands of shuffled answers and echoed questions: the middle 80 % over both sets."""
    known = baseline.sets[:2]
    lists = {
        _GROUPS[2]: [*chain.from_iterable(side.values("shuffled") for side in known)],
        _GROUPS[3]: [*chain.from_iterable(side.values("echoed") for side in known)],
    }
    ends = {name: np.percentile(values, _BAND) for name, values in lists.items() if values}
    return {name: (round(float(a), 6), round(float(b), 6)) for name, (a, b) in ends.items()}


def _pairs_chart(result: BaselineResult, at: int) -> ResultBlock:
    pairs, answers = result.sets[:2]
    questions = {pair.id: pair.question for pair in answers.pairs}
    own = {"S_b": pairs.distances, "S_e": answers.distances}
    shared = sorted(own["S_b"].keys() & own["S_e"].keys(), key=lambda key: (own["S_b"][key], key))
    steps = np.linspace(0, len(shared) - 1, min(len(shared), _DRAWN)).astype(int)
    points = [
        {
            "x": place + 1,
            "y": own[group][key],
            "group": group,
            "row": key,
            "question": questions[key],
            "other": own[other][key],
        }
        for place, key in ((int(place), shared[int(place)]) for place in steps)
        for group, other in (("S_b", "S_e"), ("S_e", "S_b"))
    ]
    few = "" if len(steps) == len(shared) else f" {len(steps)} of {len(shared)} pairs are drawn."
    return ResultBlock(
        f"distances-{at}" if at else "distances",
        f"S_b against S_e, pair by pair{f': {result.label}' if at else ''}",
        "Distance of question and answer, pairs ordered by S_b. Bands: the middle 80 % of answers "
        "to other questions, and of the question itself taken as the answer. Good answers lie near "
        f"S_b and well below the shuffled band; answers within the echoed band repeat the question."
        f"{few}",
        _HEAD,
        tuple(map(_set_cells, result.sets)),
        _pairs_spec(points, null_bands(result)),
    )


def _colour(bands: Sequence[str]) -> Spec:
    known = [name for name in _GROUPS if name in ("S_b", "S_e") or name in bands]
    colours = dict(zip(_GROUPS, _COLOURS, strict=True))
    scale = {"domain": known, "range": [colours[name] for name in known]}
    return kind("group", title=None, legend={"symbolOpacity": 1, "columns": 2}, scale=scale)


_BAND_MARK: Spec = {"type": "rect", "opacity": 0.25}
_TITLE = "distance (0-2, lower is better)"


def _wide(low: float, high: float) -> dict[str, float]:
    """Ends of a band as drawn: one without width would not be seen."""
    low = max(0.0, min(low, high - _LEAST_WIDE))
    return {"low": low, "high": max(high, low + _LEAST_WIDE)}


def _pairs_spec(
    points: Sequence[Mapping[str, Any]], bands: Mapping[str, tuple[float, float]]
) -> Spec:
    colour = {"color": _colour(list(bands))}
    scale = {"zero": False, "nice": False, "padding": 10}
    axis = {"tickMinStep": 1, "grid": False}
    across = {"x": amount("x", title="pairs, ordered by S_b", scale=scale, axis=axis)}
    low, up = ({"y": amount(name, title=_TITLE)} for name in ("low", "y"))
    hover = {"tooltip": tooltip(row="pair", question="question", group="set", y="distance")}
    drawn = [{"group": name, **_wide(*ends)} for name, ends in bands.items()]
    answered = [point for point in points if point["group"] == "S_e"]
    rule = {"type": "rule", "color": "@line", "strokeWidth": 1.2}
    dot = {"type": "circle", "size": 42, "opacity": 0.9}
    return frame(
        280,
        layer=[
            layer(_BAND_MARK, {**low, "y2": {"field": "high"}, **colour}, drawn),
            layer(rule, {**across, **up, "y2": {"field": "other"}}, answered),
            layer(dot, {**across, **up, **colour, **hover}, points),
        ],
    )
