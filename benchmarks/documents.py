"""Measure how much of a document's text the readers keep.

Compares the text of every file of a folder with the Markdown expected for it, and prints a
table: recall and precision over words, recall over table cells, milliseconds.

    python -m benchmarks.documents [FOLDER] [-v]    (FOLDER holds sources/ and groundtruth/)

Words are case-folded runs of letters, digits and underscores after Unicode compatibility
folding (NFKC), counted as multisets; Markdown's own marks, comments, link targets and runs of
underscores are not words. A cell counts where a cell with the same words is found.
"""

from __future__ import annotations

import html
import re
import sys
import time
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ragwright.flow import FetchReply
from ragwright.ingest import Failure, FileReader, SourceOptions

from .data_sets import DATA

_COMMENT = re.compile(r"<!--.*?-->", re.S)
_LINK = re.compile(r"!?\[((?:[^\[\]\n]|\[[^\[\]\n]*\])*)\]\((?:[^()\n]|\([^()\n]*\))*\)")
_ESCAPE = re.compile(r"\\([^A-Za-z0-9\s])")
_ROW = re.compile(r"^\s*\|(.*)\|\s*$")
_RULE = re.compile(r"[\s|:-]+")


@dataclass(frozen=True, slots=True)
class Kept:
    """One file: shares of words and cells kept (None where there are none), and failures."""

    file: str
    recall: float | None
    precision: float | None
    cells: float | None
    milliseconds: float
    failures: tuple[Failure, ...]
    missing: Counter[str]


def words(markdown: str) -> list[str]:
    """Words of a text, Markdown's marks stripped."""
    text = _ESCAPE.sub(r"\1", _LINK.sub(r"\1", _COMMENT.sub(" ", html.unescape(markdown))))
    tokens = re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())
    return [word for word in tokens if word.strip("_")]


def cells(markdown: str) -> Counter[tuple[str, ...]]:
    """Words of each table cell that holds any."""
    counts: Counter[tuple[str, ...]] = Counter()
    for line in markdown.split("\n"):
        match = _ROW.match(line)
        if match and not _RULE.fullmatch(line):
            counts.update(tuple(words(c)) for c in re.split(r"(?<!\\)\|", match[1]) if words(c))
    return counts


def expected(folder: Path, source: Path) -> Path | None:
    """The Markdown expected for a source, None where there is none."""
    names = (f"{source.name}.md", f"{source.stem}.md", f"{source.stem}.tesseract.full_page.md")
    paths = (folder / "groundtruth" / name for name in names)
    return next((path for path in paths if path.exists()), None)


def no_network(address: str) -> FetchReply:
    """Local files need none."""
    raise AssertionError(address)


def compare(folder: Path) -> Iterator[Kept]:
    """Every source of a folder in order of its name."""
    sources = folder / "sources"
    reader = FileReader(SourceOptions(ocr="never"), base=sources)
    for source in sorted(sources.iterdir()):
        start = time.perf_counter()
        items = list(reader.read(source.name, no_network))
        spent = (time.perf_counter() - start) * 1000
        failures = tuple(item for item in items if isinstance(item, Failure))
        text = "\n\n".join(item.text for item in items if not isinstance(item, Failure))
        gold = expected(folder, source)
        if gold is None or not text:
            yield Kept(source.name, None, None, None, spent, failures, Counter())
            continue
        markdown = gold.read_text("utf-8")
        want, have = Counter(words(markdown)), Counter(words(text))
        want_cells, both = cells(markdown), (want & have).total()
        yield Kept(
            source.name,
            both / want.total(),
            both / max(1, have.total()),
            (want_cells & cells(text)).total() / want_cells.total() if want_cells else None,
            spent,
            failures,
            want - have,
        )


def _figure(value: float | None) -> str:
    return "    –" if value is None else f"{value:.3f}"


def main() -> None:
    """Print the table."""
    named = [Path(word) for word in sys.argv[1:] if not word.startswith("-")]
    folder = named[0] if named else DATA / "documents"
    list(compare(folder))  # the libraries load on first use: time a warm run
    print(f"{'file':34} recall  prec.  cells     ms")
    for row in compare(folder):
        figures = "  ".join(map(_figure, (row.recall, row.precision, row.cells)))
        print(f"{row.file:34} {figures} {row.milliseconds:7.1f}")
        for failure in row.failures:
            print(f"    {failure.error.what}")
        if "-v" in sys.argv and row.missing:
            print("    missing:", ", ".join(f"{w}×{n}" for w, n in row.missing.most_common(40)))


if __name__ == "__main__":
    main()
