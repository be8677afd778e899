"""OCR: scans and images become text, named as recognised, one page at a time."""

from __future__ import annotations

import io
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import made_files as make
import pypdfium2 as pdfium
import pytest
from benchmarks.documents import no_network
from made_scans import LEFT, RIGHT, page, saved
from PIL import Image

from ragwright.core import (
    Document,
    EmptySourceError,
    MalformedSourceError,
    RagwrightError,
    UnsupportedSourceError,
)
from ragwright.ingest import (
    Extract,
    Failure,
    FileReader,
    ScanProgress,
    SourceOptions,
    engine_name,
    extract_bytes,
)

PIXELS = 300_000
"""Pixels of a rendered page: enough for large letters, and read faster than the usual number."""


def read(name: str, data: bytes, **settings: Any) -> Extract:
    return extract_bytes(name, data, SourceOptions(**settings))


def words(extract: Extract) -> str:
    return " ".join(extract.text.split())


@pytest.mark.slow
def test_columns_are_read_one_after_the_other() -> None:
    extract = read("a.png", saved(page(LEFT, RIGHT)))
    assert words(extract) == " ".join((*LEFT, *RIGHT))
    assert extract.media_type == "image/png"
    assert extract.language == "en"


@pytest.mark.slow
@pytest.mark.parametrize("turn", [90, 270, 3])
def test_a_page_on_its_side_on_its_head_or_askew_is_read(turn: int) -> None:
    """At 90 degrees the engine sets it on its head first."""
    image = page(LEFT, RIGHT).rotate(turn, expand=True, fillcolor=255)
    assert words(read("a.jpg", saved(image, "JPEG"))) == " ".join((*LEFT, *RIGHT))


@pytest.mark.slow
def test_a_scanned_pdf_has_pages_and_says_that_it_was_recognised() -> None:
    scan = page(LEFT)
    data = saved(scan, "PDF", save_all=True, append_images=[page(RIGHT)], resolution=120)
    progress = ScanProgress()
    extract = extract_bytes("a.pdf", data, SourceOptions(ocr_pixels=PIXELS), progress)
    assert [extract.text[p.span.start : p.span.end].split()[0] for p in extract.pages] == [
        "The",
        "The",
    ]
    assert words(extract) == " ".join((*LEFT, *RIGHT))
    assert extract.metadata["ocr_pages"] == ("1", "2")
    assert str(extract.metadata["ocr"]).startswith("rapidocr 3.10")
    sure = extract.metadata["ocr_confidence"]
    assert isinstance(sure, float)
    assert 0.9 < sure <= 1
    assert "pages_without_text" not in extract.metadata
    assert (progress.pages, progress.files) == (2, 1)
    assert progress.seconds > 0


@pytest.mark.slow
def test_only_the_pages_without_text_are_recognised(tmp_path: Path) -> None:
    """A PDF of one page with a text layer and one scanned page."""
    whole = pdfium.PdfDocument(make.pdf([make.lines("Words of the text layer.")]))
    whole.import_pages(pdfium.PdfDocument(saved(page(RIGHT), "PDF", resolution=120)))
    whole.save(tmp_path / "mixed.pdf")
    extract = read("mixed.pdf", (tmp_path / "mixed.pdf").read_bytes(), ocr_pixels=PIXELS)
    assert extract.text.startswith("Words of the text layer.")
    assert extract.metadata["ocr_pages"] == ("2",)
    assert "APP_w304" in extract.text


@pytest.mark.slow
def test_frames_of_a_tiff_are_pages() -> None:
    data = saved(page(LEFT).convert("1"), "TIFF", save_all=True, append_images=[page(RIGHT)])
    extract = read("fax.tiff", data)
    assert [p.number for p in extract.pages] == [1, 2]
    assert words(extract) == " ".join((*LEFT, *RIGHT))


@pytest.mark.slow
def test_uncertain_lines_are_left_out_and_counted() -> None:
    noisy = page(LEFT).resize((83, 83)).resize((520, 520))
    kept = read("a.png", saved(noisy))
    left_out = kept.metadata.get("ocr_left_out", 0)
    assert isinstance(left_out, int)
    assert left_out > 0 or not kept.text


def read_folder(path: Path) -> tuple[list[Document], list[Failure]]:
    found = list(FileReader(base=path).read(".", no_network))
    return (
        [item for item in found if isinstance(item, Document)],
        [item for item in found if isinstance(item, Failure)],
    )


