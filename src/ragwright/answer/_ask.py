"""From a question to its answers: condense, retrieve once, answer for each persona."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..core import Answer, Persona
from ..flow import Flow, Message, gather, settled
from ..retrieve import RetrieveOptions, Target, retrieve
from ._condense import condense
from ._flow import AnswerSetup, answer


@dataclass(frozen=True, slots=True)
class AskPlan:
    """How a question is answered.

    Attributes:
        retrieve: How passages are found.
        setup: How answers are made from them.
        history: Earlier turns, oldest first; the question is then made to stand alone.
        notes: What every answer has to say beside its own notes.
    """

    retrieve: RetrieveOptions
    setup: AnswerSetup
    history: tuple[Message, ...] = ()
    notes: tuple[str, ...] = ()


def ask(
    question: str, personas: Sequence[Persona], target: Target, plan: AskPlan
) -> Flow[list[Answer]]:
    """One answer per persona, in their order, all from the same passages.

    Raises:
        RagwrightError: What the first persona that failed failed with, after all have ended.
    """
    notes = plan.notes
    standalone = question
    if plan.history:
        condensed = yield from condense(question, plan.history, plan.setup.options.model)
        standalone = condensed.text
        if standalone != question:
            notes = (*notes, f"read as: {standalone} ({condensed.how})")
    found = yield from retrieve(standalone, target, plan.retrieve)
    outcomes = yield from gather(
        (answer(standalone, persona, found.hits, plan.setup) for persona in personas), settle=True
    )
    reason = f"{found.mode} search" if found.mode else "own retriever"
    return [
        replace(
            made, question=question, route_reason=reason, notes=(*notes, *found.notes, *made.notes)
        )
        for made in map(settled, outcomes)
    ]
