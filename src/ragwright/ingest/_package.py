"""Opens Open XML packages part by part: a bad part loses only itself; charts become tables."""

from __future__ import annotations

import itertools
import operator
import posixpath
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote

from ..core import MalformedSourceError, require
from ._archive import Archive, check_xml, texts_by_name
from ._extract import IMAGES_LEFT_OUT, Block, Extract, TextBuilder, show_number
from ._options import SourceOptions

A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
ALTERNATIVE, CHOICE, FALLBACK = (
    f"{{http://schemas.openxmlformats.org/markup-compatibility/2006}}{name}"
    for name in ("AlternateContent", "Choice", "Fallback")
)


class Relation(NamedTuple):
    """A relation of a part: the last word of its kind, and the part that it leads to.

    ``target`` is empty if the relation leads out of the package, or to a part that it lacks.
    """

    kind: str = ""
    target: str = ""


class Package:
    """The parts of an Open XML file, of which ``main`` is the root of the main one.

    Parts that cannot be read are counted by the builder.

    Args:
        data: The whole file.
        where: Its id, for errors.
        options: Limits.
        builder: Collects the text.
        usual: Name of the main part if the package names none.

    Raises:
        EncryptedSourceError: Members are locked by a password.
        MalformedSourceError: Truncated, damaged, or larger than the options allow.
    """

    def __init__(
        self, data: bytes, where: str, options: SourceOptions, builder: TextBuilder, usual: str
    ) -> None:
        self._archive = Archive(data, where, options)
        self.builder = builder
        self._names = {name.replace("\\", "/").lstrip("/"): name for name in self._archive.names}
        mains = (r.target for r in self.relations("").values() if r.kind == "officeDocument")
        self.main_name = next(filter(None, mains), usual)
        self.main = self.root(self.main_name)
        if self.main is None:
            raise MalformedSourceError(
                f"the file is damaged: {self.main_name!r} cannot be read",
                where=where,
                hint="open it in its program and save it",
            )

    def read(self, name: str) -> bytes:
        """Return a part's bytes; XML is checked, and in the namespaces of Transitional Open XML.

        Raises:
            MalformedSourceError: There is no such part, or it is damaged.
        """
        data = self._archive.read(self._names.get(name, name))
        if name.endswith((".xml", ".rels", ".vml")):
            # namespaces of Transitional Open XML differ from those of Strict by a year
            usual = rb"http://schemas.openxmlformats.org/\1/2006/\2"
            data = re.sub(rb"http://purl\.oclc\.org/ooxml/(\w+)/(\w+)", usual, data)
            return check_xml(data, name)
        return data

    def root(self, name: str) -> Any:
        """Return the root element of a part; None if the package lacks it or it is damaged."""
        if name not in self._names:
            return None
        etree = require("lxml.etree", "docs", "reading Office files")
        try:
            return etree.fromstring(self.read(name))
        except (MalformedSourceError, etree.XMLSyntaxError):
            self.builder.miss("damaged part", "left out", "open the file in its program, save it")
            return None

    def relations(self, name: str) -> dict[str | None, Relation]:
        """Return the relations of a part by id; of the package itself if the name is empty."""
        folder, _, last = name.rpartition("/")
        root = self.root(f"{folder}/_rels/{last}.rels".lstrip("/"))
        found: dict[str | None, Relation] = defaultdict(Relation)
        for element in root if root is not None else ():
            target = unquote((element.get("Target") or "").replace("\\", "/"))
            path = posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")
            inside = element.get("TargetMode") != "External" and path in self._names
            kind = (element.get("Type") or "").rpartition("/")[2]
            found[element.get("Id")] = Relation(kind, path if inside else "")
        return found

    def roots(self, name: str, *kinds: str) -> list[Any]:
        """Return the roots of the parts that a part has relations of these kinds to."""
        relations = self.relations(name).values()
        found = (self.root(r.target) for kind in kinds for r in relations if r.kind == kind)
        return [root for root in found if root is not None]

    def extract(self, media_type: str) -> Extract:
        """Return the text with what the file says about itself: title, author, dates and so on."""
        roots = self.roots("", "core-properties") or [self.root("docProps/core.xml")]
        about, _ = texts_by_name(roots[0] if roots[0] is not None else ())
        return self.builder.extract(
            media_type,
            {
                "author": about["creator"],
                **{key: about[key] for key in ("subject", "keywords", "category")},
            },
            title="" if about["title"] == "PowerPoint Presentation" else about["title"],
            dates=(about["created"], about["modified"]),
        )


