"""Texts that were made are stored, with the configuration they were made under."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from ..measuring import Bench
from ..outputs import Origin
from ..project import Served, configuration_of

if TYPE_CHECKING:
    from ...answer import DraftBatch
    from ..outputs import Outputs
    from ..project import Session


class Serving(Bench, Protocol):
    """What storing and measuring outputs needs of an opened project."""

    @property
    def outputs(self) -> Outputs:
        """The table of outputs."""

    @property
    def session(self) -> Session:
        """What was asked for beyond the project file."""


def save_drafts(
    bench: Serving, batch: DraftBatch, scope: str = "", origin: Origin | None = None
) -> int:
    """Store a batch of drafts with all that is known of where it came from; its number.

    Args:
        bench: The project it was drafted in.
        batch: What was drafted; it knows the state of the index that was searched.
        scope: Who may see it (tenant, permissions).
        origin: :func:`origin_of` from before the drafting, for files may change meanwhile; as
            things stand where None.

    Raises:
        StoreError: It cannot be stored; nothing of it is.
    """
    made = origin or origin_of(bench)
    return bench.outputs.save(batch, replace(made, snapshot=batch.snapshot, scope=scope))


def origin_of(bench: Serving) -> Origin:
    """Under what an opened project makes texts now: configuration, and whether that is served.

    The snapshot and the scope are the batch's own.
    """
    configuration = configuration_of(bench.folder, bench.settings)
    served = Served(bench.folder).current()
    same = served is not None and served.configuration == configuration.hash
    return Origin(
        configuration=configuration.hash,
        settings=configuration.body(),
        served=served.number if served is not None and same else None,
    )
