"""Forty error codes, six ways to look for them: see README.md beside this file."""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ragwright import Hit, Session, Workbench
from ragwright.flow import embed
from ragwright.models import sentence_spans

HERE = Path(__file__).parent
SHOWN = "APP_w304"


@dataclass(frozen=True)
class Way:
    """One way to search, as settings."""

    name: str
    settings: tuple[str, ...]


KEYWORD = Way("keyword", ("retrieve.search=keyword",))
WAYS = (
    Way("dense", ("retrieve.search=dense",)),
    KEYWORD,
    Way("hybrid, equal weights (rrf)", ("retrieve.fusion=rrf",)),
    Way("hybrid, adaptive weights", ("retrieve.fusion=adaptive",)),
    Way(
        "dense, with the mined glossary",
        ("retrieve.search=dense", "retrieve.query.methods=[glossary]"),
    ),
    Way("hybrid, adaptive, glossary", ("retrieve.query.methods=[glossary]",)),
)


def question(code: str) -> str:
    """What a user types."""
    return f"The panel shows {code}. What should I do?"


def codes(manual: Path) -> list[str]:
    """Codes that have an entry of their own."""
    texts = (path.read_text("utf-8") for path in sorted(manual.glob("*.md")))
    return [code for text in texts for code in re.findall(r"^## (\w+_[we]\d+)", text, re.MULTILINE)]


def is_entry(hit: Hit, code: str) -> bool:
    """True where a hit is the entry of a code, not one that mentions it."""
    return f"## {code} " in hit.text


def ranks(bench: Workbench, asked: list[str]) -> list[int]:
    """Rank of each code's entry among the hits, 0 where it is not among them."""
    found = []
    for code in asked:
        hits = bench.retrieve(question(code)).hits
        found.append(next((hit.rank for hit in hits if is_entry(hit, code)), 0))
    return found


def show_failure(bench: Workbench) -> None:
    """What dense search finds for one code, and why."""
    found = bench.retrieve(question(SHOWN))
    why = bench.explain(found)
    first = found.hits[0]
    right = next((hit for hit in found.hits if is_entry(hit, SHOWN)), None)
    print(f"question: {found.query}")
    print(f"  the model sees: {' | '.join(why.pieces)}")
    print(f"  dense search finds first: {' '.join(first.text.split())[:90]} …")
    print(f"  the model sees of it: {' | '.join(why.seen[first.chunk_id][:14])} …")
    if right is None:
        print("  the right entry is not among the first five")
    else:
        print(f"  the right entry has rank {right.rank}, similarity {right.score:.3f}")
        print(f"  the model sees of it: {' | '.join(why.seen[right.chunk_id][:14])} …")
    wrong = next((hit for hit in found.hits if not is_entry(hit, SHOWN)), first)
    print("  sentences of the best wrong entry, nearest to the question first:")
    for score, sentence in nearest(bench, found.query, wrong):
        print(f"    {score:.3f}  {sentence}")


def nearest(bench: Workbench, query: str, hit: Hit) -> list[tuple[float, str]]:
    """Sentences of a hit by their similarity to the query."""
    body = hit.text
    sentences = [" ".join(body[s.start : s.end].split()) for s in sentence_spans(body)]
    model = bench.project.settings.embed.model
    asked = bench.project.runner.run(embed(model, [query]))[0]
    vectors = bench.project.runner.run(embed(model, sentences, "passage"))
    scored = [(float(v @ asked), s) for v, s in zip(vectors, sentences, strict=True)]
    return sorted(scored, reverse=True)


def main() -> None:
    """Build the index once, then ask for every code in every way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="", help="embedding model, such as st:FOLDER")
    model = parser.parse_args().model
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        shutil.copytree(HERE, project, ignore=shutil.ignore_patterns(".ragwright", "__pycache__"))
        base = (f"embed.model={model}",) if model else ()
        with Workbench.open(project, Session(base)) as bench:
            bench.ingest()
        asked = codes(project / "manual")
        if model:
            with Workbench.open(project, Session((*base, *WAYS[0].settings))) as bench:
                show_failure(bench)
        else:
            print("no --model: keyword search alone")
        print(f"\n{'way':32}  hit@1  hit@5   ({len(asked)} codes)")
        for way in WAYS if model else (KEYWORD,):
            with Workbench.open(project, Session((*base, *way.settings))) as bench:
                found = ranks(bench, asked)
            first, five = (sum(0 < r <= k for r in found) / len(asked) for k in (1, 5))
            print(f"{way.name:32}  {first:.3f}  {five:.3f}")


if __name__ == "__main__":
    main()
