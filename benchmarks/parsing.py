"""Measure what parsers keep of PDF pages whose content is known.

    python -m benchmarks.parsing                        # ours, on the development half
    python -m benchmarks.parsing --half test --publish  # every engine; read once
    python -m benchmarks.parsing --engine markitdown --keep FOLDER

Pages are printed by Chromium and LibreOffice. Measures: see `benchmarks.parsing_measures`.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pypdfium2 as pdfium

from ragwright.core import RagwrightError, workers
from ragwright.ingest import Extract, SourceOptions, extract_bytes

from .data_sets import DATA
from .parsing_content import LAYOUTS, Known, known_documents
from .parsing_measures import scores
from .parsing_pages import render
from .publish import Section, Table, publish, versions

MEASURES = ("words", "order", "headings", "tables", "captions", "notes")
LAYOUT_NAMES = {
    "flow": "Chromium, one column",
    "columns": "Chromium, two columns",
    "crossed": "Chromium, two columns, the right one drawn first",
    "office": "LibreOffice, one column",
    "office-columns": "LibreOffice, two columns",
}
_MEAN = ("words", "order", "headings", "tables")


def as_markdown(extract: Extract) -> str:
    """The text of an extract, its headings marked as Markdown does."""
    text, parts, last = extract.text, [], 0
    if extract.metadata.get("parser"):
        return text
    for section in extract.sections:
        start = section.span.start
        if text.startswith("#", start):
            continue
        parts += [text[last:start], "#" * min(section.level, 6), " "]
        title = section.title
        end = start
        while (
            end < len(text)
            and " ".join(text[start:end].split()) != title
            and text[end:][:2] != "\n\n"
        ):
            end += 1
        parts.append(" ".join(text[start:end].split()))
        last = end
    return "".join([*parts, text[last:]])


def read(engine: str, path: Path) -> str:
    """Markdown of a file by an engine; empty where it fails."""
    options = SourceOptions(ocr="never", parser=engine)
    try:
        return as_markdown(extract_bytes(path.name, path.read_bytes(), options))
    except RagwrightError as error:
        print(f"{engine}: {error}")
        return ""


Rows = list[tuple[Known, dict[str, float | None]]]
Results = dict[str, tuple[Rows, float]]


def measure(engine: str, printed: Sequence[tuple[Known, Path]]) -> tuple[Rows, float]:
    """Scores of each document, and seconds of all."""
    rows: Rows = []
    began = time.perf_counter()
    with workers():
        texts = [read(engine, path) for _, path in printed]
    seconds = time.perf_counter() - began
    for (known, path), text in zip(printed, texts, strict=True):
        path.with_suffix(f".{engine}.md").write_text(text, "utf-8")
        rows.append((known, scores(known, text)))
    return rows, seconds


def means(rows: Rows, layout: str = "") -> dict[str, float]:
    """Mean of each measure, and of the four main ones."""
    chosen = [values for known, values in rows if layout in ("", known.layout)]
    result = {}
    for name in MEASURES:
        values = [value for row in chosen if (value := row[name]) is not None]
        result[name] = statistics.fmean(values) if values else float("nan")
    result["mean"] = statistics.fmean(result[name] for name in _MEAN)
    return result


def _shown(row: dict[str, float]) -> dict[str, str | float | None]:
    return {
        name: None if math.isnan(row[name]) else round(row[name], 4) for name in ("mean", *MEASURES)
    }


def section(half: str, pages: int, results: Results) -> Section:
    """The section of the page of results."""
    engines = [
        {"parser": _named(engine), **_shown(means(rows)), "ms a page": round(1000 * spent / pages)}
        for engine, (rows, spent) in results.items()
    ]
    layouts = [
        {"layout": f"{layout}: {LAYOUT_NAMES[layout]}", **_shown(means(results["ours"][0], layout))}
        for layout in LAYOUTS
    ]
    count = len(results["ours"][0])
    return Section(
        title=f"Pages with known content, the {half} half",
        tables=[
            Table(engines, f"{count} documents, {pages} pages; higher is better"),
            Table(layouts, "ragwright's own reader, by layout"),
        ],
        notes=[
            "Words: F1 as multisets, running heads count against it. Order: share of the common "
            "words in a longest common subsequence, footnotes aside. Headings: F1, half for the "
            "text and half for the level. Tables: TEDS. `mean` is of these four. Captions: whole, "
            "in a block of their own; notes: footnotes apart from other text.",
            "Chromium 156 and LibreOffice 7.4 print the pages: one and two columns, two columns "
            "drawn right before left, tables with a grid, rules, shading or nothing, merged cells, "
            "lists, captions, formulas, footnotes, running heads; English, German, French. The "
            "halves share no article. The layouts are ours, so a parser that has seen other pages "
            "may do better elsewhere: `ingest.parser` can be swept on your own files.",
            "Docling is missing: its models cannot be fetched on this machine. On other pages, by "
            "other measures, opendataloader-bench publishes .882 for docling, .837 for edgeparse "
            "and .589 for markitdown.",
            "Parsers run with their default settings and without text recognition. Times include "
            "the start of a process and depend on what else the machine does.",
        ],
        command="python -m benchmarks.parsing --half test --publish --engine ours "
        "--engine markitdown --engine kreuzberg --engine edgeparse",
        page="parsing",
        order=10,
        conditions=versions("pypdfium2", "pdfplumber", "markitdown", "kreuzberg", "edgeparse"),
    )


def _named(engine: str) -> str:
    kept = versions(engine)
    return f"{engine} {kept[engine]}" if engine in kept else engine


def main() -> None:
    """Print the table of a half; with --publish, store it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--half", choices=("development", "test"), default="development")
    parser.add_argument("--each", type=int, default=8, help="documents of each layout")
    parser.add_argument("--engine", action="append", default=[])
    parser.add_argument("--keep", type=Path, help="folder that keeps pages and texts")
    parser.add_argument("--worst", action="store_true", help="list the documents, worst first")
    parser.add_argument("--publish", action="store_true")
    wanted = parser.parse_args()
    documents = known_documents(wanted.half, DATA, wanted.each)
    results: Results = {}
    with tempfile.TemporaryDirectory() as temporary:
        printed = render(documents, (wanted.keep or Path(temporary)) / wanted.half)
        pages = sum(len(pdfium.PdfDocument(path)) for _, path in printed)
        print(f"{wanted.half}: {len(printed)} documents, {pages} pages")
        for engine in wanted.engine or ["ours"]:
            results[engine] = measure(engine, printed)
            _print(engine, results[engine], pages, worst=wanted.worst)
    if wanted.publish:
        print(publish("parsing", section(wanted.half, pages, results)))


def _print(engine: str, result: tuple[Rows, float], pages: int, *, worst: bool) -> None:
    rows, seconds = result
    print(f"\n{engine}: {1000 * seconds / pages:.0f} ms a page")
    print("layout          " + "".join(f"{name:>10}" for name in ("mean", *MEASURES)))
    for layout in ("", *LAYOUTS):
        row = means(rows, layout)
        shown = "".join(f"{row[name]:10.3f}" for name in ("mean", *MEASURES))
        print(f"{layout or 'all':16}{shown}")
    if worst:
        for known, values in sorted(rows, key=lambda r: sum(r[1][m] or 0 for m in _MEAN)):
            print(known.name, {k: v and round(v, 3) for k, v in values.items()})


if __name__ == "__main__":
    main()
