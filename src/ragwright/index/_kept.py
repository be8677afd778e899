"""Records of kept states."""

from __future__ import annotations

from dataclasses import dataclass

from ..core import StoreError


@dataclass(frozen=True, slots=True)
class KeptState:
    """A kept state of an index.

    Attributes:
        number: Its number, from 1, among all states that the store ever kept.
        pair: Key of its pair.
        at: When it was kept: ISO 8601, UTC.
        note: What made it.
        documents: Number of its documents that are still stored.
        settings: Settings of that time as JSON; empty if unknown.
    """

    number: int
    pair: str
    at: str
    note: str
    documents: int
    settings: str = ""


@dataclass(frozen=True, slots=True)
class StateMember:
    """A document of a kept state: its stamp, its document's number, and where it came from."""

    stamp: int
    document: int
    name: str | bytes
    root: str | bytes


def no_kept_states() -> StoreError:
    """The error of a store that cannot restore former states."""
    return StoreError(
        "this kind of store keeps no snapshots that can be restored",
        where="store.kind",
        hint="use the sqlite or lance store, or copy the folder of the store before a change",
    )
