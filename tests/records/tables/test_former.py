"""Tables of the layout before Delta, written by ragwright at commit 335f0d3a."""

from __future__ import annotations

import shutil
from pathlib import Path

import deltalake
import pytest
from table_rows import adopt, content, files, holds

from ragwright.core import SchemaVersionError
from ragwright.records import KEY, TABLES, Tables
from ragwright.records.tables import Writing

SAMPLE = Path(__file__).parent / "former"
TEXTS = [*((f"k{n}", f"text {n}") for n in (0, 2, 3, 5)), ("k1", "changed"), ("k9", "new")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / "tables"))


def test_the_first_writing_makes_delta_tables_of_them(folder: Path) -> None:
    tables = Tables(folder)
    with pytest.raises(SchemaVersionError, match=r"before they were Delta(?s:.*)records refresh"):
        tables.rows("gold")
    with tables.writing("refresh", 5) as writing:
        assert "version 2 were written as Delta tables, version 3" in writing.notes[0]
    assert tables.version == 3
    assert tables.manifest().lineage == {"source": "s", "from": ["rows.csv", "q"]}
    assert tables.manifest().note == "as version 2, now Delta tables"
    for table in ("silver", "gold"):
        assert content(tables, table) == TEXTS
    assert content(tables, "left_out") == [("gone", "too long")]
    rows = {row[KEY]: row for batch in tables.read("bronze") for row in batch.to_pylist()}
    assert [rows["x"][name] for name in ("zip", "size", "none")] == ["7", 3, None]
    assert [rows["y"][name] for name in ("zip", "size", "none")] == ["07", None, None]
    assert len(rows) == len(TEXTS) + 2
    for table in TABLES:
        frame = deltalake.DeltaTable(str(folder / table)).to_pyarrow_table()
        assert len(frame) == tables.rows(table)
    assert files(folder) == tables.files(3) | {"manifests/00000003.json"}
    assert not (folder / "dead").exists()
    assert "Delta" in (folder / "README.md").read_text("utf-8")
    with tables.writing("again", 5) as writing:
        assert writing.notes == []
        adopt(writing, "gold", {"k1": "again"})
        assert writing.commit({}, "") == 4


@pytest.mark.parametrize("at", range(4))
def test_an_attempt_that_ends_early_leaves_them_as_they_were(
    folder: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    before = {name: (folder / name).read_bytes() for name in files(folder)}
    left = at

    def ended(writing: Writing, *rows: object) -> object:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        return add(writing, *rows)  # type: ignore[arg-type]

    add = Writing.add
    with monkeypatch.context() as patch:
        patch.setattr(Writing, "add", ended)
        with pytest.raises(KeyboardInterrupt), Tables(folder).writing("refresh", 5):
            pass
    for name, content_before in before.items():
        assert (folder / name).read_bytes() == content_before
    with Tables(folder).writing("refresh", 5):
        pass
    assert content(Tables(folder), "gold") == TEXTS
    assert files(folder) == Tables(folder).files(3) | {"manifests/00000003.json"}


def test_forgetting_reaches_the_former_files(folder: Path) -> None:
    assert Tables(folder).forget(["k1"]) == 3
    assert not [path for path in folder.rglob("*") if path.is_file() and holds(path, "k1")]
    assert "k1" not in dict(content(Tables(folder), "gold"))
