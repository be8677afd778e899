"""PDF files: raised text, values of forms, comments, watermarks, hyphens, damaged parts."""

from __future__ import annotations

import made_files as make
import pytest

from ragwright.ingest import Extract, ScanProgress, SourceOptions, extract_bytes

pytestmark = pytest.mark.slow


def read(data: bytes) -> Extract:
    return extract_bytes("a.pdf", data, SourceOptions(ocr="never"))


def shown(*pieces: tuple[str, float, float]) -> str:
    """A line of pieces: text, size, and height above the baseline."""
    parts = " ".join(f"/F {size} Tf {rise} Ts ({text}) Tj" for text, size, rise in pieces)
    return f"BT 50 700 Td {parts} ET\n"


def test_raised_and_lowered_digits_are_told_from_the_rest() -> None:
    line = shown(
        ("Up to 10", 12, 0), ("-3", 7, 5), (" m", 12, 0), ("2", 7, 5), (" of CO", 12, 0),
        ("2", 7, -2), (" under pressure", 12, 0), ("4", 7, 5), (", 120 of 350.", 12, 0),
    )  # fmt: skip
    text = read(make.pdf([line])).text
    assert text == "Up to 10⁻³ m² of CO₂ under pressure ⁴, 120 of 350."


def test_a_slanted_watermark_is_metadata_and_no_heading() -> None:
    mark = "BT /F 60 Tf .5 .866 -.866 .5 200 300 Tm (DRAFT) Tj ET\n"
    pages = [mark + make.lines(f"Rule {n} says that visitors wait.") for n in range(3)]
    extract = read(make.pdf(pages))
    assert "DRAFT" not in extract.text
    assert extract.metadata["running_lines"] == ("DRAFT",)
    assert not extract.sections
    label = "BT /F 12 Tf .7071 .7071 -.7071 .7071 200 300 Tm (per month) Tj ET\n"
    assert "per month" in read(make.pdf([label + make.lines("A chart of costs.")])).text


def test_words_cut_at_a_line_end_keep_the_hyphen_that_they_are_written_with() -> None:
    lines = (
        "The consoli-", "dation of the well-", "known X-", "ray unit AB-", "12 with the MTBF-",
        "value of the self-", "less crew, in- and", "output, a 24-", "hour watch, an inter-",
    )  # fmt: skip
    text = " ".join(
        read(make.pdf([make.lines(*lines), make.lines("national unit of ours.")])).text.split()
    )
    for word in ("consolidation", "well-known X-ray", "AB-12", "MTBF-value", "selfless"):
        assert word in text
    assert "24-hour watch, an international unit" in text
    assert "in- and output" in text
    numbers = make.pdf([make.lines("See the pages 3-", "5 of the manual.")])
    assert "pages 3-5 of" in read(numbers).text


def test_words_of_plain_text_are_joined_as_well() -> None:
    text = b"The infor-\nmation on AB-\n12, a 24-\n  hour watch. In-\nand output,\n- a\n-----\n"
    joined = "The information\non AB-12,\na 24-hour\nwatch. In- and\noutput,\n- a\n-----\n"
    assert extract_bytes("a.txt", text, SourceOptions()).text == joined
    assert extract_bytes("a.py", b"a = b-\\\n2-\nc", SourceOptions()).text == "a = b-\\\n2-\nc"


def test_progress_names_the_file_that_is_read_and_its_page() -> None:
    seen: list[object] = []

    class Seen(ScanProgress):
        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            seen.extend([value] * (name == "current"))

    data = make.pdf([make.lines(f"Page {n}.") for n in range(3)])
    extract_bytes("a.pdf", data, SourceOptions(ocr="never"), Seen())
    for name in ("a.pdf", "a.pdf, page 1 of 3", "a.pdf, page 3 of 3"):
        assert name in seen


def added(kind: str, box: str = "100 690 200 712") -> bytes:
    """A page with an annotation, which the maker of files cannot write."""
    data = make.pdf([make.lines("Customer:")])
    data = data.replace(b"/Type/Page/", b"/Type/Page/Annots[700 0 R]/")
    data = data.replace(b"/Catalog/", b"/Catalog/AcroForm<</Fields[700 0 R]>>/")
    body = f"700 0 obj\n<</Type/Annot/Rect[{box}]{kind}>>\nendobj\n".encode()
    return data[: data.rindex(b"xref\n0 1")] + body  # PDFium rebuilds the table of objects


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("/Subtype/Widget/FT/Tx/T(f1)/V(Hydra GmbH)", "Customer: Hydra GmbH"),
        ("/Subtype/Widget/FT/Ch/T(f1)/V(Bern)/Opt[(Bern)(Ulm)]", "Customer: Bern"),
        ("/Subtype/Widget/FT/Btn/T(f1)/V/Yes/AS/Yes/AP<</N<</Yes 5 0 R>>>>", "Customer: ☒"),
        ("/Subtype/Text/Contents(Changed to 48 Nm)/T(Ann)", "Comment (Ann): Changed to 48 Nm"),
    ],
)
def test_values_of_forms_and_notes_are_read(kind: str, line: str) -> None:
    trailer = b"trailer<</Root 1 0 R/Size 999>>\n%%EOF"
    assert read(added(kind) + trailer).text.splitlines()[-1] == line


def test_a_page_that_cannot_be_read_is_counted() -> None:
    data = make.pdf([make.lines("First page."), make.lines("Second page.")])
    extract = read(data.replace(b"6 0 obj\n<</Type/Page/", b"6 0 obj\n<</Type/Pagx/"))
    assert "First page." in extract.text
    assert [fault.what for fault in extract.faults] in ([], ["1 damaged page: left out"])
