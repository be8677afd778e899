"""Assembles a text from the fields of a record: a structure with one ``%s`` per variable."""

from __future__ import annotations

import csv
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ...core import Placed, RecordsError, case_folded, option, value_hash
from .._seams import TEXT, ArrowTable, pa
from ._cleaning import read_keys

_JOINED_BY = ", "


@dataclass(frozen=True, slots=True)
class FormatPiece:
    """One variable and the literals around it; all of it is left out if the variable is empty."""

    variable: str
    before: str
    after: str = ""


@dataclass(frozen=True, slots=True)
class TextFormat:
    """A structure in pieces: one per variable, in order.

    Attributes:
        name: Name of the file.
        pieces: Cut after each ``%s``; a trailing literal belongs to the last one.
    """

    name: str
    pieces: tuple[FormatPiece, ...]

    @property
    def fingerprint(self) -> str:
        """Hash of everything except its name."""
        return value_hash([[p.variable, p.before, p.after] for p in self.pieces])

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of its fields, in order."""
        return tuple(piece.variable for piece in self.pieces)

    def fill(self, fields: Mapping[str, Any]) -> str:
        """The text of a record.

        Args:
            fields: Value by variable: a text, a list (joined by ``", "``), or anything that ``str``
                converts. For a missing, None, blank or empty value the whole piece is left out.
        """
        return "".join(
            f"{piece.before}{value}{piece.after}"
            for piece in self.pieces
            if (value := show_value(fields.get(piece.variable)))
        )

    def request(self, fields: Mapping[str, Any]) -> str:
        """The request for such a text: every piece except the text itself."""
        return self.fill({**fields, TEXT: None})

    def message_at(self, fields: Mapping[str, Any]) -> int:
        """Characters of :meth:`fill` before the text; all of them without a text."""
        at = 0
        for piece in self.pieces:
            value = show_value(fields.get(piece.variable))
            if not value:
                continue
            if piece.variable == TEXT:
                return at + len(piece.before)
            at += len(piece.before) + len(value) + len(piece.after)
        return at

    def fill_batch(self, batch: ArrowTable) -> tuple[ArrowTable, ArrowTable]:
        """:meth:`fill` and :meth:`message_at` of every row of a batch.

        Args:
            batch: A column per variable.

        Returns:
            Arrow arrays of the rows' texts and of their ``message_at``.
        """
        rows = batch.to_pylist()
        texts = pa.array(map(self.fill, rows), pa.large_string())
        return texts, pa.array(map(self.message_at, rows), pa.int64())


def show_value(value: Any) -> str:
    """A field as shown in a format; empty if its piece is left out."""
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return _JOINED_BY.join(text for text in map(show_value, value) if text)
    text = str(value)
    return text if text.strip() else ""


@dataclass(frozen=True, slots=True)
class _FormatKeys:
    prompt_variables: tuple[str, ...] = option(MISSING, "Names of fields, one for each %s.")
    prompt_structure: str = option(MISSING, "A text with one %s for each variable.")


def read_text_format(
    placed: Placed, name: str = "", known: Iterable[str] | None = None
) -> TextFormat:
    """The format in a file.

    Args:
        placed: ``prompt_variables`` (n names) and ``prompt_structure`` (a text with n ``%s``;
            ``%%`` is a percent sign), with their places.
        name: Name of the format.
        known: Fields of records; None if unknown.

    Raises:
        RecordsError: The numbers of variables and ``%s`` differ, or records lack a field.
        ConfigError: A key or a value is wrong.
    """
    keys = read_keys(_FormatKeys, placed)
    variables = keys.prompt_variables
    for at, variable in enumerate(variables):
        if known is not None and variable not in known:
            raise RecordsError(
                f"unknown variable {variable!r} in prompt_variables",
                where=placed.where("prompt_variables", str(at)),
                hint=f"known: {', '.join(sorted(known))}; keep: in source.yaml adds columns",
            )
    if variables.count(TEXT) != 1:
        raise RecordsError(
            f"prompt_variables must name {TEXT!r} once, not {variables.count(TEXT)} times",
            where=placed.where("prompt_variables"),
            hint="it is the message itself",
        )
    escaped = keys.prompt_structure.replace("%%", "\0")
    *befores, last = escaped.split("%s")
    if len(befores) != len(variables) or re.search("%(?!s)", escaped):
        raise RecordsError(
            f"prompt_structure has {len(befores)} %s, prompt_variables has {len(variables)} names",
            where=placed.where("prompt_structure"),
            hint="one %s per name, in the same order; %% is a percent sign, and no other % stands "
            "in it",
        )
    ends = [*[""] * (len(befores) - 1), last.replace("\0", "%")]
    literals = (before.replace("\0", "%") for before in befores)
    return TextFormat(name, tuple(map(FormatPiece, variables, literals, ends)))


@dataclass(frozen=True)
class Rollups:
    """The column of the client, spellings of clients, and their biographies.

    Attributes:
        column: Column with the client's name; the column ``client`` if empty.
        names: Spellings by the client's name.
        biographies: Biography by name, as in the table.
        column_place: ``file:line`` of the column's name.
    """

    column: str = ""
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    biographies: Mapping[str, str] = field(default_factory=dict)
    column_place: str = field(default="rollups.yaml", compare=False)

    @property
    def fingerprint(self) -> str:
        """Hash of everything that affects a row's client; not of biographies."""
        return value_hash([self.column, {n: list(s) for n, s in self.names.items()}])

    def canonical(self, name: str) -> str:
        """The client of a spelling; an unlisted name is unchanged."""
        return self._clients.get(spelling_key(name), name)

    def biography(self, name: str) -> str | None:
        """The biography of a client under any of its spellings."""
        return self._texts.get(spelling_key(self.canonical(name)))

    @cached_property
    def _clients(self) -> Mapping[str, str]:
        """Client by key of a spelling."""
        listed = self.names.items()
        return {spelling_key(s): client for client, some in listed for s in (client, *some)}

    @cached_property
    def _texts(self) -> Mapping[str, str]:
        """Biography by key of a client; the first where two names are one client."""
        texts: dict[str, str] = {}
        for person, text in self.biographies.items():
            texts.setdefault(spelling_key(self.canonical(person)), text)
        return texts


