"""Text files as blocks of whole lines in UTF-8, whatever their encoding is."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path

from ...core import RecordsError

BLOCK = 1 << 23
"""Bytes of a block of lines; a longer line is a block of its own."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte-order marks of encodings; UTF-32's begins as UTF-16's does."""


PLAIN = frozenset({"utf-8", "utf-8-sig", "ascii"})
"""Encodings that are UTF-8 but for a mark at the beginning."""


def encoding_of(path: Path, named: str) -> str:
    """Return a file's encoding as Python names it: its byte order mark's, the named one, or UTF-8.

    Raises:
        RecordsError: The file cannot be read, or there is no such encoding.
    """
    try:
        codecs.lookup(named or "utf-8")
    except LookupError as error:
        raise RecordsError(
            f"unknown encoding {named!r}",
            where=str(path),
            hint="for example utf-8, latin-1, cp1252, utf-16",
        ) from error
    try:
        with path.open("rb") as file:
            start = file.read(4)
    except OSError as error:
        raise unreadable(path, error) from error
    codec = codecs.lookup(named or "utf-8").name
    for mark, name in _MARKS:
        # Two bytes prove little against an encoding of single bytes that somebody named.
        if start.startswith(mark) and (codec.startswith("utf") or name == "utf-8-sig"):
            return name
    return codec


def unreadable(path: Path, error: OSError) -> RecordsError:
    """Return the error for a file that the system does not let us read."""
    return RecordsError(
        f"the file cannot be read: {error.strerror or type(error).__name__}", where=str(path)
    )


def utf8_chunks(path: Path, encoding: str) -> Iterator[bytes]:
    """Yield a file as chunks of UTF-8, without a byte order mark; not yet validated.

    Raises:
        RecordsError: The file cannot be read, or is not of its encoding.
    """
    plain = encoding in PLAIN
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        with path.open("rb") as file:
            if encoding == "utf-8-sig":
                file.seek(len(codecs.BOM_UTF8))
            while chunk := file.read(BLOCK):
                yield chunk if plain else decoder.decode(chunk).encode("utf-8")
            if not plain:
                yield decoder.decode(b"", final=True).encode("utf-8")
    except OSError as error:
        raise unreadable(path, error) from error
    except UnicodeError as error:
        raise RecordsError(
            f"the file is not encoded as {encoding}: {error}",
            where=str(path),
            hint="give its encoding under encoding: in source.yaml",
        ) from error


def line_blocks(path: Path, encoding: str) -> Iterator[tuple[bytes, int]]:
    """Yield blocks of whole lines in valid UTF-8, and the number of their first line, from 1.

    Raises:
        RecordsError: As :func:`utf8_chunks`, or a line is not valid UTF-8; it is named.
    """
    waiting: list[bytes] = []
    line = 1
    for chunk in utf8_chunks(path, encoding):
        cut = chunk.rfind(b"\n") + 1
        if not cut:
            waiting.append(chunk)
            continue
        block = b"".join((*waiting, chunk[:cut]))
        waiting = [chunk[cut:]]
        check_utf8(block, path, line)
        yield block, line
        line += block.count(b"\n")
    block = b"".join(waiting)
    if block:
        check_utf8(block, path, line)
        yield block, line


def check_utf8(block: bytes, path: Path, line: int) -> None:
    """Refuse bytes that are not UTF-8.

    Raises:
        RecordsError: With the line of the first such byte.
    """
    try:
        block.decode("utf-8")
    except UnicodeDecodeError as error:
        at = line + block.count(b"\n", 0, error.start)
        raise RecordsError(
            f"the byte 0x{block[error.start]:02x} is not UTF-8",
            where=f"{path}:{at}",
            hint="give the file's encoding (latin-1, cp1252, …) under encoding: in source.yaml",
        ) from error
