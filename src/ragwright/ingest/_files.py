"""Local files and folders: found in order, recognised by content, read one at a time."""

from __future__ import annotations

import fnmatch
import glob
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

from ..core import (
    Document,
    EncryptedSourceError,
    MalformedSourceError,
    MissingExtraError,
    RagwrightError,
    SourceError,
    UnsupportedSourceError,
)
from ._docx import read_docx
from ._eml import read_eml
from ._epub import read_epub
from ._extract import Extract
from ._html import read_html
from ._markdown import read_markdown
from ._odt import read_odt
from ._options import SourceOptions
from ._pdf import read_pdf
from ._plain import CODE, read_plain
from ._pptx import read_pptx
from ._seams import Failure, FetchBytes, Reader, read_files
from ._sheet import read_sheet
from ._sniff import BINARY, NAMES, SUFFIXES, sniff
from ._tabular import read_csv
from ._xml import read_xml

_SCHEME = re.compile(r"(?i)[a-z][a-z0-9+.-]+:")
_DEPTH = 3

_PARSERS: dict[str, Callable[[bytes, str, SourceOptions], Extract]] = {
    "pdf": read_pdf,
    "docx": read_docx,
    "pptx": read_pptx,
    "odt": read_odt,
    "epub": read_epub,
    "html": read_html,
    "xml": read_xml,
    "markdown": read_markdown,
    "eml": read_eml,
}


class FileReader(Reader):
    """Reads a file, a folder or a glob pattern.

    Args:
        options: What to read and within which limits.
        base: Folder that document ids are relative to; the working directory by default.
            Files outside it have their absolute path as id.
    """

    name = "files"

    def __init__(self, options: SourceOptions | None = None, base: Path | None = None) -> None:
        self.options = options or SourceOptions()
        self.base = Path(base) if base is not None else Path.cwd()
        self._missing: dict[str, str] = {}

    def accepts(self, source: str) -> bool:
        """True for existing paths, and for anything not written as ``scheme:…``."""
        if source.startswith("file://"):
            return True
        return not _SCHEME.match(source) or self._path(source).exists()

    def read(self, source: str, fetch: FetchBytes) -> Iterator[Document | Failure]:
        """Documents of a path in sorted order; what cannot be read becomes a Failure."""
        return read_files(self, self.files(source))

    def files(self, source: str) -> Iterator[Path | Failure]:
        """Files of a path, folder or pattern, in sorted order."""
        self._missing.clear()
        path = self._path(source)
        if os.path.lexists(path):
            yield from self._below(path)
            return
        matches = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207 - absolute patterns
        if not matches:
            error = SourceError(
                "no such file or folder",
                where=str(path),
                hint="check the spelling; relative paths start from " + str(self.base),
            )
            yield Failure(source, error)
        for match in matches:
            yield from self._below(Path(match))

    def _path(self, source: str) -> Path:
        if source.startswith("file://"):
            source = unquote(source[len("file://") :].removeprefix("localhost"))
        return self.base / Path(source).expanduser()

    def _below(self, root: Path) -> Iterator[Path | Failure]:
        if not root.is_dir():
            yield root
            return
        found = False
        for item in walk(root, self.options):
            found = True
            if isinstance(item, OSError):
                where = str(item.filename or root)
                yield Failure(self._id(Path(where)), _unreadable(item, where))
            else:
                yield item
        if not found:
            yield Failure(
                self._id(root),
                SourceError(
                    "the folder holds no file to read",
                    where=str(root),
                    hint="hidden files are skipped; look at `include` and `exclude`",
                ),
            )

    def read_file(self, path: Path) -> Iterator[Document | Failure]:
        """Documents of one file: itself, and what it holds (attachments of an e-mail)."""
        name = self._id(path)
        try:
            data = read_bytes(path, name, self.options)
            for item in documents(name, data, self.options):
                yield self._shortened(item) if isinstance(item, Failure) else item
        except RagwrightError as error:
            yield self._shortened(Failure(name, error))
        except OSError as error:
            yield Failure(name, _unreadable(error, name))

    def _shortened(self, failure: Failure) -> Failure:
        """The failure; where a package is missing for more than one file, a short one."""
        error = failure.error
        if not isinstance(error, MissingExtraError):
            return failure
        first = self._missing.setdefault(error.what, failure.source)
        if first == failure.source:
            return failure
        purpose = error.what.partition(" needs ")[0]
        return Failure(
            failure.source, MissingExtraError(f"{purpose} needs a package: see {first!r}")
        )

    def _id(self, path: Path) -> str:
        """Path relative to the base where it is inside it, else absolute; with ``/``."""
        # abspath, not resolve: a link keeps the name the user sees.
        whole = Path(os.path.abspath(path))  # noqa: PTH100
        base = Path(os.path.abspath(self.base))  # noqa: PTH100
        return (whole.relative_to(base) if whole.is_relative_to(base) else whole).as_posix()


