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
CREATE TABLE IF NOT EXISTS descriptions (
    document TEXT NOT NULL, image TEXT NOT NULL, model TEXT NOT NULL, text TEXT NOT NULL,
    PRIMARY KEY (document, image, model));
PRAGMA user_version = 2;
"""
_VERSION = 2
_COLUMNS = "id, document, page, box, caption, start, width, height, image"
_READ = (
    ", ".join(f"figures.{name}" for name in _COLUMNS.split(", "))
    + ", descriptions.text, descriptions.model FROM figures LEFT JOIN descriptions "
    "ON descriptions.document = figures.document AND descriptions.image = figures.image "
    "AND descriptions.model = ?"
)
"""Columns of a figure; the first parameter is the model whose description is read."""


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
        image: SHA-256 of its file.
        description: What a model wrote about it; empty if none did.
        described_by: Name of that model.
    """

    id: str
    document_id: str
    page: int | None
    box: tuple[float, ...] | None
    caption: str
    start: int | None
    width: int
    height: int
    image: str
    description: str = ""
    described_by: str = ""

    @property
    def placed(self) -> bool:
        """True if it belongs to passages: its place in the text, or its page, is known."""
        return self.start is not None or self.page is not None


@dataclass(frozen=True, slots=True)
class FigureImage:
    """An image to be kept: its file, media type, and what is known of the figure."""

    data: bytes
    type: str
    figure: Figure


class Figures:
    """The file of figures; made where there are any.

    Args:
        file: The SQLite file.
        model: Model whose descriptions are read; empty for none.
    """

    def __init__(self, file: Path, model: str = "") -> None:
        self._file = file
        self.model = model

    def hashes(self, name: str | None = None) -> Mapping[str, str]:
        """Document -> content hash under which its figures were read; all, or one document."""
        if not self._file.is_file():
            return {}
        query = "SELECT id, hash FROM documents"
        with self._opened() as connection:
            if name is None:
                return dict(connection.execute(query))
            return dict(connection.execute(f"{query} WHERE id = ?", (name,)))

    def put(self, document_id: str, content: str, images: Sequence[FigureImage]) -> None:
        """Replace the figures of a document; descriptions of images that it still has stay."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.touch(mode=0o600)
        with self._opened() as connection:
            described = connection.execute(
                "SELECT * FROM descriptions WHERE document = ?", (document_id,)
            ).fetchall()
            self._drop(connection, [document_id])
            for number, image in enumerate(images, 1):
                figure = image.figure
                connection.execute(
                    "INSERT OR IGNORE INTO images VALUES (?, ?, ?)",
                    (figure.image, image.type, image.data),
                )
                connection.execute(
                    "INSERT INTO figures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        figure_id(document_id, number, figure.image), document_id, number,
                        figure.image, figure.page, json.dumps(figure.box), figure.caption,
                        figure.start, figure.width, figure.height,
                    ),
                )  # fmt: skip
            connection.execute("INSERT INTO documents VALUES (?, ?)", (document_id, content))
            kept = {image.figure.image for image in images}
            rows = [row for row in described if row[1] in kept]
            connection.executemany("INSERT INTO descriptions VALUES (?, ?, ?, ?)", rows)

    def describe(self, document_id: str, texts: Mapping[str, str]) -> None:
        """Store what the model wrote about images of a document, by the image's hash."""
        if not texts or not self._file.is_file():
            return
        with self._opened() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO descriptions SELECT DISTINCT document, image, ?, ? "
                "FROM figures WHERE document = ? AND image = ?",
                [(self.model, text, document_id, image) for image, text in texts.items()],
            )

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
            f"SELECT {_READ} WHERE figures.document IN ({marks}) ORDER BY figures.document, number"
        )
        with self._opened() as connection:
            rows = connection.execute(query, (self.model, *documents))
            return [_figure(row) for row in rows]

    def image(self, name: str) -> tuple[Figure, str, bytes] | None:
        """A figure with the media type and the bytes of its image; None if there is none."""
        if not self._file.is_file():
            return None
        query = f"SELECT {_READ} WHERE figures.id = ?"
        with self._opened() as connection:
            row = connection.execute(query, (self.model, name)).fetchone()
            if row is None:
                return None
            figure = _figure(row)
            file = self._image_file(connection, figure.image)
        return None if file is None else (figure, *file)

    def file(self, image: str) -> tuple[str, bytes] | None:
        """Media type and bytes of an image by its hash; None if it is not kept."""
        if not self._file.is_file():
            return None
        with self._opened() as connection:
            return self._image_file(connection, image)

    @staticmethod
    def _image_file(connection: sqlite3.Connection, image: str) -> tuple[str, bytes] | None:
        query = "SELECT type, data FROM images WHERE hash = ?"
        row = connection.execute(query, (image,)).fetchone()
        return None if row is None else (str(row[0]), bytes(row[1]))

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self._file, timeout=60.0)) as connection:
                connection.execute("PRAGMA secure_delete = ON")
                (version,) = connection.execute("PRAGMA user_version").fetchone()
                if version < _VERSION:
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
            connection.execute("DELETE FROM descriptions WHERE document = ?", (name,))
            connection.execute("DELETE FROM documents WHERE id = ?", (name,))
        connection.execute("DELETE FROM images WHERE hash NOT IN (SELECT image FROM figures)")


def figure_id(document_id: str, number: int, image: str) -> str:
    """The id of a figure: other documents with the same image have another."""
    return text_hash(f"{document_id}\n{number}\n{image}")[:20]


def _figure(row: Sequence[object]) -> Figure:
    name, document, page, box, caption, start, width, height, image, *described = row
    corners = json.loads(str(box))
    return Figure(
        str(name), str(document), page if isinstance(page, int) else None,
        tuple(corners) if corners else None, str(caption),
        start if isinstance(start, int) else None, int(str(width)), int(str(height)),
        str(image), *(str(value or "") for value in described),
    )  # fmt: skip
