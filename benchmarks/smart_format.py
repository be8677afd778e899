"""Cranfield, CISI, CACM, MEDLINE, ADI and TIME as BEIR folders.

The collections come in the format of the SMART system; the README of the data explains the ids
and grades of each. They are written as BEIR folders so that the benchmarks read and write them the
way users do, through ``beir:``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.data_sets import DATA

Judgment = tuple[str, str, int]
"""Query id, document id, grade."""


@dataclass(frozen=True)
class Collection:
    """(id, title, text) of documents, (id, text) of queries, and judgments."""

    documents: tuple[tuple[str, str, str], ...]
    queries: tuple[tuple[str, str], ...]
    judgments: tuple[Judgment, ...]


def read_collection(name: str, data: Path = DATA) -> Collection:
    """One collection by the name of its folder."""
    if name == "time":
        return _time(data / "time")
    corpus, queries, _ = _FILES[name]
    return Collection(
        tuple(
            (str(int(key)), fields.get("T", ""), fields.get("W", ""))
            for key, fields in _records(data / name / corpus)
        ),
        tuple(
            # Cranfield's judgments count queries; its .I numbers have gaps.
            (str(place) if name == "cranfield" else str(int(key)), fields["W"])
            for place, (key, fields) in enumerate(_records(data / name / queries), 1)
        ),
        tuple(_judgments(name, data)),
    )


def write_beir(collection: Collection, folder: Path, split: str = "test") -> Path:
    """Write corpus, queries and judgments as a BEIR folder, and return it."""
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    _write(
        folder / "corpus.jsonl",
        ({"_id": i, "title": title, "text": text} for i, title, text in collection.documents),
    )
    _write(folder / "queries.jsonl", ({"_id": i, "text": text} for i, text in collection.queries))
    lines = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, j)) for j in collection.judgments)]
    (folder / "qrels" / f"{split}.tsv").write_text("\n".join(lines) + "\n", "utf-8")
    return folder


def smart_beir(name: str, folder: Path, data: Path = DATA) -> Path:
    """Read a collection and write it as a BEIR folder with the split ``test``."""
    return write_beir(read_collection(name, data), folder)


_FILES = {
    "adi": ("ADI.ALL", "ADI.QRY", "ADI.REL"),
    "cacm": ("cacm.all", "query.text", "qrels.text"),
    "cisi": ("CISI.ALL", "CISI.QRY", "CISI.REL"),
    "cranfield": ("cran.all.1400", "cran.qry", "cran.qrels"),
    "medline": ("MED.ALL", "MED.QRY", "MED.REL"),
}


def _records(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """(number after ``.I``, field letter -> text on one line) of a SMART file."""
    text = path.read_text("utf-8", errors="replace")
    for block in re.split(r"^\.I ", text, flags=re.M)[1:]:
        number, _, body = block.partition("\n")
        parts = re.split(r"^\.([A-Z])[ \t]*$", body, flags=re.M)
        pairs = zip(parts[1::2], parts[2::2], strict=True)
        yield number.strip(), {letter: " ".join(words.split()) for letter, words in pairs}


def _judgments(name: str, data: Path) -> Iterator[Judgment]:
    seen: set[tuple[str, str]] = set()
    for line in (data / name / _FILES[name][2]).read_text().splitlines():
        fields = line.split()
        if len(fields) < 3:
            continue
        query = str(int(fields[0]))
        document, grade = str(int(fields[1])), 1
        if name == "medline":
            document = str(int(fields[2]))
        elif name == "cranfield":  # 1 is the best grade, 4 the weakest, others irrelevant
            grade = {1: 4, 2: 3, 3: 2, 4: 1}.get(int(fields[2]), 0)
        if (query, document) not in seen:
            seen.add((query, document))
            yield query, document, grade


def _time(folder: Path) -> Collection:
    """TIME magazine: judgments count the articles, whatever number ``*TEXT`` gives them."""

    def blocks(name: str, mark: str) -> list[tuple[str, str]]:
        text = (folder / name).read_text("utf-8", errors="replace").partition("*STOP")[0]
        parts = (block.partition("\n") for block in text.split(mark)[1:])
        return [(head.strip(), " ".join(body.split())) for head, _, body in parts]

    articles = blocks("TIME.ALL", "*TEXT")
    judged = [line.split() for line in (folder / "TIME.REL").read_text().splitlines()]
    return Collection(
        tuple((str(place), "", text) for place, (_, text) in enumerate(articles, 1)),
        tuple(blocks("TIME.QUE", "*FIND")),
        tuple((q, document, 1) for q, *documents in filter(None, judged) for document in documents),
    )


def _write(path: Path, rows: Iterable[dict[str, str]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
