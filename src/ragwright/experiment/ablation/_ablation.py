"""Ablation as a study: the variants of a prompt, and the contrasts that show each part's effect.

A variant is a trial over ``prompt.preset``, ``prompt.without`` and ``prompt.parts``; trial 0 is the
current prompt. A contrast is two weighted sums of trials, with a part and without it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from ...answer import PromptOptions, presets
from ...core import StudyError, near
from ..studies import Axis, Study, StudyOptions

Design: TypeAlias = Literal["leave one out", "preset", "add one", "factorial", "interaction"]

BARE = ("context", "question")
"""Parts of the minimal prompt, to which ``add one`` adds: content without instructions."""

MOST_FACTORS = 4
HALVES = {"instruction_tokens": "assistant_cue", "assistant_cue": "instruction_tokens"}
"""Either half of ``turn_markers`` -> the other one; both can be named as parts."""

_COMPLETE = "complete"
_NAME = "ablation"


@dataclass(frozen=True, slots=True)
class Ablated:
    """Parts to leave out of a prompt, or to add to a minimal one.

    Attributes:
        presets: Named sets of switches, each against the complete prompt.
        leave_one_out: Parts that are left out, one at a time.
        add_one: Parts that are added to the minimal prompt, one at a time.
        factorial: 2 to 4 parts, switched on and off in every combination.
    """

    presets: tuple[str, ...] = ()
    leave_one_out: tuple[str, ...] = ()
    add_one: tuple[str, ...] = ()
    factorial: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Contrast:
    """A contrast that measures a part: weighted trials with it, and without it.

    Attributes:
        part: The part, the preset, or two parts that may need each other (``a x b``).
        design: Design of the contrast. ``interaction``: how much more the first part does if the
            second one is there.
        with_part: Trial -> weight.
        without: Trial -> weight.
    """

    part: str
    design: Design
    with_part: Mapping[int, float]
    without: Mapping[int, float]

    @property
    def deletion(self) -> int | None:
        """The trial that would replace the complete prompt; None if there is none."""
        if self.design not in ("leave one out", "preset"):
            return None
        return next(iter(self.without))

    @property
    def trials(self) -> tuple[int, ...]:
        """All its trials."""
        return (*self.with_part, *self.without)

    @property
    def label(self) -> str:
        """The part and, if needed, the design."""
        if self.design in ("add one", "factorial"):
            return f"{self.part} ({self.design})"
        return self.part


@dataclass(frozen=True, slots=True)
class AblationPlan:
    """A study over a prompt's parts, and its contrasts."""

    study: Study
    contrasts: tuple[Contrast, ...]


@dataclass(slots=True)
class _Plan:
    """The requested variants, each once."""

    base: PromptOptions
    points: list[dict[str, Any]] = field(default_factory=list)

    def trial(
        self,
        without: Sequence[str] = (),
        parts: Sequence[str] | None = None,
        preset: str | None = None,
    ) -> int:
        """Number of the variant; 0 for the current prompt."""
        base = self.base
        left = [*base.without, *(name for name in without if name not in base.without)]
        point = {
            "prompt.preset": base.preset if preset is None else preset,
            "prompt.without": left,
            "prompt.parts": list(base.parts if parts is None else parts),
        }
        if point == self.standing:
            return 0
        if point not in self.points:
            self.points.append(point)
        return 1 + self.points.index(point)

    @property
    def standing(self) -> dict[str, Any]:
        """The current prompt."""
        base = self.base
        return {
            "prompt.preset": base.preset,
            "prompt.without": list(base.without),
            "prompt.parts": list(base.parts),
        }


