"""Merging a trained model with the one it started from, so that it loses less.

A model that is trained on one kind of question may fail at others. Weights between those before and
after training often have most of both (Wortsman et al. 2022, arXiv:2109.01903; embedding models:
Xiao et al. 2023, arXiv:2311.13534).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ._pairs import Unseen

_SHARES = (1.0, 0.8, 0.6, 0.4, 0.2, 0.0)

_TOLERATED = 0.01
"""Loss of MRR@10 on other questions that is accepted for a gain on the trained kind."""

Weights: TypeAlias = Mapping[str, Any]
"""Name -> tensor of numbers."""


@dataclass(frozen=True, slots=True)
class Merged:
    """The chosen weights; the model itself is changed in place.

    Attributes:
        share: Share of the trained weights, above 0; the rest are those before training.
        unseen: MRR@10 of the unseen training questions with the merged weights.
        others: MRR@10 of questions of other kinds.
        rows: Share, MRR@10 of the unseen training questions and of the others, for each share that
            was tried; share 0 is the model before training.
    """

    share: float
    unseen: float
    others: float
    rows: tuple[tuple[float, float, float], ...]


def weights_of(model: Any) -> Weights:
    """Return a copy of a model's weights."""
    states = model.state_dict().items()
    return {name: tensor.detach().clone() for name, tensor in states if tensor.is_floating_point()}


def merge(
    model: Any,
    start: Weights,
    both_kinds: tuple[Unseen, Unseen],
    measure: Callable[[Any, Unseen], float],
) -> Merged:
    """Choose the weights between two models that answer both kinds of questions best.

    Of the shares of the trained weights that gain on the unseen training questions, and lose at
    most 0.01 on the others, the best on the unseen ones is chosen. Where none loses so little, the
    highest mean of the two MRR@10 is. Of equal shares the highest.

    Args:
        model: The trained model of sentence-transformers.
        start: Its weights before training.
        both_kinds: The unseen training questions, and questions of other kinds.
        measure: MRR@10 of questions by the model.
    """
    trained = weights_of(model)
    rows: list[tuple[float, float, float]] = []
    for share in _SHARES:
        _load_mixed(model, start, trained, share)
        unseen, others = (measure(model, questions) for questions in both_kinds)
        rows.append((share, unseen, others))
    _, before, others_before = rows[-1]
    gaining = [row for row in rows[:-1] if row[1] > before] or rows[:1]
    keeping = [row for row in gaining if row[2] >= others_before - _TOLERATED]
    best = max(keeping, key=lambda row: row[1]) if keeping else max(gaining, key=_sum_of_both)
    _load_mixed(model, start, trained, best[0])
    return Merged(*best, tuple(rows))


def _sum_of_both(row: tuple[float, float, float]) -> float:
    return row[1] + row[2]


def _load_mixed(model: Any, start: Weights, trained: Weights, share: float) -> None:
    # lerp returns its ends exactly: at share 1 these are the trained weights.
    mixed = {name: start[name].lerp(trained[name], share) for name in trained}
    model.load_state_dict(mixed, strict=False)
