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


def rc4(key: bytes, data: bytes) -> bytes:
    """The cipher of old PDF encryption."""
    state = list(range(256))
    j = 0
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    out = bytearray()
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
    locked = bool(password or owner)
    identity = b"0123456789abcdef"
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
    trailer = b"/Root 1 0 R/Size 999"
    if info:
        objects[900] = info.encode()
        trailer += b"/Info 900 0 R"
    if locked:
        user = rc4(key, PAD)
        objects[901] = (
            f"<</Filter/Standard/V 1/R 2/P -4/O<{owner.hex()}>/U<{user.hex()}>>>".encode()
        )
        trailer += f"/Encrypt 901 0 R/ID[<{identity.hex()}><{identity.hex()}>]".encode()
    out = bytearray(b"%PDF-1.4\n")
    offsets = {}
    for number, body in objects.items():
        offsets[number] = len(out)
        out += b"%d 0 obj\n" % number + body + b"\nendobj\n"
    start = len(out)
    out += b"xref\n0 1\n0000000000 65535 f \n"
    for number, offset in offsets.items():
        out += b"%d 1\n%010d 00000 n \n" % (number, offset)
    return bytes(out + b"trailer<<" + trailer + b">>\nstartxref\n%d\n%%%%EOF" % start)


def lines(*texts: str, top: int = 700, size: int = 12) -> str:
    """A content stream that prints lines below one another."""
    shown = " ".join(f"({text}) Tj 0 -{size + 3} Td" for text in texts)
    return f"BT /F {size} Tf 50 {top} Td {shown} ET\n"


def ruled_table(rows: Sequence[Sequence[str]], top: int) -> str:
    """A content stream that draws a table with rules, 100 by 20 points a cell."""
    width, height = len(rows[0]), len(rows)
    out = ""
    for r in range(height + 1):
        out += f"50 {top - 20 * r} m {50 + 100 * width} {top - 20 * r} l S\n"
    for c in range(width + 1):
        out += f"{50 + 100 * c} {top} m {50 + 100 * c} {top - 20 * height} l S\n"
    for r, row in enumerate(rows):
        for c, cell in enumerate(row):
            out += f"BT /F 10 Tf {55 + 100 * c} {top - 20 * r - 14} Td ({cell}) Tj ET\n"
    return out


def archive(members: Mapping[str, str | bytes]) -> bytes:
    """A zip file."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in members.items():
            made.writestr(name, data)
    return out.getvalue()


def lying_archive(member: str, real: bytes, claimed: int) -> bytes:
    """A zip file that claims a member to be smaller, its checksum made to agree."""
    data = archive({member: real})
    for true, false in (
        (len(real), claimed),
        (zlib.crc32(real), zlib.crc32(real[:claimed])),
    ):
        data = data.replace(true.to_bytes(4, "little"), false.to_bytes(4, "little"))
    return data


def odt(body: str, *, before: str = "", kind: str = "text") -> bytes:
    """An OpenDocument text, or another kind, with this body."""
    names = "".join(
        f' xmlns:{short}="urn:oasis:names:tc:opendocument:xmlns:{long}:1.0"'
        for short, long in (
            ("office", "office"),
            ("text", "text"),
            ("table", "table"),
            ("draw", "drawing"),
            ("presentation", "presentation"),
        )
    )
    content = (
        f'<?xml version="1.0"?>{before}<office:document-content{names}><office:body>'
        f"<office:{kind}>{body}</office:{kind}></office:body></office:document-content>"
    )
    return archive(
        {"mimetype": f"application/vnd.oasis.opendocument.{kind}", "content.xml": content}
    )


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
    """A book of these XHTML bodies."""
    items = "".join(
        f'<item id="c{n}" href="c{n}.xhtml" media-type="application/xhtml+xml"/>'
        for n in range(len(chapters))
    )
    spine = "".join(f'<itemref idref="c{n}"/>' for n in reversed(range(len(chapters))))
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">'
        "<metadata><dc:title>The Book</dc:title><dc:creator>A. Writer</dc:creator>"
        "<dc:language>fr-CA</dc:language><dc:date>1862-04-03</dc:date></metadata>"
        f"<manifest>{items}</manifest><spine>{spine}</spine></package>"
    )
    pages = {
        f"OEBPS/c{n}.xhtml": '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml">'
        f"<head><title/></head><body>{body}</body></html>"
        for n, body in enumerate(chapters)
    }
    return archive(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": CONTAINER,
            "OEBPS/book.opf": package,
            **pages,
        }
    )


def xlsx(
    sheets: Mapping[str, Sequence[Sequence[str | float]]],
    places: Mapping[str, str] | None = None,
) -> bytes:
    """A workbook of inline strings and numbers; ``places`` moves cells elsewhere."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    book, relations, members = "", "", {}
    for n, (name, rows) in enumerate(sheets.items(), 1):
        book += f'<sheet name="{name}" sheetId="{n}" r:id="r{n}"/>'
        relations += (
            f'<Relationship Id="r{n}" Type="{office}/worksheet" Target="worksheets/s{n}.xml"/>'
        )
        cells = ""
        for r, row in enumerate(rows, 1):
            cells += f'<row r="{r}">'
            for c, value in enumerate(row):
                place = f"{chr(65 + c)}{r}"
                place = (places or {}).get(place, place)
                if isinstance(value, str):
                    cells += f'<c r="{place}" t="inlineStr"><is><t>{value}</t></is></c>' * bool(
                        value
                    )
                else:
                    cells += f'<c r="{place}"><v>{value}</v></c>'
            cells += "</row>"
        members[f"xl/worksheets/s{n}.xml"] = (
            f'<worksheet xmlns="{main}"><sheetData>{cells}</sheetData></worksheet>'
        )
    return archive(
        {
            "[Content_Types].xml": f'<Types xmlns="{package}/content-types"/>',
            "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="a" '
            f'Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
            "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}">'
            f"<sheets>{book}</sheets></workbook>",
            "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships">'
            f"{relations}</Relationships>",
            **members,
        }
    )


def png() -> bytes:
    """One white dot."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data).to_bytes(4, "big")
        return len(data).to_bytes(4, "big") + kind + data + check

    header = (1).to_bytes(4, "big") * 2 + b"\x08\x00\x00\x00\x00"
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0\xff"))
        + chunk(b"IEND", b"")
    )
