"""Collecting feedback: the votes in the ledger become candidate rows of a testset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from ...core import ConfigError, Row, counted
from ...testsets import CandidateCounts, assign_splits, is_candidate, rows_so_far, store_candidates
from .._saving import project_outputs
from ..outputs import VotedAnswer, voted_answers
from ._confirm_gold import ConfirmGold, confirm_gold
from ._pooling import pooled_passages
from ._rows import Asked, candidate_row

if TYPE_CHECKING:
    from ...project import Project

FeedbackSplit: TypeAlias = Literal["tune", "confirm", "both"]

_FILE = "feedback.jsonl"


@dataclass(frozen=True, slots=True)
class Collecting:
    """How feedback is collected.

    Attributes:
        path: The testset, a ``.jsonl`` directly in the folder ``testsets`` of the project;
            ``feedback.jsonl`` there by default. A relative path is one in the current folder.
        split: Split of new rows: ``tune``; ``confirm``; ``both``, by document. Only the latter two
            take questions that a confirm split already asks.
        scope: The tenant whose answers are collected; those without a tenant by default.
        pool: Hits of a search under the settings of the session that are shown beside the passages
            that readers saw; 0 searches nothing. Rows that nobody has decided on keep what
            earlier calls added.
    """

    path: Path | None = None
    split: str = "tune"
    scope: str = ""
    pool: int = 0


@dataclass(frozen=True, slots=True)
class Collected:
    """The outcome of collecting feedback.

    Attributes:
        path: The testset.
        answers: Answers with feedback; ``votes`` on them.
        counts: What happened to the rows of the testset.
        notes: What was left out, and why.
    """

    path: Path
    answers: int
    votes: int
    counts: CandidateCounts
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The outcome in one line."""
        counts = self.counts
        parts = [f"{counts.added} new", f"{counts.changed} changed", f"{counts.removed} removed"]
        return (
            f"{counted(self.votes, 'vote')} on {counted(self.answers, 'answer')}: candidates "
            f"{', '.join(parts)}, {counts.decided} decided before ({self.path})"
        )


def collect_feedback(project: Project, options: Collecting | None = None) -> Collected:
    """Write the questions that have feedback as candidate rows into a testset, for review.

    Answers to the same question, persona and scope make one row. Running it again updates the rows
    that nobody has decided on. Nothing is measured with a row before a person accepts it.

    Raises:
        ConfigError: The split is unknown, the file is not a ``.jsonl`` directly in ``testsets``, or
            a tenant's questions are to be searched again.
        StoreError: The outputs cannot be read.
        TestsetError: The testset cannot be read or written, or belongs to another tenant.
    """
    options = options or Collecting()
    if options.split not in ("tune", "confirm", "both"):
        raise ConfigError(
            f"unknown split {options.split!r}", where="--split", hint="tune, confirm or both"
        )
    if options.pool and options.scope:
        raise ConfigError(
            "the questions of a tenant are not searched again: its key may see fewer documents",
            where="--pool",
            hint="collect them without --pool",
        )
    path = _feedback_file(project, options.path)
    answers = voted_answers(project_outputs(project), options.scope)
    questions, followed = _questions(answers, options.scope)

    @cache
    def text_of(name: str) -> str | None:
        document = project.store.document(name)
        return None if document is None else document.text

    gold = confirm_gold(project.folder.testsets)
    before = rows_so_far(path)
    pooled = pooled_passages(project, questions, before, options.pool, text_of)
    rows = [
        candidate_row(
            asked, text_of, lambda span: bool(gold.overlaps(span)), pooled.get(asked.id, ())
        )
        for asked in questions
    ]
    notes = [*_followed_note(followed), *_gone_notes(rows)]
    rows, held = _placed(rows, options.split, gold, before)
    for name, count in held.items():
        notes.append(
            f"{counted(count, 'question')} left out: the confirm split of {name} asks the same or "
            "has the same gold, and tuning on it would spoil that confirmation; --split confirm "
            "or both takes them into a confirm split"
        )
    counts = store_candidates(path, rows, options.scope)
    if counts.revoted:
        notes.append(
            f"{counted(counts.revoted, 'decided row')} got further votes since the decision; "
            "reject or edit them on the page Testsets if they change it"
        )
    votes = sum(len(answer.votes) for answer in answers)
    return Collected(path, len(answers), votes, counts, tuple(notes))


def _feedback_file(project: Project, path: Path | None) -> Path:
    """The file of feedback; only there would it be found when a document is forgotten."""
    folder = project.folder.testsets
    if path is None:
        return folder / _FILE
    if path.suffix != ".jsonl" or path.resolve().parent != folder.resolve():
        raise ConfigError(
            "feedback is kept in the folder testsets/ as .jsonl",
            where=str(path),
            hint="otherwise `ragwright forget` would not find it",
        )
    return path


def _questions(answers: Iterable[VotedAnswer], scope: str) -> tuple[list[Asked], int]:
    """The questions of answers, in the order of their first feedback, and the follow-ups."""
    groups: dict[str, Asked] = {}
    followed = 0
    for answer in answers:
        question = str(answer.request.get("question") or "").strip()
        if answer.request.get("asked_before") or not question:
            followed += 1
            continue
        asked = Asked(question, str(answer.request.get("persona") or ""), scope, (answer,))
        before = groups.get(asked.id)
        if before is not None:
            asked = replace(before, answers=(*before.answers, answer))
        groups[asked.id] = asked
    return list(groups.values()), followed


def _placed(
    rows: Iterable[Row], split: str, gold: ConfirmGold, before: Sequence[Row]
) -> tuple[list[Row], Mapping[str, int]]:
    """Rows with their split, and how many were held back for each testset.

    Rows of the file that are decided, or for confirmation, keep the split that they have there.
    """
    own = {r.id for r in before if not is_candidate(r) or r.metadata.get("split") == "confirm"}
    placed: list[Row] = []
    held: Counter[str] = Counter()
    touching: dict[str, str] = {}
    for row in rows:
        names = (gold.asks(row.user_input), *map(gold.overlaps, row.reference_spans))
        name = next(filter(None, names), "")
        if name and split == "tune" and row.id not in own:
            held[name] += 1
            continue
        touching[row.id] = name
        placed.append(row)
    if split == "both":
        new = [_unplaced(row) for row in placed if row.id not in own]
        splits = assign_splits(
            [*(row for row in before if row.id not in {r.id for r in new}), *new]
        )
        splits |= {
            name: "confirm" for name, testset in touching.items() if testset and name not in own
        }
    else:
        splits = dict.fromkeys(touching, split)
    return [
        replace(row, metadata={**row.metadata, "split": splits[row.id]}) for row in placed
    ], held


def _unplaced(row: Row) -> Row:
    """A row without its split; without proposed gold it goes with its first passage's document."""
    metadata = {key: value for key, value in row.metadata.items() if key != "split"}
    gold = row.reference_spans or row.retrieved_spans[:1]
    return replace(row, metadata=metadata, reference_spans=gold)


def _followed_note(followed: int) -> list[str]:
    if not followed:
        return []
    return [
        f"{counted(followed, 'answer')} left out: they followed earlier turns, of which only the "
        "questions are stored"
    ]


def _gone_notes(rows: Iterable[Row]) -> list[str]:
    gone = [row for row in rows if row.metadata.get("feedback_gone")]
    bare = sum(not row.retrieved_spans for row in gone)
    if not gone:
        return []
    some = f"{counted(len(gone), 'question')} had passages that are no longer in the documents"
    none_left = counted(bare, "question has", "questions have")
    return [f"{some}; {none_left} none left" if bare else some]
