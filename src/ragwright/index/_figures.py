"""The figures of an index: images by hash, with caption, page, box and place in the text."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..core import StoreError, text_hash

_SCHEMA = """
CREATE TABLE IF NOT EXISTS documents (id TEXT PRIMARY KEY, hash TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS images (hash TEXT PRIMARY KEY, type TEXT NOT NULL, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS figures (
    id TEXT PRIMARY KEY, document TEXT NOT NULL, number INTEGER NOT NULL, image TEXT NOT NULL,
    page INTEGER, box TEXT NOT NULL, caption TEXT NOT NULL, start INTEGER,
    width INTEGER NOT NULL, height INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS figures_document ON figures (document);
PRAGMA user_version = 1;
"""
_COLUMNS = "id, document, page, box, caption, start, width, height"


@dataclass(frozen=True, slots=True)
class Figure:
    """A kept figure.

    Attributes:
        id: Its name in addresses.
        document_id: The document.
        page: Page or slide from 1; None in formats without.
        box: Left, top, right and bottom on the page in points; None where unknown.
        caption: Its caption or alternative text; may be empty.
        start: Where its caption, or the text before it, begins in the document; None if unknown.
        width: Of the image, in pixels.
        height: Of the image, in pixels.
    """

    id: str
    document_id: str
    page: int | None
    box: tuple[float, ...] | None
    caption: str
    start: int | None
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class FigureImage:
    """An image to be kept: its file, media type, and what is known of the figure."""

    data: bytes
    hash: str
    type: str
    figure: Figure


class Figures:
    """The file of figures; made where there are any.

    Args:
        file: The SQLite file.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def hashes(self) -> Mapping[str, str]:
        """Document -> content hash under which its figures were read; empty without a file."""
        if not self._file.is_file():
            return {}
        with self._opened() as connection:
            return dict(connection.execute("SELECT id, hash FROM documents"))

    def put(self, document_id: str, content: str, images: Sequence[FigureImage]) -> None:
        """Replace the figures of a document."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.touch(mode=0o600)
        with self._opened() as connection:
            self._drop(connection, [document_id])
            for number, image in enumerate(images, 1):
                figure = image.figure
                connection.execute(
                    "INSERT OR IGNORE INTO images VALUES (?, ?, ?)",
                    (image.hash, image.type, image.data),
                )
                connection.execute(
                    "INSERT INTO figures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        figure_id(document_id, number, image.hash), document_id, number, image.hash,
                        figure.page, json.dumps(figure.box), figure.caption, figure.start,
                        figure.width, figure.height,
                    ),
                )  # fmt: skip
            connection.execute("INSERT INTO documents VALUES (?, ?)", (document_id, content))

    def remove(self, documents: Sequence[str]) -> None:
        """Remove the figures of documents, and images that no other figure has."""
        if documents and self._file.is_file():
            with self._opened() as connection:
                self._drop(connection, documents)
                left = connection.execute("SELECT count(*) FROM documents").fetchone()[0]
            if not left:
                self._file.unlink()

    def of(self, documents: Sequence[str]) -> list[Figure]:
        """The figures of documents, in the order of each."""
        if not documents or not self._file.is_file():
            return []
        marks = ", ".join("?" * len(documents))
        query = (
            f"SELECT {_COLUMNS} FROM figures WHERE document IN ({marks}) "  # noqa: S608
            "ORDER BY document, number"
        )
        with self._opened() as connection:
            return [_figure(row) for row in connection.execute(query, tuple(documents))]

    def image(self, name: str) -> tuple[Figure, str, bytes] | None:
        """A figure with the media type and the bytes of its image; None if there is none."""
        if not self._file.is_file():
            return None
        columns = ", ".join(f"figures.{column.strip()}" for column in _COLUMNS.split(","))
        query = (
            f"SELECT {columns}, images.type, images.data FROM figures "  # noqa: S608
            "JOIN images ON images.hash = figures.image WHERE figures.id = ?"
        )
        with self._opened() as connection:
            row = connection.execute(query, (name,)).fetchone()
        return None if row is None else (_figure(row[:8]), str(row[8]), bytes(row[9]))

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self._file, timeout=60.0)) as connection:
                connection.execute("PRAGMA secure_delete = ON")
                (version,) = connection.execute("PRAGMA user_version").fetchone()
                if not version:
                    connection.executescript(_SCHEMA)
                with connection:
                    yield connection
        except sqlite3.Error as error:
            raise StoreError(
                f"the figures cannot be read or written: {error}",
                where=str(self._file),
                hint="delete the file and run ragwright ingest, which makes it again",
            ) from error

    @staticmethod
    def _drop(connection: sqlite3.Connection, documents: Sequence[str]) -> None:
        for name in documents:
            connection.execute("DELETE FROM figures WHERE document = ?", (name,))
            connection.execute("DELETE FROM documents WHERE id = ?", (name,))
        connection.execute("DELETE FROM images WHERE hash NOT IN (SELECT image FROM figures)")


def figure_id(document_id: str, number: int, image: str) -> str:
    """The id of a figure: other documents with the same image have another."""
    return text_hash(f"{document_id}\n{number}\n{image}")[:20]


def _figure(row: Sequence[object]) -> Figure:
    name, document, page, box, caption, start, width, height = row
    corners = json.loads(str(box))
    return Figure(
        str(name), str(document), page if isinstance(page, int) else None,
        tuple(corners) if corners else None, str(caption),
        start if isinstance(start, int) else None, int(str(width)), int(str(height)),
    )  # fmt: skip
