"""Builds the rows of a testset from candidates: selection, splits, labels, counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...core import MetaValue, Row, text_hash
from .._splits import CONFIRM_SHARE
from ._candidates import WEAK, Candidate
from ._survey import Survey

_FEW_DOCUMENTS = 5
"""Below this number of documents, splits are parts of a document's text."""

_RUNS = 5


@dataclass(frozen=True, slots=True)
class Synthesis:
    """A generated testset and its statistics.

    Attributes:
        rows: Rows in document order; one per question and persona.
        made: Questions by kind (and level, if a model wrote them): ``cloze``, ``model fact``.
        rejected: Reason -> number of candidates.
        leaks: Leak of each question that has one, ascending.
        notes: Notes for the user.
        weak: Questions in it that no person would ask (a gap, a heading).
        weak_left_out: Such questions that were made and left out.
    """

    rows: tuple[Row, ...]
    made: Mapping[str, int]
    rejected: Mapping[str, int]
    leaks: tuple[float, ...]
    notes: tuple[str, ...] = ()
    weak: int = 0
    weak_left_out: int = 0

    @property
    def questions(self) -> int:
        """Number of questions; each has a row per persona."""
        return sum(self.made.values())

    def leak_quartiles(self) -> tuple[float, ...]:
        """Minimum, quartiles and maximum of the leaks; empty without leaks."""
        if not self.leaks:
            return ()
        last = len(self.leaks) - 1
        return tuple(self.leaks[round(last * part / 4)] for part in range(5))


def synthesis_of(
    candidates: Sequence[Candidate],
    wanted: int,
    survey: Survey,
    texts: Mapping[str, str],
    notes: Sequence[str] = (),
) -> Synthesis:
    """The testset of the first accepted candidates.

    Rows hold metadata ``kind``, ``level`` (of a model's), ``leak`` and ``split``: whole documents
    are for confirmation, about two of five rows; with fewer than five documents, parts of their
    text are, with a note.

    Args:
        candidates: In order of preference, including rejected ones.
        wanted: Most questions.
        survey: Of the collection.
        texts: Text of each document with evidence of a candidate.
        notes: To begin with.
    """
    accepted = [candidate for candidate in candidates if not candidate.reason]
    chosen = accepted[:wanted]
    rejected = Counter(candidate.reason for candidate in candidates if candidate.reason)
    chosen.sort(key=lambda c: (c.span.document_id, c.span.start, c.span.end, c.question))
    splits = planned_splits(chosen)
    leaks = [_leak(candidate, survey, texts) for candidate in chosen]
    rows = [
        row
        for candidate, leak, split in zip(chosen, leaks, splits, strict=True)
        for row in _rows(candidate, leak, split)
    ]
    made = Counter(" ".join(filter(None, (one.kind, one.level))) for one in chosen)
    told = list(notes)
    if len(chosen) < wanted:
        more = "; --weak adds gaps and headings" if rejected[WEAK] else ""
        told.append(f"{len(chosen)} of {wanted} questions: no more valid ones were found{more}")
    if chosen and len({one.span.document_id for one in chosen}) < _FEW_DOCUMENTS:
        told.append(
            f"fewer than {_FEW_DOCUMENTS} documents: the splits are parts of their text, so "
            "adjacent questions are in different splits"
        )
    known = sorted(leak for leak in leaks if leak is not None)
    counts = dict(sorted(rejected.items(), key=lambda item: (-item[1], item[0])))
    return Synthesis(
        tuple(rows),
        dict(sorted(made.items())),
        counts,
        tuple(known),
        tuple(told),
        sum(one.weak for one in chosen),
        rejected[WEAK],
    )


def planned_splits(chosen: Sequence[Candidate]) -> list[str]:
    """``tune`` or ``confirm`` for each question, by whole documents in the order of their hashes.

    With fewer than five documents, each is cut into five parts with equal numbers of questions, two
    of them for confirmation. Questions must be sorted by document and position.
    """
    by_document = Counter(one.span.document_id for one in chosen)
    if len(by_document) >= _FEW_DOCUMENTS:
        confirm: set[str] = set()
        rows = 0
        for name in sorted(by_document, key=lambda name: text_hash(f"split\x00{name}")):
            more = rows + by_document[name]
            if abs(more - CONFIRM_SHARE * len(chosen)) > abs(rows - CONFIRM_SHARE * len(chosen)):
                continue
            rows, confirm = more, confirm | {name}
        return ["confirm" if one.span.document_id in confirm else "tune" for one in chosen]
    found = []
    seen: Counter[str] = Counter()
    for one in chosen:
        name = one.span.document_id
        run = seen[name] * _RUNS // by_document[name]
        seen[name] += 1
        order = sorted(range(_RUNS), key=lambda n: text_hash(f"split\x00{name}\x00{n}"))
        found.append("confirm" if run in order[: round(_RUNS * CONFIRM_SHARE)] else "tune")
    return found


def _leak(candidate: Candidate, survey: Survey, texts: Mapping[str, str]) -> float | None:
    span = candidate.span
    chunk = survey.chunk_of(span.document_id, span.start, span.end)
    if chunk is None:
        return None
    piece = texts[span.document_id][chunk.start : chunk.end]
    return survey.vocabulary.leak(candidate.question, piece)


def _rows(candidate: Candidate, leak: float | None, split: str) -> list[Row]:
    span = candidate.span
    place = f"{candidate.kind}\x00{span.document_id}\x00{span.start}\x00{candidate.question}"
    name = f"{candidate.kind}-{text_hash(place)[:10]}"
    metadata: dict[str, MetaValue] = {"kind": candidate.kind, "split": split}
    if candidate.level:
        metadata["form" if candidate.kind == "template" else "level"] = candidate.level
    if candidate.weak:
        metadata["weak"] = True
    if leak is not None:
        metadata["leak"] = leak
    answers = candidate.answers or {"": candidate.answer}
    return [
        Row(
            id=f"{name}/{persona}" if persona else name,
            user_input=candidate.question,
            reference=answer,
            reference_contexts=(span.text,),
            reference_spans=(span,),
            persona_name=persona,
            metadata=metadata,
        )
        for persona, answer in answers.items()
    ]
