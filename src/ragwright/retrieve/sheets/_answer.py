"""Questions about sheets, answered by rules: exact, or refused with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...core import Hit, StatementError, counted
from ...flow import Flow, SqlReply, sql
from ...index import SheetColumn, folded, singular
from .._tables import Sheet
from ._cite import MOST_ROWS, range_hit, rows_text, sheet_hits
from ._meaning import Query, query_of
from ._read import Question, items_of
from ._sheets import SHEETS
from ._statements import computed_statement, evidence_columns, evidence_statement, literal
from ._walk import Condition, NotReadError
from ._words import AGGREGATES, FILLERS

if TYPE_CHECKING:
    from .._tables import Database

_MOST_WORDS = 60
_MOST_VALUES = 2_000
_MOST_PARTS = 12
"""Runs of rows that an answer names one by one."""
_LISTED = 30
"""Values or groups that an answer lists; the rest is counted."""


@dataclass(frozen=True, slots=True)
class SheetAnswer:
    """What the rules make of a question about sheets.

    Attributes:
        text: The answer with ``[n]`` marks; empty where they refuse.
        hits: The rows it rests on.
        reason: Why there is no answer, or what was computed.
        certain: True where the words are understood and the sheets cannot answer.
        documents: Ids of the documents that the question may be about.
    """

    text: str
    hits: tuple[Hit, ...] = ()
    reason: str = ""
    certain: bool = False
    documents: frozenset[str] = frozenset()


def sheet_answer(question: str, database: Database) -> Flow[SheetAnswer | None]:
    """An answer from the tables of sheets, without a model; None for a question about others.

    Every word must be understood: as a column, a value, a unit, a number, a date or a word of the
    grammar. Otherwise, and where two meanings or two tables are possible, it refuses. At most three
    statements are sent.

    Raises:
        DatabaseError: The sheets cannot be queried.
        StatementError: A statement takes too long.
    """
    cut = Question.of(question)
    sheets = _sheets_in_question(cut, database.sheets)
    if not sheets:
        return None
    values = yield from _values_in_question(cut, sheets, database)
    queries: list[Query] = []
    refusals: list[tuple[Sheet, NotReadError]] = []
    for sheet in sheets:
        try:
            queries.append(query_of(items_of(cut, sheet, values.get(sheet.name, {})), sheet))
        except NotReadError as refusal:
            refusals.append((sheet, refusal))
    documents = frozenset(sheet.document for sheet in sheets)
    chosen, reason, certain = _chosen_query(queries, refusals)
    if chosen is None:
        return SheetAnswer("", reason=reason, certain=certain, documents=documents)
    return (yield from _computed(chosen, documents, database))


def units_in_sheets(question: str, sheets: Sequence[Sheet]) -> SheetAnswer | None:
    """The refusal of "How many articles are there?" where a column has that name, else None."""
    words = {singular(folded(word.text)) for word in Question.of(question).words}
    for sheet in sheets:
        for column in sheet.columns:
            if singular(folded(column.name)) in words:
                reason = (
                    f"it is not clear whether documents or rows of {sheet.place} are meant, which "
                    f"has the column {column.name}"
                )
                return SheetAnswer("", reason=reason, certain=True)
    return None


def _sheets_in_question(question: Question, sheets: Sequence[Sheet]) -> list[Sheet]:
    """The tables of which a question names a column or the name, if it asks for rows at all."""
    if len(question.words) > _MOST_WORDS:
        return []
    runs = {folded(question.span(at, end)) for at, end in _short_runs(len(question.words))}
    if not runs & AGGREGATES.keys():
        return []
    words = {singular(run) for run in runs if run not in FILLERS and " " not in run}
    phrases = {singular(run) for run in runs}
    return [sheet for sheet in sheets if _is_named(sheet, words, phrases)]


def _short_runs(count: int) -> list[tuple[int, int]]:
    return [(at, end) for at in range(count) for end in range(at + 1, min(count, at + 4) + 1)]


def _is_named(sheet: Sheet, words: set[str], phrases: set[str]) -> bool:
    for column in sheet.columns:
        name = singular(folded(column.name))
        if name in phrases or (set(name.split()) & words):
            return True
    return bool(set(singular(folded(sheet.called)).split()) & words)


def _values_in_question(
    question: Question, sheets: Sequence[Sheet], database: Database
) -> Flow[Mapping[str, Mapping[str, Mapping[str, tuple[str, ...]]]]]:
    """Values of the tables that a question names: table -> folded words -> column -> values."""
    grams = question.grams
    singulars = {gram: singular(gram) for gram in grams}
    listed = ", ".join(literal(gram) for gram in grams)
    others = ", ".join(literal(form) for form in sorted(set(singulars.values())))
    sheets = sheets[:200]
    names = ", ".join(literal(sheet.name) for sheet in sheets)
    reply = yield from sql(
        SHEETS,
        f'SELECT "table", "column", value, folded, singular FROM _values '  # noqa: S608
        f'WHERE (folded IN ({listed}) OR singular IN ({others})) AND "table" IN ({names})',
        _MOST_VALUES,
        database.within(sheets),
    )
    if reply.truncated:
        raise StatementError("the words of the question are values of too many rows")
    exact: dict[str, dict[str, dict[str, list[str]]]] = {}
    loose: dict[str, dict[str, dict[str, list[str]]]] = {}
    for table, column, value, fold, single in reply.rows:
        for gram in grams:
            if gram == fold:
                kept = exact
            elif singulars[gram] == single:
                kept = loose
            else:
                continue
            kept.setdefault(table, {}).setdefault(gram, {}).setdefault(column, []).append(value)
    for table, by_gram in loose.items():
        for gram, columns in by_gram.items():
            exact.setdefault(table, {}).setdefault(gram, columns)
    return {
        table: {
            gram: {column: tuple(held) for column, held in columns.items()}
            for gram, columns in by_gram.items()
        }
        for table, by_gram in exact.items()
    }


def _chosen_query(
    queries: Sequence[Query], refusals: Sequence[tuple[Sheet, NotReadError]]
) -> tuple[Query | None, str, bool]:
    """The query of the one table that a question can mean, or the reason why there is none."""
    certain = [refusal for _, refusal in refusals if refusal.certain]
    most = max((query.named for query in queries), default=0)
    best = [query for query in queries if query.named == most]
    if len(best) == 1 and (not certain or most):
        return best[0], "", True
    if best:
        places = ", ".join(query.sheet.place for query in best)
        if len(best) == 1:
            return None, certain[0].reason, True
        return None, f"several tables can answer it: {places}; name one of them", True
    first = certain[0] if certain else refusals[0][1]
    return None, first.reason, bool(certain)


def _computed(query: Query, documents: frozenset[str], database: Database) -> Flow[SheetAnswer]:
    """Run a query, and cite the rows."""
    statement = computed_statement(query)
    within = database.within([query.sheet])
    result = yield from sql(SHEETS, statement, max(MOST_ROWS, 1_000), within)
    columns = evidence_columns(query)
    if query.form in {"highest", "lowest", "list", "value"} and query.group is None:
        rows = result.rows
        hits = sheet_hits(query.sheet, columns, rows[:MOST_ROWS], statement)
    else:
        most = MOST_ROWS + 1
        evidence = yield from sql(SHEETS, evidence_statement(query, most), most, within)
        rows = evidence.rows
        hits = sheet_hits(query.sheet, columns, rows, statement)
        if len(rows) > MOST_ROWS and query.group is None:
            hits = [range_hit(query.sheet, columns, result.rows[0][2:6], statement)]
        elif len(rows) > MOST_ROWS:
            bounds = (rows[0][0], rows[-1][0], rows[0][1], rows[-1][2])
            hits = [range_hit(query.sheet, columns, bounds, statement)]
    wording = _Wording(query, result, rows)
    try:
        text = wording.text()
    except NotReadError as refusal:
        reason = refusal.reason
        return SheetAnswer("", tuple(hits), reason, certain=True, documents=documents)
    marks = "".join(f"[{hit.rank}]" for hit in hits)
    place = _rows_place(query, hits)
    return SheetAnswer(f"{text}{place} {marks}".strip(), tuple(hits), statement, True, documents)


def _rows_place(query: Query, hits: Sequence[Hit]) -> str:
    """The rows that count, where the sentence does not name them."""
    named = query.form in {"highest", "lowest", "value"} and query.group is None
    rows = ", ".join(str(hit.metadata["rows"]) for hit in hits)
    if named or not rows:
        return ""
    if rows.count(",") > _MOST_PARTS:
        first, last = rows.split("-")[0].split(",")[0], rows.split(",")[-1].split("-")[-1].strip()
        rows = f"between {first} and {last}"
    return f" {'Row' if rows.isdigit() else 'Rows'} {rows}."


def plain_number(value: Any, decimals: int) -> str:
    """A number without noise of floating point: at most so many digits after the point."""
    if value is None:
        return "none"
    if isinstance(value, int):
        return str(value)
    text = f"{float(value):.{max(decimals, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


class _Wording:
    """The sentence of an answer."""

    def __init__(self, query: Query, result: SqlReply, rows: Sequence[Sequence[Any]]) -> None:
        self._query = query
        self._result = result
        self._rows = rows

    def text(self) -> str:
        """The sentence, with what was left out.

        Raises:
            NotReadError: No row counts, or several rows differ where one value is asked for.
        """
        query = self._query
        if query.group is not None:
            sentence = self._groups()
        elif query.form in {"highest", "lowest"}:
            sentence = self._extreme_value()
        elif query.form in {"list", "value"}:
            sentence = self._listed()
        else:
            sentence = self._single()
        return f"{sentence}{self._left_out()}"

    @property
    def _where(self) -> str:
        clauses = [_condition_text(self._query.sheet, c) for c in self._query.conditions]
        return f" where {' and '.join(clauses)}" if clauses else ""

    def _single(self) -> str:
        query = self._query
        value, count, *_ = self._result.rows[0]
        place = query.sheet.place
        if query.form == "rows":
            return f"{counted(int(value), 'row')} of {place}{self._where}."
        target = query.target
        if target is None or not count:
            raise NotReadError(f"no row of {place} has a value{self._where}")
        if query.form == "distinct":
            rows = counted(int(count), "row")
            return (
                f"{counted(int(value), 'different value')} of {target.name} in {rows} of "
                f"{place}{self._where}."
            )
        name = {"sum": "sum", "average": "average", "median": "median"}[query.form]
        digits = target.decimals + (0 if query.form == "sum" else 4)
        shown = _with_unit(plain_number(value, digits), target)
        rows = counted(int(count), "row")
        return f"The {name} of {target.name} is {shown}, over {rows} of {place}{self._where}."

    def _extreme_value(self) -> str:
        query = self._query
        target, place = query.target, query.sheet.place
        if target is None or not self._rows:
            raise NotReadError(f"no row of {place} has a value{self._where}")
        columns = evidence_columns(query)
        value = self._rows[0][3 + columns.index(target.name)]
        shown = _with_unit(_cell_text(value, target), target)
        numbers = rows_text([int(row[0]) for row in self._rows[:_LISTED]])
        at = f"row {numbers}" if len(self._rows) == 1 else f"rows {numbers}"
        if query.shown is None:
            return f"The {query.form} {target.name} is {shown}, in {at} of {place}{self._where}."
        names = self._names(query.shown)
        return (
            f"{names}: the {query.form} {target.name} is {shown}, in {at} of {place}{self._where}."
        )

    def _names(self, column: SheetColumn) -> str:
        position = 3 + evidence_columns(self._query).index(column.name)
        cells = (_cell_text(row[position], column) for row in self._rows)
        names = list(dict.fromkeys(cell for cell in cells if cell))
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        return ", ".join(names[:_LISTED]) + more

    def _listed(self) -> str:
        query = self._query
        target, place = query.target, query.sheet.place
        if target is None or not self._rows:
            raise NotReadError(f"no row of {place} matches{self._where}")
        if self._result.truncated:
            raise NotReadError(f"more rows of {place} match than can be listed{self._where}")
        numbers = [int(row[0]) for row in self._rows]
        rows = counted(len(numbers), "row")
        names = self._names(target)
        if query.form == "value":
            position = 3 + evidence_columns(query).index(target.name)
            values = {row[position] for row in self._rows}
            if values == {None}:
                raise NotReadError(f"{rows} of {place} match{self._where}, without {target.name}")
            if len(values) > 1:
                raise NotReadError(
                    f"{rows} of {place} match{self._where}, with different values of {target.name}"
                )
            names = _with_unit(names, target)
            at = f"{'row' if len(numbers) == 1 else 'rows'} {rows_text(numbers[:_LISTED])}"
            return f"{target.name}: {names}, in {at} of {place}{self._where}."
        return f"{target.name}: {names} ({rows} of {place}{self._where})."

    def _groups(self) -> str:
        query = self._query
        group, kind, place = query.group, query.per or query.form, query.sheet.place
        rows = self._result.rows
        if group is None or not rows:
            raise NotReadError(f"no row of {place} has a value{self._where}")
        digits = (query.target.decimals if query.target else 0) + (4 if kind == "average" else 0)
        name = (
            "number of rows"
            if kind == "rows"
            else f"{kind} of {query.target.name}"
            if (query.target)
            else kind
        )

        def value(row: Sequence[Any]) -> str:
            return _with_unit(plain_number(row[1], digits), query.target)

        if query.per:
            best = [row for row in rows if value(row) == value(rows[0])]
            names = ", ".join(str(row[0]) for row in best)
            way = query.form
            return f"{names}: the {way} {name} is {value(rows[0])}, in {place}{self._where}."
        listed = "; ".join(f"{row[0]}: {value(row)}" for row in rows[:_LISTED])
        more = f"; and {len(rows) - _LISTED} more" if len(rows) > _LISTED else ""
        return f"The {name} by {group.name}: {listed}{more} ({place}{self._where})."

    def _left_out(self) -> str:
        """What of the target's column could not be counted."""
        target = self._query.target
        if target is None or self._query.form in {"list", "value", "distinct"}:
            return ""
        if not target.empty:
            return ""
        cells = counted(target.empty, "cell")
        named = f" ({'; '.join(target.left_out[:3])})" if target.left_out else ""
        return f" {cells} of {target.name} without a value{named} did not count."


def _with_unit(text: str, column: SheetColumn | None) -> str:
    if column is None or not column.unit:
        return text
    return f"{text}{'' if column.unit == '%' else ' '}{column.unit}"


def _cell_text(value: Any, column: SheetColumn) -> str:
    if value is None:
        return ""
    return plain_number(value, column.decimals) if column.type == "number" else str(value)


def _condition_text(sheet: Sheet, condition: Condition) -> str:
    column = sheet.column(condition.column)
    values = " or ".join(
        _with_unit(str(value), column) if column.type == "number" else str(value)
        for value in condition.values[:5]
    )
    mark = {"in": "is", "not in": "is not", "=": "is"}.get(condition.mark, condition.mark)
    return f"{condition.column} {mark} {values}"
