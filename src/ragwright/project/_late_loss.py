"""How much the 8-bit form of token vectors changes scores and rankings, on chunks of the index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..core import counted
from ..flow import encode, run_in_pool
from ..index import headed_text
from ..models import PLACED, passage_form, read_passage, read_placed, sentence_spans

if TYPE_CHECKING:
    from ..flow import Flow
    from ..models import Matrix
    from ._project import Project

_CHUNKS = 100
_QUERIES = 20
_FIRST = 10


@dataclass(frozen=True, slots=True)
class RoundingLoss:
    """Scores by 8-bit vectors beside those by the exact ones.

    Attributes:
        chunks: Chunks that were scored.
        queries: First sentences of some of them, used as queries.
        kept: Share of the first 10 chunks by exact scores that are among the first 10 by 8 bits.
        error: Mean difference of a score, as a share of it.
    """

    chunks: int
    queries: int
    kept: float
    error: float

    def __str__(self) -> str:
        """One sentence."""
        return (
            f"8-bit vectors keep {self.kept:.1%} of the first {_FIRST} chunks that exact ones "
            f"rank, and change a score by {self.error:.2%} on average "
            f"({counted(self.queries, 'sentence')} as queries, {counted(self.chunks, 'chunk')})"
        )


def rounding_loss(project: Project, model: str) -> RoundingLoss | None:
    """The loss on some chunks of the index, from first to last; None if there are too few.

    Raises:
        ConfigError: The model cannot be opened.
    """
    view = project.views.current(project.pair)
    ids = view.every(view.statistics().chunks)
    hits = view.lookup(ids[:: max(1, len(ids) // _CHUNKS)][:_CHUNKS])
    texts = list(dict.fromkeys(headed_text(hit.text, hit.title, hit.head) for hit in hits))
    if len(texts) <= _FIRST:
        return None
    sources = tuple(dict.fromkeys(hit.document_id for hit in hits))
    return project.runner.run(_measured_loss(model, texts), sources=sources)


def _measured_loss(model: str, texts: Sequence[str]) -> Flow[RoundingLoss]:
    asked = [_first_sentence(text) for text in texts[:: max(1, len(texts) // _QUERIES)]][:_QUERIES]
    queries = yield from encode(PLACED, model, asked)
    passages = yield from encode(PLACED, model, texts, "passage")

    def compared() -> RoundingLoss:
        wanted = [read_placed(form).vectors for form in queries]
        tokens = [read_placed(form) for form in passages]
        rounded = []
        for scales, numbers in (read_passage(passage_form(given)) for given in tokens):
            rounded.append(np.asarray(scales[:, None] * numbers, np.float32))
        exact = _max_sims(wanted, [given.vectors for given in tokens])
        near = _max_sims(wanted, rounded)
        best, other = _first_of(exact), _first_of(near)
        kept = np.mean([len({*a} & {*b}) / _FIRST for a, b in zip(best, other, strict=True)])
        error = np.mean(np.abs(near - exact)) / max(1e-9, float(np.mean(np.abs(exact))))
        return RoundingLoss(len(texts), len(asked), float(kept), float(error))

    return (yield from run_in_pool(compared))


def _first_sentence(text: str) -> str:
    spans = sentence_spans(text)
    return text[spans[0].start : spans[0].end] if spans else text[:200]


def _max_sims(queries: Sequence[Matrix], passages: Sequence[Matrix]) -> Matrix:
    """Scores of shape (queries, passages)."""
    return np.array(
        [
            [(query @ passage.T).max(axis=1, initial=-1.0).sum() for passage in passages]
            for query in queries
        ],
        np.float32,
    )


def _first_of(scores: Matrix) -> list[list[int]]:
    order: list[list[int]] = np.argsort(-scores, axis=1, kind="stable")[:, :_FIRST].tolist()
    return order
