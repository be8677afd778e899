"""Running a project for others, as a part of the program."""

from __future__ import annotations

from ..core import Part

PART = Part(
    "operations",
    commands={
        "backup": "ragwright.app.serving._backup:backup",
        "log": "ragwright.app.serving._log:command",
    },
    tables={
        "operations": "ragwright.operations:OPERATION_TABLES",
    },
    sentences={
        "backup": "Write the project to one archive, or check it.",
        "log": "Show the audit log: who did what.",
    },
)
