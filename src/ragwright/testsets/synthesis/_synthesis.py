"""Builds the rows of a testset from candidates: selection, splits, labels, counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...core import MetaValue, Row, counted, text_hash
from .._splits import CONFIRM_SHARE
from ._candidates import FOLLOW_UP, WEAK, Candidate
from ._strata import shares_of
from ._survey import Survey

FEW_DOCUMENTS = 5
"""Below this number of documents, splits are parts of a document's text."""

_RUNS = 5

_MOST_OF = 0.6
"""Least share of a folder, format, language or kind that a note names as too large."""


@dataclass(frozen=True, slots=True)
class Synthesis:
    """A generated testset and its statistics.

    Attributes:
        rows: Rows in document order; one per question and persona.
        made: Questions by kind (and level, if a model wrote them): ``cloze``, ``model fact``.
        rejected: Reason -> number of candidates.
        leaks: Leak of each question that has one, ascending.
        notes: Notes for the user.
        weak: Number of questions that no person would ask (a gap, a heading, a follow-up of a
            template).
        weak_left_out: Number of such questions that were left out.
        shares: ``folder``, ``format``, ``language``, ``kind`` -> value -> number of questions.
    """

    rows: tuple[Row, ...]
    made: Mapping[str, int]
    rejected: Mapping[str, int]
    leaks: tuple[float, ...]
    notes: tuple[str, ...] = ()
    weak: int = 0
    weak_left_out: int = 0
    shares: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

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

    Rows hold metadata ``kind``, ``level`` (from a model), ``leak`` and ``split``: about two of five
    rows, of whole documents, are for confirmation; with fewer than five documents these are parts
    of their text, with a note.

    Args:
        candidates: In order of preference, including rejected ones.
        wanted: Most questions.
        survey: Of the collection.
        texts: Text of each document with evidence of a candidate.
        notes: To begin with.
    """
    accepted = [candidate for candidate in candidates if not candidate.reason]
    chosen, unused = accepted[:wanted], accepted[wanted:]
    rejected = Counter(candidate.reason for candidate in candidates if candidate.reason)
    chosen.sort(key=lambda c: (c.span.document_id, c.span.start, c.span.end, c.question))
    splits = planned_splits(chosen)
    leaks = [_leak_of(candidate, survey, texts) for candidate in chosen]
    rows = [
        row
        for candidate, leak, split in zip(chosen, leaks, splits, strict=True)
        for row in _candidate_rows(candidate, leak, split)
    ]
    shares = shares_of(chosen, survey.strata)
    all_notes = [
        *notes,
        *_shortage_note(len(chosen), wanted, rejected, survey),
        *_imbalance_notes(shares, unused, survey),
    ]
    if chosen and len({candidate.span.document_id for candidate in chosen}) < FEW_DOCUMENTS:
        all_notes.append(
            f"fewer than {FEW_DOCUMENTS} documents: the splits are parts of their text, so "
            "adjacent questions are in different splits"
        )
    sorted_leaks = sorted(leak for leak in leaks if leak is not None)
    counts = dict(sorted(rejected.items(), key=lambda item: (-item[1], item[0])))
    return Synthesis(
        tuple(rows),
        dict(sorted(shares["kind"].items())),
        counts,
        tuple(sorted_leaks),
        tuple(all_notes),
        sum(candidate.weak for candidate in chosen),
        rejected[WEAK],
        shares,
    )


def _shortage_note(
    questions: int, wanted: int, rejected: Mapping[str, int], survey: Survey
) -> Iterator[str]:
    """Explain in one note why questions are missing; nothing if there are enough."""
    if questions >= wanted:
        return
    reasons = [f"{counted(len(survey.chunks), 'document')} gave no more valid ones"]
    others = {name: count for name, count in rejected.items() if name != WEAK}
    if others:
        reason = max(others, key=lambda name: others[name])
        reasons.append(f"the most common reason for rejection was {reason!r} ({others[reason]})")
    if rejected.get(WEAK):
        reasons.append("--weak adds sentences with a gap, and headings")
    yield f"{questions} of {wanted} questions: {'; '.join(reasons)}"


def _imbalance_notes(
    shares: Mapping[str, Mapping[str, int]], unused: Sequence[Candidate], survey: Survey
) -> Iterator[str]:
    """Yield a note for each dimension of which one value has most questions, with the reason."""
    unused_shares = shares_of(unused, survey.strata)
    for dimension, counts in shares.items():
        value, most = next(iter(counts.items()), ("", 0))
        total = sum(counts.values())
        if len(counts) > 1 and most > _MOST_OF * total:
            has_others = any(name != value for name in unused_shares[dimension])
            reason = (
                "it is much larger than the others" if has_others else "the others gave no more"
            )
            yield f"{most} of {total} questions have the {dimension} {value!r}: {reason}"


def planned_splits(chosen: Sequence[Candidate]) -> list[str]:
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
    metadata: dict[str, MetaValue] = {"kind": candidate.kind, "split": split}
    if candidate.level:
        metadata["form" if candidate.kind in ("template", FOLLOW_UP) else "level"] = candidate.level
    if candidate.history:
        turn = 1 + sum(turn.role == "user" for turn in candidate.history)
        metadata |= {"turn": turn, "standalone": False, "meaning": candidate.standalone}
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
            history=candidate.history,
        )
        for persona, answer in answers.items()
    ]
