"""Ablation as a study: the variants of a prompt, and the contrasts that show each part's effect.

A variant is a trial over ``prompt.preset`` and ``prompt.without``; trial 0 is the current prompt. A
contrast is the current prompt against a trial without a part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...answer import PromptOptions, presets
from ...core import StudyError, suggest_name
from ..studies import Axis, Study, StudyOptions

_COMPLETE = "complete"
_NAME = "ablation"


@dataclass(frozen=True, slots=True)
class Ablated:
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


def ablation_plan(ablated: Ablated, base: PromptOptions, options: StudyOptions) -> AblationPlan:
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
        *_part_contrasts(plan, ablated.leave_one_out),
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
    study = Study(_NAME, options, axes, points=points)
    return AblationPlan(study, tuple(contrasts))


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


def _part_contrasts(plan: _Variants, parts: Sequence[str]) -> Iterator[Contrast]:
    for part in dict.fromkeys(parts):
        yield Contrast(part, "leave one out", plan.trial([part]))
