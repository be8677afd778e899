"""Files, local and at addresses of fsspec: found in order, read one at a time by content."""

from __future__ import annotations

import fnmatch
import glob
import json
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
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
from ._options import (
    Failure,
    Reader,
    RemoteFile,
    SourceFile,
    SourceOptions,
    SuffixReader,
    catch_failures,
)

_DEPTH = 3

_NO_SOURCE = {
    "~$*": "the lock of a file that is open in an Office program",
    ".~lock.*#": "the lock of a file that is open in an Office program",
    "*~": "a backup that an editor made",
    "#*#": "a backup that an editor made",
    "*.bak": "a backup",
    "*.swp": "a backup that an editor made",
    "node_modules": "packages that a project uses",
    "__pycache__": "compiled programs",
}
"""Pattern of a name -> why it is left out."""

_SPECIAL = "not a regular file of a disk (a pipe, socket, device, or of the running system)"
_LEAVE_OUT = "leave it out with `exclude`"


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
        self.base = base or Path.cwd()
        self._home = Path(os.path.abspath(home or self.base))  # noqa: PTH100
        self._scans = scans

    def accepts(self, source: str) -> bool:
        """True for existing paths, and for anything not written as ``scheme:…``."""
        path = source.startswith("file://") or not re.match(r"(?i)[a-z][a-z0-9+.-]+:", source)
        return path or self._path(source).exists()

    def files(self, source: str) -> Iterator[SourceFile | Failure]:
        """List the files of a path, folder or pattern, in sorted order."""
        path = self._path(source)
        if path.is_dir():
            found = self._walk(path, self.options.include)
        elif os.path.lexists(path):
            found = iter([path])
        else:
            found = self._match(path)
        first = next(found, None)
        yield from (self._nothing(path, source),) if first is None else chain((first,), found)

    def _path(self, source: str) -> Path:
        if source.startswith("file://"):
            source = unquote(source[len("file://") :].removeprefix("localhost"))
        return self.base / Path(source).expanduser()

    def _nothing(self, folder: Path, source: str) -> Failure:
        """Say why a source has no file: it does not exist, or is a folder without one to read."""
        if not folder.is_dir():
            missing = SourceError(
                "no such file or folder",
                where=_printable(str(folder)),
                hint="check the spelling; relative paths start from " + str(self.base),
            )
            return Failure(_printable(source), missing)
        empty = all(path.name.startswith(".") for path in folder.iterdir())
        nothing = (EmptySourceError if empty else SourceError)(
            "the folder is empty" if empty else "the folder has no file to read",
            where=_printable(str(folder)),
            hint="files that are put there are read by the next ingest"
            if empty
            else "hidden files are skipped; check `include` and `exclude`",
        )
        return Failure(self._id(folder), nothing, skipped=empty)

    def _walk(
        self, root: Path, include: tuple[str, ...], pattern: re.Pattern[str] | None = None
    ) -> Iterator[Path | Failure]:
        """List the files below a folder in sorted order, without hidden ones.

        A link to a folder within ``root`` is not followed: its files are there already. ``pattern``
        matches the paths below ``root`` that are listed, each with a ``/`` at its end.
        """
        home = _real(root)
        waiting = [*self._entries(root)]
        while waiting:  # a stack: folders may be nested deeper than Python's calls
            item = waiting.pop()
            if isinstance(item, Failure):
                yield item
                continue
            relative = item.relative_to(root).as_posix()
            if item.name.startswith(".") or _matches(relative, self.options.exclude):
                continue
            named = _matches(relative, include)
            refused = self._refuse(item, home, named)
            if refused is None and item.is_dir():
                waiting += () if item.is_symlink() else self._entries(item)
            elif (named or not include or item.is_dir()) and (
                pattern is None or pattern.fullmatch(f"{relative}/")
            ):
                yield refused or item

    def _match(self, pattern: Path) -> Iterator[Path | Failure]:
        """List the files that a glob pattern matches, or whose folder it matches, in sorted order.

        The source is the folder in front of the first wildcard.
        """
        # not glob.glob, which follows every link and never ends on links to their own folder
        first = next((i for i, part in enumerate(pattern.parts) if glob.has_magic(part)), None)
        folder, parts = Path(*pattern.parts[:first]), pattern.parts[first:]
        if first is None or not folder.is_dir():
            return iter(())
        steps = [
            "(?:[^/]+/)*"
            if part == "**"  # fnmatch gives (?s:…)\Z
            else fnmatch.translate(part).removesuffix(r"\Z").replace(".*", "[^/]*") + "/"
            for part in parts
        ]
        below = "" if parts[-1] == "**" else "(?:.+/)?"
        return self._walk(folder, (), re.compile("".join([*steps, below]), re.DOTALL))

    def _entries(self, folder: Path) -> Sequence[Path | Failure]:
        """List the entries of a folder, last first."""
        try:
            return sorted(folder.iterdir(), reverse=True)
        except OSError as error:
            return [self._report(folder, error)]

    def _refuse(self, path: Path, home: Path, named: bool) -> Failure | None:
        """Say why a path is neither read nor entered; None if it is."""
        try:
            status = path.stat()
        except OSError as error:
            return self._report(path, error)
        leads_out = path.is_symlink() and not _real(path).is_relative_to(home)
        cases = (
            (
                leads_out,
                "the link leads out of the source",
                "to read what it leads to, name that as a source",
            ),
            (not stat.S_ISDIR(status.st_mode) and not _is_on_disk(status), _SPECIAL, _LEAVE_OUT),
            (not named, _no_source(path.name), "to read it, name it in `include`"),
        )
        reason, hint = next(((why, do) for true, why, do in cases if true and why), ("", ""))
        if not reason:
            return None
        name = self._id(path)
        return Failure(name, UnsupportedSourceError(reason, where=name, hint=hint), skipped=True)

    def _report(self, path: Path, error: OSError) -> Failure:
        """Report the system's error about a file or folder, with a hint."""
        name = self._id(path)
        hint = {
            PermissionError: "give this user the right to read it",
            FileNotFoundError: "it is a dangling link, or was removed meanwhile",
        }.get(type(error), "check the file and the disk it is on")
        what = f"cannot be opened: {error.strerror or error}"
        return Failure(name, SourceError(what, where=name, hint=hint))

    def read_file(self, path: SourceFile) -> Iterator[Document | Failure]:
        """Read the documents of one file: itself, and its attachments if it is an e-mail."""
        assert isinstance(path, Path)
        name = self._id(path)
        reader = self._by_suffix.get(path.suffix.lower())
        try:
            if name != relative_id(path, self._home):
                raise SourceError(
                    "the file name is not UTF-8",
                    where=name,
                    hint="rename it, or the folder that it is in",
                )
            if reader is None:
                data = _read_bytes(path, name, self.options.max_bytes)
                yield from documents(name, data, self.options, self._scans)
            else:
                items = catch_failures(reader.read_file(path), name, reader)
                yield from (_rename(item, str(path), name) for item in items)
        except RagwrightError as error:
            yield Failure(name, error)
        except OSError as error:
            yield self._report(path, error)

    def _id(self, path: Path) -> str:
        return _printable(relative_id(path, self._home))


