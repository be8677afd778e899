"""Terms that a learned sparse model weighs in both a question and a hit, for an explanation."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..flow import Flow, encode
from ..index import read_sparse
from ._explain import embedded_hit
from ._target import Retrieved

_HITS = 3
"""First hits that are explained."""

_TERMS = 8
"""Terms of a hit that are shown."""


def shared_terms(
    retrieved: Retrieved, model: str, name: Callable[[int], str]
) -> Flow[Mapping[str, tuple[tuple[float, str], ...]]]:
    """The terms that gave the first hits of the sparse channel their score; see `Explanation`.

    Args:
        retrieved: The result of a search.
        model: The model of the channel.
        name: From the number of a dimension to its term.
    """
    hits = [hit for hit in retrieved.hits if "sparse" in hit.channels]
    texts = {hit.chunk_id: text for hit in hits if (text := embedded_hit(hit))}
    if not texts:
        return {}
    few = dict(list(texts.items())[:_HITS])
    [query] = yield from encode("sparse", model, (retrieved.query,))
    passages = yield from encode("sparse", model, tuple(few.values()), "passage")
    asked = _weights(query)
    shared = {}
    for key, passage in zip(few, passages, strict=True):
        held = _weights(passage)
        products = [(weight * held[term], term) for term, weight in asked.items() if term in held]
        products.sort(key=lambda product: (-product[0], product[1]))
        shared[key] = tuple((round(share, 3), name(term)) for share, term in products[:_TERMS])
    return shared


def _weights(encoding: bytes) -> dict[int, float]:
    terms, weights = read_sparse(encoding)
    return dict(zip(terms.tolist(), weights.tolist(), strict=True))