def spelling_key(name: str) -> str:
    """Key of a name's spellings: without case, blanks and punctuation at the ends.

    Runs of blanks inside count as one. A name of nothing but punctuation keeps it.
    """
    folded = case_folded(name)
    if folded[:1].isalnum() and folded[-1:].isalnum():
        return folded
    start, end = 0, len(folded)
    while start < end and _edge(folded[start]):
        start += 1
    while end > start and _edge(folded[end - 1]):
        end -= 1
    return folded[start:end] or folded


@dataclass(frozen=True, slots=True)
class _ClientKeys:
    column: str = option("", "Column with the client's name.")
    names: Mapping[str, tuple[str, ...]] = option(dict, "Spellings by the client's name.")


@dataclass(frozen=True, slots=True)
class _RollupsKeys:
    client: _ClientKeys = option(_ClientKeys, "The column of the client, and names.")
    biographies: str = option("", "CSV file with the columns name and biography.")


def read_rollups(placed: Placed, folder: Path) -> Rollups:
    """The rollups in a file, and the biographies that it names.

    Raises:
        RecordsError: A spelling stands for two clients, or the biographies cannot be used.
        ConfigError: A key or a value is wrong.
    """
    keys = read_keys(_RollupsKeys, placed)
    taken: dict[str, str] = {}
    for name, spellings in keys.client.names.items():
        for spelling in (name, *spellings):
            other = taken.setdefault(spelling_key(spelling), name)
            if other != name:
                raise RecordsError(
                    f"{spelling!r} is listed for {other!r} and for {name!r}",
                    where=placed.where("client", "names", name),
                    hint="case, blanks and punctuation at the ends are ignored; keep one of them",
                )
    biographies = {}
    if keys.biographies:
        if not (folder / keys.biographies).is_file():
            raise RecordsError(
                f"no such file: {keys.biographies}",
                where=placed.where("biographies"),
                hint=f"give a path relative to {folder.name}/ of a CSV file with the columns name "
                "and biography",
            )
        shown = f"{folder.name}/{keys.biographies}"
        biographies = read_biographies(folder / keys.biographies, shown)
    place = placed.where("client", "column")
    return Rollups(keys.client.column, keys.client.names, biographies, place)


def read_biographies(file: Path, shown: str) -> dict[str, str]:
    """Biography by name, from a CSV file with the columns ``name`` and ``biography``.

    Raises:
        RecordsError: Not UTF-8, a column missing, a row without a name or a biography, a name given
            twice; with file and line.
    """
    biographies: dict[str, str] = {}
    seen: set[str] = set()
    rows = csv.reader([])
    try:
        with file.open(encoding="utf-8-sig", newline="") as handle:
            rows = csv.reader(handle, strict=True)
            header = [cell.strip().lower() for cell in next(rows, [])]
            if not {"name", "biography"} <= set(header):
                raise csv.Error("the first line must contain the columns name and biography")
            for cells in rows:
                if len(cells) > len(header):
                    raise csv.Error(f"the row has {len(cells)} values, the header {len(header)}")
                row = dict(zip(header, map(str.strip, cells), strict=False))
                name, text = row.get("name", ""), row.get("biography", "")
                if not any(row.values()):
                    continue
                if not (name and text):
                    raise csv.Error(f"the row has no {'biography' if name else 'name'}")
                if spelling_key(name) in seen:
                    raise csv.Error(f"{name!r} has a biography already")
                seen.add(spelling_key(name))
                biographies[name] = text
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RecordsError(
            f"the biographies cannot be read: {error}",
            where=f"{shown}:{max(1, rows.line_num)}",
            hint="it must be a CSV file in UTF-8 with the columns name and biography",
        ) from error
    return biographies


def _edge(character: str) -> bool:
    return character.isspace() or unicodedata.category(character)[0] in "PZC"
