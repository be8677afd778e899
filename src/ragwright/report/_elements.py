"""HTML elements: every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TypeAlias


class Html(str):
    """HTML that is not escaped again; plain text is always escaped."""

    __slots__ = ()


Inside: TypeAlias = "str | Html | Iterable[str | Html | None] | None"

_VOID = frozenset({"br", "input", "meta"})


def tag(name: str, *inside: Inside, **attributes: str | int | bool | None) -> Html:
    """An element; texts in it and in its attributes are escaped.

    A trailing underscore of an attribute's name is dropped, others become hyphens; True writes only
    the name, None and False nothing.
    """
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}"
        + ("" if value is True else f'="{escape(str(value), quote=True)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{joined(inside)}</{name}>")


def joined(parts: Iterable[Inside]) -> Html:
    """Parts one after the other."""
    return Html("".join(map(_one, parts)))


def _one(part: Inside) -> str:
    if part is None:
        return ""
    if isinstance(part, Html):
        return part
    if isinstance(part, str):
        return escape(part, quote=False)
    return joined(part)


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[Inside]],
    *,
    caption: str,
    right: Iterable[int] = (),
) -> Html:
    """A table with header cells in a scrolling box; columns in ``right`` hold numbers."""
    flush = set(right)
    heads = [
        tag(
            "th",
            name or tag("span", "remarks" if at else caption, class_="hidden"),
            scope="col",
            class_="num" if at in flush else None,
        )
        for at, name in enumerate(head)
    ]
    lines = [
        tag(
            "tr",
            [
                tag("th", cell, scope="row")
                if not at
                else tag("td", cell, class_="num" if at in flush else None)
                for at, cell in enumerate(cells)
            ],
        )
        for cells in rows
    ]
    return tag(
        "div",
        tag(
            "table",
            tag("caption", caption, class_="hidden"),
            tag("thead", tag("tr", heads)),
            tag("tbody", lines),
        ),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=f"{caption}, table",
    )
