"""One candidate row from all the answers that a question got, and the votes on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...core import GoldSpan, MetaValue, Row, case_folded, value_hash
from ...testsets import FEEDBACK, answer_in_evidence, located

if TYPE_CHECKING:
    from ..outputs import ShownPassage, VotedAnswer

_MOST_PASSAGES = 30
"""Most passages shown with a candidate, those with the most votes first."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with every answer to it that has feedback, oldest first."""

    question: str
    persona: str
    scope: str
    answers: tuple[VotedAnswer, ...]

    @property
    def id(self) -> str:
        """The id of its row: the same for the same words, persona and scope."""
        words = case_folded(self.question)
        return f"feedback-{value_hash([words, self.persona, self.scope])[:12]}"


@dataclass(slots=True)
class Tally:
    """Votes on one passage.

    Attributes:
        accepted: Votes that accept an answer which cites it; ``rejected`` those that reject one.
        named: How often a reader named it as the passage that answers the question.
        cited: True if an answer cites it.
    """

    accepted: int = 0
    rejected: int = 0
    named: int = 0
    cited: bool = False

    @property
    def net(self) -> int:
        """Accepting minus rejecting votes."""
        return self.accepted - self.rejected


def proposed(tallies: Sequence[Tally]) -> tuple[int, ...]:
    """Return the indexes of the passages that the votes propose as gold.

    Where readers named passages, those named most often; else the cited passages with the most
    votes for the answer, if more accept it than reject it; else none.
    """
    named = max((tally.named for tally in tallies), default=0)
    if named:
        return tuple(i for i, tally in enumerate(tallies) if tally.named == named)
    best = max((tally.net for tally in tallies if tally.cited), default=0)
    return tuple(i for i, t in enumerate(tallies) if t.cited and best > 0 and t.net == best)


@dataclass(slots=True)
class _Passages:
    """The passages of a question, located in the present documents."""

    text_of: Callable[[str], str | None]
    tallies: dict[GoldSpan, Tally] = field(default_factory=dict)
    gone: set[tuple[str, str]] = field(default_factory=set)
    documents: dict[str, None] = field(default_factory=dict)

    def count(self, answer: VotedAnswer) -> None:
        """Count the votes on an answer for its passages."""
        votes, named = Counter(answer.votes.values()), Counter(_latest_named(answer))
        for number, passage in enumerate(answer.cited, 1):
            tally = self.tally(passage)
            if tally is not None:
                tally.cited = True
                tally.accepted += votes["accepted"]
                tally.rejected += votes["rejected"]
                tally.named += named[number]
        for passage in answer.shown:
            self.tally(passage)

    def add(self, span: GoldSpan) -> bool:
        """Add a passage that nobody voted on; False if it is there already."""
        self.documents[span.document_id] = None
        return self.tallies.setdefault(span, new := Tally()) is new

    def tally(self, passage: ShownPassage) -> Tally | None:
        """The votes on a passage; None if its text is not in its document any more."""
        self.documents[passage.document_id] = None
        span = _present(passage, self.text_of(passage.document_id))
        if span is None:
            self.gone.add((passage.document_id, passage.text))
            return None
        return self.tallies.setdefault(span, Tally())


def candidate_row(
    asked: Asked,
    text_of: Callable[[str], str | None],
    closed: Callable[[GoldSpan], bool] = lambda _: False,
    pooled: Sequence[GoldSpan] = (),
) -> Row:
    """Return the candidate row of a question.

    Args:
        asked: The question and its answers.
        text_of: Text of a document by its id, None if there is none.
        closed: True for a span that is gold of a confirm split.
        pooled: Further passages to show, which readers did not see.
    """
    passages = _Passages(text_of)
    for answer in asked.answers:
        passages.count(answer)
    unseen = [span for span in pooled if passages.add(span)]
    corrections, notes = _remarks(asked)
    votes = Counter(vote for answer in asked.answers for vote in answer.votes.values())
    accepted, rejected = votes["accepted"], votes["rejected"]
    # Named first, then cited, both by votes; passages that were only shown keep their rank.
    ranked = sorted(
        passages.tallies.items(), key=lambda item: (-item[1].named, not item[1].cited, -item[1].net)
    )[:_MOST_PASSAGES]
    spans = tuple(span for span, _ in ranked)
    reference = corrections[0] if corrections else ""
    gold = proposed([t for _, t in ranked]) or _holding(asked.question, reference, spans)
    metadata: dict[str, MetaValue] = {
        "kind": FEEDBACK,
        "split": "tune",
        "feedback_accepted": accepted,
        "feedback_rejected": rejected,
        "feedback_outputs": tuple(answer.output for answer in asked.answers),
        "feedback_cited": tuple(str(n) for n, (_, t) in enumerate(ranked, 1) if t.cited),
        "feedback_confirm": tuple(str(n) for n, span in enumerate(spans, 1) if closed(span)),
        "feedback_documents": tuple(passages.documents),
        "feedback_correction": reference,
        "feedback_corrections": corrections[1:],
        "feedback_notes": notes,
        "feedback_pooled": tuple(str(n) for n, span in enumerate(spans, 1) if span in unseen),
        "feedback_gone": len(passages.gone) or "",
        "feedback_scope": asked.scope,
    }
    if accepted > rejected and not (gold or reference) and all(a.abstained for a in asked.answers):
        metadata["answerable"] = False  # readers agree that the documents do not answer it
    return Row(
        asked.id,
        asked.question,
        response=asked.answers[-1].text,
        reference=reference,
        retrieved_contexts=tuple(span.text for span in spans),
        retrieved_context_ids=tuple(span.document_id for span in spans),
        reference_spans=tuple(spans[index] for index in gold),
        retrieved_spans=spans,
        persona_name=asked.persona,
        metadata={key: value for key, value in metadata.items() if value not in ("", (), None)},
    )


def _remarks(asked: Asked) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Corrections, the latest first, and notes with the names of their readers."""
    entries = [entry for answer in asked.answers for entry in answer.feedback]
    corrections = dict.fromkeys(e.correction for e in reversed(entries) if e.correction)
    notes = dict.fromkeys(f"{e.by}: {e.note}" for e in entries if e.note.strip())
    return tuple(corrections), tuple(notes)


def _latest_named(answer: VotedAnswer) -> list[int]:
    """The passages that each reader named last."""
    latest: Mapping[str, tuple[int, ...]] = {
        entry.by: entry.passages for entry in answer.feedback if entry.passages
    }
    return [number for numbers in latest.values() for number in numbers]


def _present(passage: ShownPassage, text: str | None) -> GoldSpan | None:
    """The span of a passage in its document as it is now, None if it is not there."""
    if not text or not passage.text.strip():
        return None
    start, end = passage.start, passage.end
    if start is not None and end is not None and text[start:end] == passage.text:
        return GoldSpan(passage.document_id, start, end, passage.text)
    return located(passage.text, text, 0, passage.document_id)[0]


def _holding(question: str, answer: str, spans: Sequence[GoldSpan]) -> tuple[int, ...]:
    """The shortest passage that holds a corrected answer in its words; none without one."""
    holding = [
        index
        for index, span in enumerate(spans)
        if answer
        and answer_in_evidence(Row("", question, reference=answer, reference_spans=(span,)))
    ]
    return tuple(sorted(holding, key=lambda index: (len(spans[index].text), index))[:1])
