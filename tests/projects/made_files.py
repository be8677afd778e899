"""Builders of small and of broken files, so that no test needs a stored one."""

from __future__ import annotations

import hashlib
import io
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence

PAD = bytes.fromhex("28BF4E5E4E758A4164004E56FFFA01082E2E00B6D0683E802F0CA9FE6453697A")
CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
)
NUMBERS = ("1234567.891", "0.000012", "1234567890123456", "-0.5", "007", "1.10", "12,345.60")
"""Numbers that no format may change."""
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
WORD = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart" '
    f'xmlns:r="{OFFICE}"'
)


def rc4(key: bytes, data: bytes) -> bytes:
    state, out = list(range(256)), bytearray()
    j = 0
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    i = j = 0
    for byte in data:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        out.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(out)


def pdf(
    pages: Sequence[str], *, password: bytes = b"", owner: bytes = b"", info: str = ""
) -> bytes:
    """A PDF whose pages have these content streams; with a password encrypted (RC4, 40 bit).

    ``password`` is needed to open it, ``owner`` to change its rights.
    """
    locked, identity = bool(password or owner), b"0123456789abcdef"
    owner = rc4(hashlib.md5((owner + PAD)[:32]).digest()[:5], (password + PAD)[:32])
    rights = (0xFFFFFFFC).to_bytes(4, "little")
    key = hashlib.md5((password + PAD)[:32] + owner + rights + identity).digest()[:5]
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects: dict[int, bytes] = {
        1: b"<</Type/Catalog/Pages 2 0 R>>",
        2: f"<</Type/Pages/Kids[{kids}]/Count {len(pages)}>>".encode(),
        3: b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
    }
    for n, content in enumerate(pages):
        objects[4 + 2 * n] = (
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Resources<</Font<</F 3 0 R>>>>"
            b"/Contents %d 0 R>>" % (5 + 2 * n)
        )
        stream = content.encode("cp1252")
        if locked:
            salt = (5 + 2 * n).to_bytes(3, "little") + b"\0\0"
            stream = rc4(hashlib.md5(key + salt).digest()[:10], stream)
        objects[5 + 2 * n] = b"<</Length %d>>stream\n" % len(stream) + stream + b"\nendstream"
    trailer = "/Root 1 0 R/Size 999"
    if info:
        objects[900] = info.encode()
        trailer += "/Info 900 0 R"
    if locked:
        words = f"<</Filter/Standard/V 1/R 2/P -4/O<{owner.hex()}>/U<{rc4(key, PAD).hex()}>>>"
        objects[901] = words.encode()
        trailer += f"/Encrypt 901 0 R/ID[<{identity.hex()}><{identity.hex()}>]"
    out, table = b"%PDF-1.4\n", b"xref\n0 1\n0000000000 65535 f \n"
    for number, body in objects.items():
        table += b"%d 1\n%010d 00000 n \n" % (number, len(out))
        out += b"%d 0 obj\n" % number + body + b"\nendobj\n"
    return out + table + f"trailer<<{trailer}>>\nstartxref\n{len(out)}\n%%EOF".encode()


def lines(*texts: str, top: int = 700, size: int = 12) -> str:
    """A content stream that prints lines below one another."""
    shown = " ".join(f"({text}) Tj 0 -{size + 3} Td" for text in texts)
    return f"BT /F {size} Tf 50 {top} Td {shown} ET\n"


def pdf_of(*pages: str) -> bytes:
    """A PDF with one line of text on each page, or what a content stream draws."""
    return pdf([text if "BT /F" in text else lines(text, size=11) for text in pages])


def annotated_pdf(kind: str) -> bytes:
    """A page, "Customer:", with an annotation beside it, as a form or a note has them."""
    data = pdf([lines("Customer:")])
    data = data.replace(b"/Type/Page/", b"/Type/Page/Annots[700 0 R]/")
    data = data.replace(b"/Catalog/", b"/Catalog/AcroForm<</Fields[700 0 R]>>/")
    body = f"700 0 obj\n<</Type/Annot/Rect[100 690 200 712]{kind}>>\nendobj\n".encode()
    whole = data[: data.rindex(b"xref\n0 1")] + body  # PDFium rebuilds the table of objects
    return whole + b"trailer<</Root 1 0 R/Size 999>>\n%%EOF"


def ruled_table(rows: Sequence[Sequence[str]], top: int) -> str:
    """A content stream that draws a table with rules, 100 by 20 points a cell."""
    width, height, out = len(rows[0]), len(rows), ""
    for r in range(height + 1):
        out += f"50 {top - 20 * r} m {50 + 100 * width} {top - 20 * r} l S\n"
    for c in range(width + 1):
        out += f"{50 + 100 * c} {top} m {50 + 100 * c} {top - 20 * height} l S\n"
    for r, row in enumerate(rows):
        for c, cell in enumerate(row):
            out += f"BT /F 10 Tf {55 + 100 * c} {top - 20 * r - 14} Td ({cell}) Tj ET\n"
    return out


