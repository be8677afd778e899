"""A conversation as a caller may see it now."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...flow import Message
from .._conversations import Conversation
from .._errors import ApiError
from .._keys import hashed
from ._cards import ShownAnswer, cards_of, stored_answer, visible_answers

if TYPE_CHECKING:
    from ...workbench import Asking, Workbench
    from .._admission import Caller
    from .._conversations import Turn
    from .._opened import Opened
    from .._service import Service

_ID_LENGTH = 32
"""Characters of the id of a conversation."""

_HISTORY = 20
"""Turns before a question that the model gets."""

GONE = "conversation not found"


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """A question and its answers; ``deleted`` of them are no longer stored."""

    number: int
    answers: tuple[ShownAnswer, ...]
    deleted: int = 0


@dataclass(frozen=True, slots=True)
class Thread:
    """A conversation as a caller may see it.

    Attributes:
        conversation: The conversation.
        mine: True where the caller holds it.
        turns: The turns up to the first one that may not be seen.
        hidden: True where turns are left out: their passages may not be seen any more.
    """

    conversation: Conversation
    mine: bool
    turns: tuple[ShownTurn, ...] = ()
    hidden: bool = False

    @property
    def next(self) -> int:
        """Number of the turn that a new question is."""
        return self.turns[-1].number + 1 if self.turns else 1

    @property
    def passages(self) -> tuple[tuple[str, str], ...]:
        """Document and chunk of each passage that its answers were made from."""
        answers = (answer for turn in self.turns for answer in turn.answers)
        return tuple(sorted({place for answer in answers for place in answer.places}))

    def before(self, number: int) -> Thread:
        """The thread up to a turn, which is asked again or new.

        Raises:
            ApiError: 409, there is no such turn, or it would follow turns that may not be seen.
        """
        kept = tuple(turn for turn in self.turns if turn.number < number)
        if number != len(kept) + 1:
            raise ApiError(
                409,
                "this conversation cannot be continued here; begin a new one"
                if self.hidden
                else "the conversation has changed meanwhile; open it again",
                "conflict",
            )
        return replace(self, turns=kept)

    def messages(self, persona: str) -> tuple[Message, ...]:
        """The turns for a model, with the answers for one persona where there are any."""
        messages: list[Message] = []
        for turn in self.turns[-_HISTORY:]:
            answer = next((a for a in turn.answers if a.persona == persona), None)
            answer = answer or next(iter(turn.answers), None)
            if answer is not None:
                messages += [Message("user", answer.question), Message("assistant", answer.text)]
        return tuple(messages)


def new_thread(caller: Caller, configuration: str) -> Thread:
    """A conversation that nothing is stored of yet."""
    name = secrets.token_urlsafe(18)
    return Thread(_owned(caller, name, configuration), mine=True)


def _owned(caller: Caller, name: str, configuration: str) -> Conversation:
    scope = "" if caller.identity is None else caller.identity.scope
    return Conversation(name, caller.name, scope, configuration)


async def conversation_of(service: Service, caller: Caller, name: str) -> Conversation:
    """A conversation that a caller holds, or that is shared.

    Raises:
        ApiError: 404, there is none, or it is another person's and not shared.
    """
    known = await asyncio.to_thread(service.conversations.find, name)
    if known is None or not (known.shared or known.person == caller.name):
        raise ApiError(404, GONE, "not_found")
    return known


async def thread_to_ask(
    service: Service, caller: Caller, bench: Workbench, asking: Asking, name: str
) -> Thread:
    """The conversation that a caller asks in; an unknown id begins one.

    Its id is made from the one that was sent: who knows the link of a deleted conversation cannot
    put another one in its place.

    Raises:
        ApiError: 404, it is another person's.
    """
    own = hashed(f"{caller.name}\n{name}")[:_ID_LENGTH]
    find = service.conversations.find
    known = await asyncio.to_thread(find, name) or await asyncio.to_thread(find, own)
    if known is None:
        return Thread(_owned(caller, own, ""), mine=True)
    if known.person != caller.name:
        raise ApiError(404, GONE, "not_found")
    return await read_thread(service, caller, bench, asking, known)


async def read_thread(
    service: Service, caller: Caller, bench: Workbench, asking: Asking, known: Conversation
) -> Thread:
    """The turns of a conversation that a caller may see now.

    A later turn may quote an earlier one, so nothing is shown from the first turn on whose passages
    the caller may not all see. A shared conversation is shown whole or not at all.

    Raises:
        ApiError: 404, it is another person's and holds what this caller may not see.
    """
    turns = await asyncio.to_thread(_stored_turns, service, bench, known.id)
    mine = known.person == caller.name
    answers = [answer for turn in turns for answer in turn.answers]
    seen = await visible_answers(bench, asking, answers, mine=mine)
    shown: list[ShownTurn] = []
    for turn in turns:
        if not all(answer.id in seen for answer in turn.answers):
            break
        shown.append(turn)
    hidden = len(shown) < len(turns)
    if hidden and not mine:
        raise ApiError(404, GONE, "not_found")
    read = (place for turn in shown for answer in turn.answers for place in answer.places)
    caller.note.used(document for document, _ in read)
    return Thread(known, mine, tuple(shown), hidden)


def _stored_turns(service: Service, bench: Workbench, name: str) -> list[ShownTurn]:
    turns: Sequence[Turn] = service.conversations.turns(name).get(name, ())
    shown = []
    for turn in turns:
        stored = [stored_answer(bench.outputs, answer) for answer in turn.answers]
        answers = sorted((a for a in stored if a is not None), key=lambda answer: answer.persona)
        shown.append(ShownTurn(turn.number, tuple(answers), len(stored) - len(answers)))
    return shown


async def turn_values(bench: Workbench, caller: Caller, thread: Thread) -> list[dict[str, Any]]:
    """The turns for the template."""
    answers = [answer for turn in thread.turns for answer in turn.answers]
    cards = dict(zip((a.id for a in answers), await cards_of(bench, caller, answers), strict=True))
    return [
        {
            "number": turn.number,
            "question": turn.answers[0].question if turn.answers else "",
            "persona": turn.answers[0].persona if len(turn.answers) == 1 else "",
            "deleted": turn.deleted,
            "unkept": False,
            "cards": [cards[answer.id] for answer in turn.answers],
        }
        for turn in thread.turns
    ]


def usable_configuration(service: Service, caller: Caller, name: str) -> Opened:
    """The configuration of this name, or the caller's first one where it is not served any more.

    Raises:
        ApiError: 404, the caller may use none.
    """
    names = [opened.name for opened in service.configurations(caller.identity)]
    opened, _ = service.find(name if name in names else "", caller.identity)
    return opened
