"""Tables in versions: what joins, what leaves, what is kept, what others can read."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from table_rows import content, files, holds, named, table_of, upsert

from ragwright.core import RecordsError, SchemaVersionError, SnapshotGoneError, StoreError
from ragwright.records import KEY, TABLES, Manifest, RecordTables, UpsertCounts


def commit(tables: RecordTables, rows: dict[str, object], *, gone: tuple[str, ...] = ()) -> int:
    with tables.writing("test", 5) as writing:
        if rows:
            upsert(writing, "bronze", rows)
        writing.remove("bronze", list(gone))
        return writing.commit({}, "test")


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    assert tables.version == 0
    assert tables.manifest() == Manifest()
    assert tables.history() == ()
    assert [tables.rows(table) for table in TABLES] == [0, 0, 0, 0]
    assert list(tables.read("gold")) == []
    assert list(tables.read("gold", ["client"])) == []
    assert not (tmp_path / "tables").exists()
    with pytest.raises(SnapshotGoneError, match="version 3"):
        tables.manifest(3)
    with pytest.raises(RecordsError, match="unknown table 'brass'"):
        tables.rows("brass")  # type: ignore[arg-type]


def test_rows_are_inserted_updated_and_left_as_they_are(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    with tables.writing("first", 5) as writing:
        assert upsert(writing, "bronze", {"a": "1", "b": "2", "c": "3"}) == UpsertCounts(3)
        assert content(writing, "bronze") == [("a", "1"), ("b", "2"), ("c", "3")]
        assert tables.rows("bronze") == 0  # nobody else sees it yet
        assert writing.commit({"source": "x"}, "the first") == 1
    with tables.writing("second", 5) as writing:
        counts = upsert(writing, "bronze", {"b": "2", "c": "changed", "d": "4"})
        assert counts == UpsertCounts(inserted=1, updated=1, unchanged=1)
        assert writing.rows("bronze") == 4
        assert writing.commit({"source": "y"}, "the second") == 2
    assert content(tables, "bronze") == [("a", "1"), ("b", "2"), ("c", "changed"), ("d", "4")]
    assert content(tables, "bronze", version=1) == [("a", "1"), ("b", "2"), ("c", "3")]
    assert content(tables, "bronze", keys=["d", "b", "z"]) == [("b", "2"), ("d", "4")]
    assert [(m.version, m.note, m.lineage) for m in tables.history()] == [
        (2, "the second", {"source": "y"}),
        (1, "the first", {"source": "x"}),
    ]
    assert tables.manifest().rows == {"bronze": 4, "silver": 0, "gold": 0, "left_out": 0}


def test_leaving_without_commit_leaves_nothing(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    commit(tables, {"a": "1"})
    before = files(tables.folder)
    with tables.writing("dry run", 5) as writing:
        upsert(writing, "bronze", {"a": "2", "b": "3"})
        upsert(writing, "gold", {"a": "2"})
        assert content(writing, "gold") == [("a", "2")]
    with contextlib.suppress(ZeroDivisionError), tables.writing("fails", 5) as writing:
        upsert(writing, "bronze", {"a": "7"})
        assert content(writing, "bronze") == [("a", "7")]
        upsert(writing, "bronze", {"a": str(1 // 0)})
    assert files(tables.folder) == before
    assert content(tables, "bronze") == [("a", "1")]
    for table, rows in (("bronze", 1), ("gold", 0)):
        assert len(deltalake.DeltaTable(str(tables.folder / table)).to_pyarrow_table()) == rows
    commit(tables, {"b": "1"})
    assert content(tables, "bronze") == [("a", "1"), ("b", "1")]


def test_a_commit_without_a_change_writes_nothing(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    commit(tables, {"a": "1"})
    before = set(tables.folder.rglob("*"))
    with tables.writing("again", 5) as writing:
        assert upsert(writing, "bronze", {"a": "1"}) == UpsertCounts(unchanged=1)
        assert writing.remove("bronze", ["nobody"]) == 0
        assert writing.commit({}, "again") == 1
    assert set(tables.folder.rglob("*")) == before
    with tables.writing("other lineage", 5) as writing:
        assert writing.commit({"tags": {"b": 1, "a": 2}}, "") == 2
    with tables.writing("equal lineage", 5) as writing:
        assert writing.commit({"tags": {"a": 2, "b": 1}}, "") == 2


def test_the_first_commit_makes_a_version_even_of_nothing(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    with tables.writing("empty", 5) as writing:
        assert writing.commit({}, "") == 1
    assert tables.version == 1


def test_rows_leave_and_other_tables_stay(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    with tables.writing("test", 5) as writing:
        for table in TABLES:
            upsert(writing, table, {"a": "1", "b": "2"})
        writing.commit({}, "")
    with tables.writing("test", 5) as writing:
        assert writing.remove("gold", ["a", "a", "z"]) == 1
        assert writing.remove("gold", ["a"]) == 0
        assert writing.commit({}, "") == 2
    assert tables.manifest().rows == {"bronze": 2, "silver": 2, "gold": 1, "left_out": 2}


def test_what_left_may_come_again_in_the_same_writing(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    commit(tables, {"a": "1", "b": "1"})
    with tables.writing("test", 5) as writing:
        writing.remove("bronze", ["a", "b"])
        assert upsert(writing, "bronze", {"a": "5"}) == UpsertCounts(1)
        upsert(writing, "bronze", {"c": "1"})
        writing.remove("bronze", ["c"])
        writing.commit({}, "")
    assert content(tables, "bronze") == [("a", "5")]


def test_old_versions_and_their_files_go(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables", keep=2)
    for number in range(5):
        commit(tables, {"a": str(number)})
    assert [m.version for m in tables.history()] == [5, 4]
    assert content(tables, "bronze", version=4) == [("a", "3")]
    with pytest.raises(SnapshotGoneError, match=r"(?s)version 3 .*available versions: 4 to 5"):
        content(tables, "bronze", version=3)
    assert files(tables.folder) == named(tables)


def test_a_version_that_goes_before_it_is_read_says_so(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables", keep=1)
    commit(tables, {"a": "1", "b": "1"})
    (old,) = (tables.folder / name for name in tables.manifest().files if "bronze" in name)
    old.unlink()
    with pytest.raises(StoreError, match="bronze"):
        list(tables.read("bronze"))


def test_what_strangers_put_there_stays(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables", keep=1)
    commit(tables, {"a": "1"})
    strangers = {"gold/mine.parquet", "manifests/notes.txt", "silver/README"}
    for name in strangers:
        (tables.folder / name).write_text("mine")
    commit(tables, {"a": "2"})
    assert files(tables.folder) == strangers | named(tables)


@pytest.mark.slow
def test_writers_take_turns(tmp_path: Path) -> None:
    def write_five(name: str) -> None:
        tables = RecordTables(tmp_path / "tables")
        for number in range(5):
            with tables.writing(name, 60) as writing:
                held = len(writing.hashes("bronze"))
                upsert(writing, "bronze", {f"{name}{number}": str(held), "last": f"{name}{number}"})
                writing.commit({}, "")

    threads = [threading.Thread(target=write_five, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tables = RecordTables(tmp_path / "tables")
    assert tables.version == 10
    held = [int(text) for key, text in content(tables, "bronze") if key != "last"]
    assert sorted(held) == [0, *range(2, 11)]  # each saw what the one before it had written


def test_a_file_damaged_later_is_named(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    commit(tables, {f"k{n}": str(n) for n in range(1000)})
    (path,) = (tables.folder / name for name in tables.manifest().files if "bronze" in name)
    whole = path.read_bytes()
    path.write_bytes(whole[:200] + bytes(200) + whole[400:])
    with pytest.raises(StoreError, match=r"cannot be read(?s:.*)restore it from a backup"):
        list(tables.read("bronze"))
    with pytest.raises(StoreError, match="cannot be read"), tables.writing("x", 5) as writing:
        writing.hashes("bronze")


def test_a_manifest_put_back_by_hand_is_read_anew(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    commit(tables, {"a": "1"})
    commit(tables, {"a": "2"})
    assert tables.rows("bronze") == 1
    (tables.folder / "manifests/00000002.json").unlink()
    commit(RecordTables(tables.folder), {"b": "2"})
    assert content(tables, "bronze") == [("a", "1"), ("b", "2")]


def test_new_columns_and_other_types_read_as_one_table(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    columns: list[dict[str, Any]] = [
        {"zip": [7], "sum": [1], "none": [None], "on": [1.5], "tags": [["a"]], "both": [b"x"]},
        {"zip": ["07"], "sum": [1.5], "none": [3], "new": ["n"], "on": [True], "tags": ["b, c"]},
    ]
    for key, more in zip("ab", columns, strict=True):
        with tables.writing("test", 5) as writing:
            writing.upsert("bronze", table_of([key], [key], **more))
            writing.commit({}, "")
    first, second = (row for batch in tables.read("bronze") for row in batch.to_pylist())
    names = ("zip", "sum", "none", "on", "tags", "both", "new")
    assert [first[name] for name in names] == ["7", 1.0, None, "1.5", '["a"]', b"x", None]
    assert [second[name] for name in names] == ["07", 1.5, 3, "true", "b, c", None, "n"]
    found = [row for batch in tables.read("bronze", ["new"]) for row in batch.to_pylist()]
    assert found == [{"new": None}, {"new": "n"}]
    with pytest.raises(RecordsError, match=r"(?s)no column 'zap'.*did you mean 'zip'"):
        list(tables.read("bronze", ["zap"]))
    first = next(iter(tables.read("bronze", version=1))).to_pylist()[0]
    assert [first.get(name) for name in names] == [7, 1, None, 1.5, ["a"], b"x", None]


@pytest.mark.parametrize(
    ("one", "other", "joined"),
    [
        (pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("us")),
        (pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.string()),
        (pa.uint64(), pa.int64(), pa.decimal128(20, 0)),
        (pa.binary(), pa.string(), pa.string()),
        (pa.null(), pa.binary(), pa.binary()),
        (pa.dictionary(pa.int32(), pa.string()), pa.string(), pa.string()),
        (pa.list_(pa.string()), pa.list_(pa.int64()), pa.string()),
        (pa.int32(), pa.int64(), pa.int64()),
    ],
)
@pytest.mark.parametrize("commits", [1, 2])
def test_types_that_join(tmp_path: Path, one: Any, other: Any, joined: Any, commits: int) -> None:
    tables = RecordTables(tmp_path / "tables")
    rows = [table_of([k], [k], value=pa.nulls(1, t)) for k, t in (("a", one), ("b", other))]
    for part in (rows,) if commits == 1 else ([rows[0]], [rows[1]]):
        with tables.writing("test", 5) as writing:
            for each in part:
                writing.upsert("gold", each)
            writing.commit({}, "")
    found = pa.concat_tables(tables.read("gold", ["value"]))
    assert (found.schema.types, found.num_rows) == ([joined], 2)


def test_other_engines_read_the_tables_where_they_are(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    with tables.writing("test", 5) as writing:
        upsert(writing, "gold", {f"k{n}": "1" for n in range(5)} | {"l": "1"})
        writing.commit({}, "")
    with tables.writing("test", 5) as writing:
        upsert(writing, "gold", {"k1": "2", "l": "2"})
        writing.commit({}, "")
    for version in (1, 2):
        named = json.loads((tables.folder / f"manifests/{version:08d}.json").read_text("utf-8"))
        for table in TABLES:
            delta = deltalake.DeltaTable(
                str(tables.folder / table), version=named["tables"][table]["delta"]
            )
            frame = delta.to_pandas()
            assert len(frame) == tables.rows(table, version)
            if table == "gold":
                assert dict(zip(frame[KEY], frame["text"], strict=True)) == dict(
                    content(tables, "gold", version=version)
                )
    import daft
    import polars

    frame = polars.read_delta(str(tables.folder / "gold"))
    assert dict(zip(frame[KEY], frame["text"], strict=True)) == dict(content(tables, "gold"))
    frame = daft.read_deltalake(str(tables.folder / "gold")).to_pydict()
    assert dict(zip(frame[KEY], frame["text"], strict=True)) == dict(content(tables, "gold"))


def test_a_table_that_another_program_changed_is_refused(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    commit(tables, {"a": "1", "b": "1"})
    deltalake.DeltaTable(str(tables.folder / "bronze")).delete(f"{KEY} = 'a'")
    assert content(tables, "bronze") == [("a", "1"), ("b", "1")]
    with pytest.raises(RecordsError, match=r"changed by another program(?s:.*)_delta_log"):
        commit(tables, {"c": "1"})
    (tables.folder / "bronze/_delta_log" / f"{1:020d}.json").unlink()  # what the hint says
    commit(tables, {"c": "1"})
    assert content(tables, "bronze") == [("a", "1"), ("b", "1"), ("c", "1")]


def test_only_the_owner_reads(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    commit(tables, {f"k{n}": "1" for n in range(9)})
    commit(tables, {"k1": "2"})
    for path in (tables.folder, *tables.folder.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_a_newer_layout_is_refused_and_touched_by_nobody(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables", keep=1)
    commit(tables, {"a": "1"})
    newest = tables.folder / "manifests/00000001.json"
    found = json.loads(newest.read_text("utf-8"))
    newer = tables.folder / "manifests/00000002.json"
    newer.write_text(json.dumps({**found, "schema_version": 9, "tables": "another shape"}))
    before = files(tables.folder)
    with pytest.raises(SchemaVersionError, match="schema version 9; this ragwright reads 3"):
        tables.manifest()
    with pytest.raises(SchemaVersionError), tables.writing("test", 5):
        pass
    assert files(tables.folder) == before


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"schema_version": 3}'])
def test_a_damaged_manifest_is_named_and_nothing_is_swept(tmp_path: Path, damage: str) -> None:
    tables = RecordTables(tmp_path / "tables")
    commit(tables, {"a": "1"})
    commit(tables, {"a": "2"})
    before = files(tables.folder)
    (tables.folder / "manifests/00000002.json").write_text(damage)
    with pytest.raises(StoreError, match="manifest of version 2 is damaged"):
        commit(tables, {"a": "3"})
    assert files(tables.folder) == before
    (tables.folder / "manifests/00000002.json").unlink()  # what the hint says
    assert content(tables, "bronze") == [("a", "1")]
    commit(tables, {"a": "3"})
    (tables.folder / "manifests/00000001.json").write_text(damage)
    commit(tables, {"a": "4"})  # an old one that is damaged stops nobody
    assert content(tables, "bronze") == [("a", "4")]


SMALL_DISK = """
import resource, sys
from pathlib import Path
from table_rows import upsert
from ragwright.core import StoreFullError
from ragwright.records import RecordTables
import numpy