def _rename(item: Document | Failure, path: str, name: str) -> Document | Failure:
    """Give an item of an installed reader the id of the file where it has its path."""
    texts = {field: str(getattr(item, field, "")) for field in ("id", "source")}
    changed = {f: name + t.removeprefix(path) for f, t in texts.items() if t.startswith(path)}
    return replace(item, **changed)  # type: ignore[arg-type]


def relative_id(path: Path, home: Path) -> str:
    """Return a file's id: its path from the home; absolute if they share no folder."""
    whole = os.path.abspath(path)  # noqa: PTH100 - a link keeps the name that the user sees
    apart = os.path.commonpath([whole, home]) == os.sep != str(home)
    return whole if apart else os.path.relpath(whole, home)


def _no_source(name: str) -> str:
    """Return why a file or folder of this name is nobody's document; empty if it may be one."""
    return next(
        (why for pattern, why in _NO_SOURCE.items() if fnmatch.fnmatchcase(name, pattern)), ""
    )


def _matches(relative: str, patterns: tuple[str, ...]) -> bool:
    """Return True if a pattern matches a file's path below the source, or its name."""
    bare = [pattern.removesuffix("/") for pattern in patterns]
    texts = (relative, relative.rpartition("/")[2])
    return any(
        fnmatch.fnmatchcase(text, pattern)
        for text in texts
        for whole in bare
        for pattern in (whole, whole.removeprefix("**/"))
    )


