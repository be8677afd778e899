"""The computation: judges beside people in every dimension of a set."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..core import value_hash
from ..measure import (
    Estimate,
    MeasureScale,
    RankFigures,
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
    Verdicts,
)
from ._passport_people import Dimension, PeopleSet

_MARGIN = 0.05
"""Half width of a gate's interval for which labels are counted, as a share of the scale."""
_FEWEST, _MOST = 5, 60
"""Rows of a group for which a bias is shown; most groups of one kind."""

_ABOUT: Mapping[str, tuple[str, ...]] = {
    "faithfulness": ("Faithfulness", "Groundedness", "Claims", "Q2", "KPrecision", "KF1"),
    "support": ("Faithfulness", "Groundedness", "Claims", "Q2", "KPrecision", "KF1"),
    "relevance": ("ContextRelevance", "JudgedPrecision", "JudgedAveragePrecision"),
    "correctness": ("Pairwise", "Contains", "TokenF1", "ExactMatch"),
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


def add_advice(figures: JudgeFigures, name: str, dimension: str, best: str) -> JudgeFigures:
    """Add the advice, and whether the judge may be trusted.

    Args:
        figures: Figures of the judge, with its differences to free measures.
        name: The judge.
        dimension: The dimension.
        best: The free measure with the highest rank correlation; empty if there is none.
    """
    agreement = figures.spearman
    above = agreement.low is not None and agreement.low > 0
    against = next((free.spearman for free in figures.versus if free.name == best), Estimate())
    below = against.high is not None and against.high < 0
    lead = f"difference of Spearman {_estimate_text(against, sign=True)}"
    if agreement.low is None:
        text = f"Too few different values to say whether {name} agrees with people on {dimension}."
    elif not above:
        text = (
            f"Do not use {name} for {dimension}: its agreement with people is not shown to be "
            f"above chance ({_estimate_text(agreement)})."
        )
    elif name == best and figures.versus:
        text = f"{name} agrees best with people on {dimension} of the free measures here."
    elif not any(free.name == best for free in figures.versus):
        text = (
            f"{name} agrees with people on {dimension} above chance "
            f"({_estimate_text(agreement)}); no {'other' if name == best else 'free'} measure was "
            "computed on these rows."
        )
    elif below:
        # The same difference from the other side.
        ends = (against.value, against.high, against.low)
        turned = Estimate(*(None if end is None else -end for end in ends))
        text = (
            f"Use {best} instead of {name} for {dimension}: it is free and agrees better with "
            f"people (difference of Spearman {_estimate_text(turned, sign=True)})."
        )
    elif against.low is not None and against.low > 0:
        text = f"Use {name} for {dimension}: it agrees better with people than {best} ({lead})."
    else:
        text = (
            f"Use {best} for {dimension}: {name} is not shown to agree better with people, and "
            f"{best} is free ({lead})."
        )
    return replace(figures, advice=text, trusted=above and not below)


def _estimate_text(estimate: Estimate, *, sign: bool = False) -> str:
    form = "+.3f" if sign else ".3f"
    if estimate.value is None:
        return "unknown"
    text = format(estimate.value, form)
    if estimate.low is None or estimate.high is None:
        return text
    return f"{text}, 95 % interval {format(estimate.low, form)} to {format(estimate.high, form)}"


@dataclass(frozen=True)
class _Frame:
    """People's labels in one dimension, and what the rows share."""

    people: PeopleSet
    dimension: Dimension
    seed: int

    @cached_property
    def labels(self) -> dict[str, tuple[float, ...]]:
        """Row id -> labels; rows without one are left out."""
        name = self.dimension.of or self.dimension.name
        return {
            item.row.id: tuple(map(self.threshold, item.labels[name].values()))
            for item in self.people.rated
            if item.labels.get(name)
        }

    @cached_property
    def means(self) -> dict[str, float]:
        return {key: sum(labels) / len(labels) for key, labels in self.labels.items()}

    @cached_property
    def tasks(self) -> dict[str, str]:
        return {item.row.id: item.task for item in self.people.rated}

    @property
    def scale(self) -> MeasureScale:
        return MeasureScale(self.dimension.low, self.dimension.high)

    def threshold(self, label: float) -> float:
        """A label on this scale: of a divided dimension 1 from the threshold on, else 0."""
        return float(label >= self.dimension.threshold) if self.dimension.of else label

    def values(self, judge: Verdicts) -> tuple[dict[str, float], MeasureScale | None]:
        """The verdicts on labelled rows, and their scale; divided where labels are.

        The scale is people's if all verdicts are among its whole points.
        """
        verdicts = {k: s.value for k, s in judge.scores.items() if s.value is not None}
        values = {key: value for key, value in verdicts.items() if key in self.labels}
        low, high = self.dimension.low, self.dimension.high
        fits = all(low <= value <= high and value == round(value) for value in verdicts.values())
        scale = judge.scale or (self.scale if verdicts and fits and high - low <= 10 else None)
        if self.dimension.of and scale is None:
            whole = next(d for d in self.people.dimensions if d.name == self.dimension.of)
            if all(whole.low <= value <= whole.high for value in values.values()):
                return {key: self.threshold(value) for key, value in values.items()}, self.scale
        return values, scale

    def mean(self, values: Mapping[str, float]) -> Estimate:
        """The mean of a value per row; its interval resamples tasks."""
        numbers = np.array(list(values.values()), dtype=np.float64)
        _, clusters = np.unique([self.tasks[key] for key in values], return_inverse=True)
        ends, _ = mean_interval(numbers, self.seed, clusters=clusters.ravel())
        return Estimate(float(numbers.mean()), *(ends or (None, None)))


def passport_from(
    people: PeopleSet, verdicts: Sequence[Verdicts], *, seed: int = 0, notes: Iterable[str] = ()
) -> Passport:
    """Compute the passport of judges on a set.

    All intervals are 95 % and resample whole tasks (2,000 resamples by the seed).
    """
    all_frames = (_Frame(people, dimension, seed) for dimension in people.dimensions)
    frames = [frame for frame in all_frames if frame.labels]
    figures = {frame.dimension.name: _dimension_figures(frame, verdicts) for frame in frames}
    judges = {judge.name: _about(judge, figures) for judge in verdicts}
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


def _about(
    judge: Verdicts, by_dimension: Mapping[str, Mapping[str, JudgeFigures]]
) -> JudgePassport:
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
        dimension_about(judge.measure or judge.name, list(by_dimension)),
        judge.run,
        {name: of[judge.name] for name, of in by_dimension.items() if judge.name in of},
    )


