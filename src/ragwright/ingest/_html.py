"""HTML to Markdown text: whole documents, or the main part of a web page."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ..core import EmptySourceError, MalformedSourceError, require
from ._encoding import Decoded, decode, spell_raised
from ._extract import Extract, TextBuilder, markdown_table, merge_cells, read_span
from ._options import SourceOptions

_CHARSET = re.compile(rb"""<meta[^>]+charset\s*=\s*["']?\s*([A-Za-z0-9_:.-]+)""", re.I)
_BY_DEFAULT = frozenset(
    {"ascii", "us-ascii", "iso-8859-1", "iso8859-1", "latin-1", "latin1", "cp1252", "windows-1252"}
)
_FRAMES = "iframe, object, embed"
_UNSEEN = (
    f"{_FRAMES}, script, style, noscript, template, svg, canvas, link, input, select, textarea, "
    "math annotation, button:not(summary *, [aria-expanded], [aria-controls], [data-toggle], "
    "[data-target], [data-bs-toggle], [data-bs-target])"
)
"""A button is seen if it is the heading of what it opens."""
_NOT_SHOWN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.I)
_NOTICE = re.compile(r"\bcookies?\b|\bconsent\b|\bgdpr\b|\bdsgvo\b", re.I)
_BLOCK_TAGS = """
address article aside blockquote br caption dd div dl dt figure figcaption footer form h1 h2 h3 h4
h5 h6 header hr li main nav ol p pre section table tbody td tfoot th thead tr ul
"""
_BLOCKS = frozenset(_BLOCK_TAGS.split())
_LINES_OF_THEIR_OWN = re.compile(r"<(/?)(?:summary|details|legend|button|dialog)\b")
_PLAIN_TAGS = ["a", "abbr", "b", "cite", "del", "em", "i", "kbd", "mark", "q", "s", "samp", "small",
               "span", "strong", "sub", "sup", "u", "var"]  # fmt: skip
_HOLD = re.compile("\\s*\ue000(\\d+)\ue001\\s*")
_TABLE_PARTS = "td, th, tr, tbody, thead, tfoot, table"
_NUMBERED = re.compile(
    r"(?:^|[-_\s])(?:line-?no|line-?num|gutter|blob-num|hljs-ln-num|lnt?\b)", re.I
)
"""Class of the cell that numbers lines of code."""

_MOST = 10_000
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9-]*)")
_LONG_TAG = re.compile(rf"<[A-Za-z][^<>]{{{2 * _MOST},}}")
_QUOTED = re.compile("\"[^\"]*\"|'[^']*'|[\"'].*", re.DOTALL)
_NEVER_NESTED = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track",
     "wbr", "p", "li", "dd", "dt", "option", "td", "th", "tr", "rt", "rp"}
)  # fmt: skip
"""Elements that have no end tag, or may do without; they are never nested in their own kind."""


def read_html(data: bytes, where: str, options: SourceOptions) -> Extract:
    """Read a local HTML file, or only its main text if the option ``main_text`` is on.

    Raises:
        EmptySourceError: The page shows no text.
        UnsupportedSourceError: The bytes are not text.
    """
    decoded = decode_html(data, where, options.encoding)
    extract = parse_html(decoded.text, main_only=options.main_text, where=where)
    if options.main_text and not extract.text.strip():
        extract = parse_html(decoded.text, main_only=False, where=where)
    if not extract.text.strip():
        raise EmptySourceError(
            "the page shows no text",
            where=where,
            hint="a page that scripts fill must be saved from a browser, after it has loaded",
        )
    return replace(extract, faults=(*decoded.faults, *extract.faults))


def decode_html(data: bytes, where: str, encoding: str = "", sent: str = "") -> Decoded:
    """Decode a page; ``sent`` is the charset of its server.

    Servers state a one-byte charset by default, so then the page's own charset goes before it.
    """
    own = _CHARSET.search(data[:4096])
    stated = (sent, own[1].decode("ascii") if own else "")
    return decode(data, where, encoding, stated[::-1] if sent in _BY_DEFAULT else stated)


