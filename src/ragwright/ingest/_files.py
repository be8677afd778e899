"""Local files and folders: found in order, recognised by content, read one at a time."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

from ..core import (
    Document,
    EmptySourceError,
    RagwrightError,
    SourceError,
    UnsupportedSourceError,
)
from ._apart import ScanProgress, extract_bytes
from ._ocr import nothing_recognised
from ._options import SourceOptions
from ._seams import Failure, Reader, SourceFile, SuffixReader
from ._walk import Missed, expand, printable, read_bytes, unreadable, walk

_SCHEME = re.compile(r"(?i)[a-z][a-z0-9+.-]+:")
_DEPTH = 3


class FileReader(Reader):
    """Reads a file, a folder or a glob pattern.

    Args:
        options: What to read and within which limits.
        base: Folder that relative paths start from; the working directory by default.
        home: Folder that document ids are relative to, with ``..`` for files beside it; ``base``
            by default. Files that share no folder with it have their absolute path as id.
        scans: Counts the pages that OCR reads.
        by_suffix: Suffix -> installed reader of such files.
    """

    name = "files"

    def __init__(
        self,
        options: SourceOptions | None = None,
        base: Path | None = None,
        home: Path | None = None,
        scans: ScanProgress | None = None,
        by_suffix: Mapping[str, SuffixReader] | None = None,
    ) -> None:
        self._by_suffix = by_suffix or {}
        self.options = options or SourceOptions()
        self.base = Path(base) if base is not None else Path.cwd()
        # abspath, not resolve: a link keeps the name the user sees.
        self._home = Path(os.path.abspath(home or self.base))  # noqa: PTH100
        self._scans = scans

    def accepts(self, source: str) -> bool:
        """True for existing paths, and for anything not written as ``scheme:…``."""
        if source.startswith("file://"):
            return True
        return not _SCHEME.match(source) or self._path(source).exists()

    def files(self, source: str) -> Iterator[Path | Failure]:
        """List the files of a path, folder or pattern, in sorted order."""
        path = self._path(source)
        if os.path.lexists(path):
            yield from self._below(path)
            return
        empty = True
        for item in expand(path, self.options):
            empty = False
            if isinstance(item, Missed):
                yield self._missed(item)
            else:
                yield from self._below(item)
        if empty:
            error = SourceError(
                "no such file or folder",
                where=printable(str(path)),
                hint="check the spelling; relative paths start from " + str(self.base),
            )
            yield Failure(printable(source), error)

    def _path(self, source: str) -> Path:
        if source.startswith("file://"):
            source = unquote(source[len("file://") :].removeprefix("localhost"))
        return self.base / Path(source).expanduser()

    def _below(self, root: Path) -> Iterator[Path | Failure]:
        if not root.is_dir():
            yield root
            return
        read = False
        for item in walk(root, self.options):
            read = True
            yield self._missed(item) if isinstance(item, Missed) else item
        if not read:
            empty = all(path.name.startswith(".") for path in root.iterdir())
            kind = EmptySourceError if empty else SourceError
            nothing = kind(
                "the folder is empty" if empty else "the folder has no file to read",
                where=printable(str(root)),
                hint="files that are put there are read by the next ingest"
                if empty
                else "hidden files are skipped; check `include` and `exclude`",
            )
            yield Failure(self._id(root), nothing, skipped=empty)

    def _missed(self, item: Missed) -> Failure:
        name = self._id(item.path)
        if isinstance(item.reason, OSError):
            return Failure(name, unreadable(item.reason, name))
        return Failure(
            name, UnsupportedSourceError(item.reason, where=name, hint=item.hint), skipped=True
        )

    def read_file(self, path: SourceFile) -> Iterator[Document | Failure]:
        """Read the documents of one file: itself, and its attachments if it is an e-mail."""
        assert isinstance(path, Path)
        name = self._id(path)
        try:
            if name != self._id(path, printed=False):
                raise SourceError(
                    "the file name is not UTF-8",
                    where=name,
                    hint="rename it, or the folder that it is in",
                )
            reader = self._by_suffix.get(path.suffix.lower())
            if reader is not None:
                yield from _under_id(reader, path, name)
                return
            data = read_bytes(path, name, self.options)
            yield from documents(name, data, self.options, self._scans)
        except RagwrightError as error:
            yield Failure(name, error)
        except OSError as error:
            yield Failure(name, unreadable(error, name))

    def _id(self, path: Path, *, printed: bool = True) -> str:
        """Return the path from the home with ``/``, however the source was written."""
        whole = Path(os.path.abspath(path))  # noqa: PTH100
        name = relative_id(whole, self._home)
        return printable(name) if printed else name


def _under_id(reader: SuffixReader, path: Path, name: str) -> Iterator[Document | Failure]:
    """Documents of an installed reader, with the id of the file where they have its path."""
    try:
        for item in reader.read_file(path):
            source = _renamed(item.source, path, name)
            if isinstance(item, Failure):
                yield replace(item, source=source)
            else:
                yield replace(item, id=_renamed(item.id, path, name), source=source)
    except RagwrightError:
        raise
    except Exception as error:  # a custom reader must not affect the other files
        raise SourceError(
            f"the reader {reader.name!r} failed: {type(error).__name__}: {error}",
            where=name,
            hint="this is a fault of the reader; the other files were read",
        ) from error


def _renamed(text: str, path: Path, name: str) -> str:
    return name + text.removeprefix(str(path)) if text.startswith(str(path)) else text


def relative_id(whole: Path, home: Path) -> str:
    """Return a file's id: its path from the home; absolute if they share no folder."""
    try:
        shared = Path(os.path.commonpath([whole, home]))
    except ValueError:  # other drives
        return whole.as_posix()
    if shared == Path(shared.anchor) and not whole.is_relative_to(home):
        return whole.as_posix()
    return Path(os.path.relpath(whole, home)).as_posix()


def documents(
    name: str,
    data: bytes,
    options: SourceOptions,
    scans: ScanProgress | None = None,
    depth: int = 0,
) -> Iterator[Document | Failure]:
    """Read the documents in the bytes of one file: the file, then its attachments.

    Args:
        name: Id and address; its suffix is a hint to the format.
        data: The whole file.
        options: Limits and settings.
        scans: Counts the pages that OCR reads.
        depth: How many mails contain this one.

    Raises:
        SourceError: The file cannot be read as a whole.
    """
    extract = extract_bytes(name, data, options, scans)
    if extract.text:
        yield extract.document(name, name, extract.title)
    elif not extract.faults and not extract.attachments:
        yield Failure(name, nothing_recognised(name), skipped=True)
    for fault in extract.faults:
        yield Failure(name, fault, warning=bool(extract.text))
    taken: Counter[str] = Counter()
    for attachment in extract.attachments:
        taken[attachment.name] += 1
        again = f"-{taken[attachment.name]}" if taken[attachment.name] > 1 else ""
        inner = f"{name}#{attachment.name}{again}"
        try:
            if depth >= _DEPTH:
                raise UnsupportedSourceError(
                    f"attachments more than {_DEPTH} mails deep are not read",
                    where=inner,
                    hint="save the attachment on its own",
                )
            yield from documents(inner, attachment.data, options, scans, depth + 1)
        except RagwrightError as error:
            yield Failure(inner, error)
