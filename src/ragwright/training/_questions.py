"""Training questions, and the held-out questions that decide on a model."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ..core import ConfigError, Row, TestsetError
from ..project import Project
from ..testsets import (
    Split,
    Testset,
    gold_documents,
    project_testset,
    refresh_gold,
    write_rows,
)
from ._generated import KINDS, generate_rows

_WITHOUT_TESTSET = ("headings", "cloze", "glossary")


@dataclass(frozen=True, slots=True)
class Questions:
    """Questions for training, and the address of the deciding ones.

    Attributes:
        rows: Training questions; those from other sources have ``source`` in their metadata.
        held_out: Address of the testset that decides.
        notes: Remarks for the reader.
        split: Split of the testset that decides.
        of_people: False if the deciding questions were made from the documents too.
    """

    rows: tuple[Row, ...]
    held_out: str
    notes: tuple[str, ...]
    split: Split = "confirm"
    of_people: bool = True


@dataclass(frozen=True, slots=True)
class QuestionSource:
    """Options of choosing training questions.

    Attributes:
        testset: Address of a testset with gold; empty for none.
        sources: Names of ``SOURCES``; empty for the testset, or for those that need none.
        most: Most questions made from each source.
        seed: Seed of the choice.
        from_corpus: Train on questions made from the documents only; all questions of the testset
            decide.
    """

    testset: str = ""
    sources: tuple[str, ...] = ()
    most: int = 500
    seed: int = 0
    from_corpus: bool = False


def standalone_questions(rows: Testset) -> tuple[Testset, tuple[str, ...]]:
    """Return the rows without earlier turns, and a note where some have them.

    Training learns from the words of the question, which do not say what a follow-up asks for.
    """
    kept = tuple(row for row in rows.rows if not row.history)
    left_out = len(rows.rows) - len(kept)
    note = f"{left_out} of {len(rows.rows)} training questions have earlier turns: left out"
    return replace(rows, rows=kept), (note,) if left_out else ()


@contextmanager
def training_questions(project: Project, options: QuestionSource) -> Iterator[Questions]:
    """Yield questions of the sources, without those made from documents of the deciding split.

    Without a testset, the generated questions are split into tune and confirm by document, and a
    file holds them until the block ends.

    Raises:
        ConfigError: The testset is a source, and there is none, or it may only decide.
        RetrieveError: Nothing has been ingested.
        TestsetError: The testset cannot be read, or a split is empty.
    """
    trains = bool(options.testset) and not options.from_corpus
    names = options.sources or (("testset",) if trains else _WITHOUT_TESTSET)
    if "testset" in names and not trains:
        problem = "--from-corpus trains on questions made from the documents alone"
        raise ConfigError(
            problem if options.from_corpus else "no testset is given",
            where="--from",
            hint="remove testset from --from, or --from-corpus"
            if options.from_corpus
            else "add --testset FILE",
        )
    if options.testset:
        yield _questions_with_testset(project, options, names)
        return
    generated = _questions_from_documents(project, options, names)
    with tempfile.TemporaryDirectory() as folder:
        address = str(Path(folder) / "generated-questions.jsonl")
        write_rows(generated, address)
        tune = project_testset(project.folder, address, "tune", purpose="tune")
        note = (
            "not confirmed on questions of people: held-out questions were made from the documents "
            "too, and questions of people may come out differently; --from-corpus --testset FILE "
            "confirms it on a few real ones"
        )
        yield Questions(tune.rows, address, (note,), of_people=False)


def _questions_from_documents(
    project: Project, options: QuestionSource, names: Sequence[str]
) -> list[Row]:
    """Return questions made from the documents.

    Raises:
        TestsetError: There are none.
    """
    generated = generate_rows(project, names, options.most, options.seed)
    if not generated:
        raise TestsetError(
            f"no question could be made from the documents ({', '.join(names)})",
            hint="add --from cloze, or --testset FILE",
        )
    return generated


def _questions_with_testset(
    project: Project, options: QuestionSource, names: Sequence[str]
) -> Questions:
    split: Split = "all" if options.from_corpus else "confirm"
    # An empty deciding split is refused before training, not after it.
    project_testset(project.folder, options.testset, split, purpose="tune", dry_run=True)
    rows: list[Row] = []
    notes: tuple[str, ...] = ()
    if not options.from_corpus:
        tune = project_testset(project.folder, options.testset, "tune", purpose="tune")
        tune, notes = standalone_questions(tune)
        rows = list(refresh_gold(project.store, tune).rows) if "testset" in names else []
    generated = (
        _questions_from_documents(project, options, names)
        if options.from_corpus
        else generate_rows(project, names, options.most, options.seed)
    )
    if not generated:
        return Questions(tuple(rows), options.testset, notes)
    allowed = _without_held_out(project, options.testset, split, generated)
    note = (
        f"{len(generated) - len(allowed)} of {len(generated)} questions made from documents were "
        "left out: "
        "their documents answer held-out questions"
    )
    return Questions((*rows, *allowed), options.testset, (*notes, note), split)


def make_other_questions(project: Project, questions: Questions, most: int, seed: int) -> list[Row]:
    """Return questions made from the documents by rules that gave no training question.

    Questions of documents that answer held-out questions are left out.
    """
    used = {row.metadata.get("source") for row in questions.rows}
    kinds = [name for name in KINDS if name not in used]
    generated = generate_rows(project, kinds, most, seed)
    if not generated:
        return []
    return _without_held_out(project, questions.held_out, questions.split, generated)


def _without_held_out(
    project: Project, testset: str, split: Split, generated: Sequence[Row]
) -> list[Row]:
    """Return rows of documents that answer no held-out question."""
    # Only their documents are looked at; nothing is measured on them here.
    deciding = project_testset(project.folder, testset, split, purpose="tune", dry_run=True)
    held_out_documents = {name for row in deciding.rows for name in gold_documents(row)}
    return [row for row in generated if held_out_documents.isdisjoint(gold_documents(row))]
