"""`ragwright maintain`."""

from __future__ import annotations

import time

from ...core import counted
from ...project import Session
from ...workbench import Workbench
from .._console import Console, reported
from .._options import HERE, Json, Overrides, Project, Quiet


@reported
def command(
    project: Project = HERE,
    overrides: Overrides = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Build indexes, join files and remove old versions of a lance store.

    For a store that several processes write: they ingest with store.maintain: command, and a job
    runs this. Readers and writers go on meanwhile. A sqlite store needs none.
    """
    console = Console(quiet)
    started = time.monotonic()
    with Workbench.open(project, Session(tuple(overrides or ()))) as bench:
        with console.progress(lambda: "maintaining the store"):
            pairs = bench.maintain()
        kind = bench.project.settings.store.kind
    seconds = time.monotonic() - started
    if as_json:
        console.json({"kind": kind, "indexes": pairs, "seconds": seconds})
        return
    console.result(f"{counted(pairs, 'index', 'indexes')} maintained in {seconds:.1f} s")
    if kind == "sqlite":
        console.remark("a sqlite store needs no maintenance: nothing was done")
