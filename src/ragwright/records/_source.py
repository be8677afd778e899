"""Opening what a source is: files, or a database."""

from __future__ import annotations

import re
from pathlib import Path

from ..core import ConfigError, filled_address, holds_secret
from . import declared, sources
from ._seams import RowSource

_ADDRESS = re.compile(r"\w+(\+\w+)?://|sqlite:|\$\{\w+\}$")
"""What databases' addresses begin with; one may stand in a variable as a whole."""


def open_source(spec: declared.SourceSpec, root: Path) -> RowSource:
    """The rows that source.yaml declares; nothing is read or connected to yet.

    Args:
        spec: What it says.
        root: Folder that relative paths start from.

    Raises:
        RecordsError: A query is missing, or a SQLite file is not there.
        ConfigError: A database's address is none, holds a password, or names a variable that
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
    adbc = filled_address(spec.source, spec.place("source")).startswith("adbc+")
    server: sources.Server = (
        sources.AdbcServer(spec, root) if adbc else sources.AlchemyServer(spec, root)
    )
    return sources.SqlSource(spec, server)
