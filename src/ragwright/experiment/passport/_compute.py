"""The computation: judges beside people in every dimension of a set."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ...core import value_hash
from ...measure import (
    Agreement,
    Estimate,
    MeasureScale,
    clopper_pearson,
    flip_rate,
    judge_difference,
    judge_spread,
    labels_needed,
    map_to_label_scale,
    mean_interval,
    people_agreement,
    rank_agreement,
)
from ._passport import (
    FreeDifference,
    GroupBias,
    JudgeFigures,
    JudgePassport,
    LabelPlan,
    Passport,
    PeopleFigures,
)
from ._people import Dimension, PeopleSet, labels_of, threshold_label
from ._verdicts import Verdicts


def add_advice(figures: JudgeFigures, name: str, dimension: str, best: str) -> JudgeFigures:
    """Add the advice, and whether the judge may be trusted.

    Args:
        figures: Figures of the judge, with its differences to free measures.
        name: The judge.
        dimension: The dimension.
        best: The free measure with the highest rank correlation; empty if there is none.
    """
    above = figures.spearman.low is not None and figures.spearman.low > 0
    against = next((free for free in figures.versus if free.name == best), None)
    below = against is not None and against.spearman.high is not None and against.spearman.high < 0
    return replace(
        figures,
        advice=_advice_text(figures, name, dimension, best, against),
        trusted=above and not below,
    )


def _advice_text(
    figures: JudgeFigures, name: str, dimension: str, best: str, against: FreeDifference | None
) -> str:
    agreement = figures.spearman
    if agreement.value is None:
        return f"{name} gives every answer the same value, so nothing can be said about it."
    if agreement.low is None:
        return f"Too few tasks to say whether {name} agrees with people on {dimension}."
    if agreement.low <= 0:
        return (
            f"Do not use {name} for {dimension}: its agreement with people is not shown to be "
            f"above chance ({_estimate_text(agreement)})."
        )
    if name == best:
        return f"{name} agrees best with people on {dimension} of the free measures here."
    if against is None:
        return (
            f"{name} agrees with people on {dimension} above chance "
            f"({_estimate_text(agreement)}); no free measure was computed on these rows."
        )
    difference = against.spearman
    if difference.high is not None and difference.high < 0:
        # The same difference from the other side.
        value, low, high = (
            None if number is None else -number
            for number in (difference.value, difference.high, difference.low)
        )
        lead = f"difference of Spearman {_estimate_text(Estimate(value, low, high), sign=True)}"
        return (
            f"Use {best} instead of {name} for {dimension}: it is free and agrees better with "
            f"people ({lead})."
        )
    text = f"difference of Spearman {_estimate_text(difference, sign=True)}"
    if difference.low is not None and difference.low > 0:
        return f"Use {name} for {dimension}: it agrees better with people than {best} ({text})."
    return (
        f"Use {best} for {dimension}: {name} is not shown to agree better with people, and "
        f"{best} is free ({text})."
    )


def _estimate_text(estimate: Estimate, *, sign: bool = False) -> str:
    form = "+.3f" if sign else ".3f"
    if estimate.value is None:
        return "unknown"
    text = format(estimate.value, form)
    if estimate.low is None or estimate.high is None:
        return text
    return f"{text}, 95 % interval {format(estimate.low, form)} to {format(estimate.high, form)}"


_LENGTHS = ("short", "medium", "long")
_MARGIN = 0.05
"""Half width of a gate's interval for which labels are counted, as a share of the scale."""
_FEWEST, _MOST = 5, 60
"""Rows of a group for which a bias is shown; most groups of one kind."""

_ABOUT: Mapping[str, tuple[str, ...]] = {
    "faithfulness": ("Faithfulness", "Groundedness", "Claims", "Q2", "KPrecision", "KF1"),
    "support": ("Faithfulness", "Groundedness", "Claims", "Q2", "KPrecision", "KF1"),
    "relevance": ("ContextRelevance", "JudgedPrecision", "JudgedAveragePrecision"),
    "correctness": ("AnswerCorrectness", "Pairwise", "Contains", "TokenF1", "ExactMatch"),
    "completeness": ("Completeness", "Comprehensive", "ROUGE"),
    "overall": ("Pairwise", "Comprehensive"),
    "appropriateness": ("AnswerRelevance",),
}
"""Dimension -> names of the measures that are about it."""


