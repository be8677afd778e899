"""What the readers keep and leave out: each row has a file that shows it.

The page `docs/reference/readers.md` is written from these rows, and `tests/ingest/test_extract.py`
reads their files.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import made_files as make

State = Literal["kept", "counted", "left out"]
"""Kept as text or metadata; left out and counted in a warning; left out without a word."""


@dataclass(frozen=True)
class Row:
    """One thing in files of a format.

    Attributes:
        format: Format, as the page names it.
        state: What becomes of it.
        what: The thing, in words.
        name: Name of the file.
        sample: Makes the file.
        shown: Text that is in the document if the thing is kept, and not if it is left out.
        said: Part of the warning; empty if there is none.
    """

    format: str
    state: State
    what: str
    name: str
    sample: Callable[[], bytes]
    shown: str
    said: str = ""

    @property
    def main_text(self) -> bool:
        return "main_text" in self.format


def _text(
    kind: str, state: State, what: str, name: str, text: str | bytes, shown: str, said: str = ""
) -> Row:
    data = text.encode() if isinstance(text, str) else text
    return Row(kind, state, what, name, lambda: data, shown, said)


def _word(extra: str, **parts: str) -> bytes:
    return make.word(make.paragraph(make.run("Body.")) + extra, **parts)


_HEADER = '<w:sectPr><w:headerReference r:id="header"/></w:sectPr>'
_MARK = '<w:p><w:r><w:t>x</w:t></w:r><w:r><w:commentReference w:id="4"/></w:r></w:p>'
_HIDDEN = "<w:p><w:r><w:rPr><w:vanish/></w:rPr><w:t>draft</w:t></w:r></w:p>"
_IMAGE = '<w:p><w:r><w:drawing><a:blip r:embed="gone"/></w:drawing></w:r></w:p>'
_UP = (
    '<w:p><w:r><w:t>10</w:t></w:r><w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr>'
    "<w:t>6</w:t></w:r></w:p>"
)
_SHEET = (
    '<table:table table:name="S"><table:table-row><table:table-cell office:value="0.075" '
    'office:value-type="percentage"><office:annotation><text:p>Agreed</text:p>'
    "</office:annotation><text:p>7,5 %</text:p></table:table-cell></table:table-row></table:table>"
    '<table:table table:name="T"><table:table-row><table:table-cell office:value="0.075" '
    'office:value-type="percentage"><text:p>7,5 %</text:p></table:table-cell><table:table-cell>'
    "<text:p>x</text:p></table:table-cell></table:table-row></table:table>"
)
_MAIL = "From: a@b.c\nSubject: x\nContent-Type: multipart/mixed; boundary=B\n\n--B\n\nText.\n--B\n"
_NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "source": "# Pumps"},
        {
            "cell_type": "code",
            "source": "flow()",
            "outputs": [{"data": {"text/plain": "12 l/s"}}, {"data": {"image/png": "iVBOR"}}],
        },
    ]
}
_PAGE = "<main><h1>Gate</h1><p>Opens at nine on all days of the week.</p></main>"
_DATA = f"data:image/png;base64,{'iVBORw0KGgo' * 20}"

ROWS = (
    _text("any text", "kept", "text in a guessed encoding", "a.txt",
          "Größe und Fläche der Öfen".encode("cp1252"), "Größe", "a guess (confidence"),
    _text("any text", "kept", "bytes that break UTF-8, as Windows-1252", "a.txt",
          "Größe, Fläche, Öl ".encode() + b"\xe4hnlich", "ähnlich", "1 places"),
    _text("any text", "counted", "files in `data:` addresses", "a.md", f"![x]({_DATA})", "iVBOR",
          "1 file in data: addresses"),
    _text("Markdown", "kept", "YAML and TOML front matter, as metadata", "a.md",
          "---\nversion: 1.10\n---\nText", "1.10"),
    _text("RST, AsciiDoc, Org, wiki, LaTeX", "kept", "headings, as sections", "a.adoc",
          "= Pump\n\n== Oil\n\nISO 46\n", "Oil"),
    _text("HTML", "kept", "raised and lowered text (10⁶, CO₂)", "a.html",
          "<p>10<sup>6</sup></p>", "10⁶"),
    _text("HTML", "kept", "text of tabs and answers that a click opens", "a.html",
          "<p>Shown</p><div hidden>Two years.</div>", "Two years."),
    _text("HTML", "kept", "tables, merged cells repeated", "a.html",
          "<table><tr><th>a<th>b<tr><td>1<td>2</table>", "| 1 | 2 |"),
    _text("HTML", "kept", "descriptions of images", "a.html",
          "<p><img alt='A duck'></p>", "A duck"),
    _text("HTML", "counted", "frames, films and plug-ins", "a.html",
          "<p>Text</p><iframe>inner</iframe>", "inner", "1 frame"),
    _text("HTML", "left out", "scripts, styles, form fields", "a.html",
          "<p>Text</p><script>code()</script><style>code()</style><textarea>code()</textarea>",
          "code()"),
    _text("HTML", "left out", "hidden cookie notices", "a.html",
          "<p>Text</p><div hidden id=cookie-banner>We track.</div>", "We track."),
    _text("HTML", "left out", "addresses of links", "a.html",
          "<a href='https://x.org'>X</a>", "x.org"),
    _text("web page, or `main_text: true`", "kept", "asides, comments, every article", "a.html",
          f"{_PAGE}<aside><p>Wear gloves.</p></aside>", "Wear gloves."),
    _text("web page, or `main_text: true`", "left out", "navigation, footers, cookie notices",
          "a.html", f"<nav>Menu A</nav>{_PAGE}<footer>Menu A</footer>", "Menu A"),
    _text("XML", "kept", "HTML in feeds, as a page", "a.xml",
          "<?xml version='1.0'?><rss><description>&lt;p&gt;Lot &lt;b&gt;7&lt;/b&gt;&lt;/p&gt;"
          "</description></rss>", "Lot 7"),
    _text("JSON, JSON Lines", "kept", "characters written as codes", "a.json",
          '{"a": "Gr\\u00f6\\u00dfe"}', "Größe"),
    _text("notebook", "kept", "texts, code, and what the code printed", "a.ipynb",
          json.dumps(_NOTEBOOK), "12 l/s", "1 image"),
    _text("notebook", "counted", "images and interactive outputs", "a.ipynb",
          json.dumps(_NOTEBOOK), "iVBOR", "1 image"),
    _text("mail, mailbox", "kept", "the fuller of two bodies; attachments, as documents", "a.eml",
          f"{_MAIL}Content-Disposition: attachment; filename=b.txt\n\nAttached.\n--B--",
          "Attached."),
    _text("mail, mailbox", "left out", "signatures, images without a name", "a.eml",
          f"{_MAIL}Content-Type: application/pkcs7-signature\n\nsigned\n--B--", "signed"),
    _text("CSV, TSV", "kept", "lines above the table, as a paragraph", "a.csv",
          "Made by X\n\na;b\n1;2\n", "Made by X"),
    _text("CSV, TSV", "kept", "rows with too few or many cells", "a.csv", "a;b\n1;2\n3;4\n5;6;7\n",
          "6;7", "1 of 4 rows differ"),
    _text("CSV, TSV", "left out", "the line `sep=;`", "a.csv", "sep=;\na;b\n1;2\n", "sep="),
    Row("DOCX", "kept", "raised and lowered text", "a.docx", lambda: _word(_UP), "10⁶"),
    Row("DOCX", "kept", "heads and feet of pages", "a.docx",
        lambda: _word(_HEADER, header=make.word_part("hdr", "QM-1")), "QM-1"),
    Row("DOCX", "kept", "comments", "a.docx",
        lambda: _word(_MARK, comments=make.word_part("comments", "Now 8 bar")), "Now 8 bar"),
    Row("DOCX", "counted", "hidden text", "a.docx",
        lambda: _word(_HIDDEN), "draft", "1 hidden text"),
    Row("DOCX", "counted", "images", "a.docx", lambda: _word(_IMAGE), "gone", "1 image"),
    Row("XLSX, ODS", "kept", "every cell, in one table across empty lines", "a.xlsx",
        lambda: make.xlsx({"S": [["Cost", "", 300], ["Sum", "", 280]]}), "| Cost | 300 |"),
    Row("XLSX, ODS", "kept", "percentages, leading zeros, dates, units", "a.ods",
        lambda: make.odt(_SHEET, kind="spreadsheet"), "| 7.5% |", "1 comment"),
    Row("XLSX, ODS", "counted", "comments (ODS)", "a.ods",
        lambda: make.odt(_SHEET, kind="spreadsheet"), "Agreed", "1 comment"),
    Row("PDF", "kept", "raised and lowered digits", "a.pdf",
        lambda: make.pdf(["BT 50 700 Td /F 12 Tf (Up to 10) Tj /F 7 Tf 5 Ts (6) Tj ET"]), "10⁶"),
    Row("PDF", "kept", "values of forms", "a.pdf",
        lambda: make.annotated_pdf("/Subtype/Widget/FT/Tx/T(f1)/V(Hydra GmbH)"), "Hydra GmbH"),
    Row("PDF", "kept", "notes", "a.pdf",
        lambda: make.annotated_pdf("/Subtype/Text/Contents(Now 48 Nm)/T(Ann)"), "Now 48 Nm"),
)  # fmt: skip
