"""Lines as documents: collections of BEIR."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

from ..core import (
    Document,
    DuplicateIdError,
    EmptySourceError,
    MalformedSourceError,
    RagwrightError,
    UnsupportedSourceError,
)
from ._normalise import clean_metadata, guess_language, normalise
from ._seams import Failure, Reader, SourceFile

_SAMPLE = 50
"""Number of documents from which the language of a collection is detected."""


class BeirReader(Reader):
    """Reads ``beir:DIR``: lines ``{"_id", "title", "text", "metadata"}`` of ``corpus.jsonl``.

    A document's id is its ``_id``; a text that is empty is replaced by the title. A line that is
    not a document, or repeats an id, is a failure that names it, and reading continues. Memory is
    constant except for the ids. The language is detected once for the collection, unless metadata
    names it.

    Args:
        base: Folder that relative paths start from.
    """

    name = "beir"

    def __init__(self, base: Path | None = None) -> None:
        self.base = base or Path()

    def accepts(self, source: str) -> bool:
        """True for ``beir:``."""
        return source.lower().startswith("beir:")

    def files(self, source: str) -> Iterator[Path | Failure]:
        """Return the corpus file of the folder."""
        folder = self.base / Path(source.partition(":")[2]).expanduser()
        path = folder / "corpus.jsonl"
        if path.is_file():
            yield path
            return
        error = UnsupportedSourceError(
            "the folder contains no corpus.jsonl",
            where=str(folder),
            hint="give the folder to which a BEIR data set was unpacked",
        )
        yield Failure(source, error)

    def read_file(self, path: SourceFile) -> Iterator[Document | Failure]:
        """Read the documents of a corpus file, in its order."""
        assert isinstance(path, Path)
        items = _read_lines(path, f"beir:{path.parent}")
        first = list(islice(items, _SAMPLE))
        if not first:
            error = EmptySourceError(
                "the corpus contains no document",
                where=str(path),
                hint="write one object per line, or download the data set again",
            )
            yield Failure(f"beir:{path.parent}", error)
        texts = (item.text[:400] for item in first if isinstance(item, Document))
        language = guess_language("\n".join(texts))
        for item in chain(first, items):
            if isinstance(item, Document):
                stated = item.metadata.get("language")
                yield replace(item, language=str(stated or language))
            else:
                yield item


def _read_lines(path: Path, source: str) -> Iterator[Document | Failure]:
    """Yield the document of each line, or its failure."""
    lines: dict[str, int] = {}
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                document = _document(line, f"{path}:{number}") if line.strip() else None
                if document and lines.setdefault(document.id, number) != number:
                    raise DuplicateIdError(
                        f"the id {document.id!r} is on line {lines[document.id]} and again on "
                        f"line {number}",
                        where=f"{path}:{number}",
                        hint="make the ids unique; the first document was kept",
                    )
            except RagwrightError as error:
                yield Failure(source, error)
            else:
                yield from [document] if document else []


def _document(line: bytes, where: str) -> Document:
    """Read a line.

    Raises:
        MalformedSourceError: It is not a JSON object with an id and texts.
        EmptySourceError: Neither title nor text.
    """
    try:
        record = json.loads(line.decode("utf-8-sig"))
        values = (record["_id"], *(record.get(name) for name in ("title", "text", "metadata")))
        expected = (str | int, str | None, str | None, dict | None)
        named = not isinstance(values[0], bool) and str(values[0]).strip()
        if not named or not all(map(isinstance, values, expected)):
            raise TypeError("_id, title and text must be strings, metadata an object")
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        raise MalformedSourceError(
            f"the line is not a document: {type(error).__name__}: {error}",
            where=where,
            hint='write one object per line, in UTF-8: {"_id": "1", "title": "…", "text": "…"}',
        ) from error
    title = " ".join(normalise(values[1] or "").split())
    text = normalise(values[2] or "")
    if not title and not text.strip():
        raise EmptySourceError(f"document {values[0]!r} has neither title nor text", where=where)
    return Document(
        id=str(values[0]),
        source=where,
        text=text if text.strip() else title,
        title=title,
        metadata=clean_metadata(values[3] or {}),
    )