def dimension_about(measure: str, names: Sequence[str]) -> str:
    """The dimension that a measure is about: by its own name, else the first of the set."""
    name = measure.partition("(")[0].partition("@")[0].strip()
    same = [dimension for dimension in names if dimension.casefold() == name.casefold()]
    fitting = [dimension for dimension in names if name in _ABOUT.get(dimension.casefold(), ())]
    return next(iter((*same, *fitting, *names)), "")


def measures_about(dimension: str) -> tuple[str, ...]:
    """The names of measures that are about a dimension, the usual one first."""
    return _ABOUT.get(dimension.casefold(), ())


@dataclass(frozen=True)
class _Frame:
    """People's labels in one dimension, and what the rows share."""

    people: PeopleSet
    dimension: Dimension
    seed: int

    @cached_property
    def by_rater(self) -> dict[str, dict[str, float]]:
        return labels_of(self.people, self.dimension)

    @cached_property
    def labels(self) -> dict[str, tuple[float, ...]]:
        return {key: tuple(by_rater.values()) for key, by_rater in self.by_rater.items()}

    @cached_property
    def means(self) -> dict[str, float]:
        return {key: sum(labels) / len(labels) for key, labels in self.labels.items()}

    @cached_property
    def tasks(self) -> dict[str, str]:
        return {item.row.id: item.task for item in self.people.rated}

    @property
    def scale(self) -> MeasureScale:
        return MeasureScale(self.dimension.low, self.dimension.high)

    @property
    def single(self) -> bool:
        """True if every row has one label."""
        return all(len(labels) == 1 for labels in self.labels.values())

    def values(self, judge: Verdicts) -> tuple[dict[str, float], MeasureScale | None]:
        """The verdicts on labelled rows, and their scale; divided where labels are."""
        scale = judge.scale or self._points(judge)
        values = {
            key: score.value
            for key, score in judge.scores.items()
            if score.value is not None and key in self.labels
        }
        if self.dimension.of and scale is None:
            whole = next(d for d in self.people.dimensions if d.name == self.dimension.of)
            if all(whole.low <= value <= whole.high for value in values.values()):
                values = {
                    key: threshold_label(value, self.dimension) for key, value in values.items()
                }
                scale = self.scale
        return values, scale

    def _points(self, judge: Verdicts) -> MeasureScale | None:
        """The people's scale, if all verdicts are among its whole points."""
        values = {score.value for score in judge.scores.values() if score.value is not None}
        low, high = self.dimension.low, self.dimension.high
        fits = all(low <= value <= high and value == round(value) for value in values)
        return self.scale if values and fits and high - low <= 10 else None


def passport_from(
    people: PeopleSet, verdicts: Sequence[Verdicts], *, seed: int = 0, notes: Iterable[str] = ()
) -> Passport:
    """Compute the passport of judges on a set.

    All intervals are 95 % and resample whole tasks (2,000 resamples by the seed).
    """
    frames = [_Frame(people, dimension, seed) for dimension in people.dimensions]
    frames = [frame for frame in frames if frame.labels]
    names = [frame.dimension.name for frame in frames]
    judges: dict[str, JudgePassport] = {}
    for judge in verdicts:
        judges[judge.name] = _about(judge, names, people)
    for frame in frames:
        for name, figures in _dimension_figures(frame, verdicts).items():
            known = judges[name]
            dimensions = {**known.dimensions, frame.dimension.name: figures}
            judges[name] = replace(known, dimensions=dimensions)
    return Passport(
        people.name,
        people.source,
        len(people.rated),
        people.tasks,
        tuple(_people_figures(frame) for frame in frames),
        tuple(sorted(judges.values(), key=_judge_order)),
        (*people.notes, *notes),
        seed,
        time.strftime("%Y-%m-%d"),
        value_hash(
            [[i.row.id, i.task, {k: dict(v) for k, v in i.labels.items()}] for i in people.rated]
        ),
    )


