"""Running a project for others, as a part of the program."""

from __future__ import annotations

from ..core import Part

PART = Part(
    "operations",
    commands={
        "backup": "ragwright.app.serving._backup:backup",
        "log": "ragwright.app.serving._log:command",
        "restore": "ragwright.app.serving._backup:restore",
    },
    tables={
        "operations": "ragwright.operations:OPERATION_TABLES",
    },
    sentences={
        "backup": "Write the whole project to one archive, also while it is served or ingests.",
        "restore": "Put a backup in place, in a new or empty folder (-C); every file is checked "
        "first.",
        "log": "Show or export the audit log: who asked, saw, changed, exported and erased what.",
    },
)
