"""The manual as a PDF of pages: a cover, the introduction, and four entries a page."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

COVER = """Norrwind H2 heat pump
Service manual

What the panel shows, and what you should do

The panel shows a code when something is wrong. What should I do? Look it up in this manual."""
ENTRIES = 4
LETTERS = 88
LINE = 16


def pages_of(folder: Path) -> list[str]:
    """Texts of the pages: a code on a line of its own, its title and its text below it."""
    pages = [COVER]
    for path in sorted(folder.glob("*.md")):
        head, *entries = re.split(r"^## ", path.read_text("utf-8"), flags=re.MULTILINE)
        title = head.strip().removeprefix("# ")
        if not re.match(r"\w+_[we]\d", entries[0]):
            pages.append("\n\n".join([title, *entries]))
            continue
        split = [re.sub(r"^(\w+_[we]\d+) ", r"\1\n", entry) for entry in entries]
        for at in range(0, len(split), ENTRIES):
            pages.append("\n\n".join([title, *split[at : at + ENTRIES]]))
    return [wrapped(text) for text in pages]


def wrapped(text: str) -> str:
    """Lines that fit a page; paragraphs are filled, single lines stay."""
    blocks = []
    for block in re.split(r"\n{2,}", text.strip()):
        lines = textwrap.wrap(block, LETTERS) if "\n" not in block else block.split("\n")
        blocks.append("\n".join("\n".join(textwrap.wrap(line, LETTERS)) for line in lines))
    return "\n\n".join(blocks)


def write_pdf(path: Path, pages: Sequence[str]) -> None:
    """A PDF with these texts in Helvetica, one a page."""
    kids = " ".join(f"{4 + 2 * at} 0 R" for at in range(len(pages)))
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Kids[{kids}]/Count {len(pages)}>>".encode(),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
    ]
    for at, text in enumerate(pages):
        page = f"/Resources<</Font<</F 3 0 R>>>>/Contents {5 + 2 * at} 0 R"
        objects.append(f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]{page}>>".encode())
        shown = "".join(f"({escaped(line)}) Tj T*\n" for line in text.split("\n"))
        stream = f"BT /F 11 Tf {LINE} TL 50 750 Td\n{shown}ET".encode("cp1252")
        objects.append(b"<</Length %d>>stream\n" % len(stream) + stream + b"\nendstream")
    out = bytearray(b"%PDF-1.4\n")
    places = []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n" % number + body + b"\nendobj\n"
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer<</Root 1 0 R/Size %d>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    path.write_bytes(out)


def escaped(line: str) -> str:
    """A line as the text of a PDF string."""
    return re.sub(r"([\\()])", r"\\\1", line)


if __name__ == "__main__":
    write_pdf(Path("manual.pdf"), pages_of(Path(__file__).parent / "manual"))
