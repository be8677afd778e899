"""Tables of records as Delta tables, beside our own format: four refreshes, in one run.

    python -m benchmarks.delta [--rows 80000] [--rounds 3] [--million] [--exports] [--publish]

Rows, patterns and tags are those of ``benchmarks.records``. ``ours`` is the format of the project.
The two others are prototypes that keep everything but the storage: the same steps write the same
Parquet files, and

- ``delta, files``: the files join a Delta table as they are (``create_write_transaction``); a file
  that holds a row that was replaced is written again without it, two files at a time.
- ``delta, merge``: the first refresh as above; later ones give the changed rows to delta-rs'
  ``merge`` on the key, which rewrites files itself.

delta-rs 1.6 reads deletion vectors and writes none, so neither can leave such a file alone. The
prototypes leave out what a change-over would still need (vacuum, compaction, types that differ):
their times are lower bounds. Each figure is of one process from start to end; the ways take turns.
Where other programs use the machine too, processor seconds tell more than wall seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks import records_project as projects
from benchmarks.publish import Cell, Section, Table, publish, section_lines, versions
from benchmarks.records import COMMAND, Figures, note, refreshed, run

WAYS = ("ours", "delta, files", "delta, merge")
STAGES = (
    "first",
    "unchanged",
    "1 % of rows changed",
    "last 1 % of rows changed",
    "one tag's pattern changed",
)
COUNTED = ("bronze", "silver", "gold")
_SETTLED = 2.5
_MANIFEST = "versions.json"


def refresh(folder: str, way: str) -> None:
    """One refresh of a project with tables of one of the ways; what the child process does."""
    from ragwright import Workbench
    from ragwright.drafting import ProjectRecords, Refreshing

    if way == WAYS[2]:
        _plain_texts()
    if way != WAYS[0]:
        tables = _prototype(way)
        ProjectRecords.tables = property(  # type: ignore[assignment, method-assign]
            lambda self: tables(Path(folder) / ".ragwright" / "data" / "records")
        )
    with Workbench.open(folder) as bench:
        report = bench.records.refresh(Refreshing(index=False))
        print(json.dumps(report.as_dict()))


def _plain_texts() -> None:
    """Read texts that delta-rs' merge wrote as what the steps take: it marks them string_view."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    read_schema, read_table = parquet.read_schema, parquet.read_table

    def plain(schema: Any) -> Any:
        text, listed = pa.types.is_string_view, pa.list_(pa.string())
        kinds = {
            field.name: pa.string()
            if text(field.type)
            else listed
            if text(getattr(field.type, "value_type", pa.null()))
            else field.type
            for field in schema
        }
        return pa.schema(list(kinds.items()))

    def read(path: Path, **options: Any) -> Any:
        rows = read_table(path, **options)
        return rows.cast(plain(rows.schema))

    class File(parquet.ParquetFile):  # type: ignore[misc]
        def read(self, *args: Any, **options: Any) -> Any:
            rows = super().read(*args, **options)
            return rows.cast(plain(rows.schema))

    parquet.ParquetFile, parquet.read_table = File, read
    parquet.read_schema = lambda path: plain(read_schema(path))


