"""Citations of a served answer as links and as JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from ..answer import CitedSpan, Link, quoted_text
from ..core import Answer, Citation, plain, text_hash

_STAMP = 12
"""Digits of the hash by which a link knows whether the passage is still there."""


def source_url(base: str, document_id: str, start: int, end: int, quote: str) -> str:
    """The address of a span: it opens the document and marks the passage while it is there."""
    query = {"id": document_id, "start": start, "end": end, "v": text_hash(quote)[:_STAMP]}
    return f"{base}/source?{urlencode(query)}#passage"


def linked(base: str) -> Link:
    """Return how a server at this address links the citations of an answer."""

    def link(cited: Citation, quote: str) -> str:
        return source_url(base, cited.document_id, cited.start, cited.end, quote)

    return link


def same_text(stamp: str, text: str) -> bool:
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


def closest_spans(answer: Answer, link: Link) -> list[CitedSpan]:
    """The passages that an abstention did not quote, best first, each with its link."""
    spans = []
    for number, near in enumerate(answer.closest, 1):
        cited = near.citation
        quote = quoted_text(answer.hits, cited)
        spans.append(CitedSpan(number, link(cited, quote), cited, quote))
    return spans


def promise_json(answer: Answer) -> dict[str, Any]:
    """What a certified risk says about an answer, below ``promise``; empty without one."""
    return {} if answer.promise is None else {"promise": plain(answer.promise)}
