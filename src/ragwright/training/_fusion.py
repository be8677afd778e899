"""The weights of a search's channels, chosen again for a new model of one of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..flow import gather
from ..retrieve import retrieve
from ._searched import plain_search
from ._tuned import TunedTable

if TYPE_CHECKING:
    from ..project import Project
    from ..retrieve import FusionKind, RetrieveOptions, Target
    from ._pairs import Pair

_SHARES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
_FUSIONS: tuple[FusionKind, ...] = ("adaptive", "weighted")
_DENSE_WEIGHTS = (0.0, 0.25, 0.5, 1.0)
_CUTOFF = 10


def fuses_scores(options: RetrieveOptions) -> bool:
    """True if the search sums the scores of keywords and vectors."""
    return options.search in ("auto", "hybrid") and options.fusion in _FUSIONS


def chosen_fusion(
    project: Project, pairs: Sequence[Pair], *, dense: bool = False
) -> tuple[Mapping[str, float | str], TunedTable]:
    """Choose how a search weighs its channels, for a new model of one of them.

    Settings search the questions. The best MRR@10 is chosen if it is better than that of the
    present setting by more than a standard error of the paired differences; smaller gains are
    mostly noise and would be lost on other questions.

    Args:
        project: The project with the new model and its index; it sums scores.
        pairs: Questions that the model was not trained on.
        dense: Choose ``retrieve.weights.dense`` first: the new model may do better what the
            embedding model does. Else only ``retrieve.fusion`` and ``retrieve.keyword_share``.

    Returns:
        The keys that change, with their values, and MRR@10 by setting.
    """
    present = plain_search(project.settings.retrieve, _CUTOFF)
    target = replace(project.target(), ranker=None)
    ranks: dict[_Setting, NDArray[np.float64]] = {}

    def measure(*settings: _Setting) -> _Setting:
        """Search the questions with further settings; return the best of all."""
        for setting in settings:
            if setting not in ranks:
                ranks[setting] = _reciprocal_ranks(project, target, pairs, setting.put_in(present))
        return max(ranks, key=lambda setting: float(ranks[setting].mean()))

    start = _Setting(present.fusion, present.keyword_share, present.weights.dense)
    best = measure(start)
    if dense:
        best = measure(*(replace(start, dense=weight) for weight in _DENSE_WEIGHTS))
    best = measure(
        *(_Setting(fusion, share, best.dense) for fusion in _FUSIONS for share in _SHARES)
    )
    gains = ranks[best] - ranks[start]
    if gains.mean() <= gains.std() / math.sqrt(len(gains)):
        best = start
    changed = {key: value for key, value in best.keys.items() if value != start.keys[key]}
    rows = tuple((*setting.keys.values(), float(ranks[setting].mean())) for setting in ranks)
    columns = ("fusion", "keyword share", "weight of dense", "unseen MRR@10")
    return changed, TunedTable("share", columns, rows)


@dataclass(frozen=True, slots=True)
class _Setting:
    fusion: FusionKind
    share: float
    dense: float

    @property
    def keys(self) -> dict[str, float | str]:
        return {
            "retrieve.fusion": self.fusion,
            "retrieve.keyword_share": self.share,
            "retrieve.weights.dense": self.dense,
        }

    def put_in(self, options: RetrieveOptions) -> RetrieveOptions:
        weights = replace(options.weights, dense=self.dense)
        return replace(options, fusion=self.fusion, keyword_share=self.share, weights=weights)


def _reciprocal_ranks(
    project: Project, target: Target, pairs: Sequence[Pair], options: RetrieveOptions
) -> NDArray[np.float64]:
    """Return 1 / rank of the first gold hit of each question, 0 without one."""
    replies = project.runner.run(gather(retrieve(pair.question, target, options) for pair in pairs))
    return np.array(
        [
            next((1 / hit.rank for hit in reply.hits if hit.chunk_id in pair.gold), 0.0)
            for pair, reply in zip(pairs, replies, strict=True)
        ]
    )
