"""Collections in BEIR's layout: one document per line of ``corpus.jsonl``."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

from ..core import (
    Document,
    DuplicateIdError,
    EmptySourceError,
    MalformedSourceError,
    UnsupportedSourceError,
)
from ._normalise import clean_metadata, guess_language, normalise
from ._seams import Failure, Reader, SourceFile

_SAMPLE = 50
"""Number of documents from which the language of a collection is detected."""


class BeirReader(Reader):
    """Reads ``beir:DIR``: lines ``{"_id", "title", "text", "metadata"}`` of ``corpus.jsonl``.

    ``corpus.jsonl.gz`` is read where the plain file is absent. A document's id is its
    ``_id``; a text that is empty is replaced by the title. A line that is not a document, or
    repeats an id, is a failure that names it, and reading continues. Memory is constant except for
    the ids. The language is detected once for the collection, unless metadata names it.

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
        path = next(
            (p for p in (folder / "corpus.jsonl", folder / "corpus.jsonl.gz") if p.is_file()), None
        )
        if path is not None:
            yield path
            return
        error = UnsupportedSourceError(
            "the folder contains no corpus.jsonl or corpus.jsonl.gz",
            where=str(folder),
            hint="give the folder to which a BEIR data set was unpacked",
        )
        yield Failure(source, error)

    def read_file(self, path: SourceFile) -> Iterator[Document | Failure]:
        """Read the documents of a corpus file, in its order."""
        assert isinstance(path, Path)
        source = f"beir:{path.parent}"
        records = self._records(path, source)
        first = list(islice(records, _SAMPLE))
        if not first:
            error = EmptySourceError(
                "the corpus contains no document",
                where=str(path),
                hint="write write one object per line, or download the data set again",
            )
            yield Failure(source, error)
        texts = (r[1]["text"][:400] for r in first if not isinstance(r, Failure))
        language = guess_language("\n".join(texts))
        lines: dict[str, int] = {}
        for record in chain(first, records):
            if isinstance(record, Failure):
                yield record
                continue
            number, fields = record
            earlier = lines.setdefault(fields["id"], number)
            if earlier != number:
                yield Failure(
                    source,
                    DuplicateIdError(
                        f"the id {fields['id']!r} is on line {earlier} and again on line {number}",
                        where=f"{path}:{number}",
                        hint="make the ids unique; the first document was kept",
                    ),
                )
            else:
                yield _document(fields, f"{path}:{number}", language)

    def _records(self, path: Path, source: str) -> Iterator[tuple[int, dict[str, Any]] | Failure]:
        """Yield (line number, checked fields) for each line, or its failure."""
        number = 0
        try:
            with _opened(path) as file:
                for number, line in enumerate(file, 1):
                    if line.strip():
                        where = f"{path}:{number}"
                        try:
                            yield number, _fields(line, where)
                        except (MalformedSourceError, EmptySourceError) as error:
                            yield Failure(source, error)
        except (OSError, EOFError, zlib.error) as error:
            yield Failure(
                source,
                MalformedSourceError(
                    f"the rest of the file cannot be read: {error}",
                    where=f"{path}:{number + 1}",
                    hint="unpack or download it again; the documents before were kept",
                ),
            )


def _opened(path: Path) -> BinaryIO | gzip.GzipFile:
    if path.suffix == ".gz":
        return gzip.open(path, "rb")
    return path.open("rb")


def _fields(line: bytes, where: str) -> dict[str, Any]:
    """Check a line and return its fields: id, title, text, metadata.

    Raises:
        MalformedSourceError: The line is not a JSON object with an id and texts.
        EmptySourceError: Neither title nor text.
    """
    try:
        record = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise MalformedSourceError(
            f"the line is not JSON: {error}",
            where=where,
            hint="write one object per line, in UTF-8",
        ) from error
    if not isinstance(record, dict):
        raise MalformedSourceError("the line is not a JSON object", where=where)
    identity = record.get("_id")
    if isinstance(identity, int) and not isinstance(identity, bool):
        identity = str(identity)
    if not isinstance(identity, str) or not identity.strip():
        raise MalformedSourceError("the line has no _id", where=where, hint="ids are strings")
    title, text = record.get("title") or "", record.get("text") or ""
    metadata = record.get("metadata") or {}
    if not isinstance(title, str) or not isinstance(text, str) or not isinstance(metadata, dict):
        raise MalformedSourceError(
            f"document {identity!r}: title and text must be strings, metadata an object",
            where=where,
        )
    title = " ".join(normalise(title).split())
    text = normalise(text)
    if not text.strip():
        text = title
    if not text:
        raise EmptySourceError(f"document {identity!r} has neither title nor text", where=where)
    return {"id": identity, "title": title, "text": text, "metadata": clean_metadata(metadata)}


def _document(fields: dict[str, Any], where: str, language: str) -> Document:
    metadata = fields["metadata"]
    return Document(
        id=fields["id"],
        source=where,
        text=fields["text"],
        title=fields["title"],
        language=str(metadata.get("language") or language),
        metadata=metadata,
    )