def claimed(width: int, height: int) -> bytes:
    """The head of a PNG file of this size, and the pixels of a small one."""
    data = saved(Image.new("1", (8, 8)))
    head = b"IHDR" + struct.pack(">II", width, height) + data[24:29]
    return data[:12] + head + struct.pack(">I", zlib.crc32(head)) + data[33:]


@pytest.mark.slow
def test_damaged_huge_and_blank_images_are_answered(tmp_path: Path) -> None:
    (tmp_path / "blank.png").write_bytes(saved(Image.new("L", (600, 400), 255)))
    (tmp_path / "broken.png").write_bytes(saved(page(LEFT))[:900])
    (tmp_path / "text.png").write_text("no image", "utf-8")
    (tmp_path / "good.png").write_bytes(saved(page(LEFT)))
    (tmp_path / "huge.png").write_bytes(claimed(20_000, 20_000))
    found, failures = read_folder(tmp_path)
    assert [d.id for d in found] == ["good.png"]
    answers = {f.source: f for f in failures}
    assert answers["blank.png"].skipped
    assert isinstance(answers["blank.png"].error, EmptySourceError)
    assert "object at" not in str(answers["text.png"].error)
    assert isinstance(answers["broken.png"].error, MalformedSourceError)
    assert isinstance(answers["huge.png"].error, UnsupportedSourceError)
    assert "20,000 x 20,000 pixels" in str(answers["huge.png"].error)


def test_without_the_extra_the_install_line_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    engine_name.cache_clear()
    monkeypatch.setitem(sys.modules, "rapidocr", None)
    try:
        with pytest.raises(UnsupportedSourceError, match=r"ragwright\[ocr\]"):
            read("a.png", saved(page(LEFT)))
    finally:
        engine_name.cache_clear()


@pytest.mark.slow
def test_never_means_never() -> None:
    with pytest.raises(EmptySourceError, match="remove `ocr: never`"):
        read("a.pdf", saved(page(LEFT), "PDF"), ocr="never")


@pytest.mark.slow
def test_pages_within_the_time_of_a_file_are_read_and_the_others_named() -> None:
    """Each page alone takes a fraction of the time, and all of them many times as much."""
    read("a.png", saved(page(LEFT)))  # loading the engine takes time too
    blank = Image.new("L", (600, 800), 255)
    pages = [page(LEFT), *[blank] * 60]
    extract = read("scan.pdf", saved_pdf(pages), max_seconds=3, ocr_pixels=PIXELS)
    assert LEFT[0] in words(extract)
    assert 0 < len(extract.faults) < len(pages), "the first pages were read"
    [said] = {fault.what for fault in extract.faults if isinstance(fault, RagwrightError)}
    assert "OCR of the file took longer than `max_seconds` (3 s" in said
    with pytest.raises(UnsupportedSourceError, match="took longer") as caught:
        read("scan.pdf", saved_pdf([blank] * 3), max_seconds=0.0001)
    assert "raise `max_seconds`" in str(caught.value.hint)


def saved_pdf(pages: list[Any]) -> bytes:
    out = io.BytesIO()
    pages[0].save(out, "PDF", save_all=True, append_images=pages[1:])
    return out.getvalue()


@pytest.mark.parametrize("mode", ["RGB", "P", "1", "RGBA"])
def test_an_image_is_refused_before_decoding_it_takes_too_much_memory(mode: str) -> None:
    data = saved(Image.new(mode, (5000, 5000)))
    with pytest.raises(
        UnsupportedSourceError, match=r"5,000 x 5,000 pixels.*`max_memory`"
    ) as caught:
        read("a.png", data, max_memory=20_000_000)
    assert "raise `max_memory`" in str(caught.value.hint)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["RGB", "L", "1", "P", "LA", "I;16"])
def test_large_images_of_every_kind_are_reduced_and_read(mode: str) -> None:
    large = page(LEFT).resize((3120, 3120))
    image = large.convert("L").convert(mode) if mode != "I;16" else as_16_bits(large)
    data = saved(image, compress_level=1)
    assert LEFT[0].split()[0] in words(read("a.png", data, ocr_pixels=PIXELS))


def as_16_bits(image: Any) -> Any:
    return image.convert("I").point(lambda value: value * 256).convert("I;16")
