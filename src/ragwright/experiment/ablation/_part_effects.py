"""Effects of the parts of a prompt: paired differences with intervals, and safe deletions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias

from ...answer import presets
from ...core import Score
from ...measure import (
    Comparison,
    MeasureScale,
    compare_rows,
    counted_as_worst,
    holm,
    most_lost,
)
from ..evaluations import RowResult
from ._ablation import Contrast

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
            None where nothing bounds it.
        margin: What a deletion may cost, in units of the measure; None where it has no scale.
        clusters: Clusters that the rows fall into; None where rows stand for themselves.
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
        """True where a deletion is shown to cost less than the margin."""
        return self.loss is not None and self.margin is not None and self.loss < self.margin


@dataclass(frozen=True, slots=True)
class PartResult:
    """All that an ablation says of one part or preset.

    Attributes:
        part: Its name.
        design: ``leave one out`` or ``preset``; in runs of earlier versions also ``add one``,
            ``factorial`` and ``interaction`` (of two parts).
        effects: One a measure, over all rows and then by persona.
        tokens: Tokens that it adds to a prompt, mean over rows; None where none was sent.
        cost: Money for them in 1,000 answers; None without prices.
        trial: The trial that does without it; None in designs that delete nothing.
        confirmed: The same on the confirm split, empty where that was left closed.
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
        """Its name; of a shipped preset with its number in the comparison it comes from."""
        number = presets().get(self.part, {}).get("source") if self.design == "preset" else None
        return f"{self.part} ({number})" if number else self.part

    @property
    def safe(self) -> bool:
        """True where deleting it is shown to cost less than the margin, by every measure that has
        a scale and for every persona, on the rows of the tune split.
        """
        return self.trial is not None and _all_within(self.effects)

    @property
    def holds(self) -> bool | None:
        """Whether the confirm split says the same; None where it was not asked."""
        return _all_within(self.confirmed) if self.confirmed else None

    @property
    def state(self) -> str:
        """In words: what may be done about the part."""
        if self.safe and self.holds is not False:
            return "safe to delete" + (", confirmed" if self.holds else "")
        if self.safe:
            return "not confirmed as safe"
        found = {effect.verdict for effect in self.effects} - {"no effect proven"}
        return " and ".join(sorted(found)) or "no effect proven"


def _all_within(effects: Sequence[PartEffect]) -> bool:
    bounded = [effect for effect in effects if effect.margin is not None]
    return bool(bounded) and all(effect.within for effect in bounded)


