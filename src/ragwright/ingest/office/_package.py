"""Opens Open XML packages (DOCX, PPTX, XLSX) part by part: a bad part loses only itself."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote

from ...core import MalformedSourceError, require
from .._archive import Archive, safe_xml
from .._extract import TextBuilder
from .._options import SourceOptions

_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/(\w+)")
"""Namespaces of Strict Open XML; the others differ from them by a year."""
_TRANSITIONAL = rb"http://schemas.openxmlformats.org/\1/2006/\2"


class Relation(NamedTuple):
    """A relation of a part: its id, the last word of its kind, and the part that it leads to.

    ``target`` is empty if the relation leads out of the package, or to a part that it lacks.
    """

    id: str
    kind: str
    target: str


class Package:
    """The parts of an Open XML file.

    Parts that cannot be read are counted by the builder.

    Raises:
        EncryptedSourceError: Members are locked by a password.
        MalformedSourceError: Truncated, damaged, or larger than the options allow.
    """

    def __init__(
        self, data: bytes, where: str, options: SourceOptions, builder: TextBuilder
    ) -> None:
        self.where = where
        self._data = data
        self._archive = Archive(data, where, options)
        self._builder = builder
        self._names = {name.replace("\\", "/").lstrip("/"): name for name in self._archive.names}

    def main(self, usual: str) -> str:
        """Return the name of the main part: where the package says, else the usual one."""
        for relation in self.relations(""):
            if relation.kind == "officeDocument" and relation.target:
                return relation.target
        return usual

    def read(self, name: str) -> bytes:
        """Return a part's bytes; XML is checked, and in the namespaces of Transitional Open XML.

        Raises:
            MalformedSourceError: There is no such part, or it is damaged.
        """
        data = self._archive.read(self._names.get(name, name))
        if name.endswith((".xml", ".rels", ".vml")):
            return safe_xml(_STRICT.sub(_TRANSITIONAL, data), name)
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

    def relations(self, name: str) -> Iterator[Relation]:
        """Yield the relations of a part; of the package itself if the name is empty."""
        folder, _, last = name.rpartition("/")
        root = self.root(f"{folder}/_rels/{last}.rels".lstrip("/"))
        for element in root if root is not None else ():
            target = unquote((element.get("Target") or "").replace("\\", "/"))
            path = posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")
            inside = element.get("TargetMode") != "External" and path in self._names
            kind = (element.get("Type") or "").rpartition("/")[2]
            yield Relation(element.get("Id") or "", kind, path if inside else "")

    def related(self, name: str, kind: str) -> list[str]:
        """Return the parts that a part has a relation of this kind to."""
        return [r.target for r in self.relations(name) if r.kind == kind and r.target]

    def properties(self) -> dict[str, str]:
        """Return what the file says about itself: title, creator, created and so on."""
        core = [*self.related("", "core-properties"), "docProps/core.xml"]
        root = self.root(core[0])
        return {
            str(element.tag).rpartition("}")[2]: (element.text or "").strip()
            for element in (root if root is not None else ())
        }

    def mended(self) -> bytes:
        """Return the package for libraries that need every part: without parts that are damaged,
        without relations that lead nowhere, in Transitional Open XML.
        """
        whole: dict[str, bytes] = {}
        for name in list(self._names):
            try:
                whole[name] = self.read(name)
            except MalformedSourceError:
                self._builder.miss("damaged part", "left out", "open the file in its program")
        self._names = {name: self._names[name] for name in whole}
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w") as archive:
            for name, data in whole.items():
                if name.endswith(".rels"):
                    folder, _, last = name.removesuffix(".rels").rpartition("_rels/")
                    data = self._live(folder + last, data)
                archive.writestr(name, data)
        return made.getvalue()

    def _live(self, part: str, data: bytes) -> bytes:
        """Remove the relations of a part that lead nowhere, and properties, which may be bad."""
        etree = require("lxml.etree", "docs", "reading Office files")
        root = etree.fromstring(data)
        for element, relation in zip(list(root), list(self.relations(part)), strict=True):
            dead = not relation.target and element.get("TargetMode") != "External"
            if dead or relation.kind in ("core-properties", "thumbnail"):
                root.remove(element)
        return bytes(etree.tostring(root))