def walk(root: Path, options: SourceOptions) -> Iterator[Path | OSError]:
    """Files below a folder in sorted order, hidden ones left out.

    A link to a folder is followed unless it leads back into ``root`` (its files are there
    already) or to a folder already seen, so loops end. Folders that cannot be listed are
    given as the error.
    """
    home = Path(os.path.realpath(root))
    seen: set[Path] = set()

    def visit(folder: Path) -> Iterator[Path | OSError]:
        try:
            paths = sorted(folder.iterdir())
        except OSError as error:
            yield error
            return
        for path in paths:
            name = path.name
            relative = path.relative_to(root).as_posix()
            if name.startswith(".") or _matches(relative, name, options.exclude):
                continue
            if path.is_dir():
                if path.is_symlink():
                    real = Path(os.path.realpath(path))
                    if real.is_relative_to(home) or home.is_relative_to(real) or real in seen:
                        continue
                    seen.add(real)
                yield from visit(path)
            elif not options.include or _matches(relative, name, options.include):
                yield path

    return visit(root)


def _matches(relative: str, name: str, patterns: tuple[str, ...]) -> bool:
    for pattern in patterns:
        bare = pattern.removesuffix("/")
        flat = bare.removeprefix("**/")
        if any(fnmatch.fnmatchcase(text, p) for text in (relative, name) for p in (bare, flat)):
            return True
    return False