def _people_figures(frame: _Frame) -> PeopleFigures:
    """People's labels, and their agreement with each other."""
    dimension, labels = frame.dimension, frame.labels
    agreement = people_agreement(labels, clusters=frame.tasks, seed=frame.seed)
    name = dimension.of or dimension.name
    return PeopleFigures(
        dimension.name,
        dimension.low,
        dimension.high,
        dimension.mapping,
        len(labels),
        sum(map(len, labels.values())),
        len({rater for item in frame.people.rated for rater in item.labels.get(name, ())}),
        len({frame.tasks[key] for key in labels}),
        frame.mean(frame.means),
        agreement.n,
        **_rank_figures(agreement),
    )


def _rank_figures(agreement: RankFigures) -> dict[str, Any]:
    return {figure.name: getattr(agreement, figure.name) for figure in fields(RankFigures)}


def _dimension_figures(frame: _Frame, verdicts: Sequence[Verdicts]) -> dict[str, JudgeFigures]:
    figures: dict[str, JudgeFigures] = {}
    upward: dict[str, dict[str, float]] = {}
    for judge in verdicts:
        values, scale = frame.values(judge)
        if values:
            figures[judge.name] = _judge_figures(frame, values, scale)
            sign = 1.0 if scale is None or scale.higher_is_better else -1.0
            upward[judge.name] = {key: sign * value for key, value in values.items()}
    free = [
        judge.name
        for judge in verdicts
        if judge.kind == "free"
        and judge.name in figures
        and figures[judge.name].spearman.value is not None
    ]
    best = max(free, key=lambda name: figures[name].spearman.value or 0.0, default="")
    for judge in verdicts:
        if judge.name in figures:
            others = free if judge.kind != "free" else [best] if best else []
            versus = _differences(
                frame,
                upward[judge.name],
                {name: upward[name] for name in others if name != judge.name},
            )
            figures[judge.name] = add_advice(
                replace(figures[judge.name], versus=versus), judge.name, frame.dimension.name, best
            )
    return figures


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
    single = all(len(labels) == 1 for labels in frame.labels.values())
    only = () if single else ("spearman", "kappa", "weighted_kappa", "auc")
    each = agreement = rank_agreement(values, frame.labels, only=only, **options)
    if not single:
        common = {key: frame.means[key] for key in frame.means if key in values}
        agreement = rank_agreement(values, common, only=("spearman", "kendall"), **options)
    moved = map_to_label_scale(
        np.array(list(values.values()), dtype=np.float64), scale, frame.scale
    )
    mapped = {} if moved is None else dict(zip(values, moved.tolist(), strict=True))
    ranks = {"spearman": agreement.spearman, "kendall": agreement.kendall}
    return JudgeFigures(
        agreement.n,
        agreement.clusters or agreement.n,
        **{**_rank_figures(each), **ranks},
        one_person=each.spearman,
        bias=agreement.bias,
        mapped=agreement.mapped,
        groups=_group_biases(frame, mapped),
        plan=_label_plan(frame, mapped),
    )


def _differences(
    frame: _Frame, values: Mapping[str, float], free: Mapping[str, Mapping[str, float]]
) -> tuple[FreeDifference, ...]:
    differences = []
    for name, others in free.items():
        common = {key: mean for key, mean in frame.means.items() if key in values and key in others}
        if common:
            apart = judge_difference(
                values, others, common, clusters=frame.tasks, seed=frame.seed, only=("spearman",)
            )
            differences.append(FreeDifference(name, apart.n, apart.spearman))
    return tuple(differences)


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


def _group_biases(frame: _Frame, mapped: Mapping[str, float]) -> dict[str, tuple[GroupBias, ...]]:
    """Bias by system and by topic."""
    off = {key: value - frame.means[key] for key, value in mapped.items()}
    groups: dict[str, dict[str, dict[str, float]]] = {"system": {}, "topic": {}}
    for item in frame.people.rated:
        key = item.row.id
        names = item.system, item.topic or item.task
        for by_name, name in zip(groups.values(), names, strict=True):
            if name and key in off:
                by_name.setdefault(name, {})[key] = off[key]
    shown = {}
    for kind, by_name in groups.items():
        large = [name for name in sorted(by_name) if len(by_name[name]) >= _FEWEST]
        if 1 < len(large) <= _MOST:
            shown[kind] = tuple(
                GroupBias(name, len(by_name[name]), frame.mean(by_name[name])) for name in large
            )
    return shown
