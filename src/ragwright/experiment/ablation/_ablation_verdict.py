"""The result of an ablation, and its verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...core import count_noun
from ...measure import least_rows as least_rows
from ._part_effects import PartEffect, PartResult


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
    texts = []
    for part in ablation.parts:
        proven = [effect for effect in part.effects if effect.verdict != "no effect proven"]
        overall = {effect.measure for effect in proven if not effect.persona}
        # Mention a persona only if all rows together do not show the effect.
        texts += [_effect_text(effect, part) for effect in proven if not effect.persona]
        texts += [
            _effect_text(effect, part)
            for effect in proven
            if effect.persona and effect.measure not in overall
        ]
    if texts:
        yield f"Proven on {_rows(ablation)}: {'; '.join(texts)}."
    else:
        yield f"No part is proven to help or to harm on {_rows(ablation)}."


def _rows(ablation: Ablation) -> str:
    asked = f" of {ablation.questions}" if ablation.questions else ""
    return f"{count_noun(ablation.rows, 'row')}{asked}"


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
    deleted = [part for part in ablation.parts if part.trial is not None]
    if not deleted:
        return
    share = f"{ablation.margin:.1%} of the scale"
    safe = [part for part in deleted if part.safe]
    if safe:
        yield (
            f"Safe to delete on these {ablation.questions or 'rows'}, each alone: "
            f"{_parts_with_costs(safe)}. The loss is below {share}, by every "
            f"measure{' and for every persona' if ablation.personas else ''}."
        )
    else:
        yield f"No part is proven safe to delete: no loss was proven to be below {share}."
    fewest = min(
        min(
            (e.independent for e in part.effects if bool(e.persona) == bool(ablation.personas)),
            default=0,
        )
        for part in deleted
    )
    needed = least_rows(ablation.margin)
    if fewest < needed and len(safe) < len(deleted):
        yield (
            f"Such a proof takes at least {needed} independent rows"
            f"{' of every persona' if ablation.personas else ''}; there are {fewest}."
        )
    undecided = [part for part in deleted if part.state == "no effect proven"]
    if undecided and len(undecided) < len(deleted):  # else earlier sentences cover it
        names = ", ".join(part.part for part in undecided)
        yield f"No effect proven, and not proven safe to delete: {names}."


def _parts_with_costs(parts: Sequence[PartResult]) -> str:
    texts = []
    for part in parts:
        cost = "" if part.tokens is None else f" ({part.tokens:.4g} tokens per prompt"
        if cost and part.cost:
            cost += f", {part.cost:.4g} per 1,000 answers"
        texts.append(part.part + (f"{cost})" if cost else ""))
    return ", ".join(texts)


def _describe_confirmed(ablation: Ablation) -> Iterator[str]:
    safe = [part for part in ablation.parts if part.safe]
    if not safe:
        return
    if not ablation.openings:
        yield "Not confirmed on held-out rows: run it again with --confirm."
        return
    confirmed = [part.part for part in safe if part.holds]
    refuted = [part.part for part in safe if not part.holds]
    rows = f"on the {ablation.confirm_rows} rows of the confirm split"
    if confirmed:
        yield f"Confirmed as safe {rows}, each alone: {', '.join(confirmed)}."
    if refuted:
        yield (
            f"Not confirmed {rows}, keep for now: {', '.join(refuted)} (the loss may reach "
            "the margin there)."
        )
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
