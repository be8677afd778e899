"""Data of the channels that have a model of their own: made for an index, named for a search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from ..core import ConfigError
from ..flow import encode, gather
from ..index import ENCODED_CHANNELS
from ..retrieve import EncodedSearch

if TYPE_CHECKING:
    from ..flow import Flow
    from ._project import Project
    from ._settings import Settings

_DOCUMENTS = 64
"""Documents whose texts are read at once."""

_CHUNKS = 256
"""Chunks after which encodings are stored."""

_TEXTS = 64
"""Texts of one request."""


def encoded_models(settings: Settings) -> Mapping[str, str]:
    """Channel -> its model, for every channel with data of its own that has one."""
    names = {name: settings.section(name).model for name in ENCODED_CHANNELS}
    return {channel: model for channel, model in names.items() if model}


def encoded_searches(project: Project) -> tuple[EncodedSearch, ...]:
    """The channels with data of their own that the settings search.

    Raises:
        ConfigError: One of them has no model, or a wrong one.
        MissingExtraError: The extra that opens its model is not installed.
    """
    settings = project.settings
    named = [name for name in settings.retrieve.own_channels if name in ENCODED_CHANNELS]
    if settings.retrieve.search in ("keyword", "dense") or not named:
        return ()
    return tuple(_search_of(project, name) for name in named)


def _search_of(project: Project, channel: str) -> EncodedSearch:
    model = project.settings.section(channel).model
    if not model:
        raise ConfigError(
            f"retrieve.channels names {channel}, and no model is set for it",
            where=str(project.folder.file),
            hint=f"set {channel}.model: st:FOLDER or hf:ORG/NAME, and run ragwright ingest",
        )
    encoder = project.models.encoders.encoder(channel, model).identity
    depth = project.settings.late.depth if channel == "late" else 0
    return EncodedSearch(channel, model, encoder, candidates=depth)


def index_key(project: Project) -> str:
    """Equal for settings that search the same index, with the same data of further channels."""
    models = sorted(encoded_models(project.settings).items())
    return f"{project.pair.key} {models}" if models else project.pair.key


def check_encoders(project: Project) -> None:
    """Refuse, before anything is read, models and stores that could not be used afterwards.

    Raises:
        ConfigError: A model cannot be opened, or is no model of its channel.
        StoreError: This kind of store keeps no data of such channels.
    """
    for channel, model in encoded_models(project.settings).items():
        encoder = project.models.encoders.identity(channel, model)
        project.store.stamps_without(project.pair, encoder)


def encode_missing(project: Project, done: Callable[[int], None] = lambda _: None) -> int:
    """Encode every chunk of the index that a channel with a model has no data for.

    What is stored stays if it is interrupted; the next call goes on from there.

    Args:
        project: The project.
        done: Called with the number of chunks of each group that is stored.

    Returns:
        Number of chunks encoded.

    Raises:
        ConfigError: A model cannot be opened, or is no model of its channel.
        StoreError: This kind of store keeps no such data.
    """
    total = 0
    for channel, model in encoded_models(project.settings).items():
        encoder = project.models.encoders.identity(channel, model)
        if not project.store.stamps_without(project.pair, encoder):
            continue
        project.models.encoders.encoder(channel, model)  # opened here, not on the runner's loop
        flows = (_encoded(channel, model, group) for group in _groups(project, encoder))
        for encodings in project.runner.map(flows, limit=2):
            project.store.put_encodings(encoder, encodings)
            count = sum(map(len, encodings.values()))
            total += count
            done(count)
    if total:
        project.store.settle(project.pair)
    return total


def _groups(project: Project, encoder: str) -> Iterator[Mapping[int, tuple[str, ...]]]:
    """Stamp -> texts of the chunks of documents without encodings, some documents at a time."""
    pair = project.pair
    stamps = project.store.stamps_without(pair, encoder)
    for start in range(0, len(stamps), _DOCUMENTS):
        group: dict[int, tuple[str, ...]] = {}
        for stamp, texts in project.store.stamped_texts(pair, stamps[start : start + _DOCUMENTS]):
            group[stamp] = texts
            if sum(map(len, group.values())) >= _CHUNKS:
                yield group
                group = {}
        if group:
            yield group


def _encoded(
    channel: str, model: str, documents: Mapping[int, tuple[str, ...]]
) -> Flow[Mapping[int, tuple[bytes, ...]]]:
    """The flow that encodes the chunks of some documents; equal texts once."""
    texts = sorted({text for chunks in documents.values() for text in chunks}, key=len)
    groups = [texts[start : start + _TEXTS] for start in range(0, len(texts), _TEXTS)]
    replies = yield from gather(encode(channel, model, group, "passage") for group in groups)
    known = dict(zip(texts, (piece for reply in replies for piece in reply), strict=True))
    return {stamp: tuple(known[text] for text in chunks) for stamp, chunks in documents.items()}
