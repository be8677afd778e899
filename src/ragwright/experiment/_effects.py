"""Variants of a prompt, and the effects of its parts with intervals and safe deletions."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from ..answer import PromptOptions, presets
from ..core import Score, StudyError, count_noun, suggest_name
from ..measure import MeasureScale, compare_rows, count_as_worst, holm, least_rows, most_lost
from ._results import RowResult
from ._study import Axis, Study, StudyOptions

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
    """One part or preset of an ablation: trial 0, the current prompt, against one without it.

    Attributes:
        part: Its name.
        design: ``leave one out`` or ``preset``.
        trial: The trial without it: the prompt that would replace the current one.
        effects: One per measure, over all rows and then by persona; empty before they are known.
        tokens: Tokens that it adds to a prompt, mean over rows; None if no prompt was sent.
        confirmed: The effects on the confirm split; empty if that stayed closed.
    """

    part: str
    design: str
    trial: int
    effects: tuple[PartEffect, ...] = ()
    tokens: float | None = None
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
        return _all_within(self.effects)

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


def add_effects(
    parts: Sequence[PartResult], trials: Mapping[int, Sequence[RowResult]], options: EffectOptions
) -> list[PartResult]:
    """Return the parts whose trials exist with their effects, p-values corrected.

    Args:
        parts: The parts to measure.
        trials: Trial -> results of its rows, the same rows for all.
        options: Scales, personas, clusters, margin.
    """
    measured = [part for part in parts if 0 in trials and part.trial in trials]
    effects: list[list[PartEffect]] = [[] for _ in measured]
    names = sorted(set(options.personas.values()))
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
        # Rows of all personas are one family of tests, those by persona another one.
        for family in ([""], names if len(names) > 1 else []):
            for design in dict.fromkeys(part.design for part in measured):
                found = [
                    (position, _part_effect(part, tables, (measure, name), options))
                    for position, part in enumerate(measured)
                    if part.design == design
                    for name in family
                ]
                corrected = iter(holm([e.p for _, e in found if e.p is not None]))
                for position, effect in found:
                    p = None if effect.p is None else next(corrected)
                    effects[position].append(_judge_effect(replace(effect, p_holm=p)))
    return [
        replace(part, effects=tuple(found)) for part, found in zip(measured, effects, strict=True)
    ]


def _part_effect(
    part: PartResult, tables: Mapping[int, Table], key: tuple[str, str], options: EffectOptions
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
        for trial in (part.trial, 0)
    )
    margin = None
    if scale is not None and scale.high is not None:
        margin = options.margin * (scale.high - scale.low)
    effect = PartEffect(part.part, measure, persona, margin=margin)
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
    difference, low, high = comparison.difference, comparison.low, comparison.high
    if scale is not None and not scale.higher_is_better:  # positive is good
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
        loss=loss,
    )


def _judge_effect(effect: PartEffect) -> PartEffect:
    low, high, p = effect.low, effect.high, effect.p_holm
    if p is None or p > LEVEL or low is None or high is None or low <= 0 <= high:
        return effect
    return replace(effect, verdict="helps" if (effect.difference or 0.0) > 0 else "harms")


_COMPLETE = "complete"


def leave_out(
    base: PromptOptions, without: Sequence[str] = (), preset: str | None = None
) -> dict[str, Any]:
    """Return the swept keys of a prompt: another preset, or parts left out besides its own."""
    left_out = [*base.without, *(name for name in without if name not in base.without)]
    return {"prompt.preset": preset or base.preset, "prompt.without": left_out}


def ablation_plan(
    names: Sequence[str], parts: Sequence[str], base: PromptOptions, options: StudyOptions
) -> tuple[Study, tuple[PartResult, ...]]:
    """Plan an ablation: one trial for each variant of the prompt, and the parts that they measure.

    Args:
        names: Presets: named sets of switches, each against the complete prompt.
        parts: Parts to leave out, one at a time; their names are not checked here.
        base: The complete prompt: the project's own, including its own switches.
        options: Testset, measures, personas, subset and seed.

    Raises:
        StudyError: An unknown preset, or nothing is left out.
    """
    _check_presets(names, base)
    current = leave_out(base)
    variants = [
        *((name, "preset", leave_out(base, preset=name)) for name in dict.fromkeys(names)),
        *((part, "leave one out", leave_out(base, [part])) for part in dict.fromkeys(parts)),
    ]
    points, results = [current], []
    for part, design, point in variants:
        if point not in points:
            points.append(point)
        if part != _COMPLETE:
            results.append(PartResult(part, design, points.index(point)))
    if len(points) == 1:
        raise StudyError(
            "the ablation leaves nothing out of the prompt",
            where="ragwright ablate",
            hint="use --presets a8 or --leave-one-out",
        )
    swept = [key for key in current if any(point[key] != current[key] for point in points)]
    axes = tuple(Axis(tuple(key.split("."))) for key in swept)
    trials = tuple({key: point[key] for key in swept} for point in points[1:])
    return Study("ablation", options, axes, points=trials), tuple(results)


def prompt_of(base: PromptOptions, values: Mapping[str, Any]) -> PromptOptions:
    """Return the prompt options of a trial's values."""
    preset = values.get("prompt.preset", base.preset)
    return replace(base, preset=preset, without=tuple(values.get("prompt.without", base.without)))


def _check_presets(names: Sequence[str], base: PromptOptions) -> None:
    known = presets()
    for name in names:
        if name not in known:
            raise StudyError(
                f"unknown prompt preset {name!r}", where="--presets", hint=suggest_name(name, known)
            )
    if names and base.preset != _COMPLETE:
        raise StudyError(
            f"the project's prompt is already the preset {base.preset!r}: presets are "
            "compared with the complete one",
            where="prompt.preset",
            hint="add  --set prompt.preset=complete",
        )


