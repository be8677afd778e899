"""The interfaces of the ingest room: readers make documents, chunkers cut them."""

from __future__ import annotations

import textwrap
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np

from ..core import Chunk, ChunkError, Document, RagwrightError, SourceError, Span, StoppedError

T = TypeVar("T")


def check_spans(document: Document, spans: Sequence[Span]) -> None:
    """Check a chunker's spans.

    Spans are sorted by start, none is empty, no two are equal, and together they cover the
    text without a gap. It follows that joining them (overlaps once) gives the text back
    exactly. Linear in the number of spans.

    Raises:
        ChunkError: Names the first span that breaks the contract.
    """
    covered = 0
    last = Span(0, 0)
    for number, span in enumerate(spans):
        faults = {
            "is empty": span.end <= span.start or span.start < 0,
            "does not follow the span before it": (span.start, span.end) <= (last.start, last.end),
            f"leaves the characters {covered}-{span.start} out": span.start > covered,
        }
        if fault := next((text for text, true in faults.items() if true), ""):
            raise ChunkError(
                f"span {number} ({span.start}-{span.end}) {fault}",
                where=document.id,
                hint="a chunker returns sorted spans that cover the text, none empty",
            )
        covered, last = max(covered, span.end), span
    if covered != len(document.text):
        raise ChunkError(
            f"the spans end at {covered}, the text at {len(document.text)}", where=document.id
        )


def find_first_character(text: str, start: int) -> int:
    """Find a piece's first character that is not white space; a position in the document."""
    return start + len(text) - len(text.lstrip()) if text.strip() else start


def make_chunks(
    document: Document, spans: Sequence[Span], tokens: Iterable[int]
) -> tuple[Chunk, ...]:
    """Make chunks with their pages and the headings of their first character.

    A chunk that opens with headings alone takes those of the last of them: of
    ``# Pump`` and then ``## Seal``, both.

    Args:
        document: Document that was cut.
        spans: Its pieces; checked here.
        tokens: Length of each piece in tokens, 0 if not counted.

    Raises:
        ChunkError: The spans break the contract.
    """
    check_spans(document, spans)
    pages = [page for page in document.pages if page.span.length]
    starts = [page.span.start for page in pages]
    sections = sorted(document.sections, key=lambda s: s.span.start)
    begins = [section.span.start for section in sections]
    firsts, ends = np.array(begins, int), np.array([s.span.end for s in sections], int)
    chunks: list[Chunk] = []
    for span, count in zip(spans, tokens, strict=True):
        text = document.text[span.start : span.end]
        anchor = find_first_character(text, span.start)
        place = _below_headings(document.text, begins, anchor, span.end)
        at = bisect_right(starts, anchor)
        further = pages[at : bisect_left(starts, span.end)]
        chunks.append(
            Chunk(
                id=f"{document.id}:{span.start}-{span.end}",
                document_id=document.id,
                ordinal=len(chunks),
                span=span,
                text=text,
                page=pages[at - 1].number if at and anchor < pages[at - 1].span.end else None,
                headings=tuple(
                    sections[n].title for n in np.flatnonzero((firsts <= place) & (place < ends))
                ),
                tokens=count,
                pages=tuple((page.span.start, page.number) for page in further),
            )
        )
    return tuple(chunks)


def _below_headings(text: str, starts: Sequence[int], position: int, end: int) -> int:
    """Find the last of the headings that directly follow each other from a position on."""
    at = bisect_right(starts, position) - 1
    if at < 0 or starts[at] != position:
        return position
    while at + 1 < len(starts) and starts[at + 1] < end:
        if "\n" in text[starts[at] : starts[at + 1]].strip():
            break
        at += 1
    return starts[at]


@dataclass(frozen=True, slots=True)
class Failure:
    """A source, or a part of one, that could not be read, and why.

    ``skipped`` marks what is left out on purpose, such as a link that leads out of the source:
    it is reported, but does not count as a failure. ``warning`` marks damage in a document
    that was read all the same.
    """

    source: str
    error: RagwrightError
    skipped: bool = False
    warning: bool = False


_NAMED = 5
"""Files that are named where many share a cause."""


def failure_lines(failures: Iterable[Failure]) -> list[str]:
    """Return what could not be read, as lines of text; many files with one cause are one entry."""
    causes: dict[tuple[str, str, str], list[Failure]] = {}
    for failure in failures:
        word = "warning" if failure.warning else "skipped" if failure.skipped else "failed"
        cause = (word, failure.error.what, failure.error.hint or "")
        causes.setdefault(cause, []).append(failure)
    lines = []
    for (word, what, hint), alike in causes.items():
        if len(alike) == 1:
            text = textwrap.indent(str(alike[0].error), "  ")
            lines.append(f"{word}: {alike[0].source}\n{text}")
            continue
        more = f" and {len(alike) - _NAMED} more" if len(alike) > _NAMED else ""
        named = ", ".join(failure.source for failure in alike[:_NAMED])
        lines.append(f"{word}: {len(alike)} files: {what}\n  where: {named}{more}")
        lines += [f"  do: {hint}"] * bool(hint)
    return lines


