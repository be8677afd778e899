"""A project whose index holds eight records of one client, as a refresh would write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ragwright import Workbench
from ragwright.core import Chunk, Document, Span
from ragwright.index import IndexedDocument


def one_client(folder: Path) -> Path:
    (folder / "ragwright.yaml").write_text("{}\n", "utf-8")
    (folder / "records").mkdir()
    head = "A short donation text message from Jane Doe about schools:\n\n"
    meta: dict[str, Any] = {"kind": "record", "client": "Jane Doe", "ask_type": "donation"}
    meta |= {"topic": ("schools",), "length": "short", "message_at": len(head)}
    batch = []
    for n in range(8):
        text = f"{head}Message number {n}."
        document = Document(f"record:{n}", f"records:{n}", text, metadata=meta)
        chunk = Chunk(f"record:{n}:0", document.id, 0, Span(0, len(text)), text)
        batch.append(IndexedDocument(document, (chunk,)))
    with Workbench.open(folder) as bench:
        bench.project.store.upsert(bench.project.index_spec, batch)
    return folder
