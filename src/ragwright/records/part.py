"""Tables of records, as a part of the program."""

from __future__ import annotations

from ..core import Part

PART = Part(
    "records",
    sections={
        "records": "ragwright.records:RecordsOptions",
    },
    commands={
        "records": "ragwright.app._records:group",
    },
    sentences={
        "records": "Turn rows into tables and documents.",
    },
)