FetchBytes = Callable[[str], "Fetched"]
"""Fetches an address; the workbench passes one that uses the runner."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A fetched page: the last address after redirects, its type, its bytes."""

    url: str
    content_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file that is not local.

    It is known by its id, and by a version that changes with its content.

    An empty version says nothing: the file is read at every ingest. ``source`` is the address that
    the file was listed for, ``name`` its own in there.
    """

    id: str
    version: str
    size: int = 0
    source: str = ""
    name: str = ""

    def __str__(self) -> str:
        """Return the id, as a path does."""
        return self.id


SourceFile: TypeAlias = Path | RemoteFile
"""One file that a source is made of."""


class Reader(ABC):
    """Turns a source into documents.

    ``read`` is lazy and keeps going: a part that cannot be read is yielded as a Failure, so
    that one bad file never loses the others. What it raises is a failure of the whole source.
    A reader overrides it, or :meth:`files` and :meth:`read_file`.
    """

    name: str = ""

    @abstractmethod
    def accepts(self, source: str) -> bool:
        """Return True if this reader reads a source, decided by its address alone."""

    def read(self, source: str, fetch: FetchBytes) -> Iterator[Document | Failure]:
        """Read the documents of a source, one in memory at a time.

        Args:
            source: Path or address as the user gave it.
            fetch: The only way to the network.
        """
        for path in self.files(source) or ():
            if isinstance(path, Failure):
                yield path
            else:
                yield from self.read_file(path)

    def files(self, source: str) -> Iterator[SourceFile | Failure] | None:
        """List the files of a source, so that unchanged ones need not be read.

        None if there are none; else reading each with :meth:`read_file`, in this order, gives the
        same as :meth:`read`.
        """
        return None

    def read_file(self, path: SourceFile) -> Iterator[Document | Failure]:
        """Read the documents of one of the :meth:`files`."""
        raise NotImplementedError(f"{type(self).__name__} reads no single files")


def catch_failures(
    items: Iterator[T | Failure], source: str, reader: Reader
) -> Iterator[T | Failure]:
    """Read a reader's documents; an error becomes a failure, so other sources are still read."""
    try:
        yield from items
    except StoppedError:
        raise
    except Exception as error:  # a custom reader must not affect the other sources
        yield Failure(source, reader_error(reader, source, error))


def reader_error(reader: Reader, source: str, error: Exception) -> RagwrightError:
    """Return an error of a reader as one that names it; one of ours stays as it is."""
    if isinstance(error, RagwrightError):
        return error
    return SourceError(
        f"the reader {reader.name or type(reader).__name__!r} failed: "
        f"{type(error).__name__}: {error}",
        where=source,
        hint="this is a fault of the reader; the other sources were read",
    )


class SuffixReader(Reader):
    """Reads the files of a suffix wherever they are: alone, or in folders with other files.

    Attributes:
        suffixes: In lower case, with the dot: ``.log``.
    """

    suffixes: tuple[str, ...] = ()

    def accepts(self, source: str) -> bool:
        """False: the reader of files gives it every file with one of the suffixes."""
        return False

    def read(self, source: str, fetch: FetchBytes) -> Iterator[Document | Failure]:
        """Documents of the file at a path."""
        return self.read_file(Path(source))

    @abstractmethod
    def read_file(self, path: SourceFile) -> Iterator[Document | Failure]:
        """Documents of one file.

        Where an id or a source begins with the path, the project puts its own id of the file there.
        """


class Chunker(ABC):
    """Cuts a document into chunks; the base class checks the spans.

    ``spec`` is the canonical text of the settings; equal specs cut equally.
    """

    spec: str

    @abstractmethod
    def cut(self, document: Document) -> list[Span]:
        """Cut a document into spans, in order of their start, that cover the text; none empty.

        Spans may overlap; leading and trailing white space belongs to a span, so that joining
        them (overlaps once) gives the text back exactly.
        """

    def count(self, text: str) -> int:
        """Count the tokens of a piece by the chunker's own counter; 0 if it has none."""
        return 0

    def chunks(self, document: Document) -> tuple[Chunk, ...]:
        """Cut a document into chunks with page, headings and token count.

        Raises:
            ChunkError: The spans break the contract of :meth:`cut`.
        """
        spans = self.cut(document)
        counts = [self.count(document.text[s.start : s.end]) for s in spans]
        return make_chunks(document, spans, counts)
