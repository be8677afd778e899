"""Variants of a prompt, and the effects of its parts with intervals and safe deletions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias

from ...answer import PromptOptions, presets
from ...core import Score, StudyError, suggest_name
from ...measure import (
    Comparison,
    MeasureScale,
    compare_rows,
    count_as_worst,
    holm,
    most_lost,
)
from ..evaluations import RowResult
from ..studies import Axis, Study, StudyOptions

Does: TypeAlias = Literal["helps", "harms", "no effect proven"]

LEVEL = 0.05

Table: TypeAlias = Mapping[str, Score]
"""Row id -> score of one measure."""


@dataclass(frozen=True, slots=True)
class PartEffect:
    """The effect of a part on one measure, for all rows or those of one persona.

    Attributes:
        part: The part, or the preset.
        measure: Text of the measure.
        persona: Persona of the rows; empty for all.
        n: Rows with a score both with the part and without it.
        with_part: Mean with it, over these rows; ``without`` likewise.
        difference: Effect of the part, positive is better; ``low`` to ``high`` is its
            95 % interval.
        p: Two-sided p-value (:attr:`ragwright.measure.Comparison.p_verdict`); ``p_holm`` corrected
            for all parts of one design, and all personas, if rows are split by them (Holm 1979).
        verdict: ``helps`` or ``harms`` if p_holm is at most 0.05 and the interval excludes 0.
        loss: Upper bound on the cost of deleting it (see :func:`ragwright.measure.most_lost`);
            None if it has no bound.
        margin: Highest cost of a deletion, in units of the measure; None if it has no scale.
        clusters: Number of clusters of rows; None if rows are independent.
    """

    part: str
    measure: str
    persona: str = ""
    n: int = 0
    with_part: float | None = None
    without: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    p_holm: float | None = None
    verdict: Does = "no effect proven"
    loss: float | None = None
    margin: float | None = None
    clusters: int | None = None

    @property
    def independent(self) -> int:
        """Observations that are independent of each other: clusters, or rows."""
        return self.n if self.clusters is None else self.clusters

    @property
    def within(self) -> bool:
        """True if a deletion is shown to cost less than the margin."""
        return self.loss is not None and self.margin is not None and self.loss < self.margin


@dataclass(frozen=True, slots=True)
class PartResult:
    """The result of an ablation for one part or preset.

    Attributes:
        part: Its name.
        design: ``leave one out`` or ``preset``.
        effects: One per measure, over all rows and then by persona.
        tokens: Tokens that it adds to a prompt, mean over rows; None if no prompt was sent.
        cost: Price of these tokens in 1,000 answers; None without prices.
        trial: The trial without it; None in designs that delete nothing.
        confirmed: The effects on the confirm split; empty if that stayed closed.
    """

    part: str
    design: str
    effects: tuple[PartEffect, ...]
    tokens: float | None = None
    cost: float | None = None
    trial: int | None = None
    confirmed: tuple[PartEffect, ...] = ()

    @property
    def label(self) -> str:
        """Its name; for a shipped preset, with its number in the original comparison."""
        number = presets().get(self.part, {}).get("source") if self.design == "preset" else None
        return f"{self.part} ({number})" if number else self.part

    @property
    def safe(self) -> bool:
        """True if deleting it is shown to cost less than the margin, by every measure that has a
        scale and for every persona, on the rows of the tune split.
        """
        return self.trial is not None and _all_within(self.effects)

    @property
    def holds(self) -> bool | None:
        """True if the confirm split gives the same result; None if it was not opened."""
        return _all_within(self.confirmed) if self.confirmed else None

    @property
    def state(self) -> str:
        """A text on whether the part may be deleted."""
        if self.safe and self.holds is not False:
            return "safe to delete" + (", confirmed" if self.holds else "")
        if self.safe:
            return "not confirmed as safe"
        verdicts = {effect.verdict for effect in self.effects} - {"no effect proven"}
        return " and ".join(sorted(verdicts)) or "no effect proven"


def _all_within(effects: Sequence[PartEffect]) -> bool:
    bounded = [effect for effect in effects if effect.margin is not None]
    return bool(bounded) and all(effect.within for effect in bounded)


@dataclass(frozen=True, slots=True)
class EffectOptions:
    """Options for computing effects.

    Attributes:
        scales: Measure -> its scale; None if it has none.
        personas: Row id -> persona; if there are several, effects are also split by persona.
        clusters: Row id -> cluster; None if rows are independent.
        margin: Highest cost of a deletion, as a share of a measure's scale.
        seed: Seed of flips and resampling.
    """

    scales: Mapping[str, MeasureScale | None]
    personas: Mapping[str, str] = field(default_factory=dict)
    clusters: Mapping[str, Hashable] | None = None
    margin: float = 0.05
    seed: int = 0


def part_effects(
    contrasts: Sequence[Contrast],
    trials: Mapping[int, Sequence[RowResult]],
    options: EffectOptions,
) -> list[tuple[Contrast, tuple[PartEffect, ...]]]:
    """Return the effects of every contrast whose trials exist, in order, with corrected p-values.

    Args:
        contrasts: The contrasts to measure.
        trials: Trial -> results of its rows, the same rows for all.
        options: Scales, personas, clusters, margin.
    """
    effects: dict[int, list[PartEffect]] = {}
    measured = [contrast for contrast in contrasts if 0 in trials and contrast.trial in trials]
    names = sorted(set(options.personas.values()))
    groups = ["", *names] if len(names) > 1 else [""]
    for measure in options.scales:
        tables = {
            number: {
                result.row_id: score
                for result in rows
                for score in result.scores
                if score.measure == measure
            }
            for number, rows in trials.items()
        }
        for design in dict.fromkeys(contrast.design for contrast in measured):
            in_design = [
                (position, contrast)
                for position, contrast in enumerate(measured)
                if contrast.design == design
            ]
            # Rows of all personas are one family of tests, those by persona another one.
            for family in ([""], groups[1:]):
                family_effects = [
                    (position, _contrast_effect(contrast, tables, (measure, name), options))
                    for position, contrast in in_design
                    for name in family
                ]
                corrected = iter(holm([e.p for _, e in family_effects if e.p is not None]))
                for position, effect in family_effects:
                    effects.setdefault(position, []).append(
                        effect
                        if effect.p is None
                        else _add_effect_verdict(replace(effect, p_holm=next(corrected)))
                    )
    order = {measure: rank for rank, measure in enumerate(options.scales)}
    return [
        (
            contrast,
            tuple(sorted(effects.get(position, ()), key=lambda e: (order[e.measure], e.persona))),
        )
        for position, contrast in enumerate(measured)
    ]


def prompt_sizes(results: Sequence[RowResult], count: Callable[[str], int]) -> dict[str, int]:
    """Row id -> tokens of the prompt that was sent; rows that sent none are left out."""
    return {
        result.row_id: sum(count(text) for _, text in result.made.prompt)
        for result in results
        if result.made is not None and result.made.prompt
    }


def part_tokens(contrast: Contrast, sizes: Mapping[int, Mapping[str, int]]) -> dict[str, int]:
    """Row id -> tokens that a part adds to its prompt.

    Args:
        contrast: The contrast that measures the part.
        sizes: Trial -> row id -> tokens of its prompt (:func:`prompt_sizes`).
    """
    without_part = sizes[contrast.trial]
    return {row: size - without_part[row] for row, size in sizes[0].items() if row in without_part}


def _contrast_effect(
    contrast: Contrast,
    tables: Mapping[int, Table],
    key: tuple[str, str],
    options: EffectOptions,
) -> PartEffect:
    measure, persona = key
    row_ids = None
    if persona:
        row_ids = {row for row, name in options.personas.items() if name == persona}
    scale = options.scales[measure]
    without_part, with_part = (
        {
            row: count_as_worst(score, scale)  # an abstention on a row with gold
            for row, score in tables[trial].items()
            if row_ids is None or row in row_ids
        }
        for trial in (contrast.trial, 0)
    )
    margin = None
    if scale is not None and scale.high is not None:
        margin = options.margin * (scale.high - scale.low)
    effect = PartEffect(contrast.part, measure, persona, margin=margin)
    if not with_part.keys() & without_part.keys():
        return effect
    sides = [{row: (score,) for row, score in side.items()} for side in (without_part, with_part)]
    [comparison] = compare_rows(
        *sides, seed=options.seed, clusters=options.clusters, scales={measure: scale}
    ).measures
    loss = None
    if margin is not None and scale is not None:
        loss = most_lost(
            with_part, without_part, scale, seed=options.seed, clusters=options.clusters
        )
    return replace(_effect_of_comparison(effect, comparison, scale), loss=loss)


def _effect_of_comparison(
    effect: PartEffect, comparison: Comparison, scale: MeasureScale | None
) -> PartEffect:
    """Fill in the comparison, with signs so that positive is good."""
    difference, low, high = comparison.difference, comparison.low, comparison.high
    if scale is not None and not scale.higher_is_better:
        difference = None if difference is None else -difference
        low, high = (None if end is None else -end for end in (high, low))
    return replace(
        effect,
        n=comparison.n,
        with_part=comparison.mean_b,
        without=comparison.mean_a,
        difference=difference,
        low=low,
        high=high,
        p=comparison.p_verdict,
        clusters=comparison.clusters,
    )


def _add_effect_verdict(effect: PartEffect) -> PartEffect:
    low, high, p = effect.low, effect.high, effect.p_holm
    if p is None or p > LEVEL or low is None or high is None or low <= 0 <= high:
        return effect
    return replace(effect, verdict="helps" if (effect.difference or 0.0) > 0 else "harms")


def part_body(result: PartResult) -> dict[str, Any]:
    """Return a part's result as JSON-able values, for the run store."""
    return {**asdict(result), "safe": result.safe, "holds": result.holds}


