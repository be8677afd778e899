"""Files of a set: a folder, a single file, or a zip archive."""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any

from ...core import TestsetError, list_names

_ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]*://|git@|[\w.-]+@[\w.-]+:)", re.IGNORECASE)
_MOST_OF_A_CELL = 1 << 26


class SetFiles:
    """The files of a set, wherever they are.

    Args:
        path: A folder, a file, a zip archive, or a folder with one zip archive.

    Raises:
        TestsetError: There is nothing at the path, it is an address, or not a zip archive.
    """

    def __init__(self, path: str) -> None:
        if _ADDRESS.match(path):
            raise TestsetError(
                "an address cannot be read directly",
                where=path,
                hint=f"clone or download it first: git clone --depth 1 {path} FOLDER, then give "
                "the folder",
            )
        self.path = Path(path)
        if not self.path.exists():
            raise TestsetError("no such file or folder", where=path, hint="check the path")
        if self.path.is_dir() and len(archives := [*self.path.glob("*.zip")]) == 1:
            self.path = archives[0]
        self._archive: zipfile.ZipFile | None = None
        if self.path.is_file() and zipfile.is_zipfile(self.path):
            self._archive = zipfile.ZipFile(self.path)
        elif self.path.suffix.lower() == ".zip":
            raise TestsetError(
                "not a zip archive that can be read", where=path, hint="download it again"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Paths of all files within the set, sorted; of a single file its name."""
        if self._archive is not None:
            names = [info.filename for info in self._archive.infolist() if not info.is_dir()]
        elif self.path.is_dir():
            files = (path for path in self.path.rglob("*") if path.is_file())
            names = [path.relative_to(self.path).as_posix() for path in files]
        else:
            names = [self.path.name]
        return tuple(sorted(name for name in names if not _is_hidden(name)))

    def named(self, *patterns: str) -> tuple[str, ...]:
        """The files whose name matches a pattern, ``mturk_*.jsonl``; a single file always does.

        Raises:
            TestsetError: None does; with the files that there are.
        """
        if self._archive is None and self.path.is_file():
            return self.names
        matching = [
            name
            for name in self.names
            if any(fnmatch(PurePosixPath(name).name, pattern) for pattern in patterns)
        ]
        if not matching:
            raise TestsetError(
                f"there is no file {' or '.join(patterns)}",
                where=str(self.path),
                hint=f"it holds: {list_names(self.names, 8) or 'no files'}",
            )
        return tuple(matching)

    def text(self, name: str) -> str:
        """The text of a file.

        Raises:
            TestsetError: It cannot be read, or is not UTF-8.
        """
        try:
            if self._archive is not None:
                data = self._archive.read(name)
            else:
                data = (self.path / name if self.path.is_dir() else self.path).read_bytes()
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise TestsetError(
                "the file is not UTF-8", where=self.where(name), hint="save the file as UTF-8"
            ) from error
        except (OSError, KeyError, zipfile.BadZipFile, RuntimeError) as error:
            raise TestsetError(f"cannot read the file: {error}", where=self.where(name)) from error

    def where(self, name: str, line: int | None = None) -> str:
        """The place of a file, and of a line in it, for errors."""
        place = f"{self.path}" if self.path.name == name else f"{self.path}/{name}"
        return place if line is None else f"{place}:{line}"

    def document(self, name: str) -> Any:
        """The JSON document in a file.

        Raises:
            TestsetError: It is not JSON.
        """
        return _parsed_json(self.text(name), self.where(name))

    def objects(self, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """(Place, object) of every line of a JSONL file, or of every entry of a JSON array.

        Raises:
            TestsetError: A line is not a JSON object.
        """
        text = self.text(name)
        if text.lstrip()[:1] == "[":
            entries = [
                (f"{self.where(name)} entry {number}", entry)
                for number, entry in enumerate(_parsed_json(text, self.where(name)), 1)
            ]
        else:
            lines = enumerate(text.splitlines(), 1)
            entries = [
                (self.where(name, number), _parsed_json(line, self.where(name, number)))
                for number, line in lines
                if line.strip()
            ]
        for place, entry in entries:
            if not isinstance(entry, dict):
                raise TestsetError(f"this is {type(entry).__name__}, not an object", where=place)
            yield place, entry

    def table(self, name: str) -> Iterator[tuple[str, Mapping[str, str]]]:
        """(Place, cells by column) of every line of a CSV file."""
        csv.field_size_limit(max(csv.field_size_limit(), _MOST_OF_A_CELL))
        reader = csv.DictReader(io.StringIO(self.text(name), newline=""))
        for cells in reader:
            yield (
                self.where(name, reader.line_num),
                {column: cell or "" for column, cell in cells.items() if column is not None},
            )


def member(entry: Mapping[str, Any], name: str, where: str) -> Any:
    """A value of an object of a set.

    Raises:
        TestsetError: The object has no such key; with those that it has.
    """
    if name not in entry:
        raise TestsetError(
            f"there is no {name!r}",
            where=where,
            hint=f"is this the right set? Columns: {list_names(list(entry), 12) or 'none'}",
        )
    return entry[name]


def _is_hidden(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return any(part.startswith(".") or part == "__MACOSX" for part in parts)


def _parsed_json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TestsetError(f"this is not JSON: {error}", where=where) from error
