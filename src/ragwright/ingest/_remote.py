"""Files on object stores, servers and in archives, through fsspec."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from ..core import (
    ConfigError,
    Document,
    RagwrightError,
    SourceError,
    UnsupportedSourceError,
    require,
)
from ._apart import ScanProgress
from ._files import documents, relative_id
from ._options import SourceOptions
from ._seams import Failure, Reader, RemoteFile, SourceFile
from ._walk import matches, no_source

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
            entries = _listed(system, path)
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
            if self._left_out(relative):
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

    def _left_out(self, relative: str) -> bool:
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


def _listed(system: Any, path: str) -> dict[str, Mapping[str, Any]]:
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