def read_bytes(path: Path, where: str, options: SourceOptions) -> bytes:
    """Bytes of a regular file within the size limit.

    Raises:
        UnsupportedSourceError: A pipe, a device, or larger than ``max_bytes``.
        OSError: As the system reports it.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise UnsupportedSourceError(
            "not a regular file (a pipe, socket or device)", where=where, hint="leave it out"
        )
    if status.st_size > options.max_bytes:
        raise UnsupportedSourceError(
            f"the file has {status.st_size:,} bytes, more than `max_bytes` ({options.max_bytes:,})",
            where=where,
            hint="split it, or raise `max_bytes`",
        )
    return path.read_bytes()


def _unreadable(error: OSError, where: str) -> SourceError:
    reason = error.strerror or str(error)
    hints = {
        PermissionError: "give yourself the right to read it",
        FileNotFoundError: "it is a link to nothing, or was removed meanwhile",
    }
    return SourceError(
        f"cannot be opened: {reason}",
        where=where,
        hint=hints.get(type(error), "check the file and the disk it is on"),
    )


def documents(
    name: str, data: bytes, options: SourceOptions, depth: int = 0
) -> Iterator[Document | Failure]:
    """Documents in the bytes of one file: the file, then its attachments.

    Args:
        name: Id and address; its suffix is a hint to the format.
        data: The whole file.
        options: Limits and settings.
        depth: How many mails this one is inside of.

    Raises:
        SourceError: The file cannot be read as a whole.
    """
    extract = extract_bytes(name, data, options)
    if extract.text:
        yield Document(
            id=name,
            source=name,
            text=extract.text,
            title=extract.title,
            language=extract.language,
            created=extract.created,
            modified=extract.modified,
            media_type=extract.media_type,
            pages=extract.pages,
            sections=extract.sections,
            metadata=extract.metadata,
        )
    for fault in extract.faults:
        yield Failure(name, fault)
    taken: dict[str, int] = {}
    for attachment in extract.attachments:
        taken[attachment.name] = taken.get(attachment.name, 0) + 1
        again = f"-{taken[attachment.name]}" if taken[attachment.name] > 1 else ""
        inner = f"{name}#{attachment.name}{again}"
        try:
            if depth >= _DEPTH:
                raise UnsupportedSourceError(
                    f"attachments more than {_DEPTH} mails deep are not read",
                    where=inner,
                    hint="save the attachment on its own",
                )
            yield from documents(inner, attachment.data, options, depth + 1)
        except RagwrightError as error:
            yield Failure(inner, error)


def extract_bytes(name: str, data: bytes, options: SourceOptions) -> Extract:
    """Read a file's bytes by what they are; the suffix decides only between kinds of text.

    Raises:
        MalformedSourceError: Damaged, or not what the name says and not readable as it is.
        SourceError: Any other reason, as the format's reader says.
    """
    suffix = Path(name.rpartition("#")[2] or name).suffix.lower()
    kind = choose(name, suffix, data, options)
    try:
        if kind == "csv":
            extract = read_csv(data, name, suffix, options)
        elif kind == "sheet":
            extract = read_sheet(data, name, suffix, options)
        elif kind == "text":
            extract = read_plain(data, name, suffix, options)
        else:
            extract = _PARSERS[kind](data, name, options)
    except (RagwrightError, MemoryError):
        raise
    except Exception as error:  # a parser of ours or others' met bytes nobody foresaw
        raise MalformedSourceError(
            f"{NAMES[kind]} that cannot be parsed ({type(error).__name__}: {error})",
            where=name,
            hint="open it in its own program and save it again",
        ) from error
    said = SUFFIXES.get(suffix, "")
    if said and said != kind:
        return replace(extract, metadata={**extract.metadata, "detected_format": kind})
    return extract


def choose(name: str, suffix: str, data: bytes, options: SourceOptions) -> str:
    """Which reader a file goes to, by content first.

    Raises:
        EncryptedSourceError: An Office file locked by a password.
        MalformedSourceError: Content and name disagree and no reader knows the content.
        UnsupportedSourceError: No reader knows the content, and the name promises none.
    """
    said = SUFFIXES.get(suffix, "")
    if not data:
        return "text"  # whose reader says that the file is empty
    found = sniff(data)
    if found == "locked":
        raise EncryptedSourceError(
            "the Office file is protected by a password",
            where=name,
            hint="save a copy without the password",
        )
    if found == "text":
        if said in BINARY:
            raise _disagree(name, said, NAMES["text"])
        return said or "text"
    if found == "html":
        return said if said in ("markdown", "csv", "eml") else _page_or_source(suffix)
    if found == "xml":
        return said if said in ("html", "markdown", "csv", "eml") else _xml_or_source(suffix)
    if found in NAMES:
        return found
    if found == "" and options.encoding and said not in BINARY:
        return said or "text"  # the user knows better what the bytes are
    if said and (found or said != "text"):
        raise _disagree(name, said, found or "binary data of no known kind")
    raise UnsupportedSourceError(
        f"no reader knows this file: it is {found or 'binary data of no known kind'}",
        where=name,
        hint="leave it out with `exclude`, or convert it to a format with text",
    )


def _page_or_source(suffix: str) -> str:
    """HTML content under another name: source code stays source, the rest is a page."""
    return "text" if suffix in CODE and suffix != ".xml" else "html"


def _xml_or_source(suffix: str) -> str:
    """XML under another name, likewise."""
    return "text" if suffix in CODE and suffix != ".xml" else "xml"


def _disagree(name: str, said: str, found: str) -> MalformedSourceError:
    return MalformedSourceError(
        f"the name says {NAMES[said]}, but the content is {found}",
        where=name,
        hint="the file is damaged or has the wrong ending: download it again or rename it",
    )