@dataclass(frozen=True, slots=True)
class Ablation:
    """Effects of the parts of a prompt, and the parts that may be deleted.

    Attributes:
        testset: The rows' address.
        rows: Number of rows, those of every persona included.
        personas: Personas of the rows, if there are several.
        parts: One per part or preset.
        margin: Highest cost of a deletion, as a share of a measure's scale.
        together: All parts that are safe one by one, deleted at once, on the confirm split.
        openings: How often the confirm split has been opened, this time included; 0 if it stayed
            closed.
        confirm_rows: Rows of the confirm split.
        never: Parts that are in no row's prompt.
        notes: What the reader should know.
        questions: What the rows are if a program made them: ``generated questions``.
    """

    testset: str
    rows: int
    parts: tuple[PartResult, ...]
    margin: float
    personas: tuple[str, ...] = ()
    together: PartResult | None = None
    openings: int = 0
    confirm_rows: int = 0
    never: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    questions: str = ""

    @property
    def safe(self) -> tuple[PartResult, ...]:
        """Deletions that are proven to cost less than the margin, and not refuted since."""
        return tuple(part for part in self.parts if part.safe and part.holds is not False)

    @property
    def verdict(self) -> tuple[str, ...]:
        """The verdict as sentences, the most important first."""
        if not self.scored:
            return (
                "No result: no row has a score both with a part and without it; the notes say why.",
            )
        return (*_proven_effects(self), *_safe_deletions(self), *_describe_confirmed(self))

    @property
    def scored(self) -> bool:
        """True if at least one row contributes to one part's effect."""
        return any(effect.n for part in self.parts for effect in part.effects)


def _proven_effects(ablation: Ablation) -> Iterator[str]:
    asked = f" of {ablation.questions}" if ablation.questions else ""
    rows, texts = f"{count_noun(ablation.rows, 'row')}{asked}", list[str]()
    for part in ablation.parts:
        proven = [effect for effect in part.effects if effect.verdict != "no effect proven"]
        overall = {effect.measure for effect in proven if not effect.persona}
        # Mention a persona only if all rows together do not show the effect.
        texts += [_effect_text(e, part) for e in proven if not (e.persona and e.measure in overall)]
    if texts:
        yield f"Proven on {rows}: {'; '.join(texts)}."
    else:
        yield f"No part is proven to help or to harm on {rows}."


def _effect_text(effect: PartEffect, part: PartResult) -> str:
    span = ""
    if effect.low is not None and effect.high is not None:
        span = f", {effect.low:+.4f} to {effect.high:+.4f}"
    persona = f" for {effect.persona}" if effect.persona else ""
    outcome = f"{effect.part} {effect.verdict}"
    if part.design == "preset":
        side = "worse" if effect.verdict == "helps" else "better"
        outcome = f"{effect.part} is {side} than the complete prompt"
    return f"{outcome}{persona} ({effect.measure} {effect.difference or 0.0:+.4f}{span})"


def _safe_deletions(ablation: Ablation) -> Iterator[str]:
    share = f"{ablation.margin:.1%} of the scale"
    personas = bool(ablation.personas)
    safe = [part for part in ablation.parts if part.safe]
    if safe:
        lengths = (
            part.part
            + (f" ({part.tokens:.4g} tokens per prompt)" if part.tokens is not None else "")
            for part in safe
        )
        yield (
            f"Safe to delete on these {ablation.questions or 'rows'}, each alone: "
            f"{', '.join(lengths)}. The loss is below {share}, by every "
            f"measure{' and for every persona' if personas else ''}."
        )
    else:
        yield f"No part is proven safe to delete: no loss was proven to be below {share}."
    fewest = min(
        min((e.independent for e in part.effects if bool(e.persona) == personas), default=0)
        for part in ablation.parts
    )
    needed = least_rows(ablation.margin)
    if fewest < needed and len(safe) < len(ablation.parts):
        yield (
            f"Such a proof takes at least {needed} independent rows"
            f"{' of every persona' if personas else ''}; there are {fewest}."
        )
    undecided = [part.part for part in ablation.parts if part.state == "no effect proven"]
    if undecided and len(undecided) < len(ablation.parts):  # else earlier sentences cover it
        yield f"No effect proven, and not proven safe to delete: {', '.join(undecided)}."


def _describe_confirmed(ablation: Ablation) -> Iterator[str]:
    safe = [part for part in ablation.parts if part.safe]
    if not safe:
        return
    if not ablation.openings:
        yield "Not confirmed on held-out rows: run it again with --confirm."
        return
    rows = f"on the {ablation.confirm_rows} rows of the confirm split"
    for holds, outcome in (
        (True, f"Confirmed as safe {rows}, each alone"),
        (False, f"Not confirmed {rows}, since the loss may reach the margin there; keep for now"),
    ):
        names = [part.part for part in safe if part.holds == holds]
        if names:
            yield f"{outcome}: {', '.join(names)}."
    if ablation.together is not None:
        together = ablation.together
        name = together.part.replace(" + ", ", ")
        result = (
            "is confirmed as safe too"
            if together.holds
            else "is not confirmed as safe: some parts may be redundant"
        )
        yield f"Deleting {name} at once {result}."
    if ablation.openings > 1:
        yield (
            f"The confirm split has been opened {ablation.openings} times: each time makes it less "
            "independent."
        )
