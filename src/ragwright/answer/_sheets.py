"""Answers computed from the tables of spreadsheets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from .. import retrieve as searches
from ..core import Answer, DatabaseError, Persona, StatementError
from ..flow import Flow
from ..models import ExtractiveReranker
from ..retrieve import Route, RouteScene
from ._forms import refusal
from ._marks import resolve_citations

if TYPE_CHECKING:
    from ..retrieve import Database, SheetAnswer
    from ._flow import AskPlan

COMPUTED = "computed from cells of the sheet by SQL; no model wrote this"


def sheets_of(plan: AskPlan) -> Database | None:
    """The tables of spreadsheets, if a plan may ask them."""
    if plan.setup.options.closed_book:
        return None
    return next((d for d in plan.databases if d.sheets and not d.problem), None)


def read_from_sheets(
    question: str, plan: AskPlan, chosen: Route
) -> Flow[tuple[SheetAnswer | None, tuple[str, ...]]]:
    """What the tables of spreadsheets say to a question, and notes; None if it is not about them.

    Questions about documents as such, and messages with nothing to look up, are not. "How many
    articles are there?" has two readings where a table has the column "Article".
    """
    database = sheets_of(plan)
    if database is None or chosen.kind == "none":
        return None, ()
    units = searches.read_units(question)
    if units is not None:
        unclear = None if units.topic else searches.units_in_sheets(question, database.sheets)
        return unclear, ()
    try:
        return (yield from searches.sheet_answer(question, database)), ()
    except (DatabaseError, StatementError) as error:
        return None, (f"the tables of spreadsheets could not be read: {error.what}",)


def sheet_route(reading: SheetAnswer, scene: RouteScene) -> Route | None:
    """The route of a question about sheets; None where the index answers it, with a check.

    Rules answer, or refuse where they understand every word; else a chat model writes the
    statement, if there is one.
    """
    if reading.text or reading.certain:
        return Route("sql", "every word of it names something in a sheet", database=searches.SHEETS)
    if scene.chats:
        reason = f"it names a sheet, but rules do not read it: {reading.reason}"
        return Route("sql", reason, database=searches.SHEETS)
    return None


def told_by_sheets(
    question: str, personas: Sequence[Persona], reading: SheetAnswer
) -> list[Answer]:
    """The computed answer, or the abstention, for each persona: the same text for all."""
    blank = Answer(question, "", hits=reading.hits, model="computed")
    if not reading.text:
        abstention = replace(blank, text=refusal(question), abstained=True, notes=(reading.reason,))
        return [replace(abstention, persona=persona.name) for persona in personas]
    citations, notes = resolve_citations(reading.text, reading.hits)
    notes = (COMPUTED, reading.reason, *notes)
    answered = replace(blank, text=reading.text, citations=citations, notes=notes, best_quote=1.0)
    return [replace(answered, persona=persona.name) for persona in personas]


def without_sheet_quotes(
    question: str, answers: Sequence[Answer], reading: SheetAnswer
) -> list[Answer]:
    """Abstain where rows of a sheet would be quoted for a question that rules do not read.

    Sentences of other documents are kept.
    """
    checked = []
    for answer in answers:
        quoted = {citation.document_id for citation in answer.citations}
        if quoted & reading.documents and answer.model == ExtractiveReranker.name:
            answer = replace(
                answer,
                text=refusal(question),
                abstained=True,
                citations=(),
                best_quote=None,
                notes=(f"no row is quoted for a question about a sheet: {reading.reason}",),
            )
        elif answer.abstained:
            note = f"not computed from the sheets: {reading.reason}"
            answer = replace(answer, notes=(note, *answer.notes))
        checked.append(answer)
    return checked
