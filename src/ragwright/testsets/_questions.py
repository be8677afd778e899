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
        """Return a persona's row; None if its row with the same words has other gold."""
        if persona in self.elsewhere:
            return None
        return self.own.get(persona) or replace(self.first, persona_name=persona)


def questions_of(rows: Iterable[Row]) -> tuple[Sequence[Question], tuple[str, ...]]:
    """Return the questions of rows in order, with a note if rows only repeat another one.

    Rows of the same words for different personas are one question, each with the gold of its
    persona. A second row with the same words for the same persona is another question if its gold
    differs, else a repetition.
    """
    by_words: dict[str, dict[str, dict[str, Row]]] = {}
    read = repeated = 0
    for row in rows:
        read += 1
        of_persona = by_words.setdefault(_words_of(row), {}).setdefault(row.persona_name, {})
        gold = _gold_hash(row)
        repeated += gold in of_persona
        of_persona.setdefault(gold, row)
    questions = []
    for personas in by_words.values():
        rows_by_persona = {name: list(golds.values()) for name, golds in personas.items()}
        for number in range(max(map(len, rows_by_persona.values()))):
            own = {
                name: rows_of_persona[number]
                for name, rows_of_persona in rows_by_persona.items()
                if number < len(rows_of_persona)
            }
            questions.append(Question(own, frozenset(rows_by_persona.keys() - own.keys())))
    note = f"{repeated} of {read} rows repeat the question and gold of another row and are left out"
    return questions, (note,) if repeated else ()


def rows_by_question(rows: Iterable[Row]) -> Sequence[Sequence[Row]]:
    """Group rows by question, in the order of their first rows; none is left out.

    The n-th row of the same words for a persona belongs to the n-th question of these words.
    """
    groups: dict[tuple[str, int], list[Row]] = {}
    earlier: Counter[tuple[str, str]] = Counter()
    for row in rows:
        words = _words_of(row)
        key = (words, row.persona_name)
        groups.setdefault((words, earlier[key]), []).append(row)
        earlier[key] += 1
    return list(groups.values())


def _words_of(row: Row) -> str:
    """Return the question; after other turns the same words are another question."""
    turns = [turn.content for turn in row.history]
    return "\x00".join((row.user_input, *turns))


def _gold_hash(row: Row) -> str:
    spans = [asdict(span) for span in row.reference_spans]
    return value_hash([row.reference, row.reference_contexts, dict(row.reference_ids), spans])
