"""An ablation as a whole, and its verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...core import counted
from ...measure import least_rows as least_rows
from ._part_effects import PartEffect, PartResult


@dataclass(frozen=True, slots=True)
class Ablation:
    """Effects of the parts of a prompt, and which parts may be deleted.

    Attributes:
        testset: The rows' address.
        rows: Number of rows; those of every persona counted.
        personas: Personas of the rows, if there are several.
        parts: One per part or preset.
        margin: What a deletion may cost, as a share of a measure's scale.
        together: All parts that are safe one by one, deleted at once, on the confirm split.
        openings: How often the confirm split has been opened, this time included; 0 if it stayed
            closed.
        confirm_rows: Rows of the confirm split.
        never: Parts that are in no row's prompt.
        notes: What the reader should know.
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

    @property
    def safe(self) -> tuple[PartResult, ...]:
        """Deletions that are proven to cost less than the margin, and not refuted since."""
        return tuple(one for one in self.parts if one.safe and one.holds is not False)

    @property
    def verdict(self) -> tuple[str, ...]:
        """The verdict, the most important first."""
        if not self.scored:
            return (
                "No result: no row has a score both with a part and without it; the notes say why.",
            )
        return (*_proven(self), *_deletable(self), *_confirmed(self))

    @property
    def scored(self) -> bool:
        """True if at least one row gives information on one part."""
        return any(effect.n for one in self.parts for effect in one.effects)


def _proven(found: Ablation) -> Iterator[str]:
    said = []
    for one in found.parts:
        told = [effect for effect in one.effects if effect.verdict != "no effect proven"]
        whole = {effect.measure for effect in told if not effect.persona}
        # Mention a persona only if all rows together do not show the effect.
        said += [_effect(effect, one) for effect in told if not effect.persona]
        said += [
            _effect(effect, one)
            for effect in told
            if effect.persona and effect.measure not in whole
        ]
    if said:
        yield f"Proven on {counted(found.rows, 'row')}: {'; '.join(said)}."
    else:
        yield f"No part is proven to help or to harm on {counted(found.rows, 'row')}."


def _effect(effect: PartEffect, one: PartResult) -> str:
    span = ""
    if effect.low is not None and effect.high is not None:
        span = f", {effect.low:+.4f} to {effect.high:+.4f}"
    whom = f" for {effect.persona}" if effect.persona else ""
    does = f"{effect.part} {effect.verdict}"
    if one.design == "preset":
        side = "worse" if effect.verdict == "helps" else "better"
        does = f"{effect.part} is {side} than the complete prompt"
    if one.design == "interaction":
        does = f"{effect.part}: " + (
            "each needs the other" if effect.verdict == "helps" else "they are redundant"
        )
    return f"{does}{whom} ({effect.measure} {effect.difference or 0.0:+.4f}{span})"


def _deletable(found: Ablation) -> Iterator[str]:
    asked = [one for one in found.parts if one.trial is not None]
    if not asked:
        return
    share = f"{found.margin:.1%} of the scale"
    safe = [one for one in asked if one.safe]
    if safe:
        yield (
            f"Safe to delete on these rows, each alone: {_named(safe)}. The loss is "
            f"below {share}, by every measure{' and for every persona' if found.personas else ''}."
        )
    else:
        yield f"No part is proven safe to delete: no loss was proven to be below {share}."
    fewest = min(_fewest(found, one) for one in asked)
    need = least_rows(found.margin)
    if fewest < need and len(safe) < len(asked):
        yield (
            f"Such a proof takes at least {need} independent rows"
            f"{' of every persona' if found.personas else ''}; there are {fewest}."
        )
    open_ = [one for one in asked if one.state == "no effect proven"]
    if open_ and len(open_) < len(asked):  # else the sentences before have said it
        names = ", ".join(one.part for one in open_)
        yield f"No effect proven, and not proven safe to delete: {names}."


def _fewest(found: Ablation, one: PartResult) -> int:
    counted = [e.independent for e in one.effects if bool(e.persona) == bool(found.personas)]
    return min(counted, default=0)


def _named(parts: Sequence[PartResult]) -> str:
    said = []
    for one in parts:
        costs = "" if one.tokens is None else f" ({one.tokens:.4g} tokens per prompt"
        if costs and one.cost:
            costs += f", {one.cost:.4g} per 1,000 answers"
        said.append(one.part + (f"{costs})" if costs else ""))
    return ", ".join(said)


def _confirmed(found: Ablation) -> Iterator[str]:
    safe = [one for one in found.parts if one.safe]
    if not safe:
        return
    if not found.openings:
        yield "Not confirmed on held-out rows: run it again with --confirm."
        return
    held = [one.part for one in safe if one.holds]
    lost = [one.part for one in safe if not one.holds]
    rows = f"on the {found.confirm_rows} rows of the confirm split"
    if held:
        yield f"Confirmed as safe {rows}, each alone: {', '.join(held)}."
    if lost:
        yield (
            f"Not confirmed {rows}, keep for now: {', '.join(lost)} (the loss may reach "
            "the margin there)."
        )
    if found.together is not None:
        whole = found.together
        name = whole.part.replace(" + ", ", ")
        says = (
            "is confirmed as safe too"
            if whole.holds
            else "is not confirmed as safe: some parts may be redundant"
        )
        yield f"Deleting {name} at once {says}."
    if found.openings > 1:
        yield (
            f"The confirm split has been opened {found.openings} times: each time makes it less "
            "independent."
        )
