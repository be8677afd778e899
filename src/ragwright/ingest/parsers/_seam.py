"""The interface of parsers: a file in, Markdown out, page by page where there are pages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

MEDIA_TYPES = {
    "pdf": "application/pdf",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "sheet": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "odt": "application/vnd.oasis.opendocument.text",
    "epub": "application/epub+zip",
    "html": "text/html",
    "eml": "message/rfc822",
    "doc": "application/msword",
    "ppt": "application/vnd.ms-powerpoint",
    "rtf": "application/rtf",
    "msg": "application/vnd.ms-outlook",
}
"""Kinds of files that a parser may read, with their media types."""


class Parser(ABC):
    """Turns a file into Markdown; runs in a worker process within the limits of the source.

    Attributes:
        name: As settings write it.
        package: The distribution whose version is part of the key of the reading settings, so that
            another version reads files again; empty for none.
        module: Module that must be installed.
        install: Argument of ``pip install`` that brings it.
        kinds: Kinds of files that it reads (keys of ``MEDIA_TYPES``); others
            are read by ragwright.
        room: Address space that it takes beside ``max_memory``, in bytes.
    """

    name: str = ""
    package: str = ""
    module: str = ""
    install: str = ""
    kinds: frozenset[str] = frozenset({"pdf"})
    room: int = 2_000_000_000

    @abstractmethod
    def parse(self, data: bytes, name: str, kind: str) -> Sequence[str]:
        """Return Markdown: a text per page, or a single text if the pages are not known.

        Args:
            data: The whole file.
            name: Its id, for formats that a parser tells by the suffix.
            kind: One of ``kinds``.

        Raises:
            Exception: Of any kind; the file fails with it, and the others are read.
        """
