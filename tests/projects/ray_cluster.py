"""A cluster of two nodes on this machine, and what the engines make of the same rows on it.

Run as a process of its own (Ray leaves threads, handlers and warnings behind); prints one JSON
document. Workers import its steps by name: they tell where they ran, or fail there.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import socket
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ragwright.core import PatternError, RagwrightError
from ragwright.ingest import Engine, LocalEngine, RayEngine
from ragwright.records import KEY, RecordTables, RefreshPlan, load_spec, open_source, refresh

ROWS = 400
WORST = "7"
"""Key of the row that steps fail on."""

# Declarations with a look-ahead and a back-reference.
FILES = {
    "source": "source: rows.jsonl\nkey: id\ntext: body\nkeep: [party]\n",
    "cleaning": "max_characters: 200\nsteps:\n  - links: ['https?://\\S+']\n"
    "  - doubled:\n      - '(\\w)\\1{3,}': '$1'\n  - squeeze_spaces\n  - strip\n",
    "tags": "tags:\n  give ask: '(?i)\\bgive\\b'\n  sign ask: '(?i)sign(?! off)'\n"
    "  urgent tone: '(?i)now'\n  health care hook: '(?i)health|écran'\n",
    "rules": "contradictions:\n  - {name: both, tags: [give ask, sign ask]}\n"
    "duplicates_by: [party]\n",
}
WORDS = ["give", "sign", "now", "health", "écran", "hello", "sooooo", "🙂", "tax", "signed", "off"]


class Odd(Exception):
    """An error that cannot be pickled back: its arguments are not those of its constructor."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


@dataclass(frozen=True)
class Telling:
    """Says of every row in which process it was met, and what that process looks like."""

    def seen(self) -> str:
        names = ("DO_NOT_TRACK", "DAFT_ANALYTICS_ENABLED", "RAY_USAGE_STATS_ENABLED")
        switches, opened = ",".join(os.environ.get(name, "unset") for name in names), []
        for handle in Path("/proc/self/fd").iterdir():
            with suppress(OSError):
                opened.append(handle.readlink().suffix)
        return f"{os.getpid()} {switches} {opened.count('.sqlite') + opened.count('.db')}"

    def __call__(self, batch: Any) -> Any:
        pa = importlib.import_module("pyarrow")
        rows = batch.num_rows
        made = batch.append_column("left_out", pa.nulls(rows, pa.string()))
        return made.append_column("seen", pa.array([self.seen()] * rows))


@dataclass(frozen=True)
class Failing(Telling):
    """Fails on the worst row: with an error (``house``, ``plain``), or dies, once where marked."""

    how: str = "house"
    mark: str = ""

    def __call__(self, batch: Any) -> Any:
        if WORST not in batch.column(KEY).to_pylist():
            return super().__call__(batch)
        if self.how == "house":
            raise PatternError("the pattern took too long", where="row 7", hint="mend it")
        if self.how == "plain":
            raise ZeroDivisionError("by zero")
        if self.how == "odd":
            raise Odd(1, 2)
        if not self.mark or not Path(self.mark).exists():
            if self.mark:
                Path(self.mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(batch)


def declared(folder: Path) -> Path:
    folder.mkdir()
    for name, text in FILES.items():
        (folder / f"{name}.yaml").write_text(text, "utf-8")
    chance = random.Random(5)
    with (folder / "rows.jsonl").open("w", encoding="utf-8") as file:
        for number in range(ROWS):
            said = chance.choices([*WORDS, "https://x.example/a"], k=chance.randrange(0, 40))
            row = {"id": number, "body": " ".join(said), "party": chance.choice("ab")}
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
    try:
        return {"kind": "none", "said": str(work())}
    except Exception as error:
        notes = " ".join(getattr(error, "__notes__", ()))
        return {"kind": type(error).__name__, "said": f"{error} {notes}"}


def run(engine: Engine, step: Telling, count: int = 12) -> list[Any]:
    pa, keys = importlib.import_module("pyarrow"), [str(n) for n in range(3 * count)]
    whole = pa.table({"record_key": keys, "record_hash": ["0" * 32] * len(keys)})
    return list(engine.run(step, [whole.slice(3 * at, 3) for at in range(count)]))


def steps_fail(engine: Engine, work: Path) -> dict[str, Any]:
    """Every way in which a step, a worker or the storage can fail."""
    told = [row for one in run(engine, Telling()) for row in one.to_pylist()]
    die_once = Failing("die", str(work / "mark"))
    return {
        "seen": sorted({row["seen"] for row in told}),
        "keys": [row["record_key"] for row in told],
        "none": len(list(engine.run(Telling(), []))),
        "die_once": tried(lambda: len(run(engine, die_once))),
        **{how: tried(partial(run, engine, Failing(how))) for how in ("house", "plain", "odd")},
    }


def compared(engine: RayEngine, work: Path) -> dict[str, Any]:
    """The same refresh by both engines, and once more by the cluster."""
    folder = declared(work / "records")
    plan = RefreshPlan(load_spec(folder))
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


def main() -> None:
    """Everything on one cluster, as a start of workers takes seconds."""
    warnings.simplefilter("ignore")  # Ray's and Daft's own
    work = Path(sys.argv[1])
    found: dict[str, Any] = {
        "unset": tried(RayEngine),
        "refused": tried(lambda: RayEngine("127.0.0.1:1")),
        "client": tried(lambda: RayEngine("ray://127.0.0.1:10001")),
    }
    size = {"num_cpus": 1, "object_store_memory": 80_000_000}
    cluster = importlib.import_module("ray.cluster_utils").Cluster(
        initialize_head=True, head_node_args={**size, "include_dashboard": False}
    )
    try:
        cluster.add_node(**size)
        with (engine := RayEngine(cluster.address)):
            found |= {"compared": compared(engine, work), "failures": steps_fail(engine, work)}
        found["closed"] = tried(lambda: list(engine.run(Telling(), [])))
        host, _, port = cluster.address.rpartition(":")
        with socket.socket() as probe:
            found["still_there"] = probe.connect_ex((host, int(port))) == 0
        with RayEngine(cluster.address) as again:
            found["killed"] = tried(lambda: run(again, Failing("die"), 3))
    except RagwrightError as error:
        found["failed"] = str(error)
    finally:
        cluster.shutdown()
    print(json.dumps(found))


if __name__ == "__main__":
    importlib.import_module("ray_cluster").main()  # its steps have a module that workers import
