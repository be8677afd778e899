"""Files, local and at addresses of fsspec: found in order, read one at a time by content."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from ..core import (
    ConfigError,
    Document,
    EmptySourceError,
    RagwrightError,
    SourceError,
    UnsupportedSourceError,
    require,
)
from ._apart import ScanProgress, extract_bytes
from ._ocr import nothing_recognised
from ._options import SourceOptions
from ._seams import Failure, Reader, RemoteFile, SourceFile, SuffixReader
from ._walk import Missed, expand, matches, no_source, printable, read_bytes, unreadable, walk

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
                yield self._report_missed(item)
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
            yield self._report_missed(item) if isinstance(item, Missed) else item
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

    def _report_missed(self, item: Missed) -> Failure:
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
            source = _rename_source(item.source, path, name)
            if isinstance(item, Failure):
                yield replace(item, source=source)
            else:
                yield replace(item, id=_rename_source(item.id, path, name), source=source)
    except RagwrightError:
        raise
    except Exception as error:  # a custom reader must not affect the other files
        raise SourceError(
            f"the reader {reader.name!r} failed: {type(error).__name__}: {error}",
            where=name,
            hint="this is a fault of the reader; the other files were read",
        ) from error


def _rename_source(text: str, path: Path, name: str) -> str:
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


_HIDDEN = "…"
_SHORTEST = 4
"""Fewest characters of a secret that is looked for in a message."""


def _fill_in(value: Any, where: str, secrets: list[str]) -> Any:
    """Replace each ``{env: NAME}`` by the value of that environment variable, a secret.

    Raises:
        ConfigError: A variable is not set.
    """
    if isinstance(value, Mapping):
        if set(value) == {"env"} and isinstance(name := value["env"], str):
            if not os.environ.get(name):
                raise ConfigError(
                    f"the environment variable {name} is not set",
                    where=where,
                    hint=f"export {name}=…",
                )
            secrets.append(os.environ[name])
            return secrets[-1]
        return {key: _fill_in(inner, where, secrets) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_fill_in(inner, where, secrets) for inner in value]
    return value


EXTRAS: Mapping[str, str] = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gcs",
    "gcs": "gcs",
    "az": "azure",
    "abfs": "azure",
    "abfss": "azure",
    "sftp": "sftp",
    "ssh": "sftp",
    "github": "remote",
    "zip": "remote",
    "tar": "remote",
    "ftp": "remote",
    "webdav": "remote",
    "hf": "remote",
    "memory": "remote",
}
"""Scheme of an address -> the extra that brings what reads it."""

_ADDRESS = re.compile(r"([a-z0-9]+)://")
_PASSWORD = re.compile(r":[^:@/]+@")
_VERSIONS = (
    "ETag", "etag", "md5Hash", "content_md5", "sha", "CRC", "hash", "mtime", "modified",
    "LastModified", "last_modified", "updated", "created",
)  # fmt: skip
"""What a file system may say of a file that changes with it, the best first."""
_REFUSED = re.compile(
    r"credential|access.?denied|forbidden|unauthor|permission|signature|invalidaccesskey|403|401",
    re.IGNORECASE,
)


class RemoteReader(Reader):
    """Reads files at an address of fsspec: ``s3://bucket/folder``, ``zip://::manuals.zip``.

    Only files whose version (etag, checksum or time of change) is new are fetched. Without
    ``arguments``, credentials are those that the store's own tools use.

    Args:
        options: What to read and within which limits.
        base: Folder that the path of an archive starts from.
        home: Folder that the path of an archive is relative to in ids; ``base`` by default.
        scans: Counts the pages that OCR reads.
    """

    name = "remote"

    def __init__(
        self,
        options: SourceOptions | None = None,
        base: Path | None = None,
        home: Path | None = None,
        scans: ScanProgress | None = None,
    ) -> None:
        self.options = options or SourceOptions()
        self.base = base or Path.cwd()
        self._home = Path(os.path.abspath(home or self.base))  # noqa: PTH100
        self._scans = scans
        self._begun: tuple[str, Any] | None = None
        self._secrets: list[str] = []

    def accepts(self, source: str) -> bool:
        """Return True for an address of a known scheme."""
        scheme = _ADDRESS.match(source)
        return scheme is not None and scheme[1] in EXTRAS

    def files(self, source: str) -> Iterator[SourceFile | Failure]:
        """List the files at the address, by name, each with its version; fetches nothing."""
        try:
            system, path = self._open(source)
            entries = _list_entries(system, path)
        except RagwrightError as error:
            place = _PASSWORD.sub(":…@", source) if _holds_password(source) else source
            yield Failure(place, error)
            return
        except Exception as error:
            yield Failure(source, self._unreachable(source, error))
            return
        rest = source.partition("::")[2]
        total = 0
        for name, info in sorted(entries.items()):
            relative = _below(name, path)
            if self._is_left_out(relative):
                continue
            size = int(info.get("size") or 0)
            total += size
            id_ = f"{self._archive(rest)}#{name}" if rest else str(system.unstrip_protocol(name))
            if ".." in PurePosixPath(name).parts or (rest and name.startswith(("/", "\\"))):
                leaves = UnsupportedSourceError(
                    "the name leads out of the source",
                    where=id_,
                    hint="leave it out with `exclude`",
                )
                yield Failure(id_, leaves)
            elif rest and total > self.options.max_unpacked_bytes:
                too_much = UnsupportedSourceError(
                    "the archive unpacks to more than `max_unpacked_bytes` "
                    f"({self.options.max_unpacked_bytes:,})",
                    where=source,
                    hint="if it is to be trusted, raise `max_unpacked_bytes`",
                )
                yield Failure(source, too_much)
                return
            else:
                yield RemoteFile(id_, _version(info, size), size)
        if not entries:
            nothing = SourceError(
                "no file was found",
                where=source,
                hint="check the address: it is case-sensitive",
            )
            yield Failure(source, nothing)

    def begin(self, source: str) -> None:
        """Open the address once, to read files that another process listed."""
        if self._begun is None or self._begun[0] != source:
            self._open(source)

    def read_file(self, path: SourceFile) -> Iterator[Document | Failure]:
        """Read the documents of one of the :meth:`files`."""
        assert isinstance(path, RemoteFile)
        assert self._begun is not None
        source, system = self._begun
        rest = source.partition("::")[2]
        inner = path.id.removeprefix(f"{self._archive(rest)}#")
        name = inner if rest else str(system._strip_protocol(path.id))
        most = self.options.max_bytes
        try:
            data = b""
            if path.size <= most:
                with system.open(name, "rb") as file:
                    data = file.read(most + 1)
            if max(path.size, len(data)) > most:
                size = f"{path.size:,}" if path.size > most else "more"
                raise UnsupportedSourceError(
                    f"the file has {size} bytes, more than `max_bytes` ({most:,})",
                    where=path.id,
                    hint="split it, or raise `max_bytes`",
                )
            yield from documents(path.id, data, self.options, self._scans)
        except RagwrightError as error:
            yield Failure(path.id, error)
        except Exception as error:
            yield Failure(path.id, self._unreachable(path.id, error))

    def _is_left_out(self, relative: str) -> bool:
        path = PurePosixPath(relative)
        options = self.options
        if any(part.startswith(".") and part != ".." for part in path.parts):
            return True
        steps = [path, *path.parents][:-1] or [path]
        excluded = any(matches(str(step), step.name, options.exclude) for step in steps)
        if excluded or options.include:
            return excluded or not matches(relative, path.name, options.include)
        return any(no_source(part) for part in path.parts)

    def _archive(self, address: str) -> str:
        """Return an archive's name in ids; a local one is relative to the home."""
        if _ADDRESS.match(address):
            return address
        return relative_id(Path(os.path.abspath(self.base / address)), self._home)  # noqa: PTH100

    def _open(self, source: str) -> tuple[Any, str]:
        """Open the file system of an address; returns also the path on it."""
        scheme = source.partition("://")[0]
        if _holds_password(source):
            raise ConfigError(
                "an address must not contain a password",
                where=f"{scheme}://…",
                hint="write it under `arguments`, as {env: NAME}",
            )
        core = require("fsspec.core", EXTRAS[scheme], f"reading {scheme}:// addresses")
        arguments = _fill_in(self.options.arguments, source, self._secrets)
        inner, chained, outer = source.partition("::")
        address = source
        if chained and not _ADDRESS.match(outer):
            address = f"{inner}::file://{(self.base / outer).as_posix()}"
        try:
            # a cached instance would show the files of an earlier listing
            system, path = core.url_to_fs(address, skip_instance_cache=True, **arguments)
        except ImportError as error:
            raise SourceError(
                f"reading {scheme}:// addresses needs a package: {error}",
                where=source,
                hint=f"pip install 'ragwright[{EXTRAS[scheme]}]'",
            ) from error
        self._begun = (source, system)
        return system, str(path)

    def _unreachable(self, where: str, error: Exception) -> SourceError:
        """Return the error of a file system, without secrets."""
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        for secret in self._secrets:
            if len(secret) >= _SHORTEST:
                reason = reason.replace(secret, _HIDDEN)
        hint = "check the address and the network"
        if _REFUSED.search(reason):
            hint = "check the credentials in the environment, or under `arguments`"
        elif where.startswith("zip://") and "::" not in where:
            hint = f"write zip://::{where.removeprefix('zip://')} for a zip archive"
        return SourceError(
            f"cannot be read: {reason}",
            where=where,
            hint=f"{hint}; nothing of this source is removed",
        )


