"""Loaders of LangChain and readers of LlamaIndex as sources: one adapter for all of them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ...core import (
    ConfigError,
    Document,
    MalformedSourceError,
    PluginError,
    RagwrightError,
    SourceError,
    StoppedError,
    UnsupportedSourceError,
    count_noun,
    load_object,
)
from .._files import relative_id
from .._language import guess_language
from .._normalise import clean_metadata, iso_date, normalise
from .._options import LoaderOptions, SourceOptions
from .._seams import Failure, FetchBytes, Reader
from ._remote import Arguments

_PLACES = ("source", "url", "file_path", "path", "file_name", "id")
"""Metadata that names where a document comes from, the best first."""

_VOLATILE = frozenset({"last_accessed_date", "accessed", "accessed_at", "last_accessed"})
"""Metadata that changes without the document."""

_METHODS = ("lazy_load", "load", "lazy_load_data", "load_data")
"""LangChain's, then LlamaIndex': what is lazy first."""


class LoaderReader(Reader):
    """Reads what a loader of LangChain, a reader of LlamaIndex, or a function returns.

    A document's id is the source's name and what its metadata call its source (or url, or file
    path), with a number where several documents have the same one (pages). So documents are
    recognised at the next ingest; one with unchanged text and metadata costs nothing.

    Args:
        loader: What to load, ``package.module:Class``, and its arguments.
        options: Limits.
        home: Folder that file paths in ids are relative to.
    """

    name = "loader"

    def __init__(
        self,
        loader: LoaderOptions,
        options: SourceOptions | None = None,
        home: Path | None = None,
    ) -> None:
        self.loader = loader
        self.options = options or SourceOptions()
        self._home = Path(os.path.abspath(home or Path.cwd()))  # noqa: PTH100

    def accepts(self, source: str) -> bool:
        """Return True: the loader was named for this source."""
        return True

    def read(self, source: str, fetch: FetchBytes) -> Iterator[Document | Failure]:
        """Read documents as the loader yields them.

        A loader that fails in the middle is a Failure of the whole source: what it yielded is
        kept, and nothing of the source counts as gone.
        """
        try:
            arguments = Arguments.of(self.loader.arguments, source)
            call = Arguments.of(self.loader.load_arguments, source)
        except ConfigError as error:
            yield Failure(source, error)
            return
        secrets = Arguments({}, (*arguments.secrets, *call.secrets))
        numbers: Counter[str] = Counter()
        read = 0
        try:
            for item in _loaded(self.loader.loader, arguments.values, call.values):
                yield self._document(item, source, numbers)
                read += 1
        except StoppedError:
            raise
        except RagwrightError as error:
            yield Failure(source, error)
        except Exception as error:  # anything may be raised by a loader of others
            after = f" after {count_noun(read, 'document')}" if read else ""
            broken = SourceError(
                f"the loader {self.loader.loader} failed{after}: {secrets.masked(error)}",
                where=source,
                hint="what it returned is kept and nothing of this source is removed; check its "
                "arguments and the service, then run ingest again",
            )
            yield Failure(source, broken)

    def _document(self, item: Any, source: str, numbers: Counter[str]) -> Document | Failure:
        metadata = getattr(item, "metadata", None)
        metadata = metadata if isinstance(metadata, Mapping) else {}
        place = self._place(metadata)
        numbers[place] += 1
        tail = f"#{numbers[place]}" if numbers[place] > 1 or not place else ""
        name = f"{source}:{place}{tail}"
        text = _text_of(item)
        if text is None:
            error = MalformedSourceError(
                f"the loader returned {type(item).__name__}, not a document",
                where=name,
                hint="a document has `page_content` or `text`, and `metadata`",
            )
            return Failure(name, error)
        if len(text) > self.options.max_bytes:
            too_long = UnsupportedSourceError(
                f"the document has {len(text):,} characters, more than `max_bytes` "
                f"({self.options.max_bytes:,})",
                where=name,
                hint="have the loader split it, or raise `max_bytes`",
            )
            return Failure(name, too_long)
        text = normalise(text)
        if not text.strip():
            empty = UnsupportedSourceError("the document contains no text", where=name)
            return Failure(name, empty, skipped=True)
        kept = {key: value for key, value in metadata.items() if key not in _VOLATILE}
        return Document(
            id=name,
            source=place or source,
            text=text,
            title=str(metadata.get("title") or ""),
            language=str(metadata.get("language") or "") or guess_language(text),
            created=_date(metadata, "created", "creation_date", "created_at"),
            modified=_date(metadata, "modified", "last_modified_date", "last_modified", "when"),
            metadata=clean_metadata(kept),
        )

    def _place(self, metadata: Mapping[str, Any]) -> str:
        """Return the document's source by its metadata; a local path is relative to the home."""
        for key in _PLACES:
            value = metadata.get(key)
            if not isinstance(value, str | int | Path) or not str(value).strip():
                continue
            place = " ".join(str(value).split())
            if "://" not in place and Path(place).is_absolute():
                return relative_id(Path(os.path.abspath(place)), self._home)  # noqa: PTH100
            return place
        return ""


def _loaded(address: str, arguments: Mapping[str, Any], call: Mapping[str, Any]) -> Iterable[Any]:
    """Call a loader, by its lazy method if it has one of its own."""
    loader = load_object(address, where="loader")
    if not callable(loader):
        raise PluginError(
            f"{address!r} is not a loader", where="loader", hint="name a class or a function"
        )
    loader = loader(**arguments)
    for name in _METHODS:
        method = getattr(loader, name, None)
        kind = getattr(type(loader), name, None)
        # LlamaIndex' base class has methods that a loader need not implement
        if callable(method) and not getattr(kind, "__qualname__", "").startswith("BaseReader."):
            loader = method(**call)
            break
    if isinstance(loader, str | bytes | Mapping) or not isinstance(loader, Iterable):
        raise PluginError(
            f"{address!r} returns {type(loader).__name__}, not documents",
            where="loader",
            hint="a loader has `lazy_load`, `load` or `load_data`, or is a function that returns "
            "documents",
        )
    return loader


def _text_of(item: Any) -> str | None:
    values = (item, getattr(item, "page_content", None), getattr(item, "text", None))
    return next((value for value in values if isinstance(value, str)), None)


def _date(metadata: Mapping[str, Any], *names: str) -> str:
    return next((date for name in names if (date := iso_date(metadata.get(name)))), "")
