"""Capability suites made from a project's own corpus, or from a file of RGB."""

from __future__ import annotations

from collections import Counter

from ..core import TestsetError
from ..project import Project, at_work
from ._project_testsets import project_testset
from ._testsets import Testset
from .suites import SuiteOptions, corpus_evidence, open_corpus, rgb_rows, suite_rows


@at_work("suite")
def make_suite(
    project: Project, testset: str | Testset, options: SuiteOptions | None = None
) -> Testset:
    """Capability suites from a project's own corpus, or from a file of RGB.

    Every question needs a reference answer and gold: spans, or documents that hold the answer.
    Notes list what was left out, and why.

    Args:
        project: The project, its documents ingested; for ``rgb:FILE/SUITE`` they are not needed.
        testset: Its address, or its rows; if rows name splits, the tune split is used.
        options: Suites, doses and distractors.

    Raises:
        TestsetError: The testset is wrong, or no row can be made from it.
        RetrieveError: Nothing is ingested.
    """
    chosen = options or SuiteOptions()
    if isinstance(testset, str) and testset.startswith("rgb:"):
        made = rgb_rows(testset, chosen)
        return Testset(testset, made.rows, made.notes)
    given = project_testset(project.folder, testset) if isinstance(testset, str) else testset
    target = project.target()
    corpus = project.runner.run(open_corpus(target, project.settings.retrieve, chosen))
    gathered = list(project.runner.map(corpus_evidence(row, corpus) for row in given.rows))
    reasons = Counter(one.reason for one in gathered if one.evidence is None)
    dropped: Counter[str] = Counter()
    for one in gathered:
        dropped.update(one.dropped)
    notes = [
        f"{count} of {len(given.rows)} questions are left out: {reason}"
        for reason, count in sorted(reasons.items())
    ]
    notes += [f"{count} {what} are left out" for what, count in sorted(dropped.items())]
    evidence = [one.evidence for one in gathered if one.evidence is not None]
    if not evidence:
        raise TestsetError(
            "no question of the testset can be part of a suite",
            where=given.name,
            hint="; ".join(notes) or "the testset is empty",
        )
    made = suite_rows(evidence, chosen, where=given.name)
    return Testset(f"suites of {given.name}", made.rows, (*given.notes, *notes, *made.notes))