def parse_html(html: str, *, main_only: bool, where: str = "") -> Extract:
    """Parse a page to Markdown, with title, language, dates, sections and metadata.

    Headings, lists, code and tables are kept; links and emphasis become text.

    Args:
        html: The page.
        main_only: Keep the main part only: no navigation, header, footer, aside, cookie
            notice or block that is mostly links.
        where: The page's address, for errors.
    """
    _check_shape(html, where)
    tree = require("selectolax.lexbor", "docs", "reading HTML").LexborHTMLParser(html)
    title, head = _head(tree)
    builder = TextBuilder()
    if (root := tree.body) is not None:
        _drop_unseen(root, builder)
        if main_only:
            root = keep_main_part(root)
        try:
            builder.markdown(_to_markdown(root))
        except RecursionError:  # nested deeper than any real page: text without structure
            builder.add(re.sub(r"\s*\n\s*", "\n", root.text(separator="\n")))
    language = head.pop("lang", "")[:2].lower()
    return builder.extract(
        "text/html",
        title=title,
        language=language if language.isalpha() and len(language) == 2 else "",
        dates=(head.pop("created", ""), head.pop("modified", "")),
        metadata=head,
    )


_META = {
    "author": "author", "article:author": "author", "dc.creator": "author",
    "description": "description", "og:description": "description", "keywords": "keywords",
    "og:site_name": "site", "og:title": "og:title",
    "article:published_time": "created", "datepublished": "created", "date": "created",
    "dc.date": "created", "dcterms.created": "created", "dc.date.issued": "created",
    "article:modified_time": "modified", "datemodified": "modified",
    "dcterms.modified": "modified", "last-modified": "modified",
}  # fmt: skip


def _head(tree: Any) -> tuple[str, dict[str, str]]:
    """Return the title of a page, and what else it says about itself."""
    values: dict[str, str] = {}
    for node in tree.css("meta"):
        said = node.attributes
        name = said.get("name") or said.get("property") or said.get("itemprop") or ""
        value = (said.get("content") or "").strip()
        if value and name.lower() in _META:
            values.setdefault(_META[name.lower()], value)
    for node in tree.css("html"):
        values["lang"] = node.attributes.get("lang") or node.attributes.get("xml:lang") or ""
    titles = [" ".join(node.text().split()) for node in tree.css("head > title, title")[:1]]
    other = values.pop("og:title", "")
    return "".join(titles) or other, values


def _drop_unseen(root: Any, builder: TextBuilder) -> None:
    """Remove what is not content, and count the frames that are left out.

    Hidden text is kept if a tab or a click opens it. Cookie notices and copies of other parts of
    the page are removed.
    """
    frames = len(root.css(_FRAMES))
    why = "of the page not read: other pages, films, plug-ins"
    builder.miss("frame", why, "give what they show as a source of its own", frames)
    _drop(root.css(_UNSEEN))
    _drop_hidden(root)
    for node in root.css("img"):
        alt = (node.attributes.get("alt") or "").strip()
        node.replace_with(f" {alt} " if alt else " ")
    for node in reversed(root.css("sup, sub")):
        node.replace_with(_spelled(node))


def _drop(nodes: list[Any]) -> None:
    """Remove elements, children before parents: a removed parent frees its children."""
    for node in reversed(nodes):
        node.decompose()


def _drop_hidden(root: Any) -> None:
    hidden = [
        node
        for node in root.css("[hidden], [style]")
        if "hidden" in node.attributes or _NOT_SHOWN.search(node.attributes.get("style") or "")
    ]
    whole = " ".join(root.text().split()) if hidden else ""
    for node in reversed(hidden):
        text = " ".join(node.text().split())
        spoken = len(_NOTICE.findall(text)) if len(text) < 1500 else 0  # a notice is short
        named = _NOTICE.search(re.sub("[-_]", " ", _names(node)))
        if named or spoken > 1 or (text and whole.count(text) > 1):
            node.decompose()


def _names(node: Any) -> str:
    return " ".join(node.attributes.get(name) or "" for name in ("class", "id"))


def _spelled(node: Any) -> str:
    """Return raised or lowered text as plain text; the mark of a note stands apart."""
    text = " ".join(node.text().split())
    if text.startswith("[") or (text.startswith("(") and node.css_first("a") is not None):
        return f" {text}"
    before, place = "", node
    while not before.strip() and place is not None and place.tag not in _BLOCKS:
        before = (place.prev.text() if place.prev is not None else "") + before
        place = place.prev or place.parent
    before = "note" if node.css_first("a") is not None else before[-20:]
    return spell_raised(text, before, 1 if node.tag == "sup" else -1)


