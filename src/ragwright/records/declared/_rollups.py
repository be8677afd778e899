"""Reference tables: many spellings of a client, and the clients' biographies."""

from __future__ import annotations

import csv
import difflib
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core import RagwrightError, RecordsError, case_folded, count_noun, value_hash
from ._file import DeclaredFile

_FIELDS = ("name", "biography")


@dataclass(frozen=True, slots=True)
class Rollups:
    """The column of the client, spellings of clients, and their biographies.

    Attributes:
        column: Column with the client's name; the column ``client`` if empty.
        names: Spellings by the client's name.
        biographies: Biography by name, as in the table.
        place: The file.
        column_line: ``file:line`` of the column's name, empty if unknown.
    """

    column: str = ""
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    biographies: Mapping[str, str] = field(default_factory=dict)
    place: str = field(default="rollups.yaml", compare=False)
    column_line: str = field(default="", compare=False)
    _index: list[Mapping[str, str]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    @property
    def column_place(self) -> str:
        """Place of the column's name: file and line, or the file."""
        return self.column_line or self.place

    @property
    def fingerprint(self) -> str:
        """Hash of everything that affects a row's client; not of biographies."""
        return value_hash([self.column, {n: list(s) for n, s in self.names.items()}])

    def canonical(self, name: str) -> str:
        """The client of a spelling; an unlisted name is unchanged."""
        return self._indexes()[0].get(spelling_key(name), name)

    def biography(self, name: str) -> str | None:
        """The biography of a client under any of its spellings."""
        clients, texts = self._indexes()
        key = spelling_key(name)
        return texts.get(spelling_key(clients.get(key, name)))

    def known(self, clients: Iterable[str] = ()) -> tuple[str, ...]:
        """Names of clients, sorted: those listed here and those given."""
        return tuple(sorted({*self.names, *clients}))

    def nearest(self, name: str, clients: Iterable[str] = (), count: int = 3) -> tuple[str, ...]:
        """The known names nearest to a name, best first: by any spelling, or by a word of it.

        Args:
            name: The name.
            clients: Further names.
            count: Names at most.
        """
        names = self.known(clients)
        spelled = {
            spelling_key(spelling): client
            for client in names
            for spelling in (client, *self.names.get(client, ()))
        }
        wanted = spelling_key(name)
        close = difflib.get_close_matches(wanted, spelled, n=4 * count, cutoff=0.6)
        words = set(wanted.split())
        close += sorted(
            (s for s in spelled if words & set(s.split())),
            key=lambda s: (-len(words & set(s.split())), s),
        )
        return tuple(dict.fromkeys(spelled[s] for s in close))[:count]

    def _indexes(self) -> list[Mapping[str, str]]:
        """Client by key of a spelling, and biography by key of a client.

        Made when first needed, as there may be a hundred thousand; and whole before they are
        kept, as several threads ask.
        """
        if not self._index:
            listed = self.names.items()
            clients = {spelling_key(s): c for c, some in listed for s in (c, *some)}
            texts: dict[str, str] = {}
            for person, text in self.biographies.items():
                client = clients.get(spelling_key(person), person)
                texts.setdefault(spelling_key(client), text)
            self._index[:] = [clients, texts]
        return self._index


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


def read_rollups(declared: DeclaredFile, folder: Path) -> Rollups:
    """The rollups in a file's values; faults are noted."""
    values = declared.keys(("client", "biographies"))
    client = declared.keys(("column", "names"), values.get("client"), "client")
    column = declared.text(client["column"], "client", "column") if "column" in client else ""
    names: dict[str, tuple[str, ...]] = {}
    taken: dict[str, str] = {}
    for name, value in declared.mapping(client.get("names"), "client", "names").items():
        path = ("client", "names", name)
        names[name] = declared.texts(value, *path)
        for at, spelling in enumerate((name, *names[name])):
            key = spelling_key(spelling)
            other = taken.setdefault(key, name)
            if other != name:
                place = path if not at else (*path, str(at - 1))
                declared.fault(
                    f"{spelling!r} is listed for {other!r} and for {name!r}",
                    *place,
                    hint="case, blanks and punctuation at the ends are ignored; keep one of them",
                )
    biographies: dict[str, str] = {}
    file = values.get("biographies")
    if file is not None:
        text = declared.text(file, "biographies")
        biographies = _biographies(declared, folder, text) if text else {}
    line = declared.where("client", "column")
    return Rollups(column or "", names, biographies, declared.placed.file, line)


def _biographies(declared: DeclaredFile, folder: Path, name: str) -> dict[str, str]:
    file = folder / name
    if not file.is_file():
        declared.fault(
            f"the file {name!r} does not exist",
            "biographies",
            hint=f"give a path relative to {folder.name}/ of a CSV file with the columns name and "
            "biography",
        )
        return {}
    return read_biographies(file, f"{folder.name}/{name}", declared.faults)


def read_biographies(file: Path, shown: str, faults: list[RagwrightError]) -> dict[str, str]:
    """Biography by name, from a CSV file with the columns ``name`` and ``biography``.

    Faults are noted with file and line: not UTF-8, a column missing, a row without a name or a
    biography, a name given twice.
    """
    biographies: dict[str, str] = {}
    lines: dict[str, int] = {}

    def fault(sentence: str, line: int, hint: str | None = None) -> None:
        faults.append(RecordsError(sentence, where=f"{shown}:{line}", hint=hint))

    try:
        with file.open(encoding="utf-8-sig", newline="") as handle:
            rows = csv.reader(handle, strict=True)
            header = [cell.strip().lower() for cell in next(rows, [])]
            missing = [name for name in _FIELDS if name not in header]
            if missing:
                fault(
                    f"the column {missing[0]!r} is missing",
                    1,
                    f"the first line must contain the columns: {', '.join(_FIELDS)}",
                )
                return {}
            at = [header.index(name) for name in _FIELDS]
            for row in rows:
                if len(row) > len(header):
                    fault(
                        f"the row has {len(row)} values, but the header has "
                        f"{count_noun(len(header), 'column')}",
                        rows.line_num,
                        "quote values that hold a comma",
                    )
                    continue
                _biography(row, at, rows.line_num, biographies, lines, fault)
    except OSError as error:
        fault(f"the file cannot be read: {error.strerror or error}", 1)
    except UnicodeDecodeError as error:
        fault(f"the file is not UTF-8: {error.reason}", 1, "save it as UTF-8")
    except csv.Error as error:
        fault(f"not CSV: {error}", rows.line_num)
    return biographies


def _biography(
    row: list[str],
    at: list[int],
    line: int,
    biographies: dict[str, str],
    lines: dict[str, int],
    fault: Any,
) -> None:
    if not any(cell.strip() for cell in row):
        return
    name, text = (row[i].strip() if i < len(row) else "" for i in at)
    if not name or not text:
        fault(f"the row has no {'biography' if name else 'name'}", line)
        return
    key = spelling_key(name)
    if key in lines:
        fault(f"{name!r} has a biography already, in line {lines[key]}", line, "keep one of them")
        return
    lines[key] = line
    biographies[name] = text


def _edge(character: str) -> bool:
    return character.isspace() or unicodedata.category(character)[0] in "PZC"
