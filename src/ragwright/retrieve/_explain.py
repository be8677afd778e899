"""Why hits were found: what people ask of a ranking, worked out only when they ask."""

from __future__ import annotations

import re
from dataclasses import replace

from ..core import Chunk, Hit, Span
from ..index import embedded_text
from ..models import Tokenizer, TokenSource
from ._target import Explanation, Retrieved

_BEGINNING = 160
"""Characters of what was embedded of a hit whose pieces are shown."""

_PLACE = re.compile(r":(\d+)-(\d+)$")


def explain(
    found: Retrieved, analyzer: TokenSource | None = None, tokenizer: Tokenizer | None = None
) -> Explanation:
    """The explanation of a result, with the model's pieces and the tokens each hit shares.

    Args:
        found: What a search returned; its own explanation names terms, weights and ladder.
        analyzer: That of the index; without it no tokens can be compared and ``matched`` stays
            empty.
        tokenizer: The embedding model's own; without it no pieces can be shown. Of a hit that
            was expanded none are shown: its text is not what was embedded.
    """
    known = found.explanation
    if tokenizer is not None:
        pieces = tokenizer.pieces
        embedded = {hit.chunk_id: _embedded(hit) for hit in found.hits}
        seen = {key: tuple(pieces(text[:_BEGINNING])) for key, text in embedded.items() if text}
        known = replace(known, pieces=tuple(pieces(found.query)), seen=seen)
    if analyzer is None:
        return known
    asked = [term.token for term in known.terms]
    wanted = dict.fromkeys(asked or analyzer.query_tokens(found.query))
    matched = {}
    for hit in found.hits:
        text = "\n".join((hit.text, hit.title, *hit.headings))
        held = set(analyzer.tokens(text))
        matched[hit.chunk_id] = tuple(token for token in wanted if token in held)
    return replace(known, matched=matched)


def _embedded(hit: Hit) -> str:
    """What the model embedded of a hit; empty where the hit has grown beyond its chunk."""
    place = _PLACE.search(hit.chunk_id)
    if place is not None and (int(place[1]), int(place[2])) != (hit.start, hit.end):
        return ""
    chunk = Chunk(hit.chunk_id, hit.document_id, 0, Span(hit.start, hit.end), hit.text)
    return embedded_text(chunk, hit.title)