def part_of(body: Mapping[str, Any]) -> PartResult:
    """Rebuild the result from the values of :func:`part_body`."""
    values = {key: value for key, value in body.items() if key not in ("safe", "holds")}
    for name in ("effects", "confirmed"):
        values[name] = tuple(PartEffect(**effect) for effect in body[name])
    return PartResult(**values)


_COMPLETE = "complete"
_NAME = "ablation"


@dataclass(frozen=True, slots=True)
class PartRemoval:
    """Parts to leave out of a prompt.

    Attributes:
        presets: Named sets of switches, each against the complete prompt.
        leave_one_out: Parts to leave out, one at a time.
    """

    presets: tuple[str, ...] = ()
    leave_one_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Contrast:
    """A contrast that measures a part: trial 0, the current prompt, against one without it.

    Attributes:
        part: The part, or the preset.
        design: ``leave one out`` or ``preset``.
        trial: The trial without it: the prompt that would replace the current one.
    """

    part: str
    design: str
    trial: int


@dataclass(frozen=True, slots=True)
class AblationPlan:
    """A study over a prompt's parts, and its contrasts."""

    study: Study
    contrasts: tuple[Contrast, ...]


@dataclass(slots=True)
class _Variants:
    """The requested variants, without repetitions."""

    base: PromptOptions
    points: list[dict[str, Any]] = field(default_factory=list)

    def trial(self, without: Sequence[str] = (), preset: str | None = None) -> int:
        """Number of the variant; 0 for the current prompt."""
        base = self.base
        left_out = [*base.without, *(name for name in without if name not in base.without)]
        point = {
            "prompt.preset": base.preset if preset is None else preset,
            "prompt.without": left_out,
        }
        if point == self.current:
            return 0
        if point not in self.points:
            self.points.append(point)
        return 1 + self.points.index(point)

    @property
    def current(self) -> dict[str, Any]:
        """The current prompt."""
        return {"prompt.preset": self.base.preset, "prompt.without": list(self.base.without)}


