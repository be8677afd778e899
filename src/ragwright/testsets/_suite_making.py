"""Suites of capabilities made from a project's own corpus, or from a file of RGB."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from ..core import TestsetError, current_user
from ..index import Store
from ..project import Project, ProjectFolder, refuse_forget
from ._openings import Openings
from ._review import TestsetReview
from ._stale import current_gold
from ._testsets import Testset, declares_splits, load_testset
from .suites import (
    Evidence,
    PassageSource,
    SuiteOptions,
    corpus_evidence,
    open_corpus,
    rgb_rows,
    suite_rows,
)


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
    declared = declares_splits(address)
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


def refresh_gold(store: Store, testset: Testset) -> Testset:
    """Check the testset against the stored documents.

    Raises:
        TestsetError: The documents of all rows changed.
    """

    def text_of(name: str) -> str | None:
        document = store.document(name)
        return None if document is None else document.text

    return current_gold(testset, text_of)


@refuse_forget("suite")
def make_suite(
    project: Project, testset: str | Testset, options: SuiteOptions | None = None
) -> Testset:
    """Make capability suites from a project's own corpus, or from a file of RGB.

    Every question needs a reference answer and gold: spans, or documents that hold the answer.
    Notes list what was left out, with the reason.

    Args:
        project: The project, its documents ingested; for ``rgb:FILE/SUITE`` they are not needed.
        testset: Its address, or its rows; if rows name splits, the tune split is used.
        options: Suites, doses and distractors.

    Raises:
        TestsetError: The testset is wrong, or no row can be made from it.
        RetrieveError: Nothing is ingested.
    """
    suite_options = options or SuiteOptions()
    if isinstance(testset, str) and testset.startswith("rgb:"):
        suite = rgb_rows(testset, suite_options)
        return Testset(testset, suite.rows, suite.notes)
    gathered = _gathered(project, testset, suite_options)
    source = gathered.source
    suite = suite_rows(gathered.evidence, suite_options, where=source.name)
    notes = (*source.notes, *gathered.notes, *suite.notes)
    return Testset(f"suites of {source.name}", suite.rows, notes)


@dataclass(frozen=True, slots=True)
class _SuiteQuestions:
    """The questions of a testset with their passages."""

    source: Testset
    corpus: PassageSource
    evidence: tuple[Evidence, ...]
    notes: tuple[str, ...]


def _gathered(project: Project, testset: str | Testset, options: SuiteOptions) -> _SuiteQuestions:
    """Read the passages of every question, with a note for each reason to leave one out.

    Raises:
        TestsetError: No question has what a suite needs.
    """
    source = project_testset(project.folder, testset) if isinstance(testset, str) else testset
    target = project.target()
    corpus = project.runner.run(open_corpus(target, project.settings.retrieve, options))
    results = list(project.runner.map(corpus_evidence(row, corpus) for row in source.rows))
    reasons = Counter(result.reason for result in results if result.evidence is None)
    dropped: Counter[str] = Counter()
    for result in results:
        dropped.update(result.dropped)
    notes = [
        f"{count} of {len(source.rows)} questions are left out: {reason}"
        for reason, count in sorted(reasons.items())
    ]
    notes += [f"{count} {kind} are left out" for kind, count in sorted(dropped.items())]
    evidence = tuple(result.evidence for result in results if result.evidence is not None)
    if not evidence:
        raise TestsetError(
            "no question of the testset can be part of a suite",
            where=source.name,
            hint="; ".join(notes) or "the testset is empty",
        )
    return _SuiteQuestions(source, corpus, evidence, tuple(notes))