_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_DIAGRAM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}relIds"
DRAWN = (f"{_C}chart", _DIAGRAM, f"{A}blip", "{urn:schemas-microsoft-com:vml}imagedata")
"""Marks of charts, diagrams and images in the text of a part."""
_Points = dict[int, str]


def find_drawn(
    mark: Any, relations: dict[str | None, Relation], package: Package
) -> Iterator[Block]:
    """Yield the chart or the texts of the diagram that a mark stands for; count an image."""
    root = package.root(relations[mark.get(f"{R}id") or mark.get(f"{R}dm")].target)
    if mark.tag not in DRAWN[:2]:
        package.builder.miss("image", *IMAGES_LEFT_OUT)
    elif root is None:
        package.builder.miss("chart", "left out: its part is missing", "insert the chart again")
    elif mark.tag == _DIAGRAM:
        yield from (Block(_text(paragraph)) for paragraph in root.iter(f"{A}p"))
    else:
        yield from read_chart(root)


def read_chart(root: Any) -> Iterator[Block]:
    """Yield a chart: its title, the titles of its axes, its series as columns of a table.

    Numbers keep all their digits. Series that share no categories have tables of their own.
    """
    title = _text(root.find(f"{_C}chart/{_C}title"))
    axes = [_text(axis) for axis in root.iterfind(f"{_C}chart/{_C}plotArea/*/{_C}title")]
    series = [(_labels(s), _columns_of(s)) for s in root.iter(f"{_C}ser")]
    blocks = []
    for labels, alike in itertools.groupby(series, key=operator.itemgetter(0)):
        columns = [column for _, own in alike for column in own]
        points = [*(labels or [{}]), *(points for _, points in columns)]
        head = [title, *[""] * (len(labels) - 1), *(name for name, _ in columns)]
        places = sorted({at for column in points for at in column})
        rows = [[column.get(at, "") for column in points] for at in places]
        blocks += [Block(rows=[head, *rows])] * bool(rows)
    yield from blocks or [Block(title)]
    yield Block(f"Axes: {', '.join(filter(None, axes))}" if any(axes) else "")


def _columns_of(series: Any) -> list[tuple[str, _Points]]:
    """Return the values of a series, and the sizes of its bubbles, with their names."""
    name = " ".join(_points(series.find(f"{_C}tx")).values())
    return [
        (name if key != "bubbleSize" else f"{name} (size)".strip(), _points(values))
        for key in ("val", "yVal", "bubbleSize")
        if (values := series.find(f"{_C}{key}")) is not None
    ]


def _labels(series: Any) -> list[_Points]:
    """Return the categories of a series, outer levels first and repeated down."""
    source = next(series.iter(f"{_C}cat", f"{_C}xVal"), None)
    levels = [] if source is None else [*source.iter(f"{_C}lvl")]
    labels = [_points(level) for level in reversed(levels)]
    places = sorted({at for points in labels for at in points})
    for points in labels:
        for last, at in itertools.pairwise(places):
            points.setdefault(at, points.get(last, ""))
    return labels or [*filter(None, [_points(source)])]


def _points(source: Any) -> _Points:
    """Return the points of a series by place; numbers as their format shows them."""
    if source is None:
        return {}
    code = source.findtext(f".//{_C}formatCode") or ""
    numbers = source.find(f".//{_C}numCache") is not None or source.find(f"{_C}numLit") is not None
    points: _Points = {}
    for point in source.iter(f"{_C}pt"):
        text, place = point.findtext(f"{_C}v") or "", point.get("idx") or ""
        if numbers:
            try:
                text = show_number(float(text), point.get("formatCode") or code, exact=True)
            except ValueError:
                pass
        points[int(place) if place.isdecimal() else len(points)] = text
    return points or {at: v.text or "" for at, v in enumerate(source.iterfind(f"{_C}v"))}


