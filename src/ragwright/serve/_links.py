"""Citations of a served answer as links and as JSON."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import urlencode

from ..answer import CitedSpan, Link, find_quoted_text
from ..core import Answer, Citation, Hit, make_plain, text_hash
from ..index import Store
from ..report import snippet_json
from ..workbench import Workbench

SpanTexts: TypeAlias = Mapping[tuple[str, int, int], str]
"""Document, first and last character -> the text there."""

_STAMP = 12
"""Digits of the hash by which a link knows whether the passage is still there."""


def source_url(base: str, document_id: str, start: int, end: int, quote: str) -> str:
    """The address of a span: it opens the document and marks the passage while it is there."""
    query = {"id": document_id, "start": start, "end": end, "v": text_hash(quote)[:_STAMP]}
    return f"{base}/source?{urlencode(query)}#passage"


def make_link(base: str, texts: SpanTexts) -> Link:
    """Return how a server at this address links the citations of an answer.

    Args:
        base: The address.
        texts: As :func:`texts_of_spans`, of its passages.
    """

    def link(cited: Citation, quote: str) -> str:
        span = (cited.document_id, cited.start, cited.end)
        return source_url(base, *span, texts.get(span, quote))

    return link


async def texts_of_spans(bench: Workbench, hits: Iterable[Hit]) -> SpanTexts:
    """What the documents say where the text of a passage is another: rows of a table, excerpts.

    A link is stamped with it, because the page of a source compares the stamp with the document.
    """
    others = [hit for hit in hits if len(hit.text) != hit.end - hit.start]
    return await asyncio.to_thread(_read_spans, bench.project.store, others) if others else {}


def _read_spans(store: Store, hits: Iterable[Hit]) -> SpanTexts:
    texts = {}
    for hit in hits:
        document = store.document(hit.document_id)
        if document is not None:
            span = (hit.document_id, hit.start, hit.end)
            texts[span] = document.text[hit.start : hit.end]
    return texts


def move_url(url: str, base: str) -> str:
    """The link of a citation on the server at another address, or on this one (``""``)."""
    return base + url[url.rindex("/source?") :]


def is_same_text(stamp: str, text: str) -> bool:
    """True where a link with this stamp was made for this text."""
    return text_hash(text)[:_STAMP] == stamp


def citation_json(span: CitedSpan) -> dict[str, Any]:
    """A cited span for programs."""
    cited = span.citation
    return {
        "number": span.number,
        "url": span.url,
        "title": cited.title,
        "source": cited.source,
        "document_id": cited.document_id,
        "chunk_id": cited.chunk_id,
        "page": cited.page,
        "start": cited.start,
        "end": cited.end,
        "ocr": cited.ocr,
        "quote": span.quote,
    }


def link_lines(spans: Sequence[CitedSpan]) -> str:
    """A list of sources as Markdown links, one a line; empty without any."""
    lines = [
        f"[{span.number}]: [{_link_text(span.citation.title or span.citation.source)}]({span.url})"
        for span in spans
    ]
    return "\n\n" + "  \n".join(lines) if lines else ""


def _link_text(title: str) -> str:
    """A title that cannot end its link."""
    return re.sub(r"[\[\]()<>\s]+", " ", title).strip()


def snippets_json(answer: Answer, link: Link) -> list[dict[str, Any]]:
    """The snippets of an answer without a chat model, each with its number and link."""
    return [
        {
            "number": cited.marker,
            "url": link(cited, find_quoted_text(answer.hits, cited)),
            **snippet_json(snippet),
        }
        for snippet, cited in zip(answer.snippets, answer.citations, strict=False)
    ]


def promise_json(answer: Answer) -> dict[str, Any]:
    """What a certified risk says about an answer, below ``promise``; empty without one."""
    return {} if answer.promise is None else {"promise": make_plain(answer.promise)}
