"""The gate on answers: what scores below a certified threshold becomes an abstention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..core import Answer, AnswerPromise
from ..flow import Flow
from ..retrieve import RetrieveOptions
from ._options import REFUSED, AnswerOptions


@dataclass(frozen=True, slots=True)
class AnswerGuard:
    """A certified threshold for answers, and what to say about it.

    Attributes:
        certificate: Name of the certificate.
        score: Name of the score, for notes.
        threshold: Least score of an answer that is shown.
        score_of: Scores an answer; None means that it has no such score, and is withheld.
        line: The promise in one sentence, while it holds.
        promised: The promise as part of a sentence: ``at most 5 % of answers wrong``.
        snapshot: State of the index that was certified.
        retrieve: Settings of the search that was certified.
        personas: Names of the personas that were certified.
        suspended: What changed since the certification; empty if nothing did.
    """

    certificate: str
    score: str
    threshold: float
    score_of: Callable[[Answer], Flow[float | None]]
    line: str
    promised: str
    snapshot: str
    retrieve: RetrieveOptions
    personas: tuple[str, ...] = ("",)
    suspended: str = ""

    def answering(self, options: AnswerOptions) -> AnswerOptions:
        """Settings of answering under this guard: every question gets an answer, none streams."""
        return replace(options, threshold=0.0, stream=False)

    def sentence(self, snapshot: str) -> str:
        """What the certificate says of answers from a state of the index."""
        if changed := self.changed(snapshot):
            return (
                f"The promise of {self.promised} is suspended: {changed}; "
                "run `ragwright promise --again`"
            )
        return self.line

    def promise(self, answer: Answer, snapshot: str, scope: str = "") -> AnswerPromise:
        """What the certificate says of an answer, without its score; ``scope`` as in `guarded`."""
        holds = not self.changed(snapshot)
        if not scope and answer.persona not in self.personas:
            scope = (
                f"answers for the persona {answer.persona!r}"
                if answer.persona
                else "answers without a persona"
            )
        line = self.sentence(snapshot)
        if holds and scope:
            line = f"The promise of {self.promised} does not cover {scope}"
        return AnswerPromise(line, self.certificate, self.threshold, holds=holds and not scope)

    def changed(self, snapshot: str) -> str:
        """What suspends the promise; empty while it holds."""
        changes = (self.suspended, "" if snapshot == self.snapshot else "the documents changed")
        return ", ".join(filter(None, changes))


def guarded(
    answers: Sequence[Answer], guard: AnswerGuard, snapshot: str, scope: str = ""
) -> Flow[list[Answer]]:
    """Answers with their promise; those that score below the threshold become abstentions.

    A suspended promise withholds nothing: answers only carry its sentence.

    Args:
        answers: Answers to one question.
        guard: Threshold and certificate.
        snapshot: State of the index that was searched.
        scope: What the question is that no certified question was; empty if it is one of them.
    """
    if guard.changed(snapshot):
        return [replace(answer, promise=guard.promise(answer, snapshot)) for answer in answers]
    checked = []
    for answer in answers:
        score = None if answer.abstained else (yield from guard.score_of(answer))
        promise = guard.promise(answer, snapshot, scope)
        answer = replace(answer, promise=replace(promise, score=score))
        if not answer.abstained and (score is None or score < guard.threshold):
            answer = _withheld(answer, guard, score)
        checked.append(answer)
    return checked


def _withheld(answer: Answer, guard: AnswerGuard, score: float | None) -> Answer:
    """An abstention in place of an answer."""
    reached = f"has no {guard.score}" if score is None else f"has {guard.score} {score:.4g}"
    note = (
        f"withheld: the answer {reached}, and {guard.threshold:.4g} is needed to keep the promise "
        f"of {guard.promised}"
    )
    return replace(
        answer,
        text=REFUSED,
        abstained=True,
        citations=(),
        snippets=(),
        notes=(note, *answer.notes),
    )