def _text(title: Any) -> str:
    if title is None:
        return ""
    texts = (t.text or "" for tag in (f"{A}t", f"{_C}v") for t in title.iter(tag))
    return " ".join("".join(texts).split())


def read_whole_number(value: str | None, default: int) -> int:
    """Return the whole number that an attribute holds."""
    return int(value) if value and value.isdecimal() else default


_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
MATH = f"{_M}oMath"
_SIGNS = {
    "∑": "\\sum", "∏": "\\prod", "∐": "\\coprod", "∫": "\\int", "∬": "\\iint", "∭": "\\iiint",
    "∮": "\\oint", "⋃": "\\bigcup", "⋂": "\\bigcap", "": "\\int",
}  # fmt: skip
_ACCENTS = {
    "\u0302": "\\hat", "\u0303": "\\tilde", "\u0304": "\\bar", "\u0305": "\\overline",
    "\u0307": "\\dot", "\u0308": "\\ddot", "\u20d7": "\\vec", "": "\\hat",
}  # fmt: skip
_NAMED = {
    name: f"\\{name} " for name in ["sin", "cos", "tan", "log", "ln", "exp", "lim", "max", "min"]
}
_KINDS = frozenset({"f", "sPre", "sSup", "sSub", "sSubSup", "rad", "nary", "d", "func", "limLow",
                    "limUpp", "acc", "bar", "m", "eqArr"})  # fmt: skip


def latex(equation: Any) -> str:
    """Return an ``m:oMath`` or ``m:oMathPara`` as LaTeX between dollar signs; empty if empty."""
    text = " ".join(_children(equation, 0).split())
    return f"${text}$" if text else ""


def _children(element: Any, depth: int) -> str:
    if depth > 50:
        return "".join(element.itertext())
    return "".join(_part(child, depth + 1) for child in element if isinstance(child.tag, str))


def _part(element: Any, depth: int) -> str:
    """Return one part of an equation, as its kind is written."""

    def inner(part: str) -> list[str]:
        return [_children(child, depth) for child in element.iterfind(f"{_M}{part}")] or [""]

    def value(key: str, default: str) -> str:
        child = element.find(f"{_M}{name}Pr/{_M}{key}")
        return default if child is None else str(child.get(f"{_M}val") or "")

    name = element.tag.rpartition("}")[2]
    if name == "t" or name.endswith("Pr"):
        return str(element.text or "") if name == "t" else ""
    if name not in _KINDS:
        return _children(element, depth)
    names = ("deg", "num", "den", "lim", "fName", "e")
    degree, above, below, limit, function, base = (inner(part)[0] for part in names)
    cells = inner("e")
    scripts = "".join(
        f"{sign}{_braced(text, len(text) == 1)}"
        for sign, part in (("_", "sub"), ("^", "sup"))
        if (text := inner(part)[0] or limit * (name == {"_": "limLow", "^": "limUpp"}[sign]))
    )
    sign = value("chr", "\u0305" if name == "bar" else "")
    accent = f"{_ACCENTS.get(sign, _ACCENTS[''])}{{{base}}}"
    script = f"{_braced(base, base.isalnum() or len(base) == 1)}{scripts}"
    rows = [[_children(c, depth) for c in row] for row in element.iterfind(f"{_M}mr")]
    lines = [" & ".join(row) for row in rows] or cells
    return {
        "f": f"\\frac{{{above}}}{{{below}}}",
        "sPre": f"{{}}{scripts}{base}",
        **dict.fromkeys(("sSup", "sSub", "sSubSup"), script),
        "rad": f"\\sqrt{f'[{degree}]' if degree else ''}{{{base}}}",
        "nary": f"{_SIGNS.get(sign, sign)}{scripts} {base}",
        "d": f"{value('begChr', '(')}{value('sepChr', '|').join(cells)}{value('endChr', ')')}",
        "func": f"{_NAMED.get(function, function)}{base}",
        **dict.fromkeys(("limLow", "limUpp"), f"{_NAMED.get(base, base)}{scripts}"),
        **dict.fromkeys(("acc", "bar"), accent),
        **dict.fromkeys(("m", "eqArr"), "\\begin{matrix}" + " \\\\ ".join(lines) + "\\end{matrix}"),
    }[name]


def _braced(text: str, bare: bool) -> str:
    return text if bare else f"{{{text}}}"
