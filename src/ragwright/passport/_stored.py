"""Passports of a project: files in ``passports/``, to keep under version control.

One file per set and group of judges; a passport of the same judges on the same set replaces it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..core import TestsetError, replace_text, value_hash
from ..project import ProjectFolder
from ._passport import JudgePassport, Passport, passport_json, passport_of

FOLDER = "passports"
"""Folder of the passports in a project."""


def record_passport(root: Path, passport: Passport) -> Path:
    """Write a passport into the project; return its file.

    Written via a second file, so that a crash leaves the old one.
    """
    judges = sorted(value_hash(dict(judge.identity)) for judge in passport.judges)
    slug = re.sub(r"[^A-Za-z0-9]+", "-", passport.set).strip("-") or "set"
    path = _passports_folder(root) / f"{slug}-{value_hash([passport.set, judges])[:10]}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    body = json.dumps(passport_json(passport), ensure_ascii=False, indent=1)
    replace_text(path, body + "\n")
    return path


def known_passports(root: Path) -> Iterator[tuple[Path, Passport]]:
    """Every passport of a project with its file, the newest last.

    Raises:
        TestsetError: A file is no passport.
    """
    passports = [(path, read_passport(path)) for path in _passports_folder(root).glob("*.json")]
    yield from sorted(passports, key=lambda pair: (pair[1].date, pair[0].name))


def read_passport(path: Path) -> Passport:
    """Read a passport that :func:`record_passport` or ``passport --json`` wrote.

    Raises:
        TestsetError: The file is missing, or no passport.
    """
    try:
        return passport_of(json.loads(path.read_text("utf-8")))
    except FileNotFoundError as error:
        raise TestsetError("no such file", where=str(path), hint="check the path") from error
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as error:
        raise TestsetError(
            "this is not a passport",
            where=str(path),
            hint="restore the file from version control, or move it away and make it again",
        ) from error


def passport_of_judge(
    root: Path, identity: Mapping[str, Any]
) -> tuple[Path, Passport, JudgePassport] | None:
    """The newest passport with figures of the judge with this identity; None without one.

    Raises:
        TestsetError: A file in ``passports/`` is no passport.
    """
    if not identity:
        return None
    wanted, newest = value_hash(dict(identity)), None
    for path, passport in known_passports(root):
        for judge in passport.judges:
            if judge.dimension in judge.dimensions and value_hash(dict(judge.identity)) == wanted:
                newest = path, passport, judge
    return newest


def _passports_folder(root: Path) -> Path:
    return ProjectFolder(root).root / FOLDER
