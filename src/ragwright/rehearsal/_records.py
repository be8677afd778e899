"""Records of a rehearsal: answers before and after a change, what differs, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ..core import Row

ReasonKind: TypeAlias = Literal[
    "passage gone",
    "passage changed",
    "passage moved",
    "passage new",
    "filter",
    "search",
    "prompt",
    "model",
    "settings",
    "failed",
    "unexplained",
]

Effect: TypeAlias = Literal[
    "text",
    "passages",
    "lost citations",
    "new citations",
    "moved citations",
    "now abstains",
    "now answers",
    "worse",
    "better",
    "failed",
    "cost",
    "time",
]

REASONS: Mapping[ReasonKind, str] = {
    "passage gone": "a passage was removed with its document, or from it",
    "passage changed": "a passage has another text",
    "passage moved": "a passage is at another place, with the same text",
    "passage new": "a passage was found in a new document or a new text",
    "filter": "a passage is excluded by a filter of the settings",
    "search": "the search ranks or cuts passages differently",
    "prompt": "the prompt differs over the same passages",
    "model": "another model answers",
    "settings": "other settings of the answer",
    "failed": "a question failed on one side",
    "unexplained": "nothing that was compared differs: the model answered differently",
}
"""What each reason means."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A cited or retrieved passage: its place and its text."""

    document_id: str
    start: int
    end: int
    text: str
    source: str = ""
    page: int | None = None

    @property
    def place(self) -> tuple[str, int, int]:
        """Document, first character, and the one behind the last."""
        return self.document_id, self.start, self.end

    def holds(self, other: Passage) -> bool:
        """True if the other place is within this one."""
        same = self.document_id == other.document_id
        return same and self.start <= other.start and other.end <= self.end

    def same(self, other: Passage) -> bool:
        """True if both have the same text, or one covers at least half of the other's place."""
        if self.text.strip() == other.text.strip():
            return True
        if self.document_id != other.document_id:
            return False
        shared = min(self.end, other.end) - max(self.start, other.start)
        return 2 * shared >= max(1, min(self.end - self.start, other.end - other.start))


@dataclass(frozen=True, slots=True)
class SideAnswer:
    """The answer of one side to a question.

    Attributes:
        text: With its marks; empty in a rehearsal of the search alone.
        abstained: True if it says that there is no answer.
        citations: Cited passages, in the order of their first use.
        hits: Passages of the context, best first.
        model: The model that wrote it.
        prompt: Hash of the messages that were sent; empty for a quoted answer.
        cost: Cost of its calls, None if unknown; a reply that is known keeps its cost.
        seconds: Time that its calls took when they were made.
        scores: Measure -> value, for rows with gold.
        error: Why there is no answer; empty if there is one.
    """

    text: str = ""
    abstained: bool = False
    citations: tuple[Passage, ...] = ()
    hits: tuple[Passage, ...] = ()
    model: str = ""
    prompt: str = ""
    cost: float | None = None
    seconds: float = 0.0
    scores: Mapping[str, float] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True, slots=True)
class RehearsedQuestion:
    """A question that both sides answer.

    Attributes:
        row: The question, its persona, and its gold where it has some.
        asked: How often it was asked; 1 for a row of a test set.
        served: The latest answer that was served; empty for a row of a test set.
    """

    row: Row
    asked: int = 1
    served: str = ""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an answer changed: the kind, the evidence, and the places it is about.

    ``direct`` is false for passages of the context that neither answer cites, if there are reasons
    about cited ones.
    """

    kind: ReasonKind
    evidence: str
    passages: tuple[Passage, ...] = ()
    direct: bool = True


@dataclass(frozen=True, slots=True)
class AnswerChange:
    """One question, what differs between its answers, and why.

    Attributes:
        question: The question.
        before: The present answer.
        after: The answer after the change.
        effects: What differs; empty if nothing does.
        reasons: Why, the most direct first; empty if nothing differs.
        lost: Citations of the present answer that the other lacks.
        worse: Measures that fell, with the difference; ``better`` those that rose.
    """

    question: RehearsedQuestion
    before: SideAnswer
    after: SideAnswer
    effects: tuple[Effect, ...]
    reasons: tuple[Reason, ...]
    lost: tuple[Passage, ...] = ()
    worse: Mapping[str, float] = field(default_factory=dict)
    better: Mapping[str, float] = field(default_factory=dict)

    @property
    def kinds(self) -> tuple[ReasonKind, ...]:
        """The kinds of its direct reasons, each once."""
        return tuple(dict.fromkeys(reason.kind for reason in self.reasons if reason.direct))

    @property
    def changed(self) -> bool:
        """True if readers would see another answer, or none.

        Cost, time, and other passages in the prompt alone do not count; where only the search is
        compared, other passages do.
        """
        unseen = {"cost", "time"}
        if self.before.text or self.after.text:
            unseen.add("passages")
        return not unseen.issuperset(self.effects)


@dataclass(frozen=True, slots=True)
class ChangedDocument:
    """A document that differs between the sides: ``new``, ``gone`` or ``changed``."""

    document_id: str
    state: Literal["new", "gone", "changed"]


@dataclass(frozen=True, slots=True)
class ReaderGroup:
    """Readers who see the same: a name, hard filters of their searches, their groups of readers."""

    name: str
    filters: tuple[str, ...]
    groups: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """Its filters and groups."""
        groups = (f"groups: {', '.join(self.groups)}",) if self.groups else ()
        return ", ".join((*self.filters, *groups))


@dataclass(frozen=True, slots=True)
class GroupView:
    """What a group of readers would see after the change.

    Attributes:
        group: The readers.
        documents_gained: Documents that they would see and do not see now.
        documents_lost: Documents that they see now and would not see.
        questions_gained: Ids of questions whose passages they would see more of.
        questions_lost: Ids of questions whose passages they would see fewer of.
        error: Why their filters cannot be applied on one side; empty if they can.
    """

    group: ReaderGroup
    documents_gained: tuple[str, ...] = ()
    documents_lost: tuple[str, ...] = ()
    questions_gained: tuple[str, ...] = ()
    questions_lost: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class StaleDraft:
    """A stored draft that was made from documents that would change."""

    outputs: tuple[str, ...]
    client: str
    at: str
    documents: tuple[ChangedDocument, ...]


@dataclass(frozen=True, slots=True)
class RehearsalGroup:
    """Changes with the same reasons, most asked first; ``asked`` is their sum."""

    reasons: tuple[ReasonKind, ...]
    asked: int
    changes: tuple[AnswerChange, ...]


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The outcome of a rehearsal.

    Attributes:
        name: What was changed, in a line.
        settings: Key -> (value before, value after) of every setting that differs.
        documents: Documents that differ between the sides.
        changes: One per question, most asked first.
        groups: Those that changed, by reason.
        readers: What each group of readers would see.
        drafts: Drafts made from documents that would change.
        measures: Measures that rows with gold were compared by.
        searched_only: True if no answers were written.
        notes: What the reader must know.
        runs: Runs that hold the answers before and after.
        as_groups: Groups of readers as whom was asked; None for one who sees everything.
    """

    name: str
    settings: Mapping[str, tuple[Any, Any]]
    documents: tuple[ChangedDocument, ...]
    changes: tuple[AnswerChange, ...]
    groups: tuple[RehearsalGroup, ...]
    readers: tuple[GroupView, ...] = ()
    drafts: tuple[StaleDraft, ...] = ()
    measures: tuple[str, ...] = ()
    searched_only: bool = False
    notes: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    as_groups: tuple[str, ...] | None = None
