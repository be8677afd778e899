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
        "job": "Scheduled jobs: run one, start the scheduler, see past runs.",
        "promote": "Serve the settings of a run if it passes the gate; the exit codes are the "
        "gate's.",
    },
)
