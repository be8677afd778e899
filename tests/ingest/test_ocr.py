"""OCR: scans and images become text, named as recognised, one page at a time."""

from __future__ import annotations

import struct
import sys
import zlib
from pathlib import Path

import made_files as make
import pypdfium2 as pdfium
import pytest
from made_scans import LEFT, RIGHT, page, saved
from one_file import read, read_folder
from PIL import Image

from ragwright.core import (
    EmptySourceError,
    MalformedSourceError,
    RagwrightError,
    UnsupportedSourceError,
)
from ragwright.ingest import Extract, ScanProgress, SourceOptions, engine_name, extract_bytes

PIXELS = 300_000
"""Pixels of a rendered page: enough for large letters, and read faster than the usual number."""
BOTH = " ".join((*LEFT, *RIGHT))


def words(extract: Extract) -> str:
    return " ".join(extract.text.split())


@pytest.mark.slow
@pytest.mark.parametrize("turn", [0, 90, 270, 3])
def test_columns_are_read_one_after_the_other_on_a_side_on_the_head_or_askew(turn: int) -> None:
    image = page(LEFT, RIGHT).rotate(turn, expand=True, fillcolor=255)
    extract = read("a.jpg", saved(image, "JPEG"))
    assert words(extract) == BOTH
    assert (extract.media_type, extract.language) == ("image/jpeg", "en")


@pytest.mark.slow
def test_a_scanned_pdf_has_pages_and_says_that_it_was_recognised(tmp_path: Path) -> None:
    scan = page(LEFT)
    data = saved(scan, "PDF", save_all=True, append_images=[page(RIGHT)], resolution=120)
    progress = ScanProgress()
    extract = extract_bytes("a.pdf", data, SourceOptions(ocr_pixels=PIXELS), progress)
    pages = [extract.text[p.span.start : p.span.end].split()[0] for p in extract.pages]
    assert pages == ["The", "The"]
    assert words(extract) == BOTH
    assert extract.metadata["ocr_pages"] == ("1", "2")
    assert str(extract.metadata["ocr"]).startswith("rapidocr 3.10")
    sure = extract.metadata["ocr_confidence"]
    assert isinstance(sure, float)
    assert 0.9 < sure <= 1
    assert "pages_without_text" not in extract.metadata
    assert (progress.pages, progress.files) == (2, 1)
    assert progress.seconds > 0
    whole = pdfium.PdfDocument(make.pdf_of("Words of the text layer."))
    whole.import_pages(pdfium.PdfDocument(saved(page(RIGHT), "PDF", resolution=120)))
    whole.save(tmp_path / "mixed.pdf")
    mixed = read("mixed.pdf", (tmp_path / "mixed.pdf").read_bytes(), ocr_pixels=PIXELS)
    assert mixed.text.startswith("Words of the text layer.")
    assert mixed.metadata["ocr_pages"] == ("2",), "pages without text alone are recognised"
    assert "APP_w304" in mixed.text
    with pytest.raises(EmptySourceError, match="remove `ocr: never`"):
        read("a.pdf", data, ocr="never")


@pytest.mark.slow
def test_frames_are_pages_and_uncertain_lines_are_left_out_and_counted() -> None:
    data = saved(page(LEFT).convert("1"), "TIFF", save_all=True, append_images=[page(RIGHT)])
    extract = read("fax.tiff", data)
    assert [p.number for p in extract.pages] == [1, 2]
    assert words(extract) == BOTH
    kept = read("a.png", saved(page(LEFT).resize((83, 83)).resize((520, 520))))
    left_out = kept.metadata.get("ocr_left_out", 0)
    assert isinstance(left_out, int)
    assert left_out > 0 or not kept.text


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
def test_pages_within_the_time_of_a_file_are_read_and_the_others_named() -> None:
    read("a.png", saved(page(LEFT)))  # loading the engine takes time too
    blank = Image.new("L", (600, 800), 255)
    data = saved(page(LEFT), "PDF", save_all=True, append_images=[blank] * 60)
    extract = read("scan.pdf", data, max_seconds=3, ocr_pixels=PIXELS)
    assert LEFT[0] in words(extract)
    assert 0 < len(extract.faults) < 61, "the first pages were read"
    [said] = {fault.what for fault in extract.faults if isinstance(fault, RagwrightError)}
    assert "OCR of the file took longer than `max_seconds` (3 s" in said
    data = saved(blank, "PDF", save_all=True, append_images=[blank] * 2)
    with pytest.raises(UnsupportedSourceError, match="took longer") as caught:
        read("scan.pdf", data, max_seconds=0.0001)
    assert "raise `max_seconds`" in str(caught.value.hint)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["RGB", "1", "LA", "I;16", "RGBA"])
def test_large_images_are_reduced_and_refused_before_decoding_takes_too_much(mode: str) -> None:
    large = page(LEFT).resize((3120, 3120))
    deep = mode == "I;16"
    image = large.convert("I").point(lambda at: at * 256) if deep else large.convert("RGB")
    data = saved(image.convert(mode), compress_level=1)
    if mode != "RGBA":
        assert LEFT[0].split()[0] in words(read("a.png", data, ocr_pixels=PIXELS))
    if mode in ("RGB", "P", "1", "RGBA"):
        data = saved(Image.new(mode, (5000, 5000)))
        said = r"5,000 x 5,000 pixels.*`max_memory`"
        with pytest.raises(UnsupportedSourceError, match=said) as caught:
            read("a.png", data, max_memory=20_000_000)
        assert "raise `max_memory`" in str(caught.value.hint)
