"""Data sets beside the checkout, turned into the layouts that ragwright reads.

Nothing is copied into the repository: converters write to the given folder, usually a temporary
one.
"""

from __future__ import annotations

import ast
import csv
import io
import json
import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

DATA = Path(
    os.environ.get("RAGWRIGHT_DATA")
    or Path(__file__).resolve().parents[1].parent / "shared" / "data"
)
"""Folder of the data sets: RAGWRIGHT_DATA, else ``shared/data`` beside the checkout."""

_LITERAL = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)


def scifact_beir(folder: Path, data: Path = DATA) -> Path:
    """SciFact as a BEIR folder: corpus, queries, and qrels of train and test.

    As BEIR does it: relevant (1) are the documents a claim cites, the split ``test`` holds
    the claims that SciFact calls validation (300 claims, 339 pairs), and ``train`` those of
    training, which may be used to choose settings.

    Args:
        folder: Made where absent; files in it are overwritten.
        data: Folder of the data sets.

    Returns:
        The folder.

    Raises:
        FileNotFoundError: The archive does not lie beside the checkout.
    """
    archive = data / "scifact" / "scifact.zip"
    if not archive.is_file():  # before anything is written: no half-made folder is left
        raise FileNotFoundError(f"the data set scifact is not there: no {archive}")
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    with (folder / "corpus.jsonl").open("w", encoding="utf-8") as corpus:
        for row in _rows(archive, "corpus_train.csv"):
            document = {
                "_id": row["doc_id"],
                "title": row["title"],
                "text": " ".join(printed_strings(row["abstract"])),
                "metadata": {},
            }
            corpus.write(json.dumps(document, ensure_ascii=False) + "\n")
    queries: dict[str, str] = {}
    for split, name in (("train", "claims_train.csv"), ("test", "claims_validation.csv")):
        pairs: dict[tuple[str, str], None] = {}
        for row in _rows(archive, name):
            queries[row["id"]] = row["claim"]
            for cited in re.findall(r"\d+", row["cited_doc_ids"]):
                pairs[row["id"], cited] = None
        lines = [f"{query}\t{document}\t1\n" for query, document in pairs]
        path = folder / "qrels" / f"{split}.tsv"
        path.write_text("query-id\tcorpus-id\tscore\n" + "".join(lines), "utf-8")
    with (folder / "queries.jsonl").open("w", encoding="utf-8") as file:
        for identity, text in queries.items():
            line = {"_id": identity, "text": text, "metadata": {}}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    return folder


def printed_strings(text: str) -> list[str]:
    """Strings of an array as numpy prints it: quoted like Python's, parted by white space.

    Raises:
        ValueError: Something else stands between them.
    """
    rest = _LITERAL.sub("", text).strip()
    if re.sub(r"\s", "", rest) != "[]":
        raise ValueError(f"not a printed array of strings: {rest[:60]!r}")
    return [str(ast.literal_eval(literal)) for literal in _LITERAL.findall(text)]


def _rows(archive: Path, name: str) -> Iterator[dict[str, str]]:
    with zipfile.ZipFile(archive) as opened, opened.open(name) as raw:
        yield from csv.DictReader(io.TextIOWrapper(raw, "utf-8", newline=""))
