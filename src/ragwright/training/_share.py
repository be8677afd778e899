"""The keyword channel's share of a hybrid search, chosen again for a new embedding model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from ..flow import gather
from ..measure import Values, standard_error
from ..retrieve import retrieve
from ._searched import plain_search
from ._tuned import TunedTable

if TYPE_CHECKING:
    from ..project import Project
    from ..retrieve import RetrieveOptions
    from ._pairs import Pair

_SHARES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
_FUSIONS: tuple[Literal["adaptive", "weighted"], ...] = ("adaptive", "weighted")
_CUTOFF = 10


def fuses_scores(options: RetrieveOptions) -> bool:
    """True if the search sums the scores of keywords and vectors."""
    return options.search in ("auto", "hybrid") and options.fusion in _FUSIONS


def chosen_share(
    project: Project, pairs: Sequence[Pair]
) -> tuple[Mapping[str, float | str], TunedTable]:
    """Choose ``retrieve.fusion`` and ``retrieve.keyword_share`` for the vectors of a project.

    Each pair of the two values searches the questions. The best MRR@10 is chosen if it is better
    than that of the present setting by more than a standard error of the paired differences;
    smaller gains are mostly noise and would be lost on other questions.

    Args:
        project: The project with the new model and its index; it sums scores.
        pairs: Questions that the model was not trained on.

    Returns:
        The keys that change, with their values, and MRR@10 by setting.
    """
    present = plain_search(project.settings.retrieve, _CUTOFF)
    target = project.target()
    settings = dict.fromkeys(
        [
            (present.fusion, present.keyword_share),
            *((fusion, share) for fusion in _FUSIONS for share in _SHARES),
        ]
    )
    reciprocal: dict[tuple[str, float], Values] = {}
    for fusion, share in settings:
        options = replace(present, fusion=fusion, keyword_share=share)
        replies = project.runner.run(
            gather(retrieve(pair.question, target, options) for pair in pairs)
        )
        reciprocal[fusion, share] = np.array(
            [
                next((1 / hit.rank for hit in reply.hits if hit.chunk_id in pair.gold), 0.0)
                for pair, reply in zip(pairs, replies, strict=True)
            ]
        )
    rows = [(fusion, share, float(ranks.mean())) for (fusion, share), ranks in reciprocal.items()]
    best_fusion, best_share, _ = max(rows, key=lambda row: row[2])
    gains = reciprocal[best_fusion, best_share] - reciprocal[present.fusion, present.keyword_share]
    error = standard_error(gains)
    if error is None or gains.mean() <= error:
        best_fusion, best_share = present.fusion, present.keyword_share
    changed: dict[str, float | str] = {}
    if best_fusion != present.fusion:
        changed["retrieve.fusion"] = best_fusion
    if best_share != present.keyword_share:
        changed["retrieve.keyword_share"] = best_share
    table = TunedTable("share", ("fusion", "keyword share", "unseen MRR@10"), tuple(rows))
    return changed, table
