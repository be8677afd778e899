"""Why hits were found: what people ask of a ranking, worked out only when they ask."""

from __future__ import annotations

from dataclasses import replace

from ._target import Explanation, Retrieved, Target

_BEGINNING = 160
"""Characters of a hit whose pieces are shown."""


def explain(found: Retrieved, target: Target) -> Explanation:
    """The explanation of a result, with the model's pieces and the tokens each hit shares.

    Args:
        found: What a search returned; its own explanation names terms, weights and ladder.
        target: What was searched. Without an analyzer no tokens can be compared, without the
            embedding model's tokenizer no pieces can be shown; those parts stay empty.
    """
    known = found.explanation
    if target.tokenizer is not None:
        pieces = target.tokenizer.pieces
        seen = {h.chunk_id: tuple(pieces(h.text[:_BEGINNING])) for h in found.hits}
        known = replace(known, pieces=tuple(pieces(found.query)), seen=seen)
    if target.analyzer is None:
        return known
    asked = [term.token for term in known.terms]
    wanted = dict.fromkeys(asked or target.analyzer.query_tokens(found.query))
    matched = {}
    for hit in found.hits:
        text = "\n".join((hit.text, hit.title, *hit.headings))
        held = set(target.analyzer.tokens(text))
        matched[hit.chunk_id] = tuple(token for token in wanted if token in held)
    return replace(known, matched=matched)
