"""What a run of rankings counted: gold spans or gold documents.

Runs of rankings made before ``counted`` was in their manifest counted documents, even where gold is
spans. They are marked wherever they are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...core import Row, TestsetError
from ...testsets import read_rows

COUNTED = "counted"
"""Key of a manifest: what the gold of the rows is."""


def counted_in_rows(rows: Iterable[Row]) -> str:
    """``spans``, ``documents`` or ``spans and documents``: what measures count in these rows."""
    found = {
        "spans" if row.reference_spans else "documents"
        for row in rows
        if row.reference_spans or row.reference_ids
    }
    return " and ".join(sorted(found, reverse=True))


def is_uncounted(manifest: Mapping[str, Any]) -> bool:
    """True for a run of rankings that counted documents whatever its gold was."""
    return "retrieve" in manifest and "answer" not in manifest and COUNTED not in manifest


def counting_note(run: str, manifest: Mapping[str, Any], root: Path | None = None) -> str:
    """A note on a run that counted documents although its gold is spans; empty for other runs.

    Whether its gold is spans is read from its test set, if that still exists where it was, in the
    working directory or in the project folder ``root``.
    """
    if not is_uncounted(manifest):
        return ""
    address = str(manifest.get("testset", ""))
    if address.startswith("beir:"):
        return ""
    places = [Path(address), *([] if root is None else [root / address])]
    file = next((place for place in places if place.is_file()), None)
    try:
        rows = None if file is None else read_rows(file, questions=True)
    except (OSError, TestsetError):
        rows = None
    if rows is None:
        return (
            f"run {run} was made by an earlier version and counted documents; if the gold of "
            f"{address or 'its test set'} is spans, measure it again"
        )
    if not any(_has_spans(row) for row in rows):
        return ""
    return f"run {run} counted documents although its gold is spans: measure it again"


def _has_spans(row: Row) -> bool:
    """True where gold is spans, or texts that become spans once they are found in the index."""
    texts = any(text.strip() for text in row.reference_contexts)
    return bool(row.reference_spans or (texts and not row.reference_ids))
