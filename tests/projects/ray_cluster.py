"""A cluster of two nodes on this machine, and what the engines make of the same rows on it.

Run as a process of its own (Ray leaves threads, handlers and warnings behind); prints one JSON
document.
"""

from __future__ import annotations

import importlib
import json
import random
import socket
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ray_steps import Failing, Telling

from ragwright.core import RagwrightError
from ragwright.ingest import Engine, LocalEngine, RayEngine
from ragwright.records import RecordTables, RefreshPlan, load_spec, open_source, refresh

ROWS = 400

FILES = {
    "source": "source: rows.jsonl\nkey: id\ntext: body\nkeep: [party]\n",
    "cleaning": (
        "max_characters: 200\n"
        "steps:\n"
        "  - links: ['https?://\\S+']\n"
        "  - doubled:\n      - '(\\w)\\1{3,}': '$1'\n"
        "  - squeeze_spaces\n  - strip\n"
    ),
    "tags": (
        "tags:\n"
        "  give ask: '(?i)\\bgive\\b'\n"
        "  sign ask: '(?i)sign(?! off)'\n"
        "  urgent tone: '(?i)now'\n"
        "  health care hook: '(?i)health|écran'\n"
    ),
    "rules": (
        "contradictions:\n  - {name: both, tags: [give ask, sign ask]}\nduplicates_by: [party]\n"
    ),
}


def declared(folder: Path) -> Path:
    """A folder of declarations, look-ahead and back-reference included, and its rows."""
    folder.mkdir()
    for name, text in FILES.items():
        (folder / f"{name}.yaml").write_text(text, "utf-8")
    chance = random.Random(5)
    words = ["give", "sign", "now", "health", "écran", "hello", "sooooo", "🙂", "tax", "signed"]
    words += ["off", "https://x.example/a"]
    with (folder / "rows.jsonl").open("w", encoding="utf-8") as file:
        for number in range(ROWS):
            text = " ".join(chance.choices(words, k=chance.randrange(0, 40)))
            row = {"id": number, "body": text, "party": chance.choice("ab")}
            file.write(json.dumps(row) + "\n")
    return folder


def content(tables: RecordTables) -> dict[str, list[Any]]:
    """Rows of every table by key, whatever the parts they stand in."""
    found = {}
    for name in ("bronze", "silver", "gold", "left_out"):
        rows = [row for batch in tables.read(name) for row in batch.to_pylist()]
        found[name] = sorted(rows, key=lambda row: str(row["record_key"]))
    return found


def tried(work: Callable[[], object]) -> dict[str, str]:
    """What a call ends with."""
    try:
        return {"kind": "none", "said": str(work())}
    except Exception as error:
        notes = " ".join(getattr(error, "__notes__", ()))
        return {"kind": type(error).__name__, "said": f"{error} {notes}"}


def parts(count: int) -> list[Any]:
    """Batches of three rows each."""
    pa = importlib.import_module("pyarrow")
    return [
        pa.table({"record_key": [str(3 * at + n) for n in range(3)], "record_hash": ["0" * 32] * 3})
        for at in range(count)
    ]


def steps_fail(engine: Engine, work: Path) -> dict[str, Any]:
    """Every way in which a step, a worker or the storage can fail."""

    def run(step: Telling, count: int = 12) -> list[Any]:
        return list(engine.run(step, parts(count)))

    told = [row for one in run(Telling()) for row in one.to_pylist()]
    found: dict[str, Any] = {
        "seen": sorted({row["seen"] for row in told}),
        "keys": [row["record_key"] for row in told],
        "none": len(list(engine.run(Telling(), []))),
    }
    found["die_once"] = tried(lambda: len(run(Failing("die", str(work / "mark")))))
    found["house"] = tried(lambda: run(Failing("house")))
    found["plain"] = tried(lambda: run(Failing("plain")))
    found["odd"] = tried(lambda: run(Failing("odd")))
    return found


def compared(engine: RayEngine, work: Path) -> dict[str, Any]:
    """The same refresh by both engines, and once more by the cluster."""
    folder = declared(work / "records")
    plan = RefreshPlan(load_spec(folder), part_rows=32)
    source = open_source(plan.spec.source, folder)
    local, cluster = RecordTables(work / "local"), RecordTables(work / "cluster")
    with LocalEngine(2) as threads:
        first = refresh(plan, local, source, threads)
    report = refresh(plan, cluster, source, engine)
    mine, theirs = content(local), content(cluster)
    return {
        "equal": mine == theirs,
        "rows": {name: len(rows) for name, rows in theirs.items()},
        "hashes": len({row["record_hash"] for row in theirs["gold"]}),
        "tags": sorted({tag for row in theirs["silver"] for tag in row["tags"]}),
        "reports": [first.as_dict() == report.as_dict(), report.as_dict()],
        "again": refresh(plan, cluster, source, engine).as_dict(),
    }


def answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def main() -> None:
    """Everything on one cluster, as a start of workers takes seconds."""
    warnings.simplefilter("ignore")  # Ray's and Daft's own
    work = Path(sys.argv[1])
    found: dict[str, Any] = {
        "unset": tried(RayEngine),
        "refused": tried(lambda: RayEngine("127.0.0.1:1")),
        "client": tried(lambda: RayEngine("ray://127.0.0.1:10001")),
    }
    utils = importlib.import_module("ray.cluster_utils")
    size = {"num_cpus": 1, "object_store_memory": 80_000_000}
    cluster = utils.Cluster(
        initialize_head=True, head_node_args={**size, "include_dashboard": False}
    )
    try:
        cluster.add_node(**size)
        with (engine := RayEngine(cluster.address)):
            found |= {"compared": compared(engine, work), "failures": steps_fail(engine, work)}
        found["closed"] = tried(lambda: list(engine.run(Telling(), [])))
        found["still_there"] = answers(cluster.address)
        with RayEngine(cluster.address) as again:
            found["killed"] = tried(lambda: list(again.run(Failing("die"), parts(3))))
    except RagwrightError as error:
        found["failed"] = str(error)
    finally:
        cluster.shutdown()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