def _judge_order(judge: JudgePassport) -> tuple[Any, ...]:
    """Models, then recorded verdicts, then free measures; the best of each first."""
    figures = judge.dimensions.get(judge.dimension)
    best = -1.0 if figures is None or figures.spearman.value is None else figures.spearman.value
    return (("model", "recorded", "free").index(judge.kind), -best, judge.name)


def _about(judge: Verdicts, names: Sequence[str], people: PeopleSet) -> JudgePassport:
    """What is about the judge as a whole."""
    states = Counter(score.state for score in judge.scores.values())
    tried = sum(count for state, count in states.items() if state != "not_applicable")
    lost = states["judge_invalid"] + states["errored"]
    unusable = Estimate(lost / tried, *clopper_pearson(lost, tried)) if tried else Estimate()
    scores = judge.scores.values()
    spread, flips = judge_spread(scores), flip_rate(scores)
    return JudgePassport(
        judge.name,
        judge.kind,
        judge.measure,
        judge.model,
        judge.identity,
        dict(sorted(states.items())),
        unusable,
        spread if spread.rows else None,
        flips if flips.rows else None,
        judge.cost,
        dimension_about(judge.measure or judge.name, names),
        judge.run,
    )


def _people_figures(frame: _Frame) -> PeopleFigures:
    """People's labels, and their agreement with each other."""
    dimension, labels = frame.dimension, frame.labels
    agreement = people_agreement(labels, clusters=frame.tasks, seed=frame.seed)
    return PeopleFigures(
        dimension.name,
        dimension.low,
        dimension.high,
        dimension.mapping,
        len(labels),
        sum(map(len, labels.values())),
        len({rater for by_rater in frame.by_rater.values() for rater in by_rater}),
        len({frame.tasks[key] for key in labels}),
        _mean_by_task(frame.means, frame),
        agreement.n,
        **_shared_json(agreement),
    )


def _shared_json(agreement: Agreement) -> dict[str, Any]:
    names = ("spearman", "kendall", "kappa", "weighted_kappa", "auc")
    return {name: getattr(agreement, name) for name in names}


def _mean_by_task(values: Mapping[str, float], frame: _Frame) -> Estimate:
    numbers = np.array(list(values.values()), dtype=np.float64)
    _, clusters = np.unique([frame.tasks[key] for key in values], return_inverse=True)
    ends, _ = mean_interval(numbers, frame.seed, clusters=clusters.ravel())
    return Estimate(float(numbers.mean()), *(ends or (None, None)))


def _dimension_figures(frame: _Frame, verdicts: Sequence[Verdicts]) -> dict[str, JudgeFigures]:
    """The figures of every judge with a verdict on a labelled row."""
    figures: dict[str, JudgeFigures] = {}
    free: dict[str, dict[str, float]] = {}
    for judge in verdicts:
        values, scale = frame.values(judge)
        if not values:
            continue
        figures[judge.name] = _judge_figures(frame, values, scale)
        if judge.kind == "free" and figures[judge.name].spearman.value is not None:
            free[judge.name] = _turn_upward(values, scale)
    best = max(free, key=lambda name: figures[name].spearman.value or 0.0, default="")
    for judge in verdicts:
        if judge.name not in figures:
            continue
        values, scale = frame.values(judge)
        others = [name for name in free if name != judge.name]
        others = [name for name in others if judge.kind != "free" or name == best]
        versus = _differences(
            frame, _turn_upward(values, scale), {name: free[name] for name in others}
        )
        figures[judge.name] = add_advice(
            replace(figures[judge.name], versus=versus), judge.name, frame.dimension.name, best
        )
    return figures


def _turn_upward(values: Mapping[str, float], scale: MeasureScale | None) -> dict[str, float]:
    sign = 1.0 if scale is None or scale.higher_is_better else -1.0
    return {key: sign * value for key, value in values.items()}


