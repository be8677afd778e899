"""Gold in the index: the chunks that hold it."""

from __future__ import annotations

from collections.abc import Sequence

from ..answer import corpus_ids
from ..core import Filter, FilterError, Row, Span
from ..flow import Flow
from ..retrieve import Target


def graded_documents(row: Row) -> dict[str, None]:
    """Ids of the documents that answer a row: those with a grade above 0, in the row's order."""
    return {name: None for name, grade in row.reference_ids.items() if grade > 0}


def covers(passage: Span, span: Span) -> bool:
    """True if a passage holds at least half of a gold span, as in the measures."""
    return 2 * passage.overlap(span) >= span.length


def chunk_span(chunk_id: str, document_id: str) -> Span:
    """The characters of a chunk in its document, from its id."""
    start, _, end = chunk_id.removeprefix(f"{document_id}:").partition("-")
    return Span(int(start), int(end))


def chunks_of(target: Target, document_id: str, filters: Sequence[Filter] = ()) -> Flow[list[str]]:
    """Ids of a document's chunks that meet the filters; none if the index does not have it."""
    try:
        only = Filter("document_id", (document_id,))
        ids, _ = yield from corpus_ids(target, (only, *filters))
    except FilterError:  # a value that none of its chunks has, or an unknown document
        return []
    return ids


def gold_chunks(row: Row, target: Target) -> Flow[frozenset[str]]:
    """Ids of the chunks that answer a row's question; empty if the index has none.

    With spans these are the chunks that hold at least half of one, else all chunks of the gold
    documents.
    """
    spans = [(one.document_id, Span(one.start, one.end)) for one in row.reference_spans]
    documents = dict.fromkeys(name for name, _ in spans) or graded_documents(row)
    found: set[str] = set()
    for document in documents:
        chunks = yield from chunks_of(target, document)
        if spans:
            wanted = [span for name, span in spans if name == document]
            places = {key: chunk_span(key, document) for key in chunks}
            chunks = [key for key in chunks if any(covers(places[key], one) for one in wanted)]
        found.update(chunks)
    return frozenset(found)
