"""Testsets: rows with gold, read through one door."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ..core import Row, TestsetError, text_hash
from ._files import objects_of
from ._rows import read_rows
from ._trec import Qrels, judgments, read_qrels


@dataclass(frozen=True, slots=True)
class Testset:
    """Rows to evaluate on, in file order.

    Attributes:
        name: Address it was loaded from.
        rows: Rows, each id once.
        notes: What the reader of a result should know: gold outside the corpus, a subset.
    """

    __test__ = False  # the name is the field's; pytest must not collect it

    name: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def subset(self, size: int, seed: int = 0) -> Testset:
        """A random choice of rows, in file order, the same on every machine.

        A row is chosen by the hash of seed and row id, so adding rows to the file or taking a
        larger subset keeps most of the choice.

        Raises:
            TestsetError: The size is below 1.
        """
        if size < 1:
            raise TestsetError(f"a subset of {size} rows", hint="ask for one row or more")
        if size >= len(self.rows):
            return self
        order = sorted(self.rows, key=lambda row: text_hash(f"{seed}\x00{row.id}"))
        chosen = {row.id for row in order[:size]}
        return replace(
            self,
            rows=tuple(row for row in self.rows if row.id in chosen),
            notes=(*self.notes, f"{size} of {len(self.rows)} rows, chosen with seed {seed}"),
        )


def load_testset(address: str, *, limit: int | None = None, seed: int = 0) -> Testset:
    """The testset at an address: the one door through which gold comes in.

    Args:
        address: ``beir:DIR/SPLIT``, or the path of a JSONL file of rows in ragas' names.
        limit: Most rows, chosen at random with ``seed``; None for all.
        seed: Seed of that choice.

    Raises:
        TestsetError: A file is missing or wrong; file and line are named.
    """
    if address.startswith("beir:"):
        testset = _beir(address)
    else:
        testset = Testset(address, read_rows(address))
    return testset if limit is None else testset.subset(limit, seed)


def _beir(address: str) -> Testset:
    """Rows of one split of a BEIR folder: every judged query, with its judgments."""
    folder_name, _, split = address.removeprefix("beir:").replace("\\", "/").rpartition("/")
    folder = Path(folder_name)
    if not folder_name or not split:
        raise TestsetError(f"cannot read {address!r} as a testset", hint="write beir:DIR/SPLIT")
    judged = folder / "qrels" / f"{split}.tsv"
    if not judged.is_file():
        whole = folder / split  # the split was forgotten, where this is the folder itself
        splits = sorted(
            path.stem for path in (*folder.glob("qrels/*.tsv"), *whole.glob("qrels/*.tsv"))
        )
        raise TestsetError(
            f"no split {split!r} in this BEIR folder",
            where=str(judged),
            hint=f"write beir:DIR/SPLIT; splits here: {', '.join(splits)}"
            if splits
            else "check the folder",
        )
    queries = _texts_by_id(folder / "queries.jsonl")
    qrels = read_qrels(judged)
    if not qrels.keys() <= queries.keys():
        query, _, _, where = next(j for j in judgments(judged) if j[0] not in queries)
        raise TestsetError(
            f"query {query!r} is judged but not in queries.jsonl",
            where=where,
            hint="take queries.jsonl and qrels from the same data set",
        )
    rows = tuple(
        Row(id=query, user_input=text, reference_ids=qrels[query])
        for query, text in queries.items()
        if query in qrels
    )
    return Testset(address, rows, _missing_documents(folder / "corpus.jsonl", qrels))


def _texts_by_id(path: Path) -> dict[str, str]:
    """Query id -> text, in file order."""
    found: dict[str, str] = {}
    for where, value in objects_of(path):
        key, text = value.get("_id"), value.get("text")
        if isinstance(key, int) and not isinstance(key, bool):
            key = str(key)
        if not isinstance(key, str) or not isinstance(text, str):
            raise TestsetError(
                "the line has no _id and text", where=where, hint="write {_id, text}"
            )
        if key in found:
            raise TestsetError(
                f"query id {key!r} occurs twice", where=where, hint="give each query its own id"
            )
        found[key] = text
    return found


def _missing_documents(path: Path, qrels: Qrels) -> tuple[str, ...]:
    """Notes on judged documents that the corpus lacks: no search can find those."""
    if not path.is_file():
        return (f"no {path.name} in the folder: judged documents are not checked",)
    missing = dict.fromkeys(document for grades in qrels.values() for document in grades)
    judged = len(missing)
    for where, value in objects_of(path):
        if "_id" not in value:
            raise TestsetError("the line has no _id", where=where, hint="write {_id, title, text}")
        missing.pop(str(value["_id"]), None)
    if not missing:
        return ()
    first = next(iter(missing))
    if len(missing) == judged:
        raise TestsetError(
            f"none of the {judged} judged documents is in the corpus, for example {first!r}",
            where=str(path),
            hint="take corpus.jsonl and qrels from the same data set",
        )
    return (f"{len(missing)} of {judged} judged documents are not in the corpus, such as {first}",)
