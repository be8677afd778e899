"""The records of a project: tables and index follow the source, and each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet as pq
from story_tools import write_files, write_rows

from ragwright import Session, Workbench
from ragwright.core import ModelError, RecordsError, RetrieveError, StoreBusyError
from ragwright.drafting import RefreshOptions
from ragwright.models import Embedder

FILES = {
    "ragwright.yaml": "records: {wait: 0.2}\n",
    "records/source.yaml": "source: records/rows.jsonl\nkey: id\ntext: body\nkeep: [party]\n",
    "records/tags.yaml": "tags:\n  give ask: '(?i)give'\n  health hook: '(?i)health'\n",
    "records/rollups.yaml": "client: {column: sender, names: {Jane Doe: ['DOE, JANE']}}\n",
}
FULL = RefreshOptions(full=True)


class Letters(Embedder):
    """Counts letters; remembers what it was asked, fails when it is told to."""

    identity = "letters"
    dimensions = 26

    def __init__(self, hears: Callable[[list[str]], None] | None = None) -> None:
        self.texts: list[str] = []
        self.fails, self.hears = False, hears

    def embed_batch(self, texts: list[str]) -> np.ndarray:  # type: ignore[override]
        if self.fails:
            raise ModelError("the model is out of order")
        self.texts += texts
        if self.hears is not None:
            self.hears(texts)
        counts = [[1 + t.lower().count(chr(97 + i)) for i in range(26)] for t in texts]
        made: np.ndarray = np.array(counts, np.float32)
        return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), np.float32)


def row(key: int, body: str, sender: str = "Jane Doe", party: str = "D") -> dict[str, Any]:
    return {"id": key, "body": body, "sender": sender, "party": party}


ROWS = [
    row(1, "Give for clean water today"),
    row(2, "Your health is what we fight for", "DOE, JANE"),
    row(3, "Give so that health care stays", "Ann Poe", "R"),
]
NEW = row(4, "New")
LONG = "x" * 1100


def project(folder: Path, *rows: dict[str, Any]) -> Path:
    """Declarations and rows."""
    write_files(folder, FILES)
    write_rows(folder / "records/rows.jsonl", rows)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return project(tmp_path, *ROWS)


def opened(folder: Path, *overrides: str, embedder: Letters | None = None) -> Workbench:
    if embedder is None:
        return Workbench.open(folder, Session(overrides))
    bench = Workbench.open(folder, Session((*overrides, "embed.model=letters")))
    bench.project.models.register("letters", embedder)
    return bench


@pytest.fixture
def bench(folder: Path) -> Iterator[Workbench]:
    with opened(folder) as made:
        made.records.refresh()
        yield made


def refreshed(
    folder: Path, *overrides: str, embedder: Letters | None = None, full: bool = False
) -> tuple[int, int, int, int]:
    """Records embedded, written to the index, unchanged and removed by a refresh."""
    with opened(folder, *overrides, embedder=embedder) as bench:
        return index_counts(bench.records.refresh(RefreshOptions(full=full)))


def index_counts(report: Any) -> tuple[int, int, int, int]:
    index = report.index
    return index.embedded, index.written, index.unchanged, index.removed


def test_only_rows_that_changed_are_embedded_and_written(folder: Path) -> None:
    embedder = Letters()
    assert refreshed(folder, embedder=embedder) == (3, 3, 0, 0)
    assert len(embedder.texts) == 3
    assert refreshed(folder, embedder=embedder) == (0, 0, 3, 0)
    assert refreshed(folder, embedder=embedder, full=True) == (0, 0, 3, 0)
    project(folder, *ROWS[:2], row(3, "Give to the arts", "Ann Poe", "R"), NEW)
    with opened(folder, embedder=embedder) as bench:
        report = bench.records.refresh()
        gold = report.tables.counts["gold"].as_dict()
        assert gold == {"inserted": 1, "updated": 1, "unchanged": 2}
        assert index_counts(report) == (2, 2, 2, 0)
        assert len(embedder.texts) == 5
        # an embedding that fails leaves the index behind, and is made up for
        project(folder, *ROWS, NEW, row(5, "Newer"))
        embedder.fails = True
        with pytest.raises(ModelError):
            bench.records.refresh()
        assert bench.records.tables.rows("gold") == 5
        embedder.fails = False
        assert index_counts(bench.records.refresh()) == (1, 2, 3, 0)  # one text is known
        # rows that fall out leave the index; what others removed comes back
        project(folder, row(1, LONG), *ROWS[1:], NEW)
        assert index_counts(bench.records.refresh()) == (0, 0, 4, 1)
        assert "record:1" not in {one.id for one in bench.documents()}
        bench.project.store.remove(["record:2"])
        assert index_counts(bench.records.refresh()) == (0, 1, 3, 0)
    # other index settings have an index of their own
    assert refreshed(folder, "keyword.language=none") == (0, 4, 0, 0)
    assert refreshed(folder, embedder=embedder) == (0, 0, 4, 0)


def test_records_are_found_by_what_they_say_and_are(folder: Path, bench: Workbench) -> None:
    with opened(folder, "retrieve.filters=[{field: client, values: [Jane Doe]}]") as named:
        [hit] = named.retrieve("health", 5).hits
    assert hit.document_id == "record:2"
    found = hit.metadata
    assert (found["kind"], found["topic"], found["party"]) == ("record", ("health",), "D")
    assert hit.text[int(str(found["message_at"])) :] == "Your health is what we fight for"
    # documents stay beside records
    (folder / "guide.md").write_text("# Water\n\nWater is clean.\n", "utf-8")
    bench.ingest(folder / "guide.md", prune=True)
    bench.records.refresh(FULL)
    assert len(list(bench.documents())) == 4
    kept = [path for path in bench.records.tables.folder.rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}, "files are the owner's alone"


def test_source_key_and_text_can_be_named_for_once(folder: Path) -> None:
    write_files(folder, {"other.csv": "number,words,sender\n7,Give again,Ann Poe\n"})
    named = RefreshOptions(source=str(folder / "other.csv"), key="number", text="words")
    with opened(folder) as bench, pytest.raises(RecordsError, match="party"):
        bench.records.refresh(named)
    write_files(folder, {"records/source.yaml": "source: none.csv\nkey: id\ntext: body\n"})
    with opened(folder) as bench:
        bench.records.refresh(named)
        assert bench.records.rows("gold", 1)[0]["text"] == "Give again"


def test_doctor_says_how_far_tables_and_index_are(folder: Path) -> None:
    def found() -> list[tuple[str, str]]:
        with opened(folder) as bench:
            return [(one.state, one.text) for one in bench.doctor() if one.topic == "records"]

    assert found() == [("note", "the tables are empty")]
    with opened(folder) as bench:
        bench.records.refresh(RefreshOptions(index=False))
        assert [state for state, _ in found()] == ["ok", "note"]
        bench.records.refresh()
    assert [state for state, _ in found()] == ["ok"]
    (folder / "records/tags.yaml").write_text("tags: {odd name: x}\n", "utf-8")
    [fault] = found()
    assert fault[0] == "fault"
    assert "tags.yaml:1" in fault[1]


def test_a_dry_run_keeps_nothing_and_what_fills_the_index_is_named(folder: Path) -> None:
    with opened(folder) as bench:
        report = bench.records.refresh(RefreshOptions(dry_run=True))
        assert (report.tables.counts["gold"].inserted, report.index) == (3, None)
        assert bench.records.tables.version == 0
        with pytest.raises(RetrieveError) as caught:
            bench.retrieve("water")
    assert caught.value.hint == "run: ragwright records refresh"
    with opened(folder, "sources=[docs]") as bench:
        over = "--set 'sources=[docs]'"
        commands = f"ragwright ingest {over} and ragwright records refresh {over}"
        assert bench.project.filled_by == commands


@pytest.mark.slow
def test_a_forgotten_record_leaves_no_byte_behind(folder: Path) -> None:
    secret = "Ziggurat"
    project(folder, row(1, f"Give to {secret}"), *ROWS[1:], row(4, f"Give to {secret}"))
    with opened(folder) as bench:
        for said in ("Give to Ziggurat", "Give all to Ziggurat", "Give all"):
            project(folder, row(1, said), *ROWS[1:], *[row(4, said)] * (said == "Give to Ziggurat"))
            bench.records.refresh()
        assert bench.forget("record:1")["records"] == 9  # three texts of three tables
        assert [one.version for one in bench.records.tables.history()] == [4]
        assert bench.forget("record:1")["records"] == 0
    kept = [path for path in (folder / ".ragwright").rglob("*") if path.is_file()]
    tables = [pq.read_table(path) for path in kept if path.suffix == ".parquet"]
    assert tables
    assert not any("Give all" in str(table.to_pydict()) for table in tables)
    assert not any("1" in table.column("record_key").to_pylist() for table in tables)
    project(folder, *ROWS[1:])
    with opened(folder) as bench:
        bench.records.refresh()
        found = {one.id for one in bench.documents()}
    assert found == {"record:2", "record:3", "record:4"}  # 4 is nobody's duplicate now


def test_two_syncs_take_turns(folder: Path) -> None:
    said = []

    def meanwhile(texts: list[str]) -> None:
        with pytest.raises(StoreBusyError) as caught:
            refreshed(folder, embedder=Letters())
        said.append(str(caught.value))

    refreshed(folder, embedder=Letters(meanwhile))
    assert "index sync of records" in said[0]
