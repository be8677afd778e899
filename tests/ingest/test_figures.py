"""Figures of files: caption, page and box; icons, logos and foreign files are left out."""

from __future__ import annotations

import base64
import io
import struct
import zipfile
import zlib
from pathlib import Path

import pytest

from ragwright import Workbench
from ragwright.index import Figure, Figures
from ragwright.ingest import FoundFigure, SourceOptions, figures_of, image_size, kept_figures

OPTIONS = SourceOptions()


def png(width: int, height: int, shade: int = 90) -> bytes:
    """A grey PNG file."""
    body = zlib.compress(b"".join(b"\0" + bytes([shade]) * width for _ in range(height)))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", body), (b"IEND", b"")]
    chunks = [
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def pdf(caption: str, shade: int = 90) -> bytes:
    """One page with an image of 200 by 120 points at (100, 500), and a caption below it."""
    pixels = bytes(range(256)) * 60 + bytes([shade])
    picture = zlib.compress(pixels[: 128 * 120])
    content = (
        f"q 200 0 0 120 100 500 cm /I Do Q BT /F 10 Tf 100 480 Td ({caption}) Tj ET "
        "BT /F 12 Tf 100 700 Td (The pump is driven by the shaft.) Tj ET"
    ).encode()
    bodies = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R/Resources<</Font<</F 5 0 R"
        b">>/XObject<</I 6 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(content), content),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        b"<</Type/XObject/Subtype/Image/Width 128/Height 120/ColorSpace/DeviceGray"
        b"/BitsPerComponent 8/Filter/FlateDecode/Length %d>>stream\n%s\nendstream"
        % (len(picture), picture),
    ]
    out, places = bytearray(b"%PDF-1.4\n"), []
    for number, body in enumerate(bodies, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 7\n0000000000 65535 f \n"
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    return bytes(out + b"trailer<</Size 7/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % start)


def big_pdf(caption: str, side: int) -> bytes:
    """As :func:`pdf`, with an image of so many white and black pixels on a side."""
    pixels = zlib.compress((b"\0" * side + b"\xff" * side) * (side // 2))
    stream = b"/Length %d>>stream\n%s\nendstream" % (len(pixels), pixels)
    small = pdf(caption)
    at = small.index(b"/Length", small.index(b"/Subtype/Image"))
    sized = small[:at].replace(b"/Width 128/Height 120", b"/Width %d/Height %d" % (side, side))
    return sized + stream + small[small.index(b"\nendobj", at) :]


def epub(images: int) -> bytes:
    file = io.BytesIO()
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf"><manifest>'
        '<item id="a" href="text/one.xhtml" media-type="text/html"/></manifest>'
        '<spine><itemref idref="a"/></spine></package>'
    )
    with zipfile.ZipFile(file, "w") as book:
        book.writestr("mimetype", "application/epub+zip")
        book.writestr(
            "META-INF/container.xml",
            '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container">'
            '<rootfile full-path="a.opf"/></container>',
        )
        book.writestr("a.opf", package)
        page = "".join(f'<p>Part {i}</p><img src="i/a.png" alt="Seal"/>' for i in range(images))
        book.writestr("text/one.xhtml", f"<html><body>{page}</body></html>")
        book.writestr("text/i/a.png", png(120, 120))
    return file.getvalue()


def test_a_pdf_figure_has_page_box_and_caption() -> None:
    pytest.importorskip("pypdfium2")
    [figure] = figures_of("a.pdf", "pdf", pdf("Figure 3: The pump and its shaft"), OPTIONS)
    assert (figure.page, figure.box) == (1, (100.0, 222.0, 300.0, 342.0))
    assert figure.caption == "Figure 3: The pump and its shaft"
    assert image_size(figure.data) == (200, 120)


def test_html_figures_are_inline_or_beside_the_file() -> None:
    pytest.importorskip("selectolax")
    inline = base64.b64encode(png(120, 120)).decode()
    html = (
        f'<p>Before it.</p><figure><img src="data:image/png;base64,{inline}">'
        '<figcaption>Figure 1. A valve</figcaption></figure><img src="b.png" alt="A hose">'
        '<img src="https://elsewhere.example/c.png"><img src="file:///etc/passwd">'
    )
    first, second = figures_of("a.html", "html", html.encode(), OPTIONS)
    assert (first.caption, first.before) == ("Figure 1. A valve", "Before it.")
    assert (second.link, second.caption) == ("b.png", "A hose")


def test_icons_rules_and_repeated_logos_are_left_out() -> None:
    images = [png(32, 32), png(1300, 70), b"<svg/>", png(200, 200), *[png(150, 80)] * 3]
    kept = kept_figures(FoundFigure(data) for data in images)
    assert [image_size(figure.data) for figure in kept] == [(200, 200)]


def test_a_seal_on_every_page_of_a_book_is_no_figure() -> None:
    pytest.importorskip("selectolax")
    assert len(figures_of("a.epub", "epub", epub(2), OPTIONS)) == 2
    assert figures_of("a.epub", "epub", epub(3), OPTIONS) == ()


@pytest.mark.parametrize(("kind", "data"), [("pdf", b"%PDF-1.4 cut"), ("docx", b"PK/media/cut")])
def test_a_damaged_file_is_an_error_of_that_file(kind: str, data: bytes) -> None:
    pytest.importorskip("pypdfium2")
    from ragwright.core import RagwrightError

    with pytest.raises(RagwrightError):
        figures_of(f"a.{kind}", kind, data, OPTIONS)


def kept(folder: Path) -> list[Figure]:
    with Workbench.open(folder) as bench:
        bench.ingest()
        names = [document.id for document in bench.documents()]
    return Figures(folder / ".ragwright" / "data" / "figures.sqlite").of(names)


def test_figures_are_kept_with_their_place_and_forgotten(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    pytest.importorskip("selectolax")
    docs = tmp_path / "docs"
    docs.mkdir()
    (tmp_path / "ragwright.yaml").write_text("sources: [docs]\n")
    (tmp_path.parent / "secret.png").write_bytes(png(130, 130))
    (docs / "pump.pdf").write_bytes(pdf("Figure 3: The pump and its shaft"))
    (docs / "hose.html").write_text(
        "<html><body><h1>Hose</h1><p>The hose is long and green, as hoses are.</p>"
        '<img src="hose.png" alt="A hose"><img src="../../secret.png" alt="x"></body></html>'
    )
    (docs / "hose.png").write_bytes(png(140, 100))
    hose, pump = kept(tmp_path)
    assert (hose.caption, hose.width, hose.height) == ("A hose", 140, 100)
    with Workbench.open(tmp_path) as bench:
        text = next(d.text for d in bench.documents() if d.id == pump.document_id)
        assert pump.start == text.index("Figure 3")
        bench.forget(pump.document_id)
    figures = Figures(tmp_path / ".ragwright" / "data" / "figures.sqlite")
    assert figures.image(pump.id) is None
    assert figures.image(hose.id) is not None
    (docs / "hose.png").unlink()


def test_a_project_that_wants_no_figures_keeps_none(tmp_path: Path) -> None:
    pytest.importorskip("selectolax")
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "hose.html").write_text(
        '<html><body><h1>Hose</h1><p>The hose is long.</p><img src="hose.png" alt="A hose"></body>'
    )
    (docs / "hose.png").write_bytes(png(140, 100))
    (tmp_path / "ragwright.yaml").write_text("sources: [docs]\n")
    assert [figure.caption for figure in kept(tmp_path)] == ["A hose"]
    (tmp_path / "ragwright.yaml").write_text("sources: [docs]\ningest: {figures: false}\n")
    assert not list(kept(tmp_path))


def test_links_that_are_no_file_names_stop_no_ingest(tmp_path: Path) -> None:
    pytest.importorskip("selectolax")
    docs = tmp_path / "docs"
    docs.mkdir()
    links = "".join(f'<img src="{link}">' for link in ("x" * 300 + ".png", "a%00.png", "hose.png"))
    (docs / "hose.html").write_text(f"<html><body><h1>Hose</h1><p>Long.</p>{links}</body>")
    (docs / "hose.png").write_bytes(png(140, 100))
    (tmp_path / "ragwright.yaml").write_text("sources: [docs]\n")
    assert len(kept(tmp_path)) == 1


def test_figures_that_cannot_be_read_are_reported_and_tried_again(tmp_path: Path) -> None:
    pytest.importorskip("selectolax")
    (tmp_path / "docs").mkdir()
    (tmp_path / "ragwright.yaml").write_text("sources: [docs]\n")
    book, whole = tmp_path / "docs/a.epub", epub(1)
    seal = whole.index(b"\x89PNG")
    book.write_bytes(whole[:seal] + b"\0" + whole[seal + 1 :])
    for _ in range(2):
        with Workbench.open(tmp_path) as bench:
            report = bench.ingest()
            assert (len(list(bench.documents())), report.failures) == (1, ())
            [warning] = report.warnings
            assert "its figures could not be read" in str(warning.error)
            assert "the next ingest tries again" in str(warning.error)
    book.write_bytes(whole)
    assert [figure.caption for figure in kept(tmp_path)] == ["Seal"]


def test_figures_are_read_within_the_limits_of_their_source(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.pdf").write_bytes(big_pdf("Figure 1: Stripes", 3800))
    source = "sources: [{source: docs, max_memory: 100000000}]\n"
    (tmp_path / "ragwright.yaml").write_text(source)
    with Workbench.open(tmp_path) as bench:
        report = bench.ingest()
        assert report.counts.added == 1
        assert "max_memory" in str(report.warnings[0].error)
    (tmp_path / "ragwright.yaml").write_text("sources: [docs]\n")
    assert [figure.caption for figure in kept(tmp_path)] == ["Figure 1: Stripes"]
