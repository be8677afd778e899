"""Forty error codes, from a PDF by pages to the right entry: see README.md beside this file."""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from make_manual import pages_of, write_pdf

from ragwright import Hit, Session, Workbench
from ragwright.testing import Reply, ScriptedServer, ServerRequest

HERE = Path(__file__).parent
SHOWN = "APP_w304"
"""The code whose failure is shown; the first one that fails where this one does not."""

BANNER = (
    "SCRIPTED: no --model was named, so a server on this machine plays the embedding model.\n"
    "Its vectors count pieces of words, of at most three letters where a word holds a digit or\n"
    "a low line, as tokenizers of real models cut codes. A real model gives other numbers."
)
PAGES = "chunk.by=page"


@dataclass(frozen=True)
class Way:
    """One way to cut and to search, as settings."""

    name: str
    settings: tuple[str, ...]


WAYS = (
    Way("pages, dense", (PAGES, "retrieve.search=dense")),
    Way("entries, dense", ("retrieve.search=dense",)),
    Way("pages, keyword (BM25)", (PAGES, "retrieve.search=keyword")),
    Way("entries, keyword (BM25)", ("retrieve.search=keyword",)),
    Way("entries, equal weights (rrf)", ("retrieve.fusion=rrf",)),
    Way("entries, adaptive weights", ("retrieve.fusion=adaptive",)),
    Way(
        "entries, dense with glossary",
        ("retrieve.search=dense", "retrieve.query.methods=[glossary]"),
    ),
    Way("entries, adaptive, glossary", ("retrieve.query.methods=[glossary]",)),
)


def question(code: str) -> str:
    """What a user types."""
    return f"The panel shows {code}. What should I do?"


def codes(pages: list[str]) -> list[str]:
    """Codes that have an entry of their own: each is a line."""
    return [code for text in pages for code in re.findall(r"^(\w+_[we]\d+)$", text, re.MULTILINE)]


def holds_entry(hit: Hit, code: str) -> bool:
    """True where a hit holds the entry of a code, and does not only mention it."""
    return bool(re.search(rf"^{code}\s*$", hit.text, re.MULTILINE))


def ranks(bench: Workbench, asked: list[str]) -> list[int]:
    """Rank of each code's entry among the hits, 0 where it is not among them."""
    positions = []
    for code in asked:
        hits = bench.retrieve(question(code)).hits
        positions.append(next((hit.rank for hit in hits if holds_entry(hit, code)), 0))
    return positions


def show_failure(bench: Workbench, every: list[str]) -> None:
    """A code for which dense search over pages finds the cover page instead, and why."""
    for code in (SHOWN, *every):
        retrieved = bench.retrieve(question(code))
        if retrieved.hits[0].page == 1:
            break
    why = bench.explain(retrieved)
    first = retrieved.hits[0]
    right = next((hit for hit in retrieved.hits if holds_entry(hit, code)), None)
    print(f"question: {retrieved.query}")
    print(f"  the model sees: {' | '.join(why.pieces or pieces(retrieved.query))}")
    print(f"  dense search finds first: page {first.page}, {' '.join(first.text.split())[:60]} …")
    if right is None:
        print(f"  the page of {code} is not among the first five")
    else:
        print(f"  the page of {code}, page {right.page}, has rank {right.rank}")
        seen = why.seen.get(right.chunk_id) or pieces(right.text[:160])
        print(f"  the model sees of it: {' | '.join(seen[:20])} …")
    print(f"  sentences of page {first.page}, nearest to the question first:")
    for score, sentence in why.nearest[first.chunk_id]:
        print(f"    {score:.3f}  {sentence}")


def pieces(text: str) -> list[str]:
    """Words in small letters; those with a digit or a low line in pieces of three at most."""
    parts = []
    for word in re.findall(r"\w+", text.lower()):
        is_word = word.isalpha()
        parts += [word] if is_word else re.findall(r"[a-z]{1,3}|_|\d{1,2}", word)
    return parts


def vector(text: str) -> list[float]:
    """A unit vector that counts the pieces of a text by their hash."""
    counts = [0.001] * 512
    for piece in pieces(text):
        counts[zlib.crc32(piece.encode()) % 512] += 1
    length = sum(n * n for n in counts) ** 0.5
    return [n / length for n in counts]


def scripted(request: ServerRequest) -> Reply:
    """The vectors of the texts of a request."""
    return Reply(vectors=[vector(text) for text in request.body["input"]])


@contextmanager
def embedding(named: str) -> Iterator[tuple[str, ...]]:
    """Settings that name the embedding model: the one asked for, or the scripted one, said."""
    if named:
        yield (f"embed.model={named}",)
        return
    print(f"{BANNER}\n")
    with ScriptedServer(scripted, record=False) as server:
        yield (f"embed.model={server.url}#pieces",)


def main() -> None:
    """From a PDF by pages to entries, keyword search, fusion and a glossary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="", help="embedding model, such as st:FOLDER")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, embedding(asked.model) as base:
        project = Path(folder)
        shutil.copy(HERE / "ragwright.yaml", project)
        pages = pages_of(HERE / "manual")
        every = codes(pages)
        write_pdf(project / "manual.pdf", pages)
        for by in ((PAGES,), ()):
            with Workbench.open(project, Session((*base, *by))) as bench:
                bench.ingest()
        with Workbench.open(project, Session((*base, *WAYS[0].settings))) as bench:
            show_failure(bench, every)
        print(f"\n{'way':30}  hit@1  hit@5   ({len(every)} codes)")
        for way in WAYS:
            with Workbench.open(project, Session((*base, *way.settings))) as bench:
                positions = ranks(bench, every)
            first, five = (sum(0 < r <= k for r in positions) / len(every) for k in (1, 5))
            print(f"{way.name:30}  {first:.3f}  {five:.3f}")


if __name__ == "__main__":
    main()
