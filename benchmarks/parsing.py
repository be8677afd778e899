"""Measure what parsers keep of PDF pages whose content is known.

    python -m benchmarks.parsing                        # ours, on the development half
    python -m benchmarks.parsing --half test --publish  # every engine; read once
    python -m benchmarks.parsing --engine markitdown --keep FOLDER

Pages are printed by Chromium and LibreOffice. Measures: see `benchmarks.parsing_measures`.
"""

from __future__ import annotations

import argparse
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

MEASURES = ("words", "order", "headings", "tables", "captions", "notes")
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


def main() -> None:
    """Print the table of a half; with --publish, store it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--half", choices=("development", "test"), default="development")
    parser.add_argument("--each", type=int, default=8, help="documents of each layout")
    parser.add_argument("--engine", action="append", default=[])
    parser.add_argument("--keep", type=Path, help="folder that keeps pages and texts")
    parser.add_argument("--worst", action="store_true", help="list the documents, worst first")
    wanted = parser.parse_args()
    documents = known_documents(wanted.half, DATA, wanted.each)
    with tempfile.TemporaryDirectory() as made:
        printed = render(documents, (wanted.keep or Path(made)) / wanted.half)
        pages = sum(len(pdfium.PdfDocument(path)) for _, path in printed)
        print(f"{wanted.half}: {len(printed)} documents, {pages} pages")
        for engine in wanted.engine or ["ours"]:
            rows, seconds = measure(engine, printed)
            print(f"\n{engine}: {1000 * seconds / pages:.0f} ms a page")
            print("layout          " + "".join(f"{name:>10}" for name in ("mean", *MEASURES)))
            for layout in ("", *LAYOUTS):
                row = means(rows, layout)
                shown = "".join(f"{row[name]:10.3f}" for name in ("mean", *MEASURES))
                print(f"{layout or 'all':16}{shown}")
            if wanted.worst:
                for known, values in sorted(rows, key=lambda r: sum(r[1][m] or 0 for m in _MEAN)):
                    print(known.name, {k: v and round(v, 3) for k, v in values.items()})


if __name__ == "__main__":
    main()
