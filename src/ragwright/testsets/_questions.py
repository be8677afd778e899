"""Rows that are one question: the same words and one gold, for one persona or for several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from ..core import Row, value_hash


@dataclass(frozen=True, slots=True)
class Question:
    """One question.

    Attributes:
        own: Persona -> the row that asks it for this persona, in the order of the rows.
        elsewhere: Personas for whom the same words have rows, though none with this gold.
    """

    own: Mapping[str, Row]
    elsewhere: frozenset[str] = frozenset()

    @property
    def first(self) -> Row:
        """Its first row, which stands in for personas that have none."""
        return next(iter(self.own.values()))

    def row_for(self, persona: str) -> Row | None:
        """The row that asks it for a persona; None where the same words ask that one elsewhere."""
        if persona in self.elsewhere:
            return None
        return self.own.get(persona) or replace(self.first, persona_name=persona)


def questions_of(rows: Iterable[Row]) -> tuple[Sequence[Question], tuple[str, ...]]:
    """The questions of rows in their order, with a note where rows only repeat another one.

    Rows of the same words for different personas are one question, each with the gold of its
    persona. A second row of the same words for the same persona is another question where its
    gold is another, and a repetition where it is not.
    """
    by_words: dict[str, dict[str, dict[str, Row]]] = {}
    read = repeated = 0
    for row in rows:
        read += 1
        of_persona = by_words.setdefault(row.user_input, {}).setdefault(row.persona_name, {})
        gold = _gold(row)
        repeated += gold in of_persona
        of_persona.setdefault(gold, row)
    found = []
    for personas in by_words.values():
        listed = {name: list(golds.values()) for name, golds in personas.items()}
        for number in range(max(map(len, listed.values()))):
            own = {name: kept[number] for name, kept in listed.items() if number < len(kept)}
            found.append(Question(own, frozenset(listed.keys() - own.keys())))
    note = f"{repeated} of {read} rows repeat the question and gold of another row and are left out"
    return found, (note,) if repeated else ()


def rows_by_question(rows: Iterable[Row]) -> Sequence[Sequence[Row]]:
    """The rows of each question, in the order of their first rows; none is left out.

    The n-th row of the same words for a persona belongs to the n-th question of these words.
    """
    found: dict[tuple[str, int], list[Row]] = {}
    earlier: Counter[tuple[str, str]] = Counter()
    for row in rows:
        key = (row.user_input, row.persona_name)
        found.setdefault((row.user_input, earlier[key]), []).append(row)
        earlier[key] += 1
    return list(found.values())


def _gold(row: Row) -> str:
    spans = [asdict(span) for span in row.reference_spans]
    return value_hash([row.reference, row.reference_contexts, dict(row.reference_ids), spans])
