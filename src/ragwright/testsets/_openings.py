"""The log of openings of confirm splits: an append-only file under version control."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..core import TestsetError, current_user
from .rows import objects_of


@dataclass(frozen=True, slots=True)
class Opening:
    """One opening of a confirm split.

    Attributes:
        time: ISO 8601, UTC.
        testset: Address of the testset.
        fingerprint: Hash of the whole confirm split, regardless of the part read.
        rows: Rows that were read.
        purpose: Purpose of the opening.
        by: User.
    """

    time: str
    testset: str
    fingerprint: str
    rows: int
    purpose: str
    by: str


@dataclass(frozen=True, slots=True)
class Openings:
    """Permission to open confirm splits: each opening is logged before rows are returned.

    Attributes:
        path: The log, JSONL; created if it is missing.
        purpose: Purpose of the rows: ``confirm``, ``eval``, a sentence.
        by: User; by default the user of this machine.
        dry_run: The rows are only counted, for a dry run: nothing is logged.
    """

    path: Path
    purpose: str
    by: str = ""
    dry_run: bool = False

    def record(self, testset: str, fingerprint: str, rows: int) -> tuple[Opening, ...]:
        """Log an opening; return the earlier ones of this testset, oldest first.

        Earlier openings are those of the same rows (equal fingerprint) and, since an edited row
        changes the fingerprint, those of a testset with the same file name.

        Raises:
            TestsetError: The log cannot be read or written; the rows must then not be returned.
        """
        earlier = self.touching(self.path, testset, fingerprint)
        if self.dry_run:
            return earlier
        now = datetime.now(UTC).isoformat(timespec="seconds")
        opening = Opening(now, testset, fingerprint, rows, self.purpose, self.by or current_user())
        line = json.dumps(asdict(opening), ensure_ascii=False) + "\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                if file.tell() and not _ends_line(self.path):
                    line = "\n" + line
                # half a surrogate pair (a file name that is not UTF-8) becomes an escape of JSON
                file.write(line.encode("utf-8", "backslashreplace"))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise TestsetError(
                f"the opening cannot be logged: {error.strerror}",
                where=str(self.path),
                hint="the confirm split stays closed until the log can be written",
            ) from error
        return earlier

    @classmethod
    def touching(cls, path: str | Path, testset: str, fingerprint: str) -> tuple[Opening, ...]:
        """Return the openings of these rows or of a testset with the same file name, oldest first.

        Raises:
            TestsetError: A line is not an opening; with file and line.
        """
        name = _file_name(testset)
        return tuple(
            opening
            for opening in cls.of(path)
            if opening.fingerprint == fingerprint or _file_name(opening.testset) == name
        )

    @staticmethod
    def of(path: str | Path, fingerprint: str = "") -> tuple[Opening, ...]:
        """Return the openings in a log, oldest first: those of a fingerprint, or all if it is
        empty.

        Raises:
            TestsetError: A line is not an opening; with file and line.
        """
        source = Path(path)
        if not source.exists():
            return ()
        return tuple(
            opening
            for opening in _read_openings(source)
            if not fingerprint or opening.fingerprint == fingerprint
        )


def opening_note(earlier: tuple[Opening, ...], fingerprint: str, path: Path) -> str:
    """Return the note on earlier openings that every report must contain.

    Args:
        earlier: Openings of the same rows, or of other versions of their testset, oldest first.
        fingerprint: Fingerprint of the rows.
        path: The log.
    """
    if not earlier:
        return f"the confirm split is opened for the first time (written to {path})"
    first, times = earlier[0], len(earlier)
    others = sum(opening.fingerprint != fingerprint for opening in earlier)
    times_text = "once" if times == 1 else f"{times} times"
    versions = f", {others} of them with another version of the rows" if others else ""
    return (
        f"the confirm split was opened {times_text} before{versions}, first on {first.time[:10]} "
        "for "
        f"{first.purpose!r} by {first.by}; each opening makes its results less independent"
    )


def _read_openings(path: Path) -> Iterator[Opening]:
    for where, value in objects_of(path):
        yield _opening_of(value, where)


def _opening_of(value: dict[str, Any], where: str) -> Opening:
    names = [field.name for field in fields(Opening)]
    missing = [name for name in names if name not in value]
    texts = [name for name in names if name != "rows"]
    wrong = [name for name in texts if not isinstance(value.get(name), str)]
    if missing or wrong or not isinstance(value["rows"], int):
        raise TestsetError(
            f"not a valid opening: {', '.join(missing or wrong or ['rows'])}",
            where=where,
            hint="only ragwright writes this log; restore it from version control",
        )
    return Opening(**{name: value[name] for name in names})


def _file_name(testset: str) -> str:
    """Return the part of an address that stays when a project is moved."""
    return testset if testset.startswith("beir:") else Path(testset).name


def _ends_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
