"""Groups rows into questions: the same words and gold, for one or several personas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from ..core import Row, value_hash


@dataclass(frozen=True, slots=True)
class Question:
    """One question.

    Attributes:
        own: Persona -> the row with this question for the persona, in the order of the rows.
        elsewhere: Personas with rows of the same words, but other gold.
    """

    own: Mapping[str, Row]
    elsewhere: frozenset[str] = frozenset()

    @property
    def first(self) -> Row:
        """Its first row, used for personas without a row."""
        return next(iter(self.own.values()))

    def row_for(self, persona: str) -> Row | None:
        """The row for a persona; None if the persona's row with the same words has other gold."""
        if persona in self.elsewhere:
            return None
        return self.own.get(persona) or replace(self.first, persona_name=persona)


def questions_of(rows: Iterable[Row]) -> tuple[Sequence[Question], tuple[str, ...]]:
    """The questions of rows in order, with a note if rows only repeat another one.

    Rows of the same words for different personas are one question, each with the gold of its
    persona. A second row with the same words for the same persona is another question if its gold
    differs, else a repetition.
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
