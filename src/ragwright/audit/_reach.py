"""Reach: passages that no question of a test set finds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..core import counted
from ..flow import Flow
from ..project import Project
from ..retrieve import RetrieveOptions, Target, retrieve
from ..testsets import project_testset
from ._records import Finding
from ._text import Corpus

_SHOWN = 5
"""Places of a finding."""


def reached_chunks(
    project: Project, testset: str, depth: int
) -> tuple[set[tuple[str, int, int]], int]:
    """Search for every question of a test set, each text once; the chunks found, and how many.

    No model rewrites a question or answers it.
    """
    rows = project_testset(project.folder, testset, purpose="audit").rows
    questions = list(dict.fromkeys(row.user_input for row in rows))
    settings, target = project.settings.retrieve, project.target()
    options = replace(
        settings,
        query=type(settings.query)(),
        iterate=type(settings.iterate)(),
        top_k=depth,
        context_tokens=None,
    )
    flows = [_found(question, target, options) for question in questions]
    found: set[tuple[str, int, int]] = set()
    for chunks in project.runner.map(flows):
        found |= chunks
    return found, len(questions)


def _found(
    question: str, target: Target, options: RetrieveOptions
) -> Flow[set[tuple[str, int, int]]]:
    hits = (yield from retrieve(question, target, options)).hits
    return {(hit.document_id, hit.start, hit.end) for hit in hits}


def out_of_reach(project: Project, corpus: Corpus, testset: str, depth: int) -> Iterator[Finding]:
    """Chunks that no question of a test set finds; one finding for each document."""
    reached, questions = reached_chunks(project, testset, depth)
    with project.store.reading(project.pair) as state:
        for document in state.documents():
            missed = [c for c in document.chunks if (document.id, c.start, c.end) not in reached]
            if not missed or document.id not in corpus.numbers:
                continue
            number = corpus.numbers[document.id]
            total = len(document.chunks)
            yield Finding(
                "reach",
                "unreached chunk",
                "medium" if len(missed) == total else "low",
                tuple(corpus.place(number, c.start, c.end) for c in missed[:_SHOWN]),
                f"{len(missed)} of {counted(total, 'chunk')} of {corpus.briefs[number].source} "
                f"{'is' if len(missed) == 1 else 'are'} not among the first {depth} hits of any of "
                f"{counted(questions, 'question')}.",
                "Give the passage a heading and words of its own, leave out copies that outrank "
                "it, or ask about it in the test set.",
                marks={"chunks": len(missed), "of": total},
                subject=document.id,
            )