def _holds_password(source: str) -> bool:
    """Return True for ``scheme://user:password@host``; ``github://org:repo@ref`` has none."""
    parts = urlsplit(source)
    return bool(parts.password) and parts.scheme != "github"


def _list_entries(system: Any, path: str) -> dict[str, Mapping[str, Any]]:
    """List the files at a path: itself, those below it, or what a pattern matches."""
    if any(mark in path for mark in "*?["):
        entries = system.glob(path, detail=True)
        return {name: info for name, info in entries.items() if info.get("type") == "file"}
    alone = path and system.isfile(path)
    return {path: system.info(path)} if alone else dict(system.find(path, detail=True))


def _below(name: str, path: str) -> str:
    """Return a file's name below the address; its last part if the address is the file."""
    root = re.split(r"[*?\[]", path)[0].rpartition("/")[0] if re.search(r"[*?\[]", path) else path
    root = root.rstrip("/")
    if root and name.startswith(f"{root}/"):
        return name[len(root) + 1 :]
    return name.rpartition("/")[2] if name == path else name


def _version(info: Mapping[str, Any], size: int) -> str:
    """Return a text that changes with a file's content; empty if the system has none."""
    known = (name for name in _VERSIONS if info.get(name) not in (None, ""))
    return next((f"{name}={info[name]} {size}" for name in known), "")