def _judge_figures(
    frame: _Frame, values: Mapping[str, float], scale: MeasureScale | None
) -> JudgeFigures:
    """Agreement and bias of one judge; correlations with people's means, the rest with each."""
    options: dict[str, Any] = {
        "clusters": frame.tasks,
        "seed": frame.seed,
        "scale": scale,
        "label_scale": frame.scale,
    }
    common = {key: frame.means[key] for key in frame.means if key in values}
    if frame.single:
        agreement = rank_agreement(values, frame.labels, **options)
        one_person = agreement.spearman
    else:
        each = rank_agreement(
            values,
            frame.labels,
            only=("spearman", "kappa", "weighted_kappa", "auc"),
            **options,
        )
        agreement = rank_agreement(values, common, only=("spearman", "kendall"), **options)
        one_person = each.spearman
        agreement = replace(
            agreement, kappa=each.kappa, weighted_kappa=each.weighted_kappa, auc=each.auc
        )
    return JudgeFigures(
        agreement.n,
        agreement.clusters or agreement.n,
        **_shared_json(agreement),
        one_person=one_person,
        bias=agreement.bias,
        mapped=agreement.mapped,
        groups=_group_biases(frame, values, scale),
        plan=_label_plan(frame, _map_values(frame, values, scale)),
    )


def _differences(
    frame: _Frame, values: Mapping[str, float], free: Mapping[str, Mapping[str, float]]
) -> tuple[FreeDifference, ...]:
    differences = []
    for name, others in free.items():
        common = {key: mean for key, mean in frame.means.items() if key in values and key in others}
        if not common:
            continue
        apart = judge_difference(
            values, others, common, clusters=frame.tasks, seed=frame.seed, only=("spearman",)
        )
        differences.append(FreeDifference(name, apart.n, apart.spearman))
    return tuple(differences)


def _map_values(
    frame: _Frame, values: Mapping[str, float], scale: MeasureScale | None
) -> dict[str, float]:
    """Verdicts on the people's scale; none if their own scale is unknown or open."""
    moved = map_to_label_scale(
        np.array(list(values.values()), dtype=np.float64), scale, frame.scale
    )
    return {} if moved is None else dict(zip(values, moved.tolist(), strict=True))


def _label_plan(frame: _Frame, mapped: Mapping[str, float]) -> LabelPlan | None:
    """Labels until the judge's mean, corrected by people, is known well enough for a gate."""
    tasks = [frame.tasks[key] for key in mapped]
    if len(set(tasks)) < _FEWEST:
        return None
    _, groups = np.unique(tasks, return_inverse=True)
    needed = labels_needed(
        np.array(list(mapped.values())),
        np.array([frame.means[key] for key in mapped]),
        groups.ravel(),
        _MARGIN * (frame.scale.width or 1.0),
        unit="task",
    )
    return LabelPlan(_MARGIN, needed.labels, needed.labels_alone, needed.saving, needed.text)


def _group_biases(
    frame: _Frame, values: Mapping[str, float], scale: MeasureScale | None
) -> dict[str, tuple[GroupBias, ...]]:
    """Bias by system, by topic, and by the length of the response."""
    off = {
        key: value - frame.means[key] for key, value in _map_values(frame, values, scale).items()
    }
    if not off:
        return {}
    members: dict[str, dict[str, list[str]]] = {"system": {}, "topic": {}, "length": {}}
    lengths = _length_names(frame.people, off)
    for item in frame.people.rated:
        if item.row.id in off:
            key = item.row.id
            for kind, name in (
                ("system", item.system),
                ("topic", item.topic or item.task),
                ("length", lengths.get(key, "")),
            ):
                if name:
                    members[kind].setdefault(name, []).append(key)
    shown = {}
    for kind, groups in members.items():
        large = {name: keys for name, keys in groups.items() if len(keys) >= _FEWEST}
        if 1 < len(large) <= _MOST:
            order = _LENGTHS if kind == "length" else sorted(large)
            shown[kind] = tuple(
                GroupBias(
                    name,
                    len(large[name]),
                    _mean_by_task({key: off[key] for key in large[name]}, frame),
                )
                for name in order
                if name in large
            )
    return shown


def _length_names(people: PeopleSet, off: Mapping[str, float]) -> dict[str, str]:
    """Row id -> third of the responses by number of words; empty without responses or for pairs."""
    words = {
        item.row.id: len(item.row.response_text.split())
        for item in people.rated
        if item.row.response_text and item.row.id in off and item.second is None
    }
    if len(set(words.values())) < len(_LENGTHS):
        return {}
    first, second = np.quantile(list(words.values()), [1 / 3, 2 / 3])
    return {key: _LENGTHS[int(count > first) + int(count > second)] for key, count in words.items()}
