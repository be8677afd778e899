"""Gold in the index and in answers: chunks, ranks, words and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...core import Filter, Hit, Row, Span
from ...flow import Flow, Search, SearchReply, lookup, send
from ...measure import SHORT_WORDS, answer_words, content_words, references_of, stands_in
from ...retrieve import Target
from ...testsets import chunks_of, covers, find_best_chunk, find_graded_documents


@dataclass(frozen=True, slots=True)
class GoldPiece:
    """One piece of gold evidence: a span of a document, or a whole one.

    Attributes:
        document_id: Its document.
        span: Its characters there; None if the whole document is gold.
        chunk: The chunk with most of it; None if no chunk of the index holds at least half of it.
        reachable: The hard filters allow that chunk.
    """

    document_id: str
    span: Span | None = None
    chunk: Hit | None = None
    reachable: bool = True

    def held_by(self, hit: Hit) -> bool:
        """True if a passage holds it: at least half of the span, as in measures."""
        if hit.document_id != self.document_id:
            return False
        return self.span is None or covers(Span(hit.start, hit.end), self.span)

    def rank_in(self, hits: Iterable[Hit]) -> int | None:
        """Return the rank of the first of these passages that holds it, from 1; else None."""
        return next((rank for rank, hit in enumerate(hits, 1) if self.held_by(hit)), None)


@dataclass(frozen=True, slots=True)
class GoldPlace:
    """The ranks of a piece of gold at every stage of a search.

    Attributes:
        document_id: Its document; ``start`` and ``end`` its characters, None for the whole.
        indexed: A chunk of the index holds it.
        reachable: The hard filters allow that chunk.
        found: Rank among the candidates of the search, from 1; None if it is not in the pool.
        ordered: Rank after reranking.
        shown: Rank in the answer's context, in prompt order.
    """

    document_id: str
    start: int | None = None
    end: int | None = None
    indexed: bool = True
    reachable: bool = True
    found: int | None = None
    ordered: int | None = None
    shown: int | None = None


def has_gold(row: Row) -> bool:
    """True if a row has evidence: spans, or documents with a grade above 0."""
    return bool(row.reference_spans or find_graded_documents(row))


def gold_pieces(row: Row, target: Target, filters: Sequence[Filter]) -> Flow[tuple[GoldPiece, ...]]:
    """Find the chunk with most of each piece of a row's gold; makes no paid calls.

    Spans are used if there are any, else documents; a whole document is represented by the chunk
    that keyword search ranks first for the question.
    """
    spans = list(dict.fromkeys((s.document_id, s.start, s.end) for s in row.reference_spans))
    documents = dict.fromkeys(document for document, _, _ in spans) or find_graded_documents(row)
    chunks_by_document: dict[str, tuple[list[str], frozenset[str]]] = {}
    for document in documents:
        chunks = yield from chunks_of(target, document)
        allowed = chunks if not filters else (yield from chunks_of(target, document, filters))
        chunks_by_document[document] = chunks, frozenset(allowed)
    places: list[tuple[str, Span | None, str]] = []
    for document, start, end in spans:
        span = Span(start, end)
        places.append(
            (document, span, find_best_chunk(chunks_by_document[document][0], document, span))
        )
    if not spans:
        for document in documents:
            best = yield from _nearest_chunk(
                row.user_input, target, document, chunks_by_document[document][0]
            )
            places.append((document, None, best))
    keys = list(dict.fromkeys(key for _, _, key in places if key))
    stored = (yield from lookup(target.snapshot, keys)).hits if keys else ()
    hits = dict(zip(keys, stored, strict=True))
    return tuple(
        GoldPiece(document, span, hits.get(key), key in chunks_by_document[document][1])
        for document, span, key in places
    )


def _nearest_chunk(question: str, target: Target, document: str, ids: Sequence[str]) -> Flow[str]:
    if len(ids) < 2:
        return ids[0] if ids else ""
    request = Search(
        target.snapshot, "keyword", 1, text=question, filters=(Filter("document_id", (document,)),)
    )
    reply = yield from send(request, SearchReply)
    return reply.candidates[0][0] if reply.candidates else ids[0]


RIGHT_SHARE = 0.5
"""Least share of a longer gold answer's facts in a right answer."""

RIGHT_ANSWER = (
    f"an answer is right if it holds a gold answer of up to {SHORT_WORDS} words word for word, or "
    "half of the content words and numbers of a longer one"
)
"""The rule of :func:`is_right` for readers."""

RIGHT_RULE = f"{RIGHT_ANSWER}; an abstention is wrong"
"""The same where every question should be answered."""


def facts_of(text: str, language: str = "en") -> frozenset[str]:
    """Return the facts of a text: its content words and numbers, as stems."""
    return frozenset(content_words(text, language))


def facts_kept(reference: str, response: str, language: str = "en") -> float | None:
    """Return the share of a gold answer's facts in an answer, 0 to 1; None without facts."""
    facts = facts_of(reference, language)
    return len(facts & facts_of(response, language)) / len(facts) if facts else None


def is_right(row: Row, response: str, language: str = "en") -> bool | None:
    """True if an answer is right by the gold answers; None for a row without one.

    A gold answer of up to 5 words must occur in it in sequence (as in ``Contains``); of a longer
    one, at least half of the content words and numbers must occur. If several gold answers are
    accepted, one is enough.
    """
    row_language = row.metadata.get("language")
    language = row_language if isinstance(row_language, str) and row_language else language
    response_words = answer_words(response, language)
    verdicts = []
    for reference in references_of(row):
        reference_words = answer_words(reference, language)
        if len(reference_words) <= SHORT_WORDS:
            verdicts.append(stands_in(reference_words, response_words))
        else:
            verdicts.append((facts_kept(reference, response, language) or 0.0) >= RIGHT_SHARE)
    return any(verdicts) if verdicts else None
