"""Opens Open XML packages (DOCX, PPTX, XLSX) part by part: a bad part loses only itself."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote

from ...core import MalformedSourceError, require
from .._archive import Archive, check_xml
from .._extract import Extract, TextBuilder
from .._options import SourceOptions

A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/(\w+)")
"""Namespaces of Strict Open XML; the others differ from them by a year."""
_TRANSITIONAL = rb"http://schemas.openxmlformats.org/\1/2006/\2"


class Relation(NamedTuple):
    """A relation of a part: the last word of its kind, and the part that it leads to.

    ``target`` is empty if the relation leads out of the package, or to a part that it lacks.
    """

    kind: str
    target: str


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
        self._builder = builder
        self._names = {name.replace("\\", "/").lstrip("/"): name for name in self._archive.names}
        self.main_name = next(self._related("", "officeDocument"), usual)
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
            return check_xml(_STRICT.sub(_TRANSITIONAL, data), name)
        return data

    def root(self, name: str) -> Any:
        """Return the root element of a part; None if the package lacks it or it is damaged."""
        if name not in self._names:
            return None
        etree = require("lxml.etree", "docs", "reading Office files")
        try:
            return etree.fromstring(self.read(name))
        except (MalformedSourceError, etree.XMLSyntaxError):
            self._builder.miss("damaged part", "left out", "open the file in its program, save it")
            return None

    def relations(self, name: str) -> dict[str | None, Relation]:
        """Return the relations of a part by id; of the package itself if the name is empty."""
        folder, _, last = name.rpartition("/")
        root = self.root(f"{folder}/_rels/{last}.rels".lstrip("/"))
        found: dict[str | None, Relation] = {}
        for element in root if root is not None else ():
            target = unquote((element.get("Target") or "").replace("\\", "/"))
            path = posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")
            inside = element.get("TargetMode") != "External" and path in self._names
            kind = (element.get("Type") or "").rpartition("/")[2]
            found[element.get("Id")] = Relation(kind, path if inside else "")
        return found

    def _related(self, name: str, *kinds: str) -> Iterator[str]:
        found = self.relations(name).values()
        return (r.target for kind in kinds for r in found if r.kind == kind and r.target)

    def roots(self, name: str, *kinds: str) -> list[Any]:
        """Return the roots of the parts that a part has relations of these kinds to."""
        found = map(self.root, self._related(name, *kinds))
        return [root for root in found if root is not None]

    def extract(self, media_type: str) -> Extract:
        """Return the text with what the file says about itself: title, author, dates and so on."""
        roots = self.roots("", "core-properties") or [self.root("docProps/core.xml")]
        about = {
            str(element.tag).rpartition("}")[2]: (element.text or "").strip()
            for element in (roots[0] if roots[0] is not None else ())
        }
        title = about.get("title", "")
        return self._builder.extract(
            media_type,
            {
                "author": about.get("creator"),
                **{key: about.get(key) for key in ("subject", "keywords", "category")},
            },
            title="" if title == "PowerPoint Presentation" else title,
            dates=(about.get("created"), about.get("modified")),
        )
