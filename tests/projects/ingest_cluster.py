"""A cluster of two nodes on this machine, and what ingests make of the same documents on it.

Run as a process of its own (Ray leaves threads, handlers and warnings behind); prints one JSON
document.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from story_tools import write_files

from ragwright import Session, Workbench
from ragwright.ingest import RayEngine
from ragwright.testing import ScriptedServer

COMMAND = "from ragwright.app import main; main()"


def stored(bench: Workbench) -> list[Any]:
    """Everything that the index holds, but vectors; documents by id."""
    project = bench.project
    texts = {document.id: document for document in project.documents()}
    with project.store.reading(project.index_spec) as state:
        return sorted(
            [
                one.document.id,
                repr(texts[one.document.id]),
                [
                    [
                        *(c.id, c.start, c.end, c.page, list(c.pages), list(c.headings)),
                        *(sorted(map(str, c.metadata.items())), c.terms.hex()),
                    ]
                    for c in one.chunks
                ],
            ]
            for one in state.documents()
        )


def vectors(bench: Workbench) -> Any:
    """Vectors of all chunks, documents by id; None without a model."""
    with bench.project.store.reading(bench.project.index_spec) as state:
        found = {one.document.id: [c.vector for c in one.chunks] for one in state.documents()}
    rows = [row for name in sorted(found) for row in found[name] if row is not None]
    return np.stack(rows) if rows else None


def ingested(folder: Path, engine: str, **options: Any) -> dict[str, Any]:
    with Workbench.open(folder, Session(options.pop("overrides", ()))) as bench:
        report = bench.ingest(engine=engine, **options).as_dict()
        assert report.pop("engine") == engine
        made = vectors(bench)
        return {
            "report": report,
            "stored": stored(bench),
            "snapshot": bench.project.store.snapshot(bench.project.index_spec),
            "vectors": made,
        }


def project(folder: Path, settings: str) -> Path:
    return write_files(folder, {"ragwright.yaml": settings})


def equal(work: Path, settings: str) -> dict[str, Any]:
    """What two ingests of the same sources differ in, by engine."""
    here = ingested(project(work / "local", settings), "local")
    there = ingested(project(work / "ray", settings), "ray")
    mine, theirs = here.pop("vectors"), there.pop("vectors")
    different = [name for name in here if here[name] != there[name]]
    again = ingested(work / "ray", "ray")
    again.pop("vectors")
    return {
        "different": {name: [str(here[name])[:900], str(there[name])[:900]] for name in different},
        "vectors": None if mine is None else float(np.abs(mine - theirs).max()),
        "report": there["report"],
        "chunks": sum(len(one[2]) for one in there["stored"]),
        "again": again["report"],
        "still": again["stored"] == there["stored"],
    }


def tried(work: Callable[[], object]) -> dict[str, str]:
    try:
        return {"kind": "none", "said": str(work())}
    except Exception as error:
        return {"kind": type(error).__name__, "said": str(error)}


def notes(folder: Path, texts: Mapping[str, str]) -> str:
    write_files(folder, {f"{name}.note": text for name, text in texts.items()})
    return f"sources: [{{source: {folder}, reader: 'cluster_parts:Notes'}}]\n"


def own_parts(work: Path) -> dict[str, Any]:
    """A reader, a chunker and a model of the project's own; one worker dies on the way."""
    texts = {
        f"n{n:03}": "\n".join(f"line {n} {k}" for k in range(n % 37)) + "." for n in range(600)
    }
    texts |= {"n007": "die", "n008": "fail", "n009": "refuse"}
    parts = "models: {letters: {backend: 'cluster_parts:Letters'}}\nembed: {model: letters}\n"
    cut = "chunk: {by: 'cluster_parts:Lines'}\n"
    return equal(work, notes(work / "notes", texts) + cut + parts)


def served(work: Path) -> dict[str, Any]:
    """A server embeds: asked by the driver alone, once for each text."""
    with ScriptedServer("-") as server:
        read = notes(work / "notes", {f"n{n}": f"note {n} of some words" for n in range(40)})
        found = equal(work, f"{read}embed: {{model: '{server.url}#e'}}\n")
        found["requests"] = len(server.requests)
    return found


def killed_driver(work: Path) -> dict[str, Any]:
    """An ingest killed with -9 half-way, and the next one; the first connects by itself."""
    settings = notes(work / "notes", {f"n{n:04}": f"note {n} " * 300 for n in range(2000)})
    made = project(work / "project", settings)
    started = subprocess.Popen(
        [sys.executable, "-c", COMMAND, "ingest", "--engine", "ray", "-q"],
        cwd=made,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    kept = 0
    while not kept and started.poll() is None:
        time.sleep(0.1)
        if (made / ".ragwright/data").is_dir():
            with Workbench.open(made) as bench:
                kept = len(bench.project.store.content_hashes(bench.project.index_spec))
    os.kill(started.pid, signal.SIGKILL)
    started.wait()
    found = ingested(made, "ray")
    here = ingested(project(work / "local", settings), "local")
    return {
        "kept": kept,
        "documents": found["report"]["documents"],
        "equal": found["stored"] == here["stored"],
    }


def main() -> None:
    """What was asked for, on one cluster, as a start of workers takes seconds."""
    warnings.simplefilter("ignore")  # Ray's own
    work, documents, asked = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    os.environ["DRIVER"] = str(os.getpid())
    utils = importlib.import_module("ray.cluster_utils")
    size = {"num_cpus": 1, "object_store_memory": 80_000_000}
    cluster = utils.Cluster(
        initialize_head=True, head_node_args={**size, "include_dashboard": False}
    )
    os.environ["RAY_ADDRESS"] = cluster.address
    found: dict[str, Any] = {}
    try:
        cluster.add_node(**size)
        # Connected once: every ingest that connects by itself starts workers of its own.
        held = RayEngine()
        if "documents" in asked:
            settings = f"sources: [{{source: {documents}, ocr: never}}]\n"
            found["documents"] = equal(work / "documents", settings)
        if "written" in asked:
            found |= of_written_sources(work)
        held.close()
    finally:
        cluster.shutdown()
    print(json.dumps(found))


def of_written_sources(work: Path) -> dict[str, Any]:
    """What ingests make of sources that are written here."""
    found: dict[str, Any] = {"own": own_parts(work / "own"), "served": served(work / "served")}
    missing = project(
        work / "missing",
        f"sources: [{work / 'own/notes'}]\nembed: {{model: letters}}\n"
        "models: {letters: {backend: 'cluster_parts:only_on_the_driver'}}\n",
    )
    found["missing"] = tried(lambda: ingested(missing, "ray"))
    found["killed"] = killed_driver(work / "killed")
    return found


if __name__ == "__main__":
    main()
