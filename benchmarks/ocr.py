"""Measure what OCR reads on scans whose text is known.

Renders pages of PDF files that have a text layer, at 200 dots per inch, gray, as JPEG of quality
75; a PDF made of these pictures is read by OCR, and compared with the text layer of the original.

    python -m benchmarks.ocr [FOLDER]    (PDF files; by default those of the documents data set)

Accuracy of characters is one minus the edit distance over the longer text's length, white space
folded, in reading order. Words are compared without their order, as multisets. Seconds are
processor time for a page, with the start of the process that reads it.
"""

from __future__ import annotations

import io
import re
import resource
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pypdfium2 as pdfium
from PIL import Image

from ragwright import evaluate
from ragwright.core import workers
from ragwright.ingest import Extract, SourceOptions, extract_bytes

from .data_sets import DATA

_PAGES = 3
"""Pages of a file at most."""
_DPI = 200


def scan(document: Any, pages: int) -> bytes:
    """The first pages as a PDF without a text layer."""
    pictures = []
    for index in range(pages):
        file = io.BytesIO()
        document[index].render(scale=_DPI / 72).to_pil().convert("L").save(file, "JPEG", quality=75)
        pictures.append(file)
    images = [Image.open(file) for file in pictures]
    out = io.BytesIO()
    images[0].save(out, "PDF", save_all=True, append_images=images[1:], resolution=_DPI)
    return out.getvalue()


def page_texts(extract: Extract, pages: int) -> list[str]:
    """Text of each page, white space folded."""
    spans = [page.span for page in extract.pages[:pages]]
    return [" ".join(extract.text[s.start : s.end].split()) for s in spans]


def _spent() -> float:
    """Processor seconds of the worker processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def accuracy(known: str, read: str) -> float:
    """Share of characters that need no edit."""
    row = {"user_input": "-", "response": read or " ", "reference": known}
    return 1 - float(evaluate([row], "EditDistance").results[0].scores[0].value or 0)


def shared_words(known: str, read: str) -> tuple[float, float]:
    """Recall and precision of words."""
    known_words, read_words = (
        Counter(re.findall(r"\w+", text.casefold())) for text in (known, read)
    )
    both = (known_words & read_words).total()
    return both / max(1, known_words.total()), both / max(1, read_words.total())


def main() -> None:
    """Print a row for each page, and the mean."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA / "documents" / "sources"
    files = sorted(folder.glob("*.pdf"))
    if not files:
        print(f"no PDF files in {folder}")
        return
    print("file                              page  characters  recall  precision  words  seconds")
    means: list[tuple[float, float, float, float]] = []
    for path in files:
        data = path.read_bytes()
        document = pdfium.PdfDocument(data)
        pages = min(len(document), _PAGES)
        if not any(document[i].get_textpage().count_chars() for i in range(pages)):
            continue
        original = extract_bytes(path.name, data, SourceOptions(ocr="never", tables=False))
        scanned = scan(document, pages)
        began = _spent()
        with workers():
            read = extract_bytes(path.name, scanned, SourceOptions(ocr="always"))
        seconds = (_spent() - began) / pages
        texts = zip(page_texts(original, pages), page_texts(read, pages), strict=True)
        for number, (known, got) in enumerate(texts, 1):
            if len(known) < 100:
                continue
            recall, precision = shared_words(known, got)
            row = (accuracy(known, got), recall, precision, seconds)
            means.append(row)
            print(
                f"{path.name[:32]:32}  {number:4}  {row[0]:10.3f}  {recall:6.3f}  {precision:9.3f}"
                f"  {len(known.split()):5}  {seconds:7.1f}",
                flush=True,
            )
    columns = [sum(column) / len(means) for column in zip(*means, strict=True)]
    print(f"mean of {len(means)} pages: " + ", ".join(f"{value:.3f}" for value in columns))


if __name__ == "__main__":
    main()
