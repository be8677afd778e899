"""Training questions from the documents themselves: headings, gaps, codes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..core import ConfigError, GoldSpan, Row, TestsetError, text_hash
from ..project import Project, project_glossary
from ..retrieve import Meaning
from ..testsets import SynthesisOptions, synthesize

KINDS = {"headings": "heading", "cloze": "cloze"}
"""Sources of questions that ``synth`` makes offline, with their kind in ``synth``."""

SOURCES = ("testset", *KINDS, "glossary")
"""Possible sources of training questions."""

_FORMS = ("{}", "What does {} mean?")
"""Questions about a code. The bare code is a question in every language."""


def name_sources(text: str) -> tuple[str, ...]:
    """Return the sources in a list with commas, each once.

    Raises:
        ConfigError: A name is unknown.
    """
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in SOURCES:
            raise ConfigError(
                f"unknown source {name!r}", where="--from", hint=f"one of {', '.join(SOURCES)}"
            )
    return names


def generate_rows(project: Project, sources: Sequence[str], most: int, seed: int) -> list[Row]:
    """Make questions with gold spans offline; ``source`` in their metadata names their source.

    Args:
        project: The project, with an index.
        sources: Names of :data:`SOURCES`; ``testset`` is skipped.
        most: Most questions from each.
        seed: Seed of the choice.

    Raises:
        RetrieveError: Nothing has been ingested.
    """
    all_rows: list[Row] = []
    for source in sources:
        if source == "testset":
            continue
        rows = (
            _code_questions(project, most)
            if source == "glossary"
            else _synthesized_rows(project, source, most, seed)
        )
        all_rows += [
            replace(
                row,
                id=f"{source}-{row.id}",
                metadata={"source": source},
            )
            for row in rows
        ]
    return all_rows


def _synthesized_rows(project: Project, source: str, most: int, seed: int) -> Sequence[Row]:
    options = SynthesisOptions(questions=most, kinds=(KINDS[source],), seed=seed)
    try:
        return synthesize(project, options)[0].rows
    except TestsetError:  # the documents yield none: the count of pairs shows it
        return ()


def _code_questions(project: Project, most: int) -> list[Row]:
    """Make a question for each code of the glossary and for each document that defines it."""
    options = project.settings.retrieve
    setting = options.glossary or "corpus"
    root, cache = project.folder.parts, project.folder.cache
    glossary = project_glossary(setting, root, cache, project.store, project.pair)
    defined = [
        (term, meaning)
        for term, meanings in glossary.entries.items()
        for meaning in meanings
        if meaning.document_id
    ]
    defined.sort(key=lambda entry: text_hash(f"{entry[0]}\x00{entry[1].document_id}"))
    chosen = defined[: math.ceil(most / len(_FORMS))]
    return [row for term, meaning in chosen for row in _questions_of_code(term, meaning)][:most]


def _questions_of_code(term: str, meaning: Meaning) -> Iterator[Row]:
    gold = GoldSpan(meaning.document_id, meaning.start, meaning.end)
    for form in _FORMS:
        question = form.format(term)
        name = text_hash(f"{question}\x00{meaning.document_id}")[:16]
        yield Row(id=name, user_input=question, reference_spans=(gold,))