def _prototype(way: str) -> Any:  # noqa: C901 - classes made here import the room only in the child
    """The class of tables of a prototype; it reaches into the room, whose storage it replaces."""
    import pyarrow as pa

    from ragwright.ledger import FileLock
    from ragwright.records import Manifest, Tables
    from ragwright.records.tables import Writing, read_file, write_part
    from ragwright.records.tables._manifest import TableFile, TableState, now

    def opened(folder: Path, version: int | None = None) -> Any:
        from deltalake import DeltaTable

        return DeltaTable(folder, version=version)

    class States(dict[str, TableState]):
        """Files of the tables, read from a table's log when first asked for."""

        def __init__(self, folder: Path, numbers: Mapping[str, int]) -> None:
            super().__init__(dict.fromkeys(("bronze", "silver", "gold", "left_out"), TableState()))
            self._folder = folder
            self._unread = dict(numbers)

        def __getitem__(self, table: str) -> TableState:
            number = self._unread.pop(table, None)
            if number is not None:
                self[table] = self._read(table, number)
            return super().__getitem__(table)

        def _read(self, table: str, number: int) -> TableState:
            delta = opened(self._folder / table, number)
            adds = pa.table(delta.get_add_actions(flatten=True))
            fields = pa.schema(delta.schema().to_arrow())
            columns = tuple((field.name, str(field.type)) for field in fields)
            files = sorted(
                zip(*(adds[n].to_pylist() for n in ("path", "num_records")), strict=True)
            )
            return TableState(tuple(TableFile(f"{table}/{f}", n, columns) for f, n in files))

    class DeltaWriting(Writing):
        """Commits to the logs of Delta tables, then to a manifest that names their versions."""

        def _kept(self, table: Any, open_table: Any) -> list[TableFile]:
            if way == "delta, merge" and open_table.base:
                return self._merged(table, open_table)
            parts = [(part, open_table.dead(at)) for at, part in enumerate(open_table.parts)]

            def kept(of: tuple[TableFile, Any]) -> TableFile | None:
                part, dead = of
                if dead.all():
                    return None
                if not dead.any():
                    return part
                rows = read_file(self._folder / part.file).filter(pa.array(~dead))
                path = self.new_part(table)
                write_part(rows, path)
                return TableFile(f"{table}/{path.name}", rows.num_rows, part.columns)

            with ThreadPoolExecutor(2) as pool:
                return [part for part in pool.map(kept, parts) if part is not None]

        def _merged(self, table: Any, open_table: Any) -> list[TableFile]:
            """Rows that joined and keys that left, merged by delta-rs."""
            delta = opened(self._folder / table)
            fields = pa.schema(delta.schema().to_arrow())
            came = [read_file(part.path) for part in self.adopted(table)]
            masks = [part.live for part in self.adopted(table)]
            rows = pa.concat_tables(
                [
                    pa.schema(fields).empty_table(),
                    *(
                        one.select(fields.names).cast(fields)
                        if mask is None
                        else one.select(fields.names).cast(fields).filter(pa.array(mask))
                        for one, mask in zip(came, masks, strict=True)
                    ),
                ]
            )
            keys = [pa.chunked_array([], pa.string())]
            for at, part in enumerate(open_table.parts[: open_table.base]):
                dead = open_table.dead(at)
                if dead.any():
                    found = read_file(self._folder / part.file, ["record_key"])["record_key"]
                    keys.append(found.filter(pa.array(dead)).cast(pa.string()))
            gone = pa.concat_arrays(
                [chunk for one in keys for chunk in one.chunks] or [pa.array([], pa.string())]
            )
            import pyarrow.compute as pc

            gone = gone.filter(pc.invert(pc.is_in(gone, rows["record_key"].cast(pa.string()))))
            lost = pa.table({"record_key": gone.cast(fields.field("record_key").type)})
            source = pa.concat_tables(
                [
                    rows.append_column("_gone", pa.array(np.zeros(len(rows), np.bool_))),
                    lost.append_column("_gone", pa.array(np.ones(len(lost), np.bool_))),
                ],
                promote_options="default",
            )
            if not len(source):
                return list(open_table.parts)
            merger = delta.merge(
                source, "t.record_key = s.record_key", source_alias="s", target_alias="t"
            )
            merger = merger.when_matched_delete("s._gone").when_matched_update_all(
                except_cols=["_gone"]
            )
            merger.when_not_matched_insert_all(except_cols=["_gone"]).execute()
            for part in self.adopted(table):
                part.path.unlink()
            return list(States(self._folder, {table: delta.version()})[table].parts)

        def _written(self, manifest: Manifest) -> Manifest:
            numbers = dict(_numbers(self._folder))
            for table, state in manifest.tables.items():
                if state is not self._head.tables[table]:
                    numbers[table] = self._logged(table, self._head.tables[table], state)
            found = replace(manifest, version=self._head.version + 1, created=now())
            text = {"version": found.version, "created": found.created, "note": found.note}
            draft = self._folder / "draft"
            draft.write_text(json.dumps({**text, "lineage": found.lineage, "tables": numbers}))
            draft.rename(self._folder / _MANIFEST)
            return found

        def _logged(self, table: str, before: TableState, state: TableState) -> int:
            from deltalake import Schema
            from deltalake.transaction import (
                AddAction,
                RemoveAction,
                create_table_with_add_actions,
            )

            folder = self._folder / table
            if way == "delta, merge" and before.parts:
                return int(opened(folder).version())
            had = {part.file for part in before.parts}
            has = {part.file for part in state.parts}
            stamp = int(time.time() * 1000)
            actions: list[Any] = [
                AddAction(
                    path=Path(part.file).name,
                    size=(self._folder / part.file).stat().st_size,
                    partition_values={},
                    modification_time=stamp,
                    data_change=True,
                    stats=json.dumps({"numRecords": part.rows}),
                )
                for part in state.parts
                if part.file not in had
            ]
            if not had:
                fields = read_file(self._folder / state.parts[0].file).schema
                schema = Schema.from_arrow(fields)
                create_table_with_add_actions(str(folder), schema, actions)
                return 0
            actions += [RemoveAction(Path(file).name, True, stamp) for file in had - has]
            delta = opened(folder)
            delta.create_write_transaction(actions, "append", delta.schema())
            return int(opened(folder).version())

    def _numbers(folder: Path) -> Mapping[str, int]:
        try:
            found: dict[str, int] = json.loads((folder / _MANIFEST).read_text())["tables"]
        except FileNotFoundError:
            return {}
        return found

    class DeltaTables(Tables):
        """Four Delta tables and one small manifest."""

        @property
        def version(self) -> int:
            return self.manifest().version

        def manifest(self, version: int | None = None) -> Manifest:
            try:
                found = json.loads((self.folder / _MANIFEST).read_text())
            except FileNotFoundError:
                return Manifest()
            states: Any = States(self.folder, found["tables"])
            texts = (found["created"], found["note"], found["lineage"])
            return Manifest(found["version"], *texts, states)

        @contextlib.contextmanager
        def writing(self, holder: str, wait: float = 600.0) -> Iterator[Writing]:
            self._make()
            with FileLock(self.folder / "lock", holder, wait=wait, busy="busy"):
                yield DeltaWriting(self.folder, self.manifest())

    return DeltaTables


