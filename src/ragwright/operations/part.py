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
        "backup": "Write the whole project to one archive, or check one.",
        "log": "Show or export the audit log: who asked, saw, changed, exported and erased what.",
    },
)