def _to_markdown(root: Any) -> str:
    markdownify = require("markdownify", "docs", "reading HTML")
    tables: list[str] = []
    for node, shown in (*_listings(root), *((n, _table(n)) for n in _data_tables(root))):
        tables.append(shown)
        node.replace_with(f" \ue000{len(tables) - 1}\ue001 ")
    _unwrap_layout(root)
    text: str = markdownify.markdownify(
        _LINES_OF_THEIR_OWN.sub(r"<\1div", root.html or ""),
        heading_style="ATX",
        bullets="-",
        escape_asterisks=False,
        escape_underscores=False,
        escape_misc=False,
        strip=_PLAIN_TAGS,
    )
    text = re.sub(r"[ \t]+\n", "\n", text)
    text = re.sub(r"\n{3,}", "\n\n", text)
    return _HOLD.sub(
        lambda m: f"\n\n{tables[int(m[1])]}\n\n" if int(m[1]) < len(tables) else " ", text
    )


def _data_tables(root: Any) -> list[Any]:
    """Find data tables, without those inside another data table."""
    tables: list[Any] = []
    covered: set[int | None] = set()
    for node in root.css("table"):  # in document order, so an outer table comes first
        inside = _nearest(node, "table") in covered
        if inside or not _is_layout(node):
            covered.add(node.mem_id)
            tables += [node] * (not inside)
    return tables


def _is_layout(table: Any) -> bool:
    """Return True if a table arranges a page.

    By its role, headings, or single cell; without heads and borders, also by a cell with several
    blocks that holds most of the text, or stands in an only row.
    """
    cells, role = _direct_nodes(table, "td, th"), table.attributes.get("role")
    if (
        role in ("presentation", "none")
        or len(cells) == 1
        or table.css("td :is(h1, h2, h3, article, main)")
    ):
        return True
    border = (table.attributes.get("border") or "0").strip("px ")
    if border not in ("0", "") or table.css("th, caption, thead"):
        return False
    most = 0 if len(_direct_nodes(table, "tr")) == 1 else 0.5 * sum(map(_size, cells))
    return any(
        cell.css("pre")
        or len(cell.css("p, pre, ul, ol, dl, blockquote, hr, form, div > div")) > 1
        or re.search(r"<br\s*/?>\s*<br", cell.html or "")
        for cell in cells
        if _size(cell) >= most
    )


def _listings(root: Any) -> Iterator[tuple[Any, str]]:
    """Find tables that number the lines of code, each with its code in a fence."""
    for table in root.css("table"):
        rows = list(_rows(table.css("tr")))
        if not rows or any(len(row) != 2 for row in rows):
            continue
        numbers = " ".join(row[0].text(separator=" ") for row in rows).split()
        code = "\n".join(row[1].text().strip("\n") for row in rows)
        first = int(numbers[0]) if numbers and numbers[0].isdecimal() else 0
        counted = [str(first + line) for line in range(code.count("\n") + 1)]
        marked = len(counted) > 1 and numbers == counted and rows[0][1].css("pre, code")
        named = _NUMBERED.search(rows[0][0].attributes.get("class") or "")
        if marked or (named and all(map(str.isdecimal, numbers))):
            yield table, f"```\n{code}\n```"


def _unwrap_layout(root: Any) -> None:
    for node in root.css(_TABLE_PARTS):
        node.insert_before("\n")
    for node in root.css("td, th"):
        node.insert_after(" \n ")
    root.unwrap_tags(_TABLE_PARTS.split(", "))


def _table(table: Any) -> str:
    """Write a table as Markdown, caption first; merged cells are repeated."""
    rows = merge_cells(
        [
            (
                _cell_text(cell),
                read_span(cell.attributes.get("rowspan")),
                read_span(cell.attributes.get("colspan")),
            )
            for cell in cells
        ]
        for cells in _rows(_direct_nodes(table, "tr"))
    )
    captions = [_cell_text(caption) for caption in _direct_nodes(table, "caption")[:1]]
    return "\n\n".join(filter(None, (*captions, markdown_table(rows))))


def _rows(lines: list[Any]) -> Iterator[list[Any]]:
    return ([cell for cell in tr.iter() if cell.tag in ("td", "th")] for tr in lines)


def _direct_nodes(table: Any, selector: str) -> list[Any]:
    """Find elements of a table that are not in a table within it."""
    return [node for node in table.css(selector) if _nearest(node, "table") == table.mem_id]


def _nearest(node: Any, tag: str) -> int | None:
    parent = node.parent
    while parent is not None and parent.tag != tag:
        parent = parent.parent
    return parent.mem_id if parent is not None else None


def _cell_text(node: Any) -> str:
    """Return a table cell's text on one line, with list items marked."""
    return " ".join("".join(_cell_parts(node)).split())


