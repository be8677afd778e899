"""Testsets of a project: choice of the split, log of openings, and check of gold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..core import current_user
from ..index import Store
from ..project import ProjectFolder
from ._openings import Openings
from ._review import TestsetReview
from ._stale import current_gold
from ._testsets import Testset, declared_splits, load_testset


def project_testset(
    folder: ProjectFolder,
    address: str,
    split: str = "",
    *,
    purpose: str = "eval",
    dry_run: bool = False,
    limit: int | None = None,
    seed: int = 0,
) -> Testset:
    """Load a testset for measuring a project; every command uses this loader.

    Args:
        folder: The project; openings are written to ``testsets/openings.jsonl`` in it.
        address: As :func:`ragwright.experiment.load_testset`; a path that does not exist is also
            tried in the project folder.
        split: ``all``, ``tune`` or ``confirm``; by default the tune split if rows name splits, else
            all rows.
        purpose: Purpose of the rows.
        dry_run: Only count the rows; the opening is not logged.
        limit: Most questions, chosen at random with ``seed``; None for all.
        seed: Seed of that choice.

    Raises:
        TestsetError: The testset cannot be read, or the split is empty.
    """
    address = _resolved_address(folder, address)
    declared = declared_splits(address)
    chosen_split = split or ("tune" if declared else "all")
    # Reading all rows of a testset without splits is an opening only if requested.
    closed = chosen_split == "tune" or not (split or declared)
    log = Openings(folder.openings, purpose, dry_run=dry_run)
    opened = None if closed else log
    testset = load_testset(address, split=chosen_split, limit=limit, seed=seed, openings=opened)
    if split or not declared:
        return testset
    note = "the rows name splits: only the tune split is measured (--split confirm opens the other)"
    return replace(testset, notes=(*testset.notes, note))


def open_review(folder: ProjectFolder, address: str, by: str = "") -> TestsetReview:
    """Open a testset of a project for review.

    Args:
        folder: The project; a path that does not exist is also tried in it.
        address: The file, JSONL.
        by: Reviewer; by default the user of this machine.

    Raises:
        TestsetError: The file cannot be read, or is not JSONL.
    """
    return TestsetReview(_resolved_address(folder, address), by or current_user())


def _resolved_address(folder: ProjectFolder, address: str) -> str:
    """Return the address, in the project folder if it exists only there."""
    if address.startswith(("beir:", "rgb:")) or Path(address).exists():
        return address
    inside = folder.root / address
    return str(inside) if inside.exists() else address


def with_current_gold(store: Store, testset: Testset) -> Testset:
    """Check the testset against the stored documents.

    Raises:
        TestsetError: The documents of all rows changed.
    """

    def text_of(name: str) -> str | None:
        document = store.document(name)
        return None if document is None else document.text

    return current_gold(testset, text_of)