def change_last(rows: Path) -> None:
    """The last hundredth of the rows gets a longer text."""
    lines = rows.read_text("utf-8").splitlines()
    for at in range(len(lines) - len(lines) // 100, len(lines)):
        row = json.loads(lines[at])
        row["text"] += " changed at the end"
        lines[at] = json.dumps(row)
    rows.write_text("\n".join(lines) + "\n", "utf-8")


def prepare(stage: str, raw: Path, rows: Path, folders: Sequence[Path], seed: int) -> None:
    """Make the change that a stage measures, for every way."""
    if stage == STAGES[2]:
        projects.change_rows(raw, rows, seed)
    if stage == STAGES[3]:
        change_last(rows)
    if stage == STAGES[4]:
        for folder in folders:
            projects.change_tag(folder)
    time.sleep(_SETTLED if stage == STAGES[0] else 0)


def measured(script: ModuleType, raw: Path, work: Path, times: int) -> dict[str, Figures]:
    """Way -> stage -> seconds, bytes held and bytes on the disk."""
    figures: dict[str, Figures] = {way: {} for way in WAYS}
    for number in range(times):
        place = work / f"round-{number}"
        place.mkdir(parents=True)
        rows = place / "rows.jsonl"
        shutil.copyfile(raw, rows)
        folders = {
            way: projects.declare(place / str(at), script, rows) for at, way in enumerate(WAYS)
        }
        turns = WAYS[number % len(WAYS) :] + WAYS[: number % len(WAYS)]
        for stage in STAGES:
            prepare(stage, raw, rows, list(folders.values()), number)
            counts = set()
            for way in turns:
                before, busy = size(folders[way]), processor()
                taken = run(
                    [sys.executable, "-m", "benchmarks.delta", "--child", str(folders[way]), way],
                    Path.cwd(),
                )
                note(figures[way], stage, "process", taken.seconds)
                note(figures[way], stage, "processor", processor() - busy)
                note(figures[way], stage, "memory", taken.peak)
                note(figures[way], stage, "bytes", size(folders[way]) - before)
                counts.add(json.dumps(counted(taken.document), sort_keys=True))
                print(way, stage, figures[way][stage], file=sys.stderr, flush=True)
            if len(counts) != 1:
                raise SystemExit(f"the ways differ at {stage}: {counts}")
        shutil.rmtree(place)
    return figures


def processor() -> float:
    """Processor seconds of the child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def counted(report: Mapping[str, Any]) -> dict[str, Any]:
    """What a refresh says of rows; the ways must agree on it."""
    return {name: report[name] for name in (*COUNTED, "removed", "left_out")}


def size(folder: Path) -> int:
    """Bytes of the files of the tables."""
    return _bytes(folder / ".ragwright" / "data" / "records")


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def table(figures: dict[str, Figures], caption: str) -> Table:
    """Medians, and each prototype as a multiple of ours."""
    rows: list[Mapping[str, Cell]] = []
    for stage in STAGES:
        for way in WAYS:
            middle = partial(_median, figures, stage)
            row: dict[str, Cell] = {"refresh": stage, "tables": way}
            for what in ("process", "processor"):
                found = middle(way, what)
                row[f"{what} s"] = f"{found:.2f}"
                row[f"{what}, of ours"] = f"{found / middle(WAYS[0], what):.2f}"
            row["MB written"] = f"{middle(way, 'bytes') / 1e6:.1f}"
            row["memory MB"] = f"{middle(way, 'memory') / 1e6:.0f}"
            rows.append(row)
    return Table(rows, caption)


def _median(figures: dict[str, Figures], stage: str, way: str, what: str) -> float:
    return statistics.median(figures[way][stage][what])


def section(arguments: argparse.Namespace, work: Path) -> Section:
    """Measure, and say it."""
    script = projects.peer(work)
    found = {arguments.rows: (arguments.rounds, Path(script.make(arguments.rows)))}
    if arguments.million:
        found[1_000_000] = (1, Path(script.make(1_000_000)))
    shown, data = [], {}
    for count, (times, raw) in found.items():
        figures = measured(script, raw, work / str(count), times)
        data[str(count)] = figures
        caption = f"{count:,} rows, " + (f"medians of {times} runs" if times > 1 else "one run")
        shown.append(table(figures, caption))
    return Section(
        title="Delta tables beside our own",
        tables=shown,
        notes=["All ways report the same counts of rows at every refresh."],
        command="python -m benchmarks.delta --million --publish",
        page="records",
        conditions=versions("daft", "pyarrow", "deltalake"),
        data=data,
    )


def exports(arguments: argparse.Namespace, work: Path) -> Section:
    """What `records export --delta` takes and writes after each refresh, once."""
    script = projects.peer(work)
    raw, rows = Path(script.make(arguments.rows)), work / "rows.jsonl"
    shutil.copyfile(raw, rows)
    folder = projects.declare(work / "project", script, rows)
    found: list[Mapping[str, Cell]] = []
    for stage in STAGES:
        prepare(stage, raw, rows, [folder], 0)
        refreshed(folder, "--no-index")
        words = ("records", "export", "--delta", "lake", "--json")
        busy = processor()
        taken = run([sys.executable, "-c", COMMAND, *words], folder)
        made = json.loads(taken.printed)["tables"].values()
        files = sum(one["written"] for one in made)
        found.append(
            {
                "export after": stage,
                "process s": f"{taken.seconds:.2f}",
                "processor s": f"{processor() - busy:.2f}",
                "files written": str(files),
                "versions": " ".join(str(one["version"]) for one in made),
                "MB in the folder": f"{_bytes(folder / 'lake') / 1e6:.1f}",
            }
        )
    return Section(
        title="Export to Delta tables",
        tables=[Table(found, f"{arguments.rows:,} rows, one run")],
        notes=["Versions: of bronze, silver, gold and left_out. Earlier ones are kept."],
        command="python -m benchmarks.delta --exports --publish",
        page="records",
        conditions=versions("pyarrow", "deltalake"),
        data={"rows": arguments.rows, "exports": found},
    )


def main() -> None:
    """Measure and print; publish if asked."""
    if sys.argv[1:2] == ["--child"]:
        refresh(*sys.argv[2:4])
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=80_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--exports", action="store_true", help="measure the export instead")
    parser.add_argument("--publish", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        found = (exports if arguments.exports else section)(arguments, Path(work))
    print("\n".join(section_lines(found)))
    if arguments.publish:
        publish("records-delta-export" if arguments.exports else "records-delta", found)


if __name__ == "__main__":
    main()
