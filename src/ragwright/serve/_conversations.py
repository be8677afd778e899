"""Conversations of the pages: which stored answers follow each other, and whose they are.

A conversation holds no text. Question and answer of each turn are an output, so that what `forget`
deletes there is gone here too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from ..ledger import Connection, Ledger, Place
from ._errors import ApiError

_COLUMNS = "id, person, scope, configuration, began, changed, shared"

MOST_TURNS = 200
"""Turns of a conversation."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation of a person.

    Attributes:
        id: Random; the end of its address.
        person: Name of the identity that holds it, empty where nobody needs to sign in.
        scope: The tenant that its answers were made for.
        configuration: Name of the configuration that answers.
        began: ISO 8601, UTC; likewise ``changed``.
        shared: True where its link opens for others who may see its passages.
    """

    id: str
    person: str
    scope: str = ""
    configuration: str = ""
    began: str = ""
    changed: str = ""
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """A question of a conversation, from 1, and the names of the answers to it."""

    number: int
    answers: tuple[str, ...]


class Conversations:
    """The conversations of a project, in its ledger.

    Args:
        place: Its ledger.
    """

    def __init__(self, place: Place) -> None:
        self._ledger = Ledger(place)

    def close(self) -> None:
        """Close the ledger; safe to call twice."""
        self._ledger.close()

    def find(self, name: str) -> Conversation | None:
        """The conversation with an id, None where there is none."""
        rows = self._select("WHERE id = ?", (name,))
        return rows[0] if rows else None

    def of_person(self, person: str, most: int, before: str = "") -> list[Conversation]:
        """The conversations of a person, the last changed first.

        ``before`` is the time of change of the last one of the page before.
        """
        older = "AND changed < ? " if before else ""
        return self._select(
            f"WHERE person = ? {older}ORDER BY changed DESC, id LIMIT ?",
            (person, *([before] if before else []), most),
        )

    def turns(self, *names: str) -> dict[str, list[Turn]]:
        """The turns of conversations by their ids, the first turn first."""
        grouped: dict[tuple[str, int], list[str]] = {}
        for at in range(0, len(names), 500):
            some = names[at : at + 500]
            marks = ", ".join("?" * len(some))
            rows = self._ledger.select(
                "SELECT conversation, turn, answer FROM conversation_turns "  # noqa: S608
                f"WHERE conversation IN ({marks}) AND current = 1 "
                "ORDER BY conversation, turn, answer",
                some,
            )
            for conversation, turn, answer in rows:
                grouped.setdefault((conversation, turn), []).append(answer)
        turns: dict[str, list[Turn]] = {}
        for (conversation, turn), answers in grouped.items():
            turns.setdefault(conversation, []).append(Turn(turn, tuple(answers)))
        return turns

    def answers(self, name: str) -> list[str]:
        """The names of all answers of a conversation, also of those that were replaced."""
        query = "SELECT answer FROM conversation_turns WHERE conversation = ?"
        return [answer for (answer,) in self._ledger.select(query, (name,))]

    def add(self, conversation: Conversation, turn: int, asking: str, answer: str) -> None:
        """Add an answer as a turn in place of later turns and of earlier answers to it.

        Args:
            conversation: The conversation, which is begun where it does not exist.
            turn: Number of the turn, at most one behind the last.
            asking: Random text, the same for the answers to one asking, which stay side by side.
            answer: Name of the stored answer.

        Raises:
            ApiError: 404, it belongs to another person; 409, there is no turn to follow; 503, the
                answer was erased.
            StoreError: It cannot be stored.
        """
        self._ledger.write(partial(_add_turn, conversation, turn, asking, answer))

    def share(self, name: str, *, shared: bool) -> None:
        """Let the link of a conversation open for others, or no longer."""
        change = "UPDATE conversations SET shared = ? WHERE id = ?"
        self._ledger.write(lambda db: db.execute(change, (int(shared), name)).rowcount)

    def remove(self, *names: str) -> None:
        """Remove conversations; their answers stay among the outputs.

        Raises:
            StoreError: They cannot be removed.
        """

        def work(connection: Connection) -> None:
            rows = [(name,) for name in names]
            connection.executemany("DELETE FROM conversation_turns WHERE conversation = ?", rows)
            connection.executemany("DELETE FROM conversations WHERE id = ?", rows)

        self._ledger.write(work)

    def _select(self, condition: str, values: Sequence[str | int]) -> list[Conversation]:
        rows = self._ledger.select(f"SELECT {_COLUMNS} FROM conversations {condition}", values)  # noqa: S608
        return [
            Conversation(name, person, scope, configuration, began, changed, bool(shared))
            for name, person, scope, configuration, began, changed, shared in rows
        ]


def _add_turn(
    conversation: Conversation, turn: int, asking: str, answer: str, connection: Connection
) -> None:
    name, now = conversation.id, datetime.now(UTC).isoformat(timespec="milliseconds")
    stored = connection.execute("SELECT 1 FROM output_names WHERE name = ?", (answer,))
    if stored.fetchone() is None:  # erased since it was stored
        raise ApiError(503, "this answer has been deleted meanwhile; ask again", "erased")
    connection.execute(
        f"INSERT INTO conversations ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, 0) "  # noqa: S608
        "ON CONFLICT (id) DO NOTHING",
        (name, conversation.person, conversation.scope, conversation.configuration, now, now),
    )
    changed = connection.execute(
        "UPDATE conversations SET changed = ?, configuration = ? WHERE id = ? AND person = ?",
        (now, conversation.configuration, name, conversation.person),
    )
    if not changed.rowcount:
        raise ApiError(404, "conversation not found", "not_found")
    connection.execute(
        "UPDATE conversation_turns SET current = 0 "
        "WHERE conversation = ? AND (turn > ? OR (turn = ? AND round != ?))",
        (name, turn, turn, asking),
    )
    last = connection.execute(
        "SELECT coalesce(max(turn), 0) FROM conversation_turns "
        "WHERE conversation = ? AND current = 1",
        (name,),
    ).fetchone()[0]
    if not max(last, 1) <= turn <= min(last + 1, MOST_TURNS):
        raise ApiError(409, "the conversation has changed meanwhile; open it again", "conflict")
    connection.execute(
        "INSERT INTO conversation_turns VALUES (?, ?, ?, ?, 1) ON CONFLICT DO NOTHING",
        (name, turn, asking, answer),
    )
