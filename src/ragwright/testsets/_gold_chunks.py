"""Gold in the index: the chunks that hold it."""

from __future__ import annotations

from collections.abc import Sequence

from ..answer import corpus_ids
from ..core import Filter, FilterError, Row, Span
from ..flow import Flow
from ..retrieve import Target


def find_graded_documents(row: Row) -> dict[str, None]:
    """Return the ids of the documents that answer a row: those with a grade above 0, in order."""
    return {name: None for name, grade in row.reference_ids.items() if grade > 0}


def covers(passage: Span, span: Span) -> bool:
    """True if a passage holds at least half of a gold span, as in the measures."""
    return 2 * passage.overlap(span) >= span.length


def chunk_span(chunk_id: str, document_id: str) -> Span:
    """Return the characters of a chunk in its document, from its id."""
    start, _, end = chunk_id.removeprefix(f"{document_id}:").partition("-")
    return Span(int(start), int(end))


def chunks_of(target: Target, document_id: str, filters: Sequence[Filter] = ()) -> Flow[list[str]]:
    """Return the ids of a document's chunks that meet the filters; none if it is not indexed."""
    try:
        document = Filter("document_id", (document_id,))
        ids, _ = yield from corpus_ids(target, (document, *filters))
    except FilterError:  # a value that none of its chunks has, or an unknown document
        return []
    return ids


def find_best_chunk(ids: Sequence[str], document_id: str, span: Span) -> str:
    """Return the chunk with the largest part of a span, empty if none holds half of it."""
    overlaps = {key: chunk_span(key, document_id).overlap(span) for key in ids}
    best = max(overlaps, key=lambda key: overlaps[key], default="")
    return best if best and 2 * overlaps[best] >= span.length else ""


def gold_chunks(row: Row, target: Target) -> Flow[frozenset[str]]:
    """Return the ids of the chunks that answer a row's question; empty if the index has none.

    With spans these are the chunks that hold at least half of one, else all chunks of the gold
    documents.
    """
    spans = [(span.document_id, Span(span.start, span.end)) for span in row.reference_spans]
    documents = dict.fromkeys(name for name, _ in spans) or find_graded_documents(row)
    ids: set[str] = set()
    for document in documents:
        chunks = yield from chunks_of(target, document)
        if spans:
            document_spans = [span for name, span in spans if name == document]
            places = {key: chunk_span(key, document) for key in chunks}
            chunks = [
                key for key in chunks if any(covers(places[key], span) for span in document_spans)
            ]
        ids.update(chunks)
    return frozenset(ids)
