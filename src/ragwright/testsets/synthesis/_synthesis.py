"""Builds the rows of a testset from candidates: selection, splits, labels, counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...core import MetaValue, Row, count_noun, text_hash
from .._splits import CONFIRM_SHARE
from ._candidates import Candidate
from ._survey import Survey

FEW_DOCUMENTS = 5
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
    """

    rows: tuple[Row, ...]
    made: Mapping[str, int]
    rejected: Mapping[str, int]
    leaks: tuple[float, ...]
    notes: tuple[str, ...] = ()

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
    """Make the testset of the first accepted candidates.

    Rows hold metadata ``kind``, ``generated``, ``level`` (from a model), ``leak`` and ``split``:
    about two of five rows, of whole documents, are for confirmation; with fewer than five documents
    these are parts of their text, with a note.

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
    splits = plan_splits(chosen)
    leaks = [_leak_of(candidate, survey, texts) for candidate in chosen]
    rows = [
        row
        for candidate, leak, split in zip(chosen, leaks, splits, strict=True)
        for row in _candidate_rows(candidate, leak, split)
    ]
    all_notes = [
        *notes,
        *_shortage_note(len(chosen), wanted, rejected, survey),
    ]
    if chosen and len({candidate.span.document_id for candidate in chosen}) < FEW_DOCUMENTS:
        all_notes.append(
            f"fewer than {FEW_DOCUMENTS} documents: the splits are parts of their text, so "
            "adjacent questions are in different splits"
        )
    made = Counter(" ".join(filter(None, (c.kind, c.level))) for c in chosen)
    sorted_leaks = sorted(leak for leak in leaks if leak is not None)
    counts = dict(sorted(rejected.items(), key=lambda item: (-item[1], item[0])))
    return Synthesis(
        tuple(rows),
        dict(sorted(made.items())),
        counts,
        tuple(sorted_leaks),
        tuple(all_notes),
    )


def _shortage_note(
    questions: int, wanted: int, rejected: Mapping[str, int], survey: Survey
) -> Iterator[str]:
    """Explain in one note why questions are missing; nothing if there are enough."""
    if questions >= wanted:
        return
    reasons = [f"{count_noun(len(survey.chunks), 'document')} gave no more valid ones"]
    if rejected:
        reason = max(rejected, key=lambda name: rejected[name])
        reasons.append(f"the most common reason for rejection was {reason!r} ({rejected[reason]})")
    yield f"{questions} of {wanted} questions: {'; '.join(reasons)}"


def plan_splits(chosen: Sequence[Candidate]) -> list[str]:
    """Assign ``tune`` or ``confirm`` to each question, by whole documents in hash order.

    With fewer than five documents, each is cut into five parts with equal numbers of questions, two
    of them for confirmation. Questions must be sorted by document and position.
    """
    by_document = Counter(candidate.span.document_id for candidate in chosen)
    if len(by_document) >= FEW_DOCUMENTS:
        confirm: set[str] = set()
        rows = 0
        for name in sorted(by_document, key=lambda name: text_hash(f"split\x00{name}")):
            with_document = rows + by_document[name]
            if abs(with_document - CONFIRM_SHARE * len(chosen)) > abs(
                rows - CONFIRM_SHARE * len(chosen)
            ):
                continue
            rows, confirm = with_document, confirm | {name}
        return [
            "confirm" if candidate.span.document_id in confirm else "tune" for candidate in chosen
        ]
    splits = []
    so_far: Counter[str] = Counter()
    for candidate in chosen:
        name = candidate.span.document_id
        run = so_far[name] * _RUNS // by_document[name]
        so_far[name] += 1
        order = sorted(range(_RUNS), key=lambda n: text_hash(f"split\x00{name}\x00{n}"))
        splits.append("confirm" if run in order[: round(_RUNS * CONFIRM_SHARE)] else "tune")
    return splits


def _leak_of(candidate: Candidate, survey: Survey, texts: Mapping[str, str]) -> float | None:
    span = candidate.span
    chunk = survey.chunk_of(span.document_id, span.start, span.end)
    if chunk is None:
        return None
    piece = texts[span.document_id][chunk.start : chunk.end]
    return survey.vocabulary.leak(candidate.question, piece)


def _candidate_rows(candidate: Candidate, leak: float | None, split: str) -> list[Row]:
    span = candidate.span
    place = f"{candidate.kind}\x00{span.document_id}\x00{span.start}\x00{candidate.question}"
    name = f"{candidate.kind}-{text_hash(place)[:10]}"
    metadata: dict[str, MetaValue] = {"kind": candidate.kind, "generated": True, "split": split}
    if candidate.level:
        metadata["level"] = candidate.level
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
