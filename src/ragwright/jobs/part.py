"""Jobs and promotion, as a part of the program."""

from __future__ import annotations

from ..core import Part

PART = Part(
    "jobs",
    sections={
        "jobs": "ragwright.jobs:JOBS",
    },
    commands={
        "job": "ragwright.app.serving._job:group",
        "promote": "ragwright.app.serving._promote:command",
    },
    tables={
        "jobs": "ragwright.jobs:JOB_TABLES",
    },
    sentences={
        "job": "Run scheduled jobs and show past runs.",
        "promote": "Serve a run's settings if it passes the gate.",
    },
)
