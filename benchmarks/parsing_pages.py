"""PDF files of known documents: by Chromium from HTML, by LibreOffice from flat OpenDocument."""

from __future__ import annotations

import io
import shutil
import subprocess
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from .parsing_content import Block, Cell, Known

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
OFFICE = shutil.which("soffice") or shutil.which("libreoffice")

_PAGE = (595, 842)
_MARGINS = {"top": "21mm", "bottom": "21mm", "left": "20mm", "right": "20mm"}


def render(documents: Sequence[Known], folder: Path) -> list[tuple[Known, Path]]:
    """Write each document as ``NAME.pdf`` in the folder; what is there already is kept.

    Returns:
        The documents as they were printed: a crossed one keeps only what its pages hold.

    Raises:
        RuntimeError: Chromium or LibreOffice is not on this machine, or fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    office = [known for known in documents if known.layout.startswith("office")]
    printed = _print_pages([k for k in documents if not k.layout.startswith("office")], folder)
    _print_office(office, folder)
    everything = [*printed, *office]
    return [(known, folder / f"{known.name}.pdf") for known in everything]


def _print_office(documents: Sequence[Known], folder: Path) -> None:
    waiting = [known for known in documents if not (folder / f"{known.name}.pdf").is_file()]
    if not waiting:
        return
    if OFFICE is None:
        raise RuntimeError("LibreOffice is not on this machine: apt-get install libreoffice-writer")
    paths = []
    for known in waiting:
        path = folder / f"{known.name}.fodt"
        path.write_text(flat_document(known), "utf-8")
        paths.append(str(path))
    profile = f"-env:UserInstallation=file://{(folder / 'profile').resolve()}"
    command = [OFFICE, profile, "--headless", "--convert-to", "pdf", "--outdir", str(folder)]
    subprocess.run([*command, *paths], check=True, capture_output=True)


def _print_pages(documents: Sequence[Known], folder: Path) -> list[Known]:
    from playwright.sync_api import sync_playwright

    if CHROMIUM is None:
        raise RuntimeError("Chromium is not on this machine: apt-get install chromium")
    printed = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        for known in documents:
            path = folder / f"{known.name}.pdf"
            if known.layout == "crossed":
                printed.append(_crossed(page, known, path))
                continue
            printed.append(known)
            if not path.is_file():
                page.set_content(flowing(known))
                page.pdf(
                    path=str(path),
                    format="A4",
                    margin=_MARGINS,
                    outline=known.outline,
                    tagged=known.outline,
                    display_header_footer=True,
                    header_template=_running(known.head),
                    footer_template=_running(known.foot),
                )
        browser.close()
    return printed


def _running(line: str) -> str:
    pages = '<span class="totalPages"></span>'
    number = '<span class="pageNumber"></span>'
    text = escape(line).replace("##", pages).replace("#", number)
    return f'<div style="font:8pt Liberation Sans;width:100%;text-align:center">{text}</div>'


def flowing(known: Known) -> str:
    """A document that Chromium divides into pages."""
    columns = "" if not known.two_columns else "main{columns:2;column-gap:20pt}"
    wide = "h1{column-span:all}" if known.two_columns and len(known.name) % 2 else ""
    body = "".join(map(_html, known.blocks))
    return (
        f'<!doctype html><html lang="{known.language}"><meta charset="utf-8">'
        f"<style>{_css(known)}{columns}{wide}</style><main>{body}</main></html>"
    )


def _css(known: Known) -> str:
    style = known.style
    weight = "bold" if style.bold else "normal"
    headings = "".join(
        f"h{level}{{font-size:{style.size * step:.1f}pt;font-weight:"
        f"{'bold' if step < 1.1 else weight};margin:{10 - level * 2}pt 0 4pt;line-height:1.2;"
        "break-after:avoid}"
        for level, step in enumerate(style.steps, 1)
    )
    aligned = "text-align:justify;" if style.justified else ""
    return (
        f"body{{font:{style.size}pt/1.35 '{style.family}';margin:0}}p{{{aligned}margin:0 0 6pt}}"
        f"{headings}table{{border-collapse:collapse;margin:2pt 0 10pt;break-inside:avoid;"
        f"font-size:{style.size * 0.9:.1f}pt;line-height:1.2}}"
        "td,th{padding:2pt 6pt;text-align:left;vertical-align:top}"
        ".grid td,.grid th{border:.75pt solid #333}.rows tr{border-bottom:.5pt solid #333}"
        ".rows{border-top:1pt solid #333}.rows tr+tr+tr:not(:last-child){border-bottom:0}"
        ".shaded tr:nth-child(odd){background:#e4e9f2}"
        f".cap{{font-size:{style.size * 0.88:.1f}pt;font-style:italic;margin:4pt 0}}"
        "figure{margin:6pt 0 2pt;break-inside:avoid}ul,ol{margin:0 0 6pt;padding-left:18pt}"
        ".formula{text-align:center;margin:6pt 0;display:block}sup{font-size:.65em}"
        f".note{{font-size:{style.size * 0.8:.1f}pt;margin:0 0 2pt}}"
    )


def _html(block: Block) -> str:
    text = escape(block.text)
    if block.kind == "heading":
        return f"<h{block.level}>{text}</h{block.level}>"
    if block.kind == "paragraph":
        return f"<p>{text}{f'<sup>{block.note}</sup>' if block.note else ''}</p>"
    if block.kind == "list":
        tag = "ol" if block.rules == "decimal" else "ul"
        return f"<{tag}>{''.join(f'<li>{escape(item)}</li>' for item in block.items)}</{tag}>"
    if block.kind == "table":
        rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in block.rows)
        return f'<table class="{block.rules}">{rows}</table>'
    if block.kind == "caption":
        return f'<p class="cap">{text}</p>'
    if block.kind == "figure":
        bars = "".join(
            f'<rect x="{12 + 30 * x}" y="{100 - 13 * (x * 5 % 7)}" width="20" '
            f'height="{10 + 13 * (x * 5 % 7)}" fill="#47a"/>'
            for x in range(6)
        )
        frame = '<path d="M5 5V112H210M5 60H210" stroke="#333" fill="none"/>'
        return f'<figure><svg width="220" height="118">{frame}{bars}</svg></figure>'
    if block.kind == "formula":
        return f'<math class="formula" display="block">{block.markup}</math>'
    return f'<p class="note"><sup>{block.note}</sup> {text}</p>'


def _cell(cell: Cell) -> str:
    across = f' colspan="{cell.across}"' if cell.across > 1 else ""
    down = f' rowspan="{cell.down}"' if cell.down > 1 else ""
    return f"<td{across}{down}>{escape(cell.text)}</td>"


_FILL = """([pages, room]) => {
  const kept = [];
  for (const page of document.querySelectorAll('section')) {
    const [right, left, notes] = ['.right', '.left', '.notes'].map(c => page.querySelector(c));
    const over = () => left.scrollHeight + notes.scrollHeight > room
      || right.scrollHeight + notes.scrollHeight > room;
    const removed = [];
    while (over() && right.lastElementChild) {
      const last = right.lastElementChild;
      removed.push(+last.dataset.at); last.remove();
      for (const note of notes.querySelectorAll(`[data-of="${last.dataset.at}"]`)) note.remove();
    }
    while (over() && left.lastElementChild) {
      const last = left.lastElementChild;
      removed.push(+last.dataset.at); last.remove();
      for (const note of notes.querySelectorAll(`[data-of="${last.dataset.at}"]`)) note.remove();
    }
    kept.push(...removed);
  }
  return kept;
}"""


def _crossed(page: Any, known: Known, path: Path) -> Known:
    """Print pages whose right column is drawn first; what has no room is left out of both."""
    markup = crossed(known)
    page.set_content(markup)
    removed = set(page.evaluate(_FILL, [0, _PAGE[1] - 150]))
    gone = removed | {at + 1 for at in removed if _followed(known, at)}
    if not path.is_file():
        page.pdf(path=str(path), format="A4", outline=False, tagged=False)
    blocks = tuple(block for at, block in enumerate(known.blocks) if at not in gone)
    return Known(**{**_fields(known), "blocks": blocks})


def _fields(known: Known) -> dict[str, Any]:
    return {name: getattr(known, name) for name in Known.__dataclass_fields__}


def _followed(known: Known, at: int) -> bool:
    return at + 1 < len(known.blocks) and known.blocks[at + 1].kind == "note"


def crossed(known: Known) -> str:
    """Pages of fixed columns; each column takes blocks up to a length, footnotes stand below."""
    room = 2300 * (10 / known.style.size) ** 2 * (0.85 if known.style.family[0] == "D" else 1)
    columns: list[list[int]] = [[]]
    length = 0.0
    for at, block in enumerate(known.blocks):
        if block.kind == "note":
            continue
        weight = len(block.text) + sum(len(i) + 20 for i in block.items) + 60
        weight += sum(len(c.text) + 12 for row in block.rows for c in row) * 2
        weight += 450 * (block.kind == "figure")
        if length + weight > room and length and block.kind != "caption":
            columns.append([])
            length = 0.0
        columns[-1].append(at)
        length += weight
    pages = []
    for number in range(0, len(columns), 2):
        left, right = columns[number], columns[number + 1] if number + 1 < len(columns) else []
        pages.append(_page(known, left, right, (number // 2 + 1, (len(columns) + 1) // 2)))
    style = (
        "@page{size:A4;margin:0}section{position:relative;width:595pt;height:841pt;overflow:hidden;"
        "break-after:page}section>div{position:absolute}.left{left:50pt;width:237pt;top:60pt}"
        ".right{left:308pt;width:237pt;top:60pt}.notes{left:50pt;width:495pt;bottom:55pt}"
        ".rule{border-top:.5pt solid #333;width:90pt}.head,.foot{left:0;width:100%;font-size:8pt;"
        "text-align:center}.head{top:25pt}.foot{bottom:25pt}"
    )
    return (
        f'<!doctype html><html lang="{known.language}"><meta charset="utf-8">'
        f"<style>{_css(known)}{style}</style>{''.join(pages)}</html>"
    )


def _page(known: Known, left: Sequence[int], right: Sequence[int], place: tuple[int, int]) -> str:
    def column(chosen: Sequence[int]) -> str:
        return "".join(f'<div data-at="{at}">{_html(known.blocks[at])}</div>' for at in chosen)

    notes = "".join(
        f'<div data-of="{at}">{_html(known.blocks[at + 1])}</div>'
        for at in (*left, *right)
        if _followed(known, at)
    )
    foot = known.foot.replace("##", str(place[1])).replace("#", str(place[0]))
    rule = '<div class="rule"></div>' if notes else ""
    return (
        f'<section><div class="foot">{escape(foot)}</div><div class="right">{column(right)}</div>'
        f'<div class="left">{column(left)}</div><div class="notes">{rule}{notes}</div>'
        f'<div class="head">{escape(known.head)}</div></section>'
    )


_SPACES = " ".join(
    f'xmlns:{short}="urn:oasis:names:tc:opendocument:xmlns:{long}:1.0"'
    for short, long in (
        ("office", "office"),
        ("style", "style"),
        ("text", "text"),
        ("table", "table"),
        ("draw", "drawing"),
        ("fo", "xsl-fo-compatible"),
        ("svg", "svg-compatible"),
    )
)


def flat_document(known: Known) -> str:
    """A document as flat OpenDocument text, with native footnotes, heads, feet and columns."""
    columns = '<style:columns fo:column-count="2" fo:column-gap="0.7cm"/>'
    section = columns if known.two_columns else ""
    body = _office_body(known)
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><office:document {_SPACES} office:version="1.3" '
        'office:mimetype="application/vnd.oasis.opendocument.text">'
        f"<office:styles>{_office_styles(known)}</office:styles><office:automatic-styles>"
        '<style:page-layout style:name="A"><style:page-layout-properties fo:page-width="21cm" '
        'fo:page-height="29.7cm" fo:margin-top="1.2cm" fo:margin-bottom="1.2cm" '
        f'fo:margin-left="2cm" fo:margin-right="2cm">{section}</style:page-layout-properties>'
        '<style:header-style><style:header-footer-properties fo:min-height="0.8cm"/>'
        "</style:header-style><style:footer-style><style:header-footer-properties "
        'fo:min-height="0.8cm"/></style:footer-style></style:page-layout>'
        f"{_CELL_STYLES}</office:automatic-styles><office:master-styles>"
        '<style:master-page style:name="Standard" style:page-layout-name="A"><style:header>'
        f'<text:p text:style-name="Run">{escape(known.head)}</text:p></style:header><style:footer>'
        f'<text:p text:style-name="Run">{_office_foot(known.foot)}</text:p></style:footer>'
        f"</style:master-page></office:master-styles><office:body><office:text>{body}"
        "</office:text></office:body></office:document>"
    )


def _office_foot(line: str) -> str:
    text = escape(line).replace("##", "<text:page-count/>")
    return text.replace("#", "<text:page-number/>")


_CELL_STYLES = "".join(
    f'<style:style style:name="{name}" style:family="table-cell"><style:table-cell-properties '
    f'fo:padding="0.07cm" {border}/></style:style>'
    for name, border in (
        ("grid", 'fo:border="0.75pt solid #333333"'),
        ("edge", 'fo:border-bottom="0.75pt solid #333333" fo:border-top="0.75pt solid #333333"'),
        ("none", 'fo:border="none"'),
        ("shaded", 'fo:background-color="#e4e9f2" fo:border="none"'),
    )
)


def _office_styles(known: Known) -> str:
    style = known.style

    def paragraph(name: str, size: float, more: str = "", text: str = "") -> str:
        return (
            f'<style:style style:name="{name}" style:family="paragraph">'
            f'<style:paragraph-properties fo:margin-bottom="5pt" {more}/><style:text-properties '
            f'style:font-name="F" fo:font-family="\'{style.family}\'" fo:font-size="{size:.1f}pt" '
            f"{text}/></style:style>"
        )

    aligned = 'fo:text-align="justify"' if style.justified else ""
    heads = "".join(
        paragraph(
            f"H{level}",
            style.size * step,
            'fo:margin-top="6pt" fo:keep-with-next="always"',
            'fo:font-weight="bold"' if style.bold or step < 1.1 else "",
        )
        for level, step in enumerate(style.steps, 1)
    )
    size = style.size
    return (
        paragraph("Body", size, aligned)
        + heads
        + paragraph("Cap", size * 0.88, 'fo:keep-with-next="auto"', 'fo:font-style="italic"')
        + paragraph("Cell", size * 0.9)
        + paragraph("Footnote", size * 0.8)
        + paragraph("Run", 8, 'fo:text-align="center"')
        + '<text:notes-configuration text:note-class="footnote" '
        'text:default-style-name="Footnote" style:num-format="1" text:start-value="0" '
        'text:footnotes-position="page"/>'
    )


def _office_body(known: Known) -> str:
    parts = []
    for at, block in enumerate(known.blocks):
        text = escape(block.text)
        if block.kind == "heading":
            parts.append(
                f'<text:h text:style-name="H{block.level}" text:outline-level="{block.level}">'
                f"{text}</text:h>"
            )
        elif block.kind == "paragraph":
            note = escape(known.blocks[at + 1].text) if block.note else ""
            mark = (
                f'<text:note text:note-class="footnote"><text:note-citation>{block.note}'
                '</text:note-citation><text:note-body><text:p text:style-name="Footnote">'
                f"{note}</text:p></text:note-body></text:note>"
            )
            parts.append(f'<text:p text:style-name="Body">{text}{mark if note else ""}</text:p>')
        elif block.kind == "list":
            signs = ("•",) if block.rules == "disc" else ()
            lines = [f"{signs[0] if signs else f'{n}.'} {i}" for n, i in enumerate(block.items, 1)]
            parts += [f'<text:p text:style-name="Body">{escape(line)}</text:p>' for line in lines]
        elif block.kind == "table":
            parts.append(_office_table(block, at))
        elif block.kind == "caption":
            parts.append(f'<text:p text:style-name="Cap">{text}</text:p>')
        elif block.kind == "figure":
            parts.append(_office_figure())
    return "".join(parts)


def _office_figure() -> str:
    return (
        '<text:p text:style-name="Body"><draw:frame svg:width="6cm" svg:height="3.2cm" '
        'text:anchor-type="as-char"><draw:image><office:binary-data>'
        f"{_picture()}</office:binary-data></draw:image></draw:frame></text:p>"
    )


def _picture() -> str:
    import base64

    image = Image.new("RGB", (240, 128), "white")
    draw: Callable[..., None] = ImageDraw.Draw(image).rectangle
    for x in range(6):
        draw((12 + 36 * x, 120 - 14 * (x * 5 % 7), 34 + 36 * x, 124), "steelblue")
    file = io.BytesIO()
    image.save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def _office_table(block: Block, at: int) -> str:
    width = sum(cell.across for cell in block.rows[0])
    hidden: set[tuple[int, int]] = set()
    lines = []
    for y, row in enumerate(block.rows):
        cells, x, rest = [], 0, list(row)
        while x < width:
            if (y, x) in hidden:
                cells.append("<table:covered-table-cell/>")
                x += 1
                continue
            cell = rest.pop(0)
            hidden |= {(y + dy, x + dx) for dy in range(cell.down) for dx in range(cell.across)} - {
                (y, x)
            }
            cells.append(
                f'<table:table-cell table:style-name="{_cell_style(block, y)}" '
                f'table:number-columns-spanned="{cell.across}" '
                f'table:number-rows-spanned="{cell.down}"><text:p text:style-name="Cell">'
                f"{escape(cell.text)}</text:p></table:table-cell>"
            )
            x += 1
        lines.append(f"<table:table-row>{''.join(cells)}</table:table-row>")
    return (
        f'<table:table table:name="T{at}"><table:table-column '
        f'table:number-columns-repeated="{width}"/>{"".join(lines)}</table:table>'
        '<text:p text:style-name="Cap"/>'
    )


def _cell_style(block: Block, row: int) -> str:
    if block.rules == "rows":
        return "edge" if row in (0, len(block.rows) - 1) else "none"
    if block.rules == "shaded":
        return "shaded" if row % 2 == 0 else "none"
    return "grid" if block.rules == "grid" else "none"
