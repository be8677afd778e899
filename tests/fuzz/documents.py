"""Doors for documents: front matter, HTML, XML, CSV, mail and PDF, as bytes of files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ragwright.ingest import SourceOptions, extract_bytes, workers

from . import Run, Target
from .damage import damaged_bytes

_LIMITS = SourceOptions(max_memory=400_000_000, max_seconds=10)

_FRONT = (
    b"---\ntitle: Brakes\nvisibility: private\ndate: 2024-01-31\ntopics: [a, b]\n---\n# H\n",
    b"---\nvisibility: private\ncreated: 2024-99-99\n---\ntext\n",
    b"---\nvisibility: &v [*v]\n---\ntext\n",
    b"---\nn: " + b"9" * 5000 + b"\n---\ntext\n",
    b"---\na: &a [x, x]\nb: [*a, *a]\nwhen: 2024-01-31 10:00:00 +01:00\n...\ntext\n",
)
_HTML = (
    b"<html lang=en><head><meta charset=utf-8><title>T</title></head><body><h1>A</h1><p>b <b>c</b>"
    b"<table><tr><th>x<th>y<tr><td colspan=2>z</table><ul><li>d<li>e</ul><pre>f</pre></body>",
    b"<p " + b"a=1 " * 300 + b">text",
    b"<div>" * 2000 + b"deep",
)
_XML = (
    b'<?xml version="1.0"?><TEI><text><body><div><head>H</head><p>a</p></div></body></text></TEI>',
    b'<?xml version="1.0"?><!DOCTYPE r [<!ENTITY a "b">]><r>&a;</r>',
    b"<svg xmlns='http://www.w3.org/2000/svg'><text>words</text></svg>",
)
_CSV = (
    b'a,b,c\n1,"2, two",3\n4,5\n"open\n6,7,8,9\n',
    "name;größe\nä;1,5\n".encode("cp1252"),
    b"a\tb\n" + b"1\t2\n" * 50,
)
_MAIL = (
    b"From: a@b.example\nTo: c@d.example\nDate: Wed, 31 Jan 2024 10:00:00 +0100\n"
    b"Subject: =?utf-8?B?w6Q=?=\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n"
    b"--b\nContent-Type: text/plain; charset=utf-8\n\nhello\n--b\nContent-Type: text/html\n\n<p>x\n"
    b'--b\nContent-Type: text/csv\nContent-Disposition: attachment; filename="t.csv"\n\n'
    b"a,b\n--b--\n",
    b"Content-Type: multipart/mixed; boundary=b\n\n"
    + b"--b\nContent-Type: multipart/mixed; boundary=b\n\n" * 100,
)
_PDF = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
    b"2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R"
    b"/Resources<</Font<</F 5 0 R>>>>>>endobj\n"
    b"4 0 obj<</Length 91>>stream\nBT /F 12 Tf 72 700 Td (Fluids and filters) Tj ET\n"
    b"50 60 m 550 60 l S 50 90 m 550 90 l S\nendstream endobj\n"
    b"5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj\n"
    b"trailer<</Root 1 0 R/Size 6>>\n%%EOF",
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
    b"2 0 obj<</Type/Pages/Kids[2 0 R]/Count 2000000000>>endobj\ntrailer<</Root 1 0 R/Size 3>>\n",
)


def _reading(name: str) -> Callable[[], Iterator[Run]]:
    def opened() -> Iterator[Run]:
        def run(data: bytes) -> None:
            found = extract_bytes(name, data, _LIMITS)
            found.text.encode()  # nothing that cannot be stored
            for section in found.sections:
                assert 0 <= section.span.start <= section.span.end <= len(found.text)
            private = b"visibility: private\n" in data and Path(name).suffix == ".md"
            if private and data.startswith(b"---\n") and b"\n---\n" in data:
                assert found.metadata.get("visibility") == "private" or _taken_out(data)

        with workers():
            yield run

    return opened


def _taken_out(data: bytes) -> bool:
    """Whether the damage took the field out of the front matter, or ended that before it."""
    head = b"\n" + data[4:].split(b"\n---\n")[0] + b"\n"
    return b"\n...\n" in head or b"\nvisibility: private\n" not in head


TARGETS: tuple[Target, ...] = tuple(
    Target(f"document {name}", corpus, damaged_bytes, contextmanager(_reading(name)), cases)
    for name, corpus, cases in (
        ("a.md", _FRONT, 80),
        ("a.html", _HTML, 20),
        ("a.xml", _XML, 30),
        ("a.csv", _CSV, 50),
        ("a.eml", _MAIL, 8),
        ("a.pdf", _PDF, 15),
    )
)