@dataclass(frozen=True, slots=True)
class EffectOptions:
    """How effects are told.

    Attributes:
        scales: Measure -> its scale, None where it has none.
        personas: Row id -> persona; effects are told by persona where there are several.
        clusters: Row id -> cluster; None for rows that stand for themselves.
        margin: What a deletion may cost, as a share of a measure's scale.
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
    how: EffectOptions,
) -> list[tuple[Contrast, tuple[PartEffect, ...]]]:
    """Effects of every contrast, in their order, whose trials are all there, p-values corrected.

    Args:
        contrasts: What is asked.
        trials: Trial -> results of its rows, the same rows for all.
        how: Scales, personas, clusters, margin.
    """
    found: dict[int, list[PartEffect]] = {}
    asked = [one for one in contrasts if 0 in trials and one.trial in trials]
    names = sorted(set(how.personas.values()))
    groups = ["", *names] if len(names) > 1 else [""]
    for measure in how.scales:
        tables = {number: _table(rows, measure) for number, rows in trials.items()}
        for design in dict.fromkeys(one.design for one in asked):
            of = [(at, one) for at, one in enumerate(asked) if one.design == design]
            # Rows of all personas are one family of tests, those by persona another one.
            for family in ([""], groups[1:]):
                made = [
                    (at, _effect(one, tables, (measure, name), how))
                    for at, one in of
                    for name in family
                ]
                for (at, _), effect in zip(made, _corrected([e for _, e in made]), strict=True):
                    found.setdefault(at, []).append(effect)
    order = {measure: place for place, measure in enumerate(how.scales)}
    return [
        (one, tuple(sorted(found.get(at, ()), key=lambda e: (order[e.measure], e.persona))))
        for at, one in enumerate(asked)
    ]


def prompt_sizes(results: Sequence[RowResult], count: Callable[[str], int]) -> dict[str, int]:
    """Row id -> tokens of the prompt that was sent; rows that sent none are left out."""
    return {
        result.row_id: sum(count(text) for _, text in result.made.prompt)
        for result in results
        if result.made is not None and result.made.prompt
    }


def part_tokens(one: Contrast, sizes: Mapping[int, Mapping[str, int]]) -> dict[str, int]:
    """Row id -> tokens that a part adds to its prompt.

    Args:
        one: The part.
        sizes: Trial -> row id -> tokens of its prompt (:func:`prompt_sizes`).
    """
    less = sizes[one.trial]
    return {row: size - less[row] for row, size in sizes[0].items() if row in less}


def _table(rows: Sequence[RowResult], measure: str) -> dict[str, Score]:
    return {
        result.row_id: score
        for result in rows
        for score in result.scores
        if score.measure == measure
    }


def _effect(
    one: Contrast,
    tables: Mapping[int, Table],
    told: tuple[str, str],
    how: EffectOptions,
) -> PartEffect:
    measure, persona = told
    wanted = None
    if persona:
        wanted = {row for row, name in how.personas.items() if name == persona}
    scale = how.scales[measure]
    less, whole = (_counted(tables[trial], wanted, scale) for trial in (one.trial, 0))
    margin = None
    if scale is not None and scale.high is not None:
        margin = how.margin * (scale.high - scale.low)
    bare = PartEffect(one.part, measure, persona, margin=margin)
    if not whole.keys() & less.keys():
        return bare
    sides = [{row: (score,) for row, score in side.items()} for side in (less, whole)]
    [found] = compare_rows(
        *sides, seed=how.seed, clusters=how.clusters, scales={measure: scale}
    ).measures
    loss = None
    if margin is not None and scale is not None:
        loss = most_lost(whole, less, scale, seed=how.seed, clusters=how.clusters)
    return replace(_upward(bare, found, scale), loss=loss)


def _counted(table: Table, wanted: set[str] | None, scale: MeasureScale | None) -> dict[str, Score]:
    """The scores of a trial's rows; an abstention on a row with gold has the worst value."""
    return {
        row: counted_as_worst(score, scale)
        for row, score in table.items()
        if wanted is None or row in wanted
    }


def _upward(bare: PartEffect, found: Comparison, scale: MeasureScale | None) -> PartEffect:
    """The comparison as an effect in the direction that is good."""
    difference, low, high = found.difference, found.low, found.high
    if scale is not None and not scale.higher_is_better:
        difference = None if difference is None else -difference
        low, high = (None if end is None else -end for end in (high, low))
    return replace(
        bare,
        n=found.n,
        with_part=found.mean_b,
        without=found.mean_a,
        difference=difference,
        low=low,
        high=high,
        p=found.p_verdict,
        clusters=found.clusters,
    )


def _corrected(effects: Sequence[PartEffect]) -> list[PartEffect]:
    """Effects with p-values corrected for their number, and their verdicts."""
    corrected = iter(holm([e.p for e in effects if e.p is not None]))
    return [
        effect if effect.p is None else _judged(replace(effect, p_holm=next(corrected)))
        for effect in effects
    ]


def _judged(effect: PartEffect) -> PartEffect:
    low, high, p = effect.low, effect.high, effect.p_holm
    if p is None or p > LEVEL or low is None or high is None or low <= 0 <= high:
        return effect
    return replace(effect, verdict="helps" if (effect.difference or 0.0) > 0 else "harms")


def part_body(one: PartResult) -> dict[str, Any]:
    """A part's result as JSON-able values, for the run store."""
    return {**asdict(one), "safe": one.safe, "holds": one.holds}


def part_of(body: Mapping[str, Any]) -> PartResult:
    """The result that :func:`part_body` made the values of."""
    kept = {key: value for key, value in body.items() if key not in ("safe", "holds")}
    for name in ("effects", "confirmed"):
        kept[name] = tuple(PartEffect(**effect) for effect in body[name])
    return PartResult(**kept)
