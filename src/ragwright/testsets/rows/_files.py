"""Reads text files line by line, with the place of every error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ...core import TestsetError


def lines_of(path: Path) -> Iterator[tuple[str, str]]:
    """Return (``file:line``, text) of every line that is not blank; a byte order mark is skipped.

    Raises:
        TestsetError: The file is missing, cannot be read, or is not UTF-8.
    """
    with opened(path) as file:
        for number, data in enumerate(file, 1):
            where = f"{path}:{number}"
            try:
                text = data.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise TestsetError(
                    "the line is not UTF-8", where=where, hint="save the file as UTF-8"
                ) from error
            if text.strip():
                yield where, text


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading bytes.

    Raises:
        TestsetError: The file is missing or cannot be read.
    """
    try:
        with path.open("rb") as file:
            yield file
    except FileNotFoundError as error:
        raise TestsetError("no such file", where=str(path), hint="check the path") from error
    except OSError as error:
        raise TestsetError(f"cannot read the file: {error.strerror}", where=str(path)) from error


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object with each key once: ``object_pairs_hook`` of :mod:`json`.

    Raises:
        ValueError: A key is given twice; the first value would be lost.
    """
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} is given twice")
    return members


def objects_of(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return (``file:line``, JSON object) of every line of a JSONL file.

    Raises:
        TestsetError: As :func:`lines_of`, or a line is not a JSON object.
    """
    for where, text in lines_of(path):
        try:
            value = json.loads(text, object_pairs_hook=once)
        except (ValueError, RecursionError) as error:
            raise TestsetError(
                f"the line is not JSON: {error}",
                where=where,
                hint="write one JSON object per line (JSONL)",
            ) from error
        if not isinstance(value, dict):
            raise TestsetError(
                f"the line is {type(value).__name__}, not an object",
                where=where,
                hint="write one JSON object per line (JSONL)",
            )
        yield where, value
