"""The questions that a model is trained on, and those that decide whether it is kept."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..core import ConfigError, Row, TestsetError
from ..testsets import gold_documents, project_testset, with_current_gold, write_rows
from ._generated import KINDS, generated_rows

if TYPE_CHECKING:
    from ..project import Project

_WITHOUT_TESTSET = ("headings", "questions", "glossary")


@dataclass(frozen=True, slots=True)
class Questions:
    """Questions for training, and the address of those that decide.

    Attributes:
        rows: Training questions; ``source`` in their metadata, absent for those of the testset.
        held_out: Address of the testset whose confirm split decides.
        notes: What a reader should know.
    """

    rows: tuple[Row, ...]
    held_out: str
    notes: tuple[str, ...]


@contextmanager
def training_questions(
    project: Project, testset: str, sources: Sequence[str], most: int, seed: int
) -> Iterator[Questions]:
    """Questions of the sources; those made from documents of the confirm split are left out.

    Without a testset the questions that are made fall into tune and confirm by document, and a
    file holds them until the block ends.

    Args:
        project: The project, with an index.
        testset: Address of a testset with gold; empty for none.
        sources: Names of ``SOURCES``; empty for the testset, or what can be made without one.
        most: Most questions made from each source.
        seed: Seed of their choice.

    Raises:
        ConfigError: The testset is a source, and there is none.
        RetrieveError: Nothing has been ingested.
        TestsetError: The testset cannot be read, or a split is empty.
    """
    names = tuple(sources) or (("testset",) if testset else _WITHOUT_TESTSET)
    if testset:
        yield _with_testset(project, testset, names, most, seed)
        return
    if "testset" in names:
        raise ConfigError("no testset is given", where="--from", hint="add --testset FILE")
    made = generated_rows(project, names, most, seed)
    if not made:
        raise TestsetError(
            f"no question could be made from the documents ({', '.join(names)})",
            hint="add --from cloze, or --testset FILE",
        )
    with tempfile.TemporaryDirectory() as folder:
        address = str(Path(folder) / "generated-questions.jsonl")
        write_rows(made, address)
        tune = project_testset(project.folder, address, "tune", purpose="tune")
        note = (
            "no testset: held-out questions were made from the documents too, and questions of "
            "people may come out differently"
        )
        yield Questions(tune.rows, address, (note,))


def _with_testset(
    project: Project, testset: str, names: Sequence[str], most: int, seed: int
) -> Questions:
    # An empty confirm split is refused before training, not after it.
    project_testset(project.folder, testset, "confirm", purpose="tune", rehearsal=True)
    tune = project_testset(project.folder, testset, "tune", purpose="tune")
    rows = list(with_current_gold(project.store, tune).rows) if "testset" in names else []
    made = generated_rows(project, names, most, seed)
    if not made:
        return Questions(tuple(rows), testset, ())
    open_ = _open(project, testset, made)
    note = (
        f"{len(made) - len(open_)} of {len(made)} questions made from documents were left out: "
        "their documents answer held-out questions"
    )
    return Questions((*rows, *open_), testset, (note,))


def other_questions(project: Project, questions: Questions, most: int, seed: int) -> list[Row]:
    """Questions made from the documents by rules that gave no training question.

    Those of documents that answer held-out questions are left out.
    """
    used = {row.metadata.get("source") for row in questions.rows}
    kinds = [name for name in KINDS if name not in used]
    made = generated_rows(project, kinds, most, seed)
    return _open(project, questions.held_out, made) if made else []


def _open(project: Project, testset: str, made: Sequence[Row]) -> list[Row]:
    """Rows of documents that answer no held-out question."""
    # Only their documents are looked at; nothing is measured on them here.
    closed = project_testset(project.folder, testset, "confirm", purpose="tune", rehearsal=True)
    held = {name for row in closed.rows for name in gold_documents(row)}
    return [row for row in made if held.isdisjoint(gold_documents(row))]