def archive(members: Mapping[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in members.items():
            made.writestr(name, data)
    return out.getvalue()


def members_of(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as whole:
        return {name: whole.read(name) for name in whole.namelist()}


def lying_archive(member: str, real: bytes, claimed: int) -> bytes:
    """A zip file that claims a member to be smaller, its checksum made to agree."""
    data, sums = archive({member: real}), (zlib.crc32(real), zlib.crc32(real[:claimed]))
    for true, false in ((len(real), claimed), sums):
        data = data.replace(true.to_bytes(4, "little"), false.to_bytes(4, "little"))
    return data


def odt(body: str, *, before: str = "", kind: str = "text") -> bytes:
    """An OpenDocument text, or another kind, with this body."""
    names = {name: name for name in ("office", "text", "table", "presentation")}
    spaces = "".join(
        f' xmlns:{short}="urn:oasis:names:tc:opendocument:xmlns:{long}:1.0"'
        for short, long in {**names, "draw": "drawing"}.items()
    )
    content = (
        f'<?xml version="1.0"?>{before}<office:document-content{spaces}><office:body>'
        f"<office:{kind}>{body}</office:{kind}></office:body></office:document-content>"
    )
    media = f"application/vnd.oasis.opendocument.{kind}"
    return archive({"mimetype": media, "content.xml": content})


def ole(*names: str, text: str = "") -> bytes:
    """An OLE file with streams of these names, and text that is none of them."""
    head = bytearray(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504))
    struct.pack_into("<HHH", head, 28, 0xFFFE, 9, 6)
    struct.pack_into("<I", head, 48, 1)
    struct.pack_into("<109I", head, 76, 0, *[0xFFFFFFFF] * 108)
    table = struct.pack("<128I", 0xFFFFFFFD, 0xFFFFFFFE, *[0xFFFFFFFF] * 126)
    entries = b""
    for at, name in enumerate(("Root Entry", *names)):
        after = at + 1 if 0 < at < len(names) else 0xFFFFFFFF
        entry = name.encode("utf-16-le").ljust(64, b"\0") + struct.pack("<HBB", 2 * len(name), 2, 1)
        entries += entry + struct.pack("<3I", 0xFFFFFFFF, after, 1 if at == 0 else 0xFFFFFFFF)
        entries += bytes(48)
    return bytes(head) + table + entries.ljust(512, b"\0") + text.encode("utf-16-le").ljust(512)


def epub(chapters: Sequence[str]) -> bytes:
    """A book of these XHTML bodies, read from the last to the first."""
    numbers, kind = range(len(chapters)), "application/xhtml+xml"
    items = "".join(f'<item id="c{n}" href="c{n}.xhtml" media-type="{kind}"/>' for n in numbers)
    spine = "".join(f'<itemref idref="c{n}"/>' for n in reversed(numbers))
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">'
        "<metadata><dc:title>The Book</dc:title><dc:creator>A. Writer</dc:creator>"
        "<dc:language>fr-CA</dc:language><dc:date>1862-04-03</dc:date></metadata>"
        f"<manifest>{items}</manifest><spine>{spine}</spine></package>"
    )
    head = '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title/></head>'
    made = {"mimetype": "application/epub+zip", "META-INF/container.xml": CONTAINER}
    pages = {
        f"OEBPS/c{n}.xhtml": f"{head}<body>{body}</body></html>" for n, body in enumerate(chapters)
    }
    return archive({**made, "OEBPS/book.opf": package, **pages})


def xlsx(
    sheets: Mapping[str, Sequence[Sequence[str | float]]], far: Mapping[str, str] | None = None
) -> bytes:
    """A workbook of inline strings and numbers, and cells at places of the first sheet."""
    import xlsxwriter

    out = io.BytesIO()
    book = xlsxwriter.Workbook(out, {"constant_memory": True})
    for name, rows in sheets.items():
        sheet = book.add_worksheet(name)
        for at, row in enumerate(rows):
            for column, value in enumerate(row):
                if value != "":
                    sheet.write(at, column, value)
        for place, text in (far or {}).items():
            sheet.write(place, text)
    book.close()
    return out.getvalue()


def word(body: str, **parts: str) -> bytes:
    """A Word file: its body, and parts by kind: ``header``, ``comments``, ``chart`` ..."""
    links = f'<Relationships xmlns="{PACKAGE}/relationships">'
    link = f'<Relationship Id="{{0}}" Type="{OFFICE}/{{1}}" Target="{{2}}"/>'
    inner = "".join(link.format(kind, kind, f"{kind}.xml") for kind in parts)
    outer = link.format("a", "officeDocument", "word/document.xml")
    return archive(
        {
            "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types"/>',
            "_rels/.rels": f"{links}{outer}</Relationships>",
            "word/document.xml": f"<w:document {WORD}><w:body>{body}</w:body></w:document>",
            "word/_rels/document.xml.rels": f"{links}{inner}"
            f"{link.format('gone', 'image', '../NULL')}</Relationships>",
            **{f"word/{kind}.xml": text for kind, text in parts.items()},
        }
    )


def word_part(root: str, text: str) -> str:
    """A part of a Word file: ``hdr``, ``ftr``, or ``comments`` with one of Ann's."""
    inner = paragraph(run(text))
    if root == "comments":
        inner = f'<w:comment w:id="4" w:author="Ann">{inner}</w:comment>'
    return f"<w:{root} {WORD}>{inner}</w:{root}>"


def run(text: str, place: str = "") -> str:
    """Text of a Word file, raised (``super``), lowered (``sub``) or neither."""
    align = f'<w:rPr><w:vertAlign w:val="{place}script"/></w:rPr>' if place else ""
    return f'<w:r>{align}<w:t xml:space="preserve">{text}</w:t></w:r>'


def paragraph(*runs: str) -> str:
    return f"<w:p>{''.join(runs)}</w:p>"


def png() -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.new("L", (1, 1), 255).save(out, "PNG")
    return out.getvalue()
