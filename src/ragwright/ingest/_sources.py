"""From sources to documents: each source is read by the first reader that accepts it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from ..core import (
    GROUPS,
    ConfigError,
    Document,
    Filter,
    PluginError,
    RagwrightError,
    StoppedError,
    UnclearGroupsError,
    UnsupportedSourceError,
    common_groups,
    find_additions,
    group_names,
    load_addition,
    misspelt_groups,
    option,
    reader_filter,
    value_hash,
)
from ._apart import ScanProgress
from ._files import FileReader, RemoteReader
from ._options import SourceOptions
from ._seams import Failure, Reader, SourceFile, SuffixReader, catch_failures, reader_error
from ._tabular import BeirReader
from ._web import ArxivReader, WebReader, WikipediaReader
from .parsers import check_parser

_FORMS = (
    "a file, folder or pattern (manuals/*.pdf)",
    "https://…",
    "wikipedia:Title or wikipedia:fr:Titre",
    "arxiv:2401.01234 or arxiv:words?max=5",
    "beir:FOLDER",
    "s3://BUCKET/FOLDER, gs://, az://, sftp://, github://ORG:REPO@REF/, zip://::FILE.zip",
)


def default_readers(
    options: SourceOptions | None = None,
    base: Path | None = None,
    home: Path | None = None,
    scans: ScanProgress | None = None,
) -> tuple[Reader, ...]:
    """The readers in the order in which they are tried: of installed packages, then built-in.

    Args:
        options: What to read and within which limits.
        base: Folder that relative paths start from; the working directory by default.
        home: Folder that ids of documents are relative to; ``base`` by default.
        scans: Counts the pages that OCR reads.

    Raises:
        MissingExtraError: The parser that the options name is not installed.
    """
    if options is not None:
        check_parser(options)
    installed = tuple(load_reader(name) for name in find_additions("readers"))
    by_suffix = {
        suffix: reader
        for reader in installed
        if isinstance(reader, SuffixReader)
        for suffix in reader.suffixes
    }
    return (
        *installed,
        BeirReader(base),
        WikipediaReader(),
        ArxivReader(options),
        WebReader(options),
        RemoteReader(options, base, home, scans),
        FileReader(options, base, home, scans, by_suffix),
    )


def load_reader(address: str) -> Reader:
    """The custom reader of a name: a `Reader`, or a callable that returns one.

    Args:
        address: ``module:object``, or the name of an installed reader.

    Raises:
        PluginError: It cannot be loaded, or is not a reader.
    """
    reader = load_addition("readers", address, where="reader")
    if callable(reader) and not isinstance(reader, Reader):
        try:
            reader = reader()
        except Exception as error:
            raise PluginError(f"{address!r} cannot be made: {error}", where="reader") from error
    if not isinstance(reader, Reader):
        raise PluginError(
            f"{address!r} is not a reader", where="reader", hint="subclass ragwright.ingest.Reader"
        )
    return reader


def pick_reader(source: str, readers: Sequence[Reader]) -> Reader:
    """Return the first reader that accepts a source.

    Raises:
        UnsupportedSourceError: None accepts it; the error lists the known forms.
        SourceError: A reader fails when it checks the source.
    """
    for reader in readers:
        try:
            accepted = reader.accepts(source)
        except RagwrightError:
            raise
        except Exception as error:
            raise reader_error(reader, source, error) from error
        if accepted:
            return reader
    raise UnsupportedSourceError(
        f"no reader for sources of the kind {source.partition(':')[0] + ':'!r}",
        where=source,
        hint="known are " + "; ".join(_FORMS),
    )


def files_of(reader: Reader, source: str) -> Iterator[SourceFile | Failure] | None:
    """List the files of a source; None if it is not made of files."""
    try:
        files = reader.files(source)
    except StoppedError:
        raise
    except Exception as error:
        return iter([Failure(source, reader_error(reader, source, error))])
    return None if files is None else catch_failures(files, source, reader)


_WILDCARD = re.compile(r"\*\*/|\*\*|\*|\?|[^*?]+")
_MEANING = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


@dataclass(frozen=True, slots=True)
class GroupRule:
    """The groups that may read documents below a folder, or of a pattern."""

    match: str = option(
        "",
        "Folder or pattern of documents by id or by path within their source: hr, hr/**, "
        "**/*.secret.md, record:*.",
        when="index",
    )
    groups: tuple[str, ...] = option((), "Groups that may read them.", when="index")

    def __post_init__(self) -> None:
        """Refuse a rule that matches nothing, or names no groups."""
        if not self.match.strip("/ "):
            raise ConfigError(
                "a rule of groups matches no document", hint="write match: a folder or a pattern"
            )
        group_names(self.groups)

    def applies(self, path: str) -> bool:
        """True for a path that the rule matches, or that lies in a folder which it matches."""
        return _pattern(self.match).fullmatch(path) is not None


@cache
def _pattern(match: str) -> re.Pattern[str]:
    bare = match.strip().removeprefix("./").strip("/")
    parts = [_MEANING.get(part, re.escape(part)) for part in _WILDCARD.findall(bare)]
    return re.compile(f"{''.join(parts)}(?:[/#].*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """Which groups of readers may read which documents.

    Where several places name groups for a document (its front matter, a rule, its source), those
    may read it that all of them name.
    """

    ungrouped: Literal["everyone", "owners"] = option(
        "everyone", "Who may read documents without groups: everyone, or owners only."
    )
    rules: tuple[GroupRule, ...] = option(
        (), "Groups by folder or pattern; the last rule that matches a document holds."
    )

    def right(self, groups: Iterable[str]) -> Filter:
        """The right of a reader of some groups to read."""
        return reader_filter(groups, ungrouped=self.ungrouped == "everyone")

    @property
    def key(self) -> str:
        """A hash of the rules, empty without any."""
        rules = [[rule.match, list(rule.groups)] for rule in self.rules]
        return value_hash(rules) if rules else ""

    def labelled(
        self, items: Iterator[Document | Failure], source: str, fields: Mapping[str, Any]
    ) -> Iterator[Document | Failure]:
        """Documents with checked groups, and with the fields of their source.

        A document whose groups cannot be read becomes a failure: it must not become everyone's.

        Args:
            items: The documents of a source.
            source: The source.
            fields: Fields that every document of the source gets.
        """
        for item in items:
            try:
                yield self._label(item, source, fields) if isinstance(item, Document) else item
            except UnclearGroupsError as error:
                yield Failure(item.id if isinstance(item, Document) else item.source, error)

    def _label(self, document: Document, source: str, fields: Mapping[str, Any]) -> Document:
        """Label a document.

        Raises:
            UnclearGroupsError: It is unclear which groups may read it, or none may.
        """
        if misspelt := misspelt_groups(document.metadata):
            raise UnclearGroupsError(
                f"metadata: {misspelt!r} is not a field, but nearly {GROUPS!r}",
                where=document.id,
                hint=f"name it {GROUPS}, or give the field another name",
            )
        stated = document.metadata.get(GROUPS)
        of_rule = self.groups_of(document.id, source)
        try:
            of_document = () if stated is None else group_names(stated)
        except ConfigError as error:
            raise UnclearGroupsError(
                f"{GROUPS}: {error.what}: without them the document would be everyone's",
                where=document.id,
                hint=error.hint,
            ) from error
        groups = common_groups((of_document, of_rule, fields.get(GROUPS, ())))
        if groups is None:
            places = (("the document names", of_document), ("a rule names", of_rule))
            stated_by = " and ".join(f"{place} {', '.join(g)}" for place, g in places if g)
            raise UnclearGroupsError(
                f"no group may read the document: {stated_by}, and no group is named everywhere",
                where=document.id,
                hint="name a group in all of them: the document, the rule and its source",
            )
        named = {GROUPS: groups} if groups else {}
        return replace(document, metadata={**document.metadata, **fields, **named})

    def groups_of(self, document_id: str, source: str) -> tuple[str, ...]:
        """Groups by the last rule that matches a document; empty if none does."""
        paths = _paths(document_id, source)
        matching = (rule for rule in reversed(self.rules) if any(map(rule.applies, paths)))
        return next((group_names(rule.groups) for rule in matching), ())

    def unused(self, sources: Sequence[tuple[str, str]]) -> list[str]:
        """Patterns of rules that match none of some documents, by (id, source)."""
        paths = [path for pair in sources for path in _paths(*pair)] if self.rules else []
        return [rule.match for rule in self.rules if not any(map(rule.applies, paths))]


def _paths(document_id: str, source: str) -> list[str]:
    """A document's id, and its path within its source."""
    within = document_id.removeprefix(source.removeprefix("./").rstrip("/") + "/")
    return [document_id, within]