def ablation_plan(ablated: PartRemoval, base: PromptOptions, options: StudyOptions) -> AblationPlan:
    """Plan the study of an ablation.

    Args:
        ablated: Presets and parts; the names of the parts are not checked here.
        base: The complete prompt: the project's own, including its own switches.
        options: Testset, measures, personas, subset and seed.

    Raises:
        StudyError: An unknown preset, or nothing is left out.
    """
    plan = _Variants(base)
    contrasts = [
        *_preset_contrasts(plan, ablated.presets),
        *(
            Contrast(part, "leave one out", plan.trial([part]))
            for part in dict.fromkeys(ablated.leave_one_out)
        ),
    ]
    if not plan.points:
        raise StudyError(
            "the ablation leaves nothing out of the prompt",
            where="ragwright ablate",
            hint="use --presets a8 or --leave-one-out",
        )
    current = plan.current
    swept = [key for key in current if any(p[key] != current[key] for p in plan.points)]
    points = tuple({key: point[key] for key in swept} for point in plan.points)
    axes = tuple(Axis(tuple(key.split(".")), _values_of_key(points, key)) for key in swept)
    return AblationPlan(Study(_NAME, options, axes, points=points), tuple(contrasts))


def deletion(base: PromptOptions, parts: Sequence[str], study: Study) -> Mapping[str, Any]:
    """Return the values of the trial that leaves several parts out at once, in a study's keys."""
    plan = _Variants(base)
    plan.trial(parts)
    [point] = plan.points
    return {axis.key: point[axis.key] for axis in study.axes}


def prompt_of(base: PromptOptions, values: Mapping[str, Any]) -> PromptOptions:
    """Return the prompt options of a trial's values."""
    kinds: Mapping[str, Any] = {"preset": str, "without": tuple}
    options = {key.partition(".")[2]: value for key, value in values.items()}
    return replace(base, **{name: kinds[name](value) for name, value in options.items()})


def _values_of_key(points: Sequence[Mapping[str, Any]], key: str) -> tuple[Any, ...]:
    values: list[Any] = []
    for point in points:
        if point[key] not in values:
            values.append(point[key])
    return tuple(values)


def _preset_contrasts(plan: _Variants, names: Sequence[str]) -> Iterator[Contrast]:
    known = presets()
    for name in dict.fromkeys(names):
        if name not in known:
            raise StudyError(
                f"unknown prompt preset {name!r}", where="--presets", hint=suggest_name(name, known)
            )
    if names and plan.base.preset != _COMPLETE:
        raise StudyError(
            f"the project's prompt is already the preset {plan.base.preset!r}: presets are "
            "compared with the complete one",
            where="prompt.preset",
            hint="add  --set prompt.preset=complete",
        )
    for name in dict.fromkeys(names):
        if name != _COMPLETE:
            yield Contrast(name, "preset", plan.trial(preset=name))
