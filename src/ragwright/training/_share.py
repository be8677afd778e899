"""The keyword channel's share of a hybrid search, chosen again for a new embedding model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from ..flow import gather
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

    Each pair of the two values searches the questions; the best MRR@10 is chosen, of equal ones the
    present setting.

    Args:
        project: The project with the new model and its index; it sums scores.
        pairs: Questions that the model was not trained on.

    Returns:
        The keys that change, with their values, and MRR@10 by setting.
    """
    present = plain_search(project.settings.retrieve, _CUTOFF)
    target = replace(project.target(), ranker=None)
    settings = dict.fromkeys(
        [
            (present.fusion, present.keyword_share),
            *((fusion, share) for fusion in _FUSIONS for share in _SHARES),
        ]
    )
    rows: list[tuple[str, float, float]] = []
    for fusion, share in settings:
        options = replace(present, fusion=fusion, keyword_share=share)
        replies = project.runner.run(
            gather(retrieve(pair.question, target, options) for pair in pairs)
        )
        ranks = [
            next((hit.rank for hit in reply.hits if hit.chunk_id in pair.gold), 0)
            for pair, reply in zip(pairs, replies, strict=True)
        ]
        mrr = sum(1 / rank for rank in ranks if rank) / max(1, len(ranks))
        rows.append((fusion, share, mrr))
    fusion, share, _ = max(rows, key=lambda row: row[2])
    changed: dict[str, float | str] = {}
    if fusion != present.fusion:
        changed["retrieve.fusion"] = fusion
    if share != present.keyword_share:
        changed["retrieve.keyword_share"] = share
    table = TunedTable("share", ("fusion", "keyword share", "unseen MRR@10"), tuple(rows))
    return changed, table
