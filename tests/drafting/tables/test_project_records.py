"""The records of a project: tables and index follow the source, and each other."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet as pq

from ragwright import Session, Workbench
from ragwright.core import ConfigError, ModelError, RecordsError, RetrieveError, StoreBusyError
from ragwright.drafting import RefreshOptions, index_is_behind
from ragwright.models import Embedder

FILES = {
    "ragwright.yaml": "records: {wait: 0.2}\n",
    "records/source.yaml": "source: records/rows.jsonl\nkey: id\ntext: body\nkeep: [party]\n",
    "records/tags.yaml": "tags:\n  give ask: '(?i)give'\n  health hook: '(?i)health'\n",
    "records/rollups.yaml": "client: {column: sender, names: {Jane Doe: ['DOE, JANE']}}\n",
}


class Letters(Embedder):
    """Counts letters; remembers what it was asked, fails when it is told to."""

    identity = "letters"
    dimensions = 26

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.fails = False
        self.hears: Callable[[list[str]], None] | None = None

    def embed_batch(self, texts: list[str]) -> np.ndarray:  # type: ignore[override]
        if self.fails:
            raise ModelError("the model is out of order")
        self.texts += texts
        if self.hears is not None:
            self.hears(texts)
        made: np.ndarray = np.array(
            [[1 + t.lower().count(chr(97 + i)) for i in range(26)] for t in texts], np.float32
        )
        return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), np.float32)


def row(key: int, body: str, sender: str = "Jane Doe", party: str = "D") -> dict[str, Any]:
    return {"id": key, "body": body, "sender": sender, "party": party}


ROWS = [
    row(1, "Give for clean water today"),
    row(2, "Your health is what we fight for", "DOE, JANE"),
    row(3, "Give so that health care stays", "Ann Poe", "R"),
]


def written(folder: Path, rows: list[dict[str, Any]]) -> None:
    (folder / "records").mkdir(exist_ok=True, parents=True)
    lines = "".join(json.dumps(one) + "\n" for one in rows)
    (folder / "records/rows.jsonl").write_text(lines, "utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    written(tmp_path, ROWS)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


def opened(folder: Path, *overrides: str, embedder: Letters | None = None) -> Workbench:
    if embedder is None:
        return Workbench.open(folder, Session(overrides))
    bench = Workbench.open(folder, Session((*overrides, "embed.model=letters")))
    bench.project.models.register("letters", embedder)
    return bench


def index_counts(report: Any) -> tuple[int, int, int, int]:
    index = report.index
    return index.embedded, index.written, index.unchanged, index.removed


def test_only_rows_that_changed_are_embedded_and_written(folder: Path) -> None:
    embedder = Letters()
    with opened(folder, embedder=embedder) as bench:
        assert index_counts(bench.records.refresh()) == (3, 3, 0, 0)
    assert len(embedder.texts) == 3
    with opened(folder, embedder=embedder) as bench:
        assert index_counts(bench.records.refresh()) == (0, 0, 3, 0)
        assert index_counts(bench.records.refresh(RefreshOptions(full=True))) == (0, 0, 3, 0)
    written(folder, [*ROWS[:2], row(3, "Give to the arts", "Ann Poe", "R"), row(4, "New")])
    with opened(folder, embedder=embedder) as bench:
        report = bench.records.refresh()
        assert report.tables.counts["gold"].as_dict() == {
            "inserted": 1,
            "updated": 1,
            "unchanged": 2,
        }
        assert index_counts(report) == (2, 2, 2, 0)
    assert len(embedder.texts) == 5


def test_records_are_found_by_what_they_say_and_what_they_are(folder: Path) -> None:
    with opened(folder, "retrieve.filters=[{field: client, values: [Jane Doe]}]") as bench:
        bench.records.refresh()
        hits = bench.retrieve("health", 5).hits
    assert [hit.document_id for hit in hits] == ["record:2"]
    found = hits[0].metadata
    assert found["kind"] == "record"
    assert found["topic"] == ("health",)
    assert found["party"] == "D"
    assert hits[0].text[int(str(found["message_at"])) :] == "Your health is what we fight for"


def test_documents_stay_beside_records(folder: Path) -> None:
    (folder / "guide.md").write_text("# Water\n\nWater is clean.\n", "utf-8")
    with opened(folder) as bench:
        bench.records.refresh()
        bench.ingest(folder / "guide.md", prune=True)
        bench.records.refresh(RefreshOptions(full=True))
        assert len(list(bench.documents())) == 4


def test_rows_that_fall_out_leave_the_index(folder: Path) -> None:
    with opened(folder) as bench:
        bench.records.refresh()
        written(folder, [row(1, "x" * 1100), *ROWS[1:]])
        report = bench.records.refresh()
        assert index_counts(report) == (0, 0, 2, 1)
        assert {one.id for one in bench.documents()} == {"record:2", "record:3"}


def test_an_embedding_that_fails_leaves_the_index_behind_and_is_made_up_for(folder: Path) -> None:
    embedder = Letters()
    with opened(folder, embedder=embedder) as bench:
        bench.records.refresh()
        written(folder, [*ROWS, row(4, "New")])
        embedder.fails = True
        with pytest.raises(ModelError):
            bench.records.refresh()
        assert bench.records.tables.rows("gold") == 4
        embedder.fails = False
        assert index_counts(bench.records.refresh()) == (1, 1, 3, 0)


def test_an_index_that_others_changed_is_looked_at_row_by_row(folder: Path) -> None:
    with opened(folder) as bench:
        bench.records.refresh()
        bench.project.store.remove(["record:2"])
        assert index_counts(bench.records.refresh()) == (0, 1, 2, 0)


@pytest.mark.slow
def test_an_index_brought_up_to_date_is_the_one_that_is_made_afresh(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows = [row(n, f"Give for cause {n}") for n in range(40)]
    later = [
        row(n, f"Health is cause {n}") if n % 7 == 0 else row(n, f"Give for cause {n}")
        for n in range(50)
    ]
    later[5] = row(5, "x" * 1100)
    afresh = tmp_path_factory.mktemp("afresh")
    for name, text in FILES.items():
        (afresh / name).parent.mkdir(exist_ok=True)
        (afresh / name).write_text(text, "utf-8")
    written(folder, rows)
    written(afresh, later)
    with opened(folder) as bench, opened(afresh) as other:
        bench.records.refresh()
        written(folder, later)
        # 10 new rows, 6 changed ones; one fell out
        assert index_counts(bench.records.refresh()) == (0, 16, 33, 1)
        other.records.refresh()
        assert bench.project.store.snapshot(
            bench.project.index_spec
        ) == other.project.store.snapshot(other.project.index_spec)
        assert list(bench.documents()) == list(other.documents())


def test_other_index_settings_have_an_index_of_their_own(folder: Path) -> None:
    with opened(folder) as bench:
        bench.records.refresh()
    with opened(folder, "keyword.language=none") as bench:
        assert index_counts(bench.records.refresh()) == (0, 3, 0, 0)
    with opened(folder) as bench:
        assert index_counts(bench.records.refresh()) == (0, 0, 3, 0)


def test_source_key_and_text_can_be_named_for_once(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("number,words,sender\n7,Give again,Ann Poe\n", "utf-8")
    with opened(folder) as bench, pytest.raises(RecordsError, match="party"):
        bench.records.refresh(RefreshOptions(source=str(other), key="number", text="words"))
    (folder / "records/source.yaml").write_text("source: none.csv\nkey: id\ntext: body\n", "utf-8")
    with opened(folder) as bench:
        bench.records.refresh(RefreshOptions(source=str(other), key="number", text="words"))
        assert bench.records.rows("gold", 1)[0]["text"] == "Give again"


def test_a_second_refresh_waits_or_says_who_holds_the_tables(folder: Path) -> None:
    with opened(folder) as bench:
        bench.records.refresh()
        held, done = threading.Event(), threading.Event()

        def hold() -> None:
            with bench.records.tables.writing("a long refresh", 1):
                held.set()
                done.wait(10)

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(10)
        try:
            with pytest.raises(StoreBusyError, match="a long refresh"):
                bench.records.refresh(RefreshOptions(full=True))
        finally:
            done.set()
            thread.join()


def test_a_project_without_records_says_how_to_begin(tmp_path: Path) -> None:
    (tmp_path / "ragwright.yaml").write_text("sources: [x]\n", "utf-8")
    with opened(tmp_path) as bench, pytest.raises(ConfigError, match="no records") as caught:
        bench.records.refresh()
    assert "init --template records" in str(caught.value)


def test_a_dry_run_keeps_nothing(folder: Path) -> None:
    with opened(folder) as bench:
        report = bench.records.refresh(RefreshOptions(dry_run=True))
        assert report.tables.counts["gold"].inserted == 3
        assert report.index is None
        assert bench.records.tables.version == 0


def test_doctor_says_how_far_tables_and_index_are(folder: Path) -> None:
    def found() -> list[tuple[str, str]]:
        with opened(folder) as bench:
            return [(one.state, one.text) for one in bench.doctor() if one.topic == "records"]

    assert found() == [("note", "the tables are empty")]
    with opened(folder) as bench:
        bench.records.refresh(RefreshOptions(index=False))
    assert [state for state, _ in found()] == ["ok", "note"]
    with opened(folder) as bench:
        bench.records.refresh()
    assert [state for state, _ in found()] == ["ok"]
    (folder / "records/tags.yaml").write_text("tags: {odd name: x}\n", "utf-8")
    [fault, _] = found()
    assert fault[0] == "fault"
    assert "tags.yaml:1" in fault[1]


@pytest.mark.slow
def test_a_forgotten_record_leaves_no_byte_behind(folder: Path) -> None:
    secret = "Ziggurat"
    written(folder, [row(1, f"Give to {secret}"), *ROWS[1:], row(4, f"Give to {secret}")])
    with opened(folder) as bench:
        bench.records.refresh()
        written(folder, [row(1, f"Give all to {secret}"), *ROWS[1:]])
        bench.records.refresh()
        written(folder, [row(1, "Give all"), *ROWS[1:]])
        bench.records.refresh()
        assert bench.forget("record:1")["records"] == 9  # three texts of three tables
        assert [one.version for one in bench.records.tables.history()] == [4]
        assert bench.forget("record:1")["records"] == 0
    kept = [path for path in (folder / ".ragwright").rglob("*") if path.is_file()]
    tables = [pq.read_table(path) for path in kept if path.suffix == ".parquet"]
    assert tables
    assert not any("Give all" in str(table.to_pydict()) for table in tables)
    assert not any("1" in table.column("record_key").to_pylist() for table in tables)
    written(folder, ROWS[1:])
    with opened(folder) as bench:
        bench.records.refresh()
        found = {one.id for one in bench.documents()}
    assert found == {"record:2", "record:3", "record:4"}  # 4 is nobody's duplicate now


def test_what_fills_the_index_is_named(folder: Path) -> None:
    with opened(folder) as bench, pytest.raises(RetrieveError) as caught:
        bench.retrieve("water")
    assert caught.value.hint == "run: ragwright records refresh"
    with opened(folder, "sources=[docs]") as bench:
        over = "--set 'sources=[docs]'"
        commands = f"ragwright ingest {over} and ragwright records refresh {over}"
        assert bench.project.filled_by == commands


@pytest.mark.slow
def test_what_another_refresh_commits_during_a_sync_is_the_next_ones(folder: Path) -> None:
    embedder = Letters()
    with opened(folder, embedder=embedder) as bench:
        bench.records.refresh()
    written(folder, [*ROWS, row(4, "A secret that should go")])

    def meanwhile(texts: list[str]) -> None:
        if any("secret" in text for text in texts):
            written(folder, [*ROWS[:2], row(3, "x" * 1100), row(4, "Redacted")])
            with opened(folder, embedder=Letters()) as other:
                other.records.refresh(RefreshOptions(index=False))

    embedder.hears = meanwhile
    with opened(folder, embedder=embedder) as bench:
        bench.records.refresh()
        assert index_is_behind(bench.project, bench.records.tables)
    embedder.hears = None
    with opened(folder, embedder=embedder) as bench:
        assert index_counts(bench.records.refresh()) == (1, 1, 2, 1)
        texts = {one.id: one.text for one in bench.documents()}
    assert set(texts) == {"record:1", "record:2", "record:4"}
    assert texts["record:4"].endswith("Redacted")


def test_two_syncs_take_turns(folder: Path) -> None:
    embedder, said = Letters(), []

    def meanwhile(texts: list[str]) -> None:
        with opened(folder, embedder=Letters()) as other, pytest.raises(StoreBusyError) as caught:
            other.records.refresh()
        said.append(str(caught.value))

    embedder.hears = meanwhile
    with opened(folder, embedder=embedder) as bench:
        bench.records.refresh()
    assert "index sync of records" in said[0]


def test_files_are_the_owners_alone(folder: Path) -> None:
    with opened(folder) as bench:
        bench.records.refresh()
        kept = [path for path in bench.records.tables.folder.rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}
