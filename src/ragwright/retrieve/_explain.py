"""Explanations of why hits were found, computed on demand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..core import Chunk, Head, Hit, Span
from ..flow import Flow, Vector, embed
from ..index import write_embedded_text
from ..models import Tokenizer, TokenSource, sentence_spans
from ._target import Explanation, Retrieved

_BEGINNING = 160
"""Characters of a hit's embedded text whose tokens are shown."""

_HITS = 3
"""First hits whose sentences are compared with the query."""

_SENTENCES = 60
"""Sentences of a hit that are embedded."""

_NEAREST = 3
"""Sentences of a hit that are shown."""

_PLACE = re.compile(r":(\d+)-(\d+)$")


def explain(
    retrieved: Retrieved, analyzer: TokenSource | None = None, tokenizer: Tokenizer | None = None
) -> Explanation:
    """The explanation of a result, with the model's pieces and the tokens each hit shares.

    Args:
        retrieved: The result of a search; its explanation holds terms, weights and levels.
        analyzer: That of the index; without it no tokens can be compared and ``matched`` stays
            empty.
        tokenizer: The embedding model's own; without it no pieces are shown. Expanded hits show
            none: their text is not the embedded one.
    """
    heads = {
        hit.chunk_id: (hit.head or Head(hit.title, hit.headings)).text for hit in retrieved.hits
    }
    known = replace(retrieved.explanation, heads=heads)
    if tokenizer is not None:
        pieces = tokenizer.pieces
        embedded = {hit.chunk_id: find_embedded_text(hit) for hit in retrieved.hits}
        seen = {key: tuple(pieces(text[:_BEGINNING])) for key, text in embedded.items() if text}
        known = replace(known, pieces=tuple(pieces(retrieved.query)), seen=seen)
    if analyzer is None:
        return known
    query_terms = [term.token for term in known.terms]
    wanted = dict.fromkeys(query_terms or analyzer.query_tokens(retrieved.query))
    matched = {}
    for hit in retrieved.hits:
        text = f"{hit.text}\n{heads[hit.chunk_id]}"
        held = set(analyzer.tokens(text))
        matched[hit.chunk_id] = tuple(token for token in wanted if token in held)
    return replace(known, matched=matched)


def nearest_sentences(
    retrieved: Retrieved, model: str
) -> Flow[Mapping[str, tuple[tuple[float, str], ...]]]:
    """The sentences of the first hits that are nearest to the query; see `Explanation.nearest`.

    A page may be found for one sentence that has nothing to do with what was asked. Empty where
    no vectors were searched.
    """
    hits = [hit for hit in retrieved.hits if "dense" in hit.channels][:_HITS]
    cut = {hit.chunk_id: _sentences(hit.text) for hit in hits}
    texts = [text for sentences in cut.values() for text in sentences]
    if not texts:
        return {}
    sources = tuple(dict.fromkeys(hit.document_id for hit in hits))
    [query_vector] = _unit((yield from embed(model, [retrieved.query])))
    near = iter(_unit((yield from embed(model, texts, "passage", sources=sources))) @ query_vector)
    nearest = {}
    for key, sentences in cut.items():
        scored = [(round(float(next(near)), 6), text) for text in sentences]
        nearest[key] = tuple(sorted(scored, key=lambda pair: -pair[0])[:_NEAREST])
    return nearest


def _sentences(text: str) -> list[str]:
    """The sentences of a text, each once and on one line; those without a letter are left out."""
    spans = sentence_spans(text)[:_SENTENCES]
    lines = dict.fromkeys(" ".join(text[span.start : span.end].split()) for span in spans)
    return [line for line in lines if any(map(str.isalpha, line))]


def _unit(vectors: Vector) -> Vector:
    """Rows of length 1; one of length 0 stays as it is."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), np.float32)


def find_embedded_text(hit: Hit) -> str:
    """The embedded text of a hit; empty if the hit was expanded beyond its chunk."""
    place = _PLACE.search(hit.chunk_id)
    if place is not None and (int(place[1]), int(place[2])) != (hit.start, hit.end):
        return ""
    span = Span(hit.start, hit.end)
    chunk = Chunk(hit.chunk_id, hit.document_id, 0, span, hit.text, head=hit.head)
    return write_embedded_text(chunk, hit.title)
