"""Definitions of measures, before anything is computed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal[
    "retrieval", "span", "text", "embedding", "judged", "logprob", "capability", "custom", "column"
]
Cutoff: TypeAlias = Literal["required", "optional", "none"]
ModelUse: TypeAlias = Literal["none", "chat", "embed", "chat, embed", "complete", "tokens"]
"""Kind of model that a measure uses: ``tokens`` is a local one with one vector per token."""


@dataclass(frozen=True, slots=True)
class MeasureScale:
    """The range of a measure and its direction.

    ``str(scale)`` is its form in table headers: ``1-5``, ``from 0``.
    """

    low: float
    high: float | None
    higher_is_better: bool = True

    def __str__(self) -> str:
        """Both ends, or the lower one if there is no upper one."""
        return f"from {self.low:g}" if self.high is None else f"{self.low:g}-{self.high:g}"

    @property
    def ends(self) -> tuple[float, float | None]:
        """Smallest and largest value."""
        return self.low, self.high

    @property
    def worst(self) -> float | None:
        """The worst value; None if the scale is unbounded there."""
        end = self.low if self.higher_is_better else self.high
        return None if end is None or math.isinf(end) else end

    @property
    def width(self) -> float | None:
        """Largest difference of two values; None if the scale is unbounded."""
        if self.high is None or math.isinf(self.high - self.low):
            return None
        return self.high - self.low


@dataclass(frozen=True, slots=True)
class Definition:
    """Definition of a measure; the reference page and the checks are generated from it.

    Attributes:
        name: As written before bracket and cutoff.
        kind: Which family of functions computes it.
        summary: One sentence for the reader of a report.
        needs: Fields of a row that it reads.
        low: Smallest value; ``high``, None if unbounded, the largest.
        higher_is_better: Direction.
        source: Where the formula comes from.
        cutoff: Whether ``@k`` must, may or must not be given.
        parameters: Allowed parameters in brackets; ``N`` is a whole number from 1.
        default: Default parameter, several with commas; not written out. Without a default, a
            parameter is required.
        instead: Alternative fields to ``needs``, read first if a row has both.
        model: Kind of model that it uses.
        extra: Extra of ragwright that it needs, empty if the core is enough.
        validated: What its numbers are compared with in the tests.
    """

    name: str
    kind: Kind
    summary: str
    needs: tuple[str, ...]
    low: float
    high: float | None
    higher_is_better: bool
    source: str
    cutoff: Cutoff = "none"
    parameters: tuple[str, ...] = ()
    default: str = ""
    instead: tuple[str, ...] = ()
    model: ModelUse = "none"
    extra: str = ""
    validated: str = "cases worked by hand"

    @property
    def scale(self) -> MeasureScale:
        """Range and direction together."""
        return MeasureScale(self.low, self.high, self.higher_is_better)

    @property
    def states_scale(self) -> bool:
        """False where the scale is in a rubric file or a function, or nowhere."""
        unread = self.kind == "column" or (self.kind == "custom" and ":" in self.name)
        return "name" not in self.parameters and not unread

    def reads(self, field: str) -> bool:
        """True where the measure looks at a field of a row; a custom one may look at any."""
        return self.kind == "custom" or field in (*self.needs, *self.instead)

    @property
    def form(self) -> str:
        """How to write it, with optional parts in square brackets: ``Recall[(rel=N)]@k``."""
        brackets = f"({'|'.join(self.parameters)})" if self.parameters else ""
        if brackets and self.default:
            brackets = f"[{brackets}]"
        return (
            self.name + brackets + {"required": "@k", "optional": "[@k]", "none": ""}[self.cutoff]
        )