def ablation_plan(what: Ablated, base: PromptOptions, options: StudyOptions) -> AblationPlan:
    """The study of an ablation.

    Args:
        what: Presets and parts; whether the parts exist is not checked here.
        base: The complete prompt: the project's own, including its own switches.
        options: Testset, measures, personas, subset and seed.

    Raises:
        StudyError: An unknown preset, a factorial of too few or too many parts, or nothing at all.
    """
    plan = _Plan(base)
    contrasts = [
        *_presets(plan, what.presets),
        *_left_out(plan, what.leave_one_out),
        *_added(plan, what.add_one),
        *_factorial(plan, what.factorial),
    ]
    if not plan.points:
        raise StudyError(
            "the ablation leaves nothing out of the prompt",
            where="ragwright ablate",
            hint="use --presets a8, --leave-one-out, --add-one or --factorial PART,PART",
        )
    standing = plan.standing
    swept = [key for key in standing if any(p[key] != standing[key] for p in plan.points)]
    points = tuple({key: point[key] for key in swept} for point in plan.points)
    axes = tuple(Axis(tuple(key.split(".")), _distinct(points, key)) for key in swept)
    study = Study(_NAME, options, axes, points=points)
    return AblationPlan(study, tuple(contrasts))


def deletion(base: PromptOptions, parts: Sequence[str], study: Study) -> Mapping[str, Any]:
    """Values of the trial that leaves several parts out at once, in the keys of a study."""
    plan = _Plan(base)
    plan.trial(parts)
    [point] = plan.points
    return {axis.key: point[axis.key] for axis in study.axes}


def prompt_of(base: PromptOptions, values: Mapping[str, Any]) -> PromptOptions:
    """The prompt options of a trial's values."""
    kinds: Mapping[str, Any] = {"preset": str, "without": tuple, "parts": tuple}
    named = {key.partition(".")[2]: value for key, value in values.items()}
    return replace(base, **{name: kinds[name](value) for name, value in named.items()})


def _distinct(points: Sequence[Mapping[str, Any]], key: str) -> tuple[Any, ...]:
    found: list[Any] = []
    for point in points:
        if point[key] not in found:
            found.append(point[key])
    return tuple(found)


def _presets(plan: _Plan, names: Sequence[str]) -> Iterator[Contrast]:
    known = presets()
    for name in dict.fromkeys(names):
        if name not in known:
            raise StudyError(
                f"unknown prompt preset {name!r}", where="--presets", hint=near(name, known)
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
            yield Contrast(name, "preset", {0: 1.0}, {plan.trial(preset=name): 1.0})


def _left_out(plan: _Plan, parts: Sequence[str]) -> Iterator[Contrast]:
    for part in dict.fromkeys(parts):
        yield Contrast(part, "leave one out", {0: 1.0}, {plan.trial([part]): 1.0})


def _added(plan: _Plan, parts: Sequence[str]) -> Iterator[Contrast]:
    wanted = [part for part in dict.fromkeys(parts) if part not in BARE]
    if not wanted:
        return
    bare = plan.trial(parts=BARE)
    for part in wanted:
        other = [HALVES[part]] if part in HALVES else []
        whole = "turn_markers" if part in HALVES else part
        trial = plan.trial(other, parts=(*BARE, whole))
        yield Contrast(part, "add one", {trial: 1.0}, {bare: 1.0})


def _factorial(plan: _Plan, parts: Sequence[str]) -> Iterator[Contrast]:
    """Main effects, each the mean over all settings of the other parts, and interactions in pairs.

    An interaction is the effect of one part with the other minus its effect without it; below 0
    they are redundant.
    """
    if not parts:
        return
    if len(set(parts)) != len(parts) or not 2 <= len(parts) <= MOST_FACTORS:
        raise StudyError(
            f"a factorial of {', '.join(parts)}",
            where="--factorial",
            hint=f"give 2 to {MOST_FACTORS} different parts; n parts need 2^n variants",
        )
    off = [s for size in range(len(parts) + 1) for s in itertools.combinations(parts, size)]
    cells = {frozenset(left): plan.trial(left) for left in off}
    share = 2.0 / len(cells)
    for part in parts:
        on = {trial: share for left, trial in cells.items() if part not in left}
        without = {trial: share for left, trial in cells.items() if part in left}
        yield Contrast(part, "factorial", on, without)
    for one, other in itertools.combinations(parts, 2):
        sides = [
            {
                trial: (-2.0 if one in left else 2.0) * share
                for left, trial in cells.items()
                if (other in left) == gone
            }
            for gone in (False, True)
        ]
        yield Contrast(f"{one} x {other}", "interaction", *sides)
