"""Suites of capabilities made from a project's own corpus, or from a file of RGB."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ..core import TestsetError
from ..project import Project, at_work
from ._project_testsets import project_testset
from ._testsets import Testset
from .suites import (
    Corpus,
    Evidence,
    SuiteOptions,
    corpus_evidence,
    open_corpus,
    rgb_rows,
    suite_rows,
)


@at_work("suite")
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
class _Gathered:
    """The questions of a testset with their passages."""

    source: Testset
    corpus: Corpus
    evidence: tuple[Evidence, ...]
    notes: tuple[str, ...]


def _gathered(project: Project, testset: str | Testset, options: SuiteOptions) -> _Gathered:
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
    return _Gathered(source, corpus, evidence, tuple(notes))