def _cell_parts(node: Any) -> Iterator[str]:
    number = 0
    for child in node.iter(include_text=True):
        if child.tag == "-text":
            yield child.text_content or ""
            continue
        space = " " * (child.tag in _BLOCKS)
        number += child.tag == "li"
        mark = f"{number}. " if node.tag == "ol" else "- "
        yield from (space, mark * (child.tag == "li"), *_cell_parts(child), space)


def _check_shape(html: str, where: str) -> None:
    """Refuse a page with absurdly deep nesting or absurdly many attributes.

    A scan of the tags in linear time, before a parser sees them. Depth is counted by name, so
    that the end of an element that was never opened hides nothing.
    """
    steps: dict[str, list[int]] = defaultdict(list)
    for match in _TAG.finditer(html):
        steps[match[2].lower()].append(-1 if match[1] else 1)
    depth = sum(
        max(itertools.accumulate(of_name, lambda now, step: max(0, now + step)))
        for name, of_name in steps.items()
        if name not in _NEVER_NESTED
    )
    attributes = [len(_QUOTED.sub("", tag).split()) for tag in _LONG_TAG.findall(html)]
    if max(depth, *attributes, 0) > _MOST:
        raise MalformedSourceError(
            f"the HTML is built to exhaust its parser: more than {_MOST:,} elements are nested, or "
            "an element has as many attributes",
            where=where or None,
            hint="leave the page out with `exclude`, or save it from a browser",
        )


_FURNITURE = (
    "nav, footer, form, dialog, menu, [role=navigation], [role=banner], "
    "[role=contentinfo], [role=search], [role=dialog], [role=alertdialog], "
    "[role=menu], [role=toolbar], [aria-modal=true], header:not(:has(h1)), "
    "aside:not(:has(p, li, dd, td, h1, h2, h3, h4, article))"
)
_NAMED = re.compile(
    r"(?:^|[-_\s])(?:cookies?|consent|gdpr|ccpa|onetrust|newsletter|subscribe|signup|breadcrumbs?|"
    r"sidebar|side-bar|navbar|navigation|nav|menu|footer|masthead|topbar|share|sharing|social|"
    r"promo|advert|ads?|banner|popup|modal|related|recommended|skip-link|toc|pagination|"
    r"disqus|noprint|navbox|editsection|catlinks)(?:$|[-_\s])",
    re.I,
)
_COOKIES = re.compile(
    r"(?:cookie|consent|gdpr|ccpa)[-_]?(?:s[-_])?(?:banner|bar|notice|consent|popup|modal|law|info|"
    r"overlay|dialog)|onetrust|cookiebot|usercentrics",
    re.I,
)
_LINK_BLOCKS = ":is(aside, div, section, ul, ol, table, p, dl, header):not(:has(h1, pre))"
_BESIDE = "aside, [class*=comments], [id*=comments], [class*=answers], [id*=answers]"
"""What readers and authors add to the main part, beside it."""


def keep_main_part(root: Any) -> Any:
    """Return the element of a parsed page that holds its text, without boilerplate.

    Goes by the page's own marks first (``main``, ``article``, roles, tell-tale class names),
    then by text density: a block most of whose characters are links is navigation. A block
    that holds more than half of the page's text is never treated as boilerplate by its name.
    """
    most = 0.5 * _size(root)
    _drop([n for n in root.css(_FURNITURE) if n.tag != "form" or _size(n) <= most])
    most = 0.5 * max(1, _size(root))
    for node in reversed(root.css("[class], [id]")):
        if node.tag in ("html", "body", "main", "article") or not _NAMED.search(_names(node)):
            continue
        small = _size(node) < most and node.css_first("h1") is None
        if small or _COOKIES.search(_names(node)):
            node.decompose()
    scope = _scope(root)
    for node in reversed(scope.css(_LINK_BLOCKS)):
        size, links = _size(node), node.css("a")
        linked = sum(map(_size, links))
        if len(links) >= 3 and linked > 0.6 * size and size < 60 * len(links):
            node.decompose()
    return scope


def _scope(root: Any) -> Any:
    """Return ``main`` or the only ``article``, with asides and comments, if little is beside it."""
    total = max(1, _size(root))
    for selector, least in (("main, [role=main]", 0.5), ("article", 0.7)):
        nodes = root.css(selector)
        if len(nodes) == 1 and _size(nodes[0]) >= least * total:
            main = f":is({selector})"
            for node in root.css(f":is({_BESIDE}):not({main}, {main} *, :has({main}))"):
                nodes[0].insert_child(node)
            return nodes[0]
    return root


def _size(node: Any) -> int:
    """Count the characters shown, without white space."""
    return len("".join((node.text() or "").split()))
