"""What a killed writer or a full disk leaves in a Lance store: it opens again, and is erased."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from ragwright.core import Chunk, Document, Span
from ragwright.index import IndexedDocument, IndexSpec, LanceStore
from ragwright.models import Analyzer

pytestmark = pytest.mark.slow

PAIR = IndexSpec("whole", Analyzer().spec)
SECRET = "quetzalcoatl"


def document(name: str, text: str) -> IndexedDocument:
    chunk = Chunk(f"{name}:0-{len(text)}", name, 0, Span(0, len(text)), text)
    return IndexedDocument(Document(name, f"mem:{name}", text), (chunk,))


def filled(path: Path) -> LanceStore:
    store = LanceStore(path)
    texts = {"open": "The shop opens at nine.", "secret": f"The code word is {SECRET}."}
    store.upsert(PAIR, [document(*item) for item in texts.items()])
    return store


def chunks_of(path: Path) -> Any:
    """The table of chunks, as LanceDB opens it."""
    import lancedb

    return lancedb.connect(str(path)).open_table(f"chunks_{PAIR.key}")


def halved(table: Path) -> None:
    """The table as a kill leaves it that came before the first version: data, nothing else."""
    for part in table.iterdir():
        if part.name != "data":
            shutil.rmtree(part)
    data = table / "data"
    data.mkdir(exist_ok=True)
    for file in data.iterdir():
        file.unlink()
    (data / ".tmpAbCdEf").write_bytes(b"half a file")


@pytest.mark.parametrize("name", ["facts", "values", "chunks", "documents"])
def test_a_table_that_was_not_made_to_its_end_is_made_again(tmp_path: Path, name: str) -> None:
    """Tables are made in this order, so those behind it are missing."""
    path = tmp_path / "store.lance"
    store = filled(path)
    store.close()
    order = ["facts", "values", "chunks", "documents"]
    tables = [next(path.glob(f"{one}*.lance")) for one in order]
    for table in tables[order.index(name) + 1 :]:
        shutil.rmtree(table)
    halved(tables[order.index(name)])
    again = LanceStore(path)
    assert not again.holds(PAIR)
    assert again.index_specs() == []
    filled(path).close()
    assert again.document("secret") is not None
    assert [pair.key for pair in LanceStore(path).index_specs()] == [PAIR.key]


def test_a_pair_whose_writer_ended_before_it_was_named_is_named(tmp_path: Path) -> None:
    path = tmp_path / "store.lance"
    filled(path).close()
    import lancedb

    facts = lancedb.connect(str(path)).open_table("facts")
    facts.delete("name LIKE 'pair %'")
    assert LanceStore(path).index_specs() == []
    filled(path)
    assert [pair.key for pair in LanceStore(path).index_specs()] == [PAIR.key]


def test_forgetting_removes_files_that_no_version_names(tmp_path: Path) -> None:
    """Copies stand for files of writers that were killed or lost a conflict."""
    path = tmp_path / "store.lance"
    store = filled(path)
    left = []
    for table in path.glob("*.lance"):
        for number, file in enumerate([*table.glob("data/*.lance")]):
            left += [file.with_name(f"{number:040}.lance"), file.with_name(f".tmpX{number}")]
            left.append(table / "_indices" / "0f5e" / f"part_{number}.lance")
            left[-1].parent.mkdir(parents=True, exist_ok=True)
            for copy in left[-3:]:
                shutil.copy(file, copy)
    unmade = path / "chunks_0123456789ab.lance"
    (unmade / "data").mkdir(parents=True)
    left.append(unmade / "data" / "0101.lance")
    left[-1].write_bytes(SECRET.encode())
    # Chunks of a writer that was killed before it stored their document.
    stamps = chunks_of(path).search().select(["stamp", "document"]).to_arrow().to_pylist()
    stamp = next(row["stamp"] for row in stamps if row["document"] == "secret")
    again = f"{stamp + 1}"
    chunks_of(path).add(
        chunks_of(path)
        .search()
        .where(f"stamp = {stamp}")
        .to_arrow()
        .set_column(0, "stamp", [[int(again)]])
    )
    assert any(SECRET.encode() in file.read_bytes() for file in left)
    assert store.remove(["secret"], purge=True).removed == 1
    assert [file for file in left if file.exists()] == []
    for file in path.rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file
    assert store.document("open") is not None
    assert [kept.text for kept in LanceStore(path).documents(PAIR)] == ["The shop opens at nine."]
