"""`ragwright maintain`."""

from __future__ import annotations

import time

from ...core import counted
from .._flags import Flags, takes


@takes("project overrides as_json quiet")
def command(flags: Flags) -> None:
    """Build indexes, join files and remove old versions of a lance store.

    For a store that several processes write: they ingest with store.maintain: command, and a job
    runs this. Readers and writers go on meanwhile. A sqlite store needs none.
    """
    console = flags.console
    started = time.monotonic()
    with flags.open() as bench:
        with console.progress(lambda: "maintaining the store"):
            pairs = bench.maintain()
        kind = bench.project.settings.store.kind
    seconds = time.monotonic() - started
    console.show(
        lambda: {"kind": kind, "indexes": pairs, "seconds": seconds},
        lambda: f"{counted(pairs, 'index', 'indexes')} maintained in {seconds:.1f} s",
    )
    if kind == "sqlite" and not flags.as_json:
        console.remark("a sqlite store needs no maintenance: nothing was done")
