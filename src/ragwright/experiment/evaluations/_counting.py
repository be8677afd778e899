"""The unit that a run of rankings counted: gold spans or gold documents.

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
"""Manifest key of the unit that a run counted."""


def counted_in_rows(rows: Iterable[Row]) -> str:
    """Return what measures count in rows: ``spans``, ``documents`` or ``spans and documents``."""
    kinds = {
        "spans" if row.reference_spans else "documents"
        for row in rows
        if row.reference_spans or row.reference_ids
    }
    return " and ".join(sorted(kinds, reverse=True))


def is_uncounted(manifest: Mapping[str, Any]) -> bool:
    """True for a run of rankings from before the unit was stored: it counted documents."""
    return "retrieve" in manifest and "answer" not in manifest and COUNTED not in manifest


def counting_note(run: str, manifest: Mapping[str, Any], root: Path | None = None) -> str:
    """Return a note on a run that counted documents although its gold is spans, or an empty text.

    The kind of gold is read from the run's test set, if that still exists at its path, in the
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
    if not any(_gold_is_spans(row) for row in rows):
        return ""
    return f"run {run} counted documents although its gold is spans: measure it again"


def _gold_is_spans(row: Row) -> bool:
    """True if gold is spans, or texts that become spans once they are found in the index."""
    texts = any(text.strip() for text in row.reference_contexts)
    return bool(row.reference_spans or (texts and not row.reference_ids))
