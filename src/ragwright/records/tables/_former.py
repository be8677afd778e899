"""Tables as they were before Delta: Parquet files, lists of dead rows, and one manifest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ...core import require
from .._seams import TABLES, ArrowTable, TableName
from ._files import read_file
from ._manifest import FORMER_SCHEMA, delete_manifest, manifest_content, versions

_DEAD = "dead"
_FILE = re.compile(r"\.?\d{8}-\d{5}-[0-9a-f]{8}\b(?!-)|.*-(bronze|silver|gold|left_out)\.parquet$")


def former_manifest(folder: Path, version: int) -> Mapping[str, Any] | None:
    """The manifest of a version in the former layout; None for one in the present layout.

    Raises:
        StoreError: The manifest is damaged.
    """
    content = manifest_content(folder, version) if version else {}
    return content if content.get("schema_version") == FORMER_SCHEMA else None


def former_rows(
    folder: Path, manifest: Mapping[str, Any], table: TableName
) -> Iterator[ArrowTable]:
    """Rows of a table in the former layout, a file at a time."""
    pa = require("pyarrow", "records", "reading records")
    compute = require("pyarrow.compute", "records", "reading records")
    for part in manifest["tables"].get(table, {"parts": ()})["parts"]:
        rows = read_file(folder / part["file"])
        if part["dead_file"]:
            listed = read_file(folder / part["dead_file"])
            dead = listed.filter(compute.equal(listed.column("part"), part["file"]))
            live = np.ones(rows.num_rows, np.bool_)
            live[dead.column("row").to_numpy()] = False
            rows = rows.filter(pa.array(live))
        if rows.num_rows:
            yield rows


def delete_former(folder: Path) -> None:
    """Delete the files of the former layout, once there is a version of the Delta tables."""
    if not (folder / _DEAD).is_dir():
        return
    for number in versions(folder)[:-1]:
        if former_manifest(folder, number) is not None:
            delete_manifest(folder, number)
    for name in (*TABLES, _DEAD):
        for path in (folder / name).iterdir():
            if path.is_file() and _FILE.match(path.name):
                path.unlink(missing_ok=True)
    (folder / "README.md").unlink(missing_ok=True)
    with suppress(OSError):  # somebody else's file is in it
        (folder / _DEAD).rmdir()
