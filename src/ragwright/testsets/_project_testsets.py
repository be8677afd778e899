"""Testsets of a project: which split is read, who is told, and gold that still holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..index import Store
from ..project import ProjectFolder
from ._openings import Openings
from ._stale import current_gold
from ._testsets import Testset, declared_splits, load_testset


def project_testset(
    folder: ProjectFolder,
    address: str,
    split: str = "",
    *,
    purpose: str = "eval",
    rehearsal: bool = False,
    limit: int | None = None,
    seed: int = 0,
) -> Testset:
    """A testset for measuring a project, by the one loader.

    Args:
        folder: The project; openings are written to ``testsets/openings.jsonl`` in it.
        address: As :func:`ragwright.experiment.load_testset`; a path that is not there is looked
            for in the project's folder.
        split: ``all``, ``tune`` or ``confirm``; where left out, the tune split of a testset
            whose rows name splits, else all rows.
        purpose: What the rows are wanted for.
        rehearsal: Nothing is measured: an opening is not written down.
        limit: Most questions, chosen at random with ``seed``; None for all.
        seed: Seed of that choice.

    Raises:
        TestsetError: The testset cannot be read, or the split is empty.
    """
    address = _found(folder, address)
    declared = declared_splits(address)
    wanted = split or ("tune" if declared else "all")
    # All rows of a testset that names no splits are no opening, unless they are asked for.
    closed = wanted == "tune" or not (split or declared)
    log = Openings(folder.openings, purpose, rehearsal=rehearsal)
    opened = None if closed else log
    testset = load_testset(address, split=wanted, limit=limit, seed=seed, openings=opened)
    if split or not declared:
        return testset
    note = "the rows name splits: only the tune split is measured (--split confirm opens the other)"
    return replace(testset, notes=(*testset.notes, note))


def _found(folder: ProjectFolder, address: str) -> str:
    """The address, in the project's folder where it is there alone."""
    if address.startswith(("beir:", "rgb:")) or Path(address).exists():
        return address
    inside = folder.root / address
    return str(inside) if inside.exists() else address


def with_current_gold(store: Store, testset: Testset) -> Testset:
    """The testset as it can be measured against the documents that are stored now.

    Raises:
        TestsetError: The documents of all rows changed.
    """

    def text_of(name: str) -> str | None:
        document = store.document(name)
        return None if document is None else document.text

    return current_gold(testset, text_of)
