"""Opens a source: files, or a database."""

from __future__ import annotations

import re
from pathlib import Path

from ..core import ConfigError, holds_secret
from . import declared, sources
from ._seams import RowSource

_ADDRESS = re.compile(r"\w+(\+\w+)?://|sqlite:|\$\{\w+\}$")
"""Prefixes of database addresses; a whole address may be in a variable."""


def open_source(spec: declared.SourceSpec, root: Path) -> RowSource:
    """The rows that source.yaml declares; nothing is read or connected to yet.

    Args:
        spec: The declaration.
        root: Folder that relative paths start from.

    Raises:
        RecordsError: A query or a SQLite file is missing.
        ConfigError: A database's address is invalid, contains a password, or names a variable that
            is not set.
        MissingExtraError: A driver is not installed.
    """
    if not _ADDRESS.match(spec.source):
        return sources.FileSource(spec, root)
    if holds_secret(spec.source):
        raise ConfigError(
            "the address of the source holds a password",
            where=spec.place("source"),
            hint="put it into an environment variable and write ${VARIABLE} instead",
        )
    return sources.SqlSource(spec, sources.AlchemyServer(spec, root))
