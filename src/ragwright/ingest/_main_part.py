"""The main part of a web page: the page without navigation and other boilerplate."""

from __future__ import annotations

import re
from typing import Any

_FURNITURE = (
    "nav, footer, form, dialog, menu, [role=navigation], [role=banner], "
    "[role=contentinfo], [role=search], [role=dialog], [role=alertdialog], "
    "[role=menu], [role=toolbar], [aria-modal=true]"
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
_BLOCKS = "aside, div, section, ul, ol, table, p, dl, header"
_BESIDE = "aside, [class*=comments], [id*=comments], [class*=answers], [id*=answers]"
"""What readers and authors add to the main part, beside it."""
_LINKS_SHARE = 0.6
_NAMED_SHARE = 0.5


def keep_main_part(root: Any) -> Any:
    """Return the element of a parsed page that holds its text, without boilerplate.

    Goes by the page's own marks first (``main``, ``article``, roles, tell-tale class names),
    then by text density: a block most of whose characters are links is navigation. A block
    that holds more than half of the page's text is never treated as boilerplate by its name.
    """
    for node in reversed(root.css(_FURNITURE)):
        if not (node.tag == "form" and _size(node) > _NAMED_SHARE * _size(root)):
            node.decompose()
    for tag, own in (("header", "h1"), ("aside", "p, li, dd, td, h1, h2, h3, h4, article")):
        for node in reversed(root.css(tag)):
            if node.css_first(own) is None:
                node.decompose()
    total = max(1, _size(root))
    for node in reversed(root.css("[class], [id]")):
        name = f"{node.attributes.get('class') or ''} {node.attributes.get('id') or ''}"
        if node.tag in ("html", "body", "main", "article") or not _NAMED.search(name):
            continue
        if _COOKIES.search(name) or (
            _size(node) < _NAMED_SHARE * total and node.css_first("h1") is None
        ):
            node.decompose()
    scope = _scope(root)
    _drop_link_blocks(scope)
    return scope


def _scope(root: Any) -> Any:
    """Return ``main`` or the only ``article``, with asides and comments, if little is beside it."""
    total = max(1, _size(root))
    for selector, least in (("main, [role=main]", 0.5), ("article", 0.7)):
        nodes = root.css(selector)
        if len(nodes) == 1 and _size(nodes[0]) >= least * total:
            for node in root.css(_BESIDE):
                if not (_within(node, nodes[0]) or _within(nodes[0], node)):
                    nodes[0].insert_child(node)
            return nodes[0]
    return root


def _within(node: Any, other: Any) -> bool:
    while node is not None and node.mem_id != other.mem_id:
        node = node.parent
    return node is not None


def _drop_link_blocks(scope: Any) -> None:
    for node in reversed(scope.css(_BLOCKS)):
        size = _size(node)
        if not size or node.css_first("h1, pre") is not None:
            continue
        links = node.css("a")
        linked = sum(_size(a) for a in links)
        if len(links) >= 3 and linked > _LINKS_SHARE * size and size / len(links) < 60:
            node.decompose()


def _size(node: Any) -> int:
    """Count the characters shown, without white space."""
    return len("".join((node.text() or "").split()))
