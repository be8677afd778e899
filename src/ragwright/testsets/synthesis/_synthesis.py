"""Builds the rows of a testset from candidates: selection, splits, labels, counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...core import MetaValue, Row, counted, text_hash
from .._splits import CONFIRM_SHARE
from ._candidates import WEAK, Candidate
from ._strata import shares_of
from ._survey import Survey

FEW_DOCUMENTS = 5
"""Below this number of documents, splits are parts of a document's text."""

_RUNS = 5

_MOST_OF = 0.6
"""Share from which a folder, format, language or kind is named as too large."""


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
    chosen, left = accepted[:wanted], accepted[wanted:]
    rejected = Counter(candidate.reason for candidate in candidates if candidate.reason)
    chosen.sort(key=lambda c: (c.span.document_id, c.span.start, c.span.end, c.question))
    splits = planned_splits(chosen)
    leaks = [_leak(candidate, survey, texts) for candidate in chosen]
    rows = [
        row
        for candidate, leak, split in zip(chosen, leaks, splits, strict=True)
        for row in _rows(candidate, leak, split)
    ]
    shares = shares_of(chosen, survey.strata)
    told = [
        *notes,
        *_short_of(len(chosen), wanted, rejected, survey),
        *_uneven(shares, left, survey),
    ]
    if chosen and len({one.span.document_id for one in chosen}) < FEW_DOCUMENTS:
        told.append(
            f"fewer than {FEW_DOCUMENTS} documents: the splits are parts of their text, so "
            "adjacent questions are in different splits"
        )
    known = sorted(leak for leak in leaks if leak is not None)
    counts = dict(sorted(rejected.items(), key=lambda item: (-item[1], item[0])))
    return Synthesis(
        tuple(rows),
        dict(sorted(shares["kind"].items())),
        counts,
        tuple(known),
        tuple(told),
        sum(one.weak for one in chosen),
        rejected[WEAK],
        shares,
    )


def _short_of(
    questions: int, wanted: int, rejected: Mapping[str, int], survey: Survey
) -> Iterator[str]:
    """Why there are fewer questions than wanted, in one note; nothing if there are enough."""
    if questions >= wanted:
        return
    why = [f"{counted(len(survey.chunks), 'document')} gave no more valid ones"]
    others = {name: count for name, count in rejected.items() if name != WEAK}
    if others:
        reason = max(others, key=lambda name: others[name])
        why.append(f"the most common reason for rejection was {reason!r} ({others[reason]})")
    if rejected.get(WEAK):
        why.append("--weak adds sentences with a gap, and headings")
    yield f"{questions} of {wanted} questions: {'; '.join(why)}"


def _uneven(
    shares: Mapping[str, Mapping[str, int]], left: Sequence[Candidate], survey: Survey
) -> Iterator[str]:
    """A note for each dimension of which one value has most questions, with the reason."""
    spare = shares_of(left, survey.strata)
    for dimension, counts in shares.items():
        value, most = next(iter(counts.items()), ("", 0))
        total = sum(counts.values())
        if len(counts) > 1 and most > _MOST_OF * total:
            other = any(name != value for name in spare[dimension])
            why = "it is much larger than the others" if other else "the others gave no more"
            yield f"{most} of {total} questions have the {dimension} {value!r}: {why}"


def planned_splits(chosen: Sequence[Candidate]) -> list[str]:
    """``tune`` or ``confirm`` for each question, by whole documents in the order of their hashes.

    With fewer than five documents, each is cut into five parts with equal numbers of questions, two
    of them for confirmation. Questions must be sorted by document and position.
    """
    by_document = Counter(one.span.document_id for one in chosen)
    if len(by_document) >= FEW_DOCUMENTS:
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
