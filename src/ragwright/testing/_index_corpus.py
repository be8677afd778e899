"""A corpus for suites and tests: documents of random words, their chunks and vectors."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np

from ..core import Chunk, Document, Page, Section, Span
from ..index import IndexedDocument, IndexSpec, chunk_key
from ..models import Analyzer

_DIMENSIONS = 24
_VOCABULARY = (
    "engine torque APP_w304 brake café naïve straße 漢字 valve pump filter oil pressure sensor "
    "cable fuse relay battery charge voltage current lamp mirror door window seat belt airbag "
    "the of and running runs C2065 LNK2019 x-ray 3.5mm Übertragung 🙂 gear clutch"
)
WORDS = _VOCABULARY.split()
"""Words that documents are made of."""

PAIR = IndexSpec("windows/1 {}", Analyzer().spec, "suite-embedder", _DIMENSIONS)
"""The pair that most tests write under."""

PLAIN = replace(PAIR, chunker="windows/2 {}", embedder="", dimensions=0)
"""A pair without vectors."""


def make_document(number: int, *, words: int = 60, seed: int = 7, **changes: Any) -> Document:
    """A document of random words, the same on every call."""
    rng = random.Random(f"{seed} {number}")  # noqa: S311
    text = " ".join(rng.choice(WORDS) for _ in range(words))
    document = Document(
        id=f"doc/{number:04d}",
        source=f"memory:{number}",
        text=text,
        title=f"Manual {WORDS[number % len(WORDS)]}",
        language=("en", "de", "fr")[number % 3],
        created=f"20{number % 30:02d}-05-0{number % 9 + 1}",
        pages=(Page(1, Span(0, len(text) // 2)), Page(2, Span(len(text) // 2, len(text)))),
        sections=(Section(f"Part {number % 4}", 1, Span(0, len(text))),),
        metadata={
            "client": f"client {number % 5}",
            "year": 2000 + number % 30,
            "score": number / 4,
            "public": number % 2 == 0,
            "topics": tuple(sorted({f"t{number % 3}", f"t{number % 7}"})),
        },
    )
    return replace(document, **changes)


def make_indexed(document: Document, pair: IndexSpec = PAIR, size: int = 120) -> IndexedDocument:
    """The document cut into pieces of ``size`` characters, with a vector for each."""
    chunks = []
    for ordinal, start in enumerate(range(0, len(document.text), size)):
        span = Span(start, min(start + size, len(document.text)))
        chunks.append(
            Chunk(
                id=f"{document.id}:{span.start}-{span.end}",
                document_id=document.id,
                ordinal=ordinal,
                span=span,
                text=document.text[span.start : span.end],
                page=document.page_at(start),
                pages=tuple(
                    (page.span.start, page.number)
                    for page in document.pages
                    if span.start < page.span.start < span.end
                ),
                headings=document.headings_at(start),
                metadata={"half": "first"} if start == 0 else {},
            )
        )
    if not pair.dimensions:
        return IndexedDocument(document, tuple(chunks))
    vectors = [make_vector(chunk_key(chunk, document.title), pair.dimensions) for chunk in chunks]
    matrix = np.stack(vectors) if vectors else np.empty((0, pair.dimensions), np.float32)
    return IndexedDocument(document, tuple(chunks), matrix)


def make_vector(name: str, dimensions: int = _DIMENSIONS) -> np.ndarray[Any, np.dtype[np.float32]]:
    """A normalised random vector, the same for the same name."""
    rng = np.random.default_rng(list(name.encode("utf-8", "surrogatepass")))
    vector = rng.standard_normal(dimensions)
    return np.asarray(vector / np.linalg.norm(vector), np.float32)