tables = RecordTables(Path(sys.argv[1]))
with tables.writing("first", 0) as writing:
    upsert(writing, "bronze", {"a": "1"})
    writing.commit({}, "")
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
noise = numpy.random.default_rng(0).random(100_000)
try:
    with tables.writing("second", 0) as writing:
        upsert(writing, "bronze", {str(one): str(one) for one in noise})
        writing.commit({}, "")
except StoreFullError as error:
    print(error.what)
"""


@pytest.mark.slow
def test_a_full_disk_is_said_and_nothing_is_lost(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk."""
    command = [sys.executable, "-c", SMALL_DISK, str(tmp_path / "tables")]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=Path(__file__).parent, check=False
    )
    assert done.stdout == "the disk is full; everything committed before is intact\n", done.stderr
    tables = RecordTables(tmp_path / "tables")
    assert content(tables, "bronze") == [("a", "1")]
    commit(tables, {"b": "1"})
    assert content(tables, "bronze") == [("a", "1"), ("b", "1")]


def test_a_folder_that_cannot_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for path in (tmp_path / "file", tmp_path / "file" / "tables"):
        with pytest.raises(StoreError, match="file"), RecordTables(path).writing("x", 5):
            pass


def test_an_error_of_the_source_stays_what_it_is(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    with pytest.raises(PermissionError), tables.writing("x", 5):
        raise PermissionError(13, "Permission denied", "/elsewhere/source.csv")


def test_forget_leaves_no_byte_in_any_version_or_log(tmp_path: Path) -> None:
    secret, key = "a secret that nobody may read", "key-of-a-person"
    tables = RecordTables(tmp_path / "tables")
    rows: dict[str, object] = {f"k{n}": str(n) for n in range(50)}
    for text in (secret, "something else"):  # the secret itself is in an older version alone
        with tables.writing("test", 5) as writing:
            for table in TABLES:
                upsert(writing, table, {**rows, key: text})
            writing.commit({}, "")
    commit(tables, {"k1": "changed"})
    held = [path for path in tables.folder.rglob("*.parquet") if holds(path, secret)]
    assert len(held) == 4
    assert tables.forget([key]) > 0
    for path in tables.folder.rglob("*"):
        assert not path.is_file() or not (holds(path, secret) or holds(path, key)), path
    assert [m.version for m in tables.history()] == [4]
    for table in TABLES:
        assert {key for key, _ in content(tables, table)} == rows.keys()
        delta = deltalake.DeltaTable(str(tables.folder / table))
        assert len(delta.to_pyarrow_table()) == 50
        with pytest.raises(Exception, match=r"(?i)not found|no such file"):
            deltalake.DeltaTable(str(tables.folder / table), version=0).to_pyarrow_table()
    assert tables.forget([key]) == 0
    assert tables.version == 4


def test_forget_that_was_killed_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = RecordTables(tmp_path / "tables")
    commit(tables, {"a": "secret", "b": "1"})
    commit(tables, {"c": "1"})

    def killed(path: Path, **_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            tables.forget(["a"])
    assert [path for path in tables.folder.rglob("*.parquet") if holds(path, "secret")]
    assert tables.forget(["a"]) > 0
    assert not [path for path in tables.folder.rglob("*.parquet") if holds(path, "secret")]
    assert content(tables, "bronze") == [("b", "1"), ("c", "1")]


# -- against a slow model -------------------------------------------------------------------

KEYS = st.sampled_from([f"k{n}" for n in range(16)])
CHANGES = st.one_of(
    st.tuples(st.just("upsert"), st.dictionaries(KEYS, st.sampled_from("xy"), max_size=14)),
    st.tuples(st.just("remove"), st.lists(KEYS, min_size=1, max_size=3)),
)
WRITINGS = st.tuples(
    st.lists(CHANGES, min_size=1, max_size=4), st.sampled_from(["commit"] * 5 + ["leave"])
)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.lists(WRITINGS, min_size=3, max_size=8), st.booleans())
def test_tables_are_dictionaries(turns: list[Any], look: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        versions: list[dict[str, str]] = [{}]
        tables = RecordTables(Path(folder) / "tables", keep=4)
        for changes, end in turns:
            with tables.writing("play", 5) as writing:
                now = dict(versions[-1])
                for kind, given in changes:
                    if kind == "remove":
                        count = len(now.keys() & set(given))
                        assert writing.remove("gold", given) == count
                        now = {key: text for key, text in now.items() if key not in given}
                    else:
                        new, same = given.keys() - now.keys(), given.items() & now.items()
                        changed = len(given) - len(new) - len(same)
                        counts = UpsertCounts(len(new), changed, len(same))
                        assert upsert(writing, "gold", given) == counts
                        now |= given
                    assert writing.rows("gold") == len(now)
                    if look:
                        assert dict(content(writing, "gold")) == now
                if end == "commit" and writing.commit({}, "") == len(versions):
                    versions.append(now)
            newest = len(versions) - 1
            for version in range(max(1, newest - 3), newest + 1):
                assert dict(content(tables, "gold", version=version)) == versions[version]
                assert tables.rows("gold", version) == len(versions[version])
            assert files(tables.folder) == named(tables)