@cache
def _system() -> frozenset[int]:
    """Return the device numbers of file systems whose files may be endless, or block."""
    folders = map(Path, ("/proc", "/sys"))
    return frozenset(folder.stat().st_dev for folder in folders if folder.exists())


def _is_on_disk(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_dev not in _system()


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))  # resolve() fails on a link to itself


def _read_bytes(path: Path, where: str, most: int) -> bytes:
    """Read a regular file within the size limit."""
    # without blocking, and bounded: it may be a pipe, or grow
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
        status = os.fstat(descriptor)
        if not _is_on_disk(status):
            raise UnsupportedSourceError(_SPECIAL, where=where, hint=_LEAVE_OUT)
        _check_size(status.st_size, where, most)
        return file.read(status.st_size)


def _check_size(size: int, where: str, most: int) -> None:
    if size > most:
        raise UnsupportedSourceError(
            f"the file has {size:,} bytes, more than `max_bytes` ({most:,})",
            where=where,
            hint="split it, or raise `max_bytes`",
        )


def _printable(name: str) -> str:
    r"""Write a file name, with ``\xff`` for bytes that are not UTF-8."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


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
    yield from (Failure(name, f, warning=bool(extract.text)) for f in extract.faults)
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
_MAGIC = re.compile(r"[*?\[]")
_VERSIONS = (
    "ETag", "etag", "md5Hash", "content_md5", "sha", "CRC", "hash", "mtime", "modified",
    "LastModified", "last_modified", "updated", "created",
)  # fmt: skip
"""What a file system may say of a file that changes with it, the best first."""


class RemoteReader(FileReader):
    """Reads files at an address of fsspec: ``s3://bucket/folder``, ``zip://::manuals.zip``.

    Only files whose version (etag, checksum or time of change) is new are fetched. Without
    ``arguments``, credentials are those that the store's own tools use.
    """

    name = "remote"
    _system: tuple[str, Any] = ("", None)
    """The source that is read, and its file system."""
    _secrets: tuple[str, ...] = ()

    def accepts(self, source: str) -> bool:
        """Return True for an address of a known scheme."""
        return "://" in source and source.partition("://")[0] in EXTRAS

    def files(self, source: str) -> Iterator[SourceFile | Failure]:
        """List the files at the address, by name, each with its version; fetches nothing."""
        try:
            path = self._open(source)
            system = self._system[1]
            many = system.glob if _MAGIC.search(path) else system.find
            found = {n: info or system.info(n) for n, info in many(path, detail=True).items()}
        except Exception as error:
            ours = error if isinstance(error, RagwrightError) else self._unreachable(source, error)
            yield Failure(source.replace(_password(source) or "…", "…"), ours)
            return
        archive = source.partition("::")[2]
        if archive and not _ADDRESS.match(archive):
            archive = relative_id(self.base / archive, self._home)
        total = 0
        for name, info in sorted(found.items()):
            if info.get("type", "file") != "file" or self._is_left_out(_below(name, path)):
                continue
            size = int(info.get("size") or 0)
            total += size
            id_ = f"{archive}#{name}" if archive else str(system.unstrip_protocol(name))
            if ".." in PurePosixPath(name).parts or (archive and name.startswith(("/", "\\"))):
                leaves = "the name leads out of the source"
                yield Failure(id_, UnsupportedSourceError(leaves, where=id_, hint=_LEAVE_OUT))
            elif archive and total > self.options.max_unpacked_bytes:
                too_much = UnsupportedSourceError(
                    "the archive unpacks to more than `max_unpacked_bytes` "
                    f"({self.options.max_unpacked_bytes:,})",
                    where=source,
                    hint="if it is to be trusted, raise `max_unpacked_bytes`",
                )
                yield Failure(source, too_much)
                return
            else:
                known = (v for v in _VERSIONS if info.get(v) not in (None, ""))
                version = next((f"{v}={info[v]} {size}" for v in known), "")
                yield RemoteFile(id_, version, size, source, name)
        if not found:
            hint = "check the address: it is case-sensitive"
            yield Failure(source, SourceError("no file was found", where=source, hint=hint))

    def read_file(self, path: SourceFile) -> Iterator[Document | Failure]:
        """Read the documents of one of the :meth:`files`."""
        assert isinstance(path, RemoteFile)
        most = self.options.max_bytes
        try:
            if self._system[0] != path.source:  # another process listed the files
                self._open(path.source)
            _check_size(path.size, path.id, most)
            with self._system[1].open(path.name, "rb") as file:
                data = file.read(most + 1)
            _check_size(len(data), path.id, most)
            yield from documents(path.id, data, self.options, self._scans)
        except Exception as error:
            ours = error if isinstance(error, RagwrightError) else self._unreachable(path.id, error)
            yield Failure(path.id, ours)

    def _is_left_out(self, relative: str) -> bool:
        path = PurePosixPath(relative)
        if any(part.startswith(".") and part != ".." for part in path.parts):
            return True
        if any(_matches(str(step), self.options.exclude) for step in (path, *path.parents)):
            return True
        named = _matches(relative, self.options.include)
        return not named if self.options.include else any(map(_no_source, path.parts))

    def _open(self, source: str) -> str:
        """Open the file system of an address; returns the path on it."""
        scheme = source.partition("://")[0]
        if _password(source):
            raise ConfigError(
                "an address must not contain a password",
                where=f"{scheme}://…",
                hint="write it under `arguments`, as {env: NAME}",
            )
        core = require("fsspec.core", EXTRAS[scheme], f"reading {scheme}:// addresses")
        arguments = json.loads(json.dumps(self.options.arguments), object_hook=self._fill_in)
        inner, chained, outer = source.partition("::")
        local = f"{inner}::file://{(self.base / outer).as_posix()}"
        address = local if chained and not _ADDRESS.match(outer) else source
        try:
            # a cached instance would show the files of an earlier listing
            system, path = core.url_to_fs(address, skip_instance_cache=True, **arguments)
        except ImportError as error:
            raise SourceError(
                f"reading {scheme}:// addresses needs a package: {error}",
                where=source,
                hint=f"pip install 'ragwright[{EXTRAS[scheme]}]'",
            ) from error
        self._system = (source, system)
        return str(path)

    def _fill_in(self, value: dict[str, Any]) -> Any:
        """Replace ``{env: NAME}`` by the value of that environment variable, a secret."""
        if set(value) != {"env"}:
            return value
        secret = os.environ.get(name := str(value["env"]), "")
        if not secret:
            raise ConfigError(
                f"the environment variable {name} is not set",
                where="arguments",
                hint=f"export {name}=…",
            )
        self._secrets += (secret,)
        return secret

    def _unreachable(self, where: str, error: Exception) -> SourceError:
        """Return the error of a file system, without secrets."""
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        for secret in self._secrets:
            reason = reason.replace(secret, "…")
        hint = (
            f"write zip://::{where.removeprefix('zip://')} for a zip archive"
            if where.startswith("zip://") and "::" not in where
            else "check the address, the network and the credentials"
        )
        return SourceError(
            f"cannot be read: {reason}",
            where=where,
            hint=f"{hint}; nothing of this source is removed",
        )


def _password(source: str) -> str:
    """Return that of ``scheme://user:password@host``; ``github://org:repo@ref`` has none."""
    parts = urlsplit(source)
    return "" if parts.scheme == "github" else parts.password or ""


def _below(name: str, path: str) -> str:
    """Return a file's name below the address; its last part if the address is the file."""
    magic = _MAGIC.search(path)
    root = (path[: magic.start()].rpartition("/")[0] if magic else path).rstrip("/")
    if root and name.startswith(f"{root}/"):
        return name[len(root) + 1 :]
    return name.rpartition("/")[2] if name == path else name
