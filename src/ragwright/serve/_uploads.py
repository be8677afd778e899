"""Files and addresses that owners add on the page Sources, read in by a job in the background."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..core import ConfigError
from ..flow import metered
from ._errors import ApiError

if TYPE_CHECKING:
    from typing import BinaryIO

    from ..project import IngestProgress
    from ..workbench import Workbench
    from ._admission import Caller
    from ._service import Service

_UNSAFE = re.compile(r"[^\w .,()+=@&-]+")
_LONGEST_NAME = 150
"""Bytes of a name in UTF-8 before its ending; file systems take 255 in all."""

_LONGEST_ENDING = 20
_BLOCK = 1 << 20
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)


def upload_folder(service: Service, caller: Caller) -> Path:
    """The folder that uploaded files go to.

    Raises:
        ApiError: 403, the caller is no owner, or uploading is off.
        ConfigError: The setting names no folder below a source of the project.
    """
    caller.require_owner()
    root = service.folder.root.resolve()
    folders = _source_folders(service, root)
    chosen = service.options.uploads
    if chosen:
        wanted = (root / chosen).resolve()
        if wanted == root:  # a file could replace ragwright.yaml, or code that it names
            raise ConfigError(
                "serve.uploads: files cannot be uploaded beside the project file",
                hint="name a folder below, such as uploads/",
            )
        if not any(wanted.is_relative_to(folder) for folder in folders):
            raise ConfigError(
                f"serve.uploads: {chosen} is not below a folder of the sources in the project",
                hint="name one of these folders, or list it under `sources` too",
            )
        return wanted
    below = [folder for folder in folders if folder != root]
    if caller.identity is None and below:
        return below[0]
    raise ApiError(
        403,
        "uploading is off; name a folder of the sources under `serve.uploads`"
        if caller.identity is not None
        else "uploading needs a folder in the project among its `sources`",
        "uploads_off",
    )


def _source_folders(service: Service, root: Path) -> list[Path]:
    """Folders among the sources that lie in the project."""
    opened, _ = service.find("", None)
    paths = []
    for entry in opened.bench.project.settings.sources:
        if "://" in entry.source or entry.reader or entry.loader.loader:
            continue
        path = (root / entry.source).resolve()
        if path.is_dir() and path.is_relative_to(root):
            paths.append(path)
    return paths


def safe_name(name: str) -> str:
    """A file name without folders, control characters and what other systems do not allow.

    Raises:
        ApiError: 400, nothing is left of it.
    """
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", name))[-1]
    stem, dot, ending = _UNSAFE.sub("_", last).strip(" .").rpartition(".")
    cut = _cut(stem or ending, _LONGEST_NAME).strip(" .")
    clean = f"{cut}{dot}{_cut(ending, _LONGEST_ENDING)}" if stem else cut
    if not clean.strip("_ .") or _RESERVED.fullmatch(clean):
        raise ApiError(400, f"{name[:80]!r} cannot name a file", "invalid_value")
    return clean


def _cut(text: str, most: int) -> str:
    """The beginning of a text that has at most so many bytes."""
    return text.encode()[:most].decode(errors="ignore")


def keep_file(folder: Path, name: str, file: BinaryIO, *, replace: bool) -> Path:
    """Write an uploaded file into a folder, whole or not at all.

    Raises:
        ApiError: 409, there is another file of this name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    if not replace and os.path.lexists(path):
        raise ApiError(
            409, f"there is a file {name} already; choose “Replace” to replace it", "conflict"
        )
    handle, part = tempfile.mkstemp(prefix=".upload-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as out:
            while block := file.read(_BLOCK):
                out.write(block)
        written = Path(part)
        written.chmod(0o644)  # as other sources: an ingest may run as another user
        written.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(part).unlink()
        raise
    return path


def checked_address(text: str) -> str:
    """A web address.

    Raises:
        ApiError: 400, it is none.
    """
    address = text.strip()
    try:
        parts = urlsplit(address)
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_web = False
    if not is_web or len(address) > 2_000 or any(c.isspace() for c in address):
        raise ApiError(
            400, "give a web address such as https://example.org/handbook", "invalid_value"
        )
    if parts.username or parts.password:
        raise ApiError(400, "an address with a password cannot be read here", "invalid_value")
    return address


async def ingest_added(
    service: Service,
    caller: Caller,
    sources: Sequence[str],
    on_start: Callable[[IngestProgress], None],
) -> Mapping[str, Any]:
    """Read sources in at the expense of a caller; the report as ``ingest --json`` prints it."""

    def ingest(bench: Workbench) -> Mapping[str, Any]:
        return bench.ingest(*sources, on_start=on_start).as_dict()

    with metered(service.meter(caller.identity)):
        async with service.main() as bench:
            return await service.aside(lambda: ingest(bench))
