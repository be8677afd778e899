"""Routing by a chat model: the prompt, and the form of the reply."""

from __future__ import annotations

from ..flow import Flow
from ._asking import (
    StructuredQuestion,
    StructuredReply,
    asked,
    json_object,
    object_schema,
    one_line,
)
from ._route import Route, RouteScene


def asked_route(
    model: str, question: str, scene: RouteScene, ruled: Route
) -> Flow[StructuredReply[Route]]:
    """The route that a chat model chooses; ``ruled``, that of the rules, for a dry run."""
    return (yield from asked(_question_for(model, question, scene, ruled)))


def _question_for(
    model: str, question: str, scene: RouteScene, ruled: Route
) -> StructuredQuestion[Route]:
    """The router's prompt, and the form of its reply."""
    usable = [d for d in scene.databases if not d.problem and scene.chats]
    names = [database.options.name for database in usable]
    kinds = ["index", "corpus", "none", *(["sql"] if usable else [])]

    def parse(text: str) -> Route:
        reply = json_object(text, _KEYS)
        if reply["route"] not in kinds:
            raise ValueError(f"the route {reply['route']!r} is not one of {', '.join(kinds)}")
        chosen = reply["database"] if reply["route"] == "sql" else ""
        if reply["route"] == "sql" and chosen not in names:
            raise ValueError(f"the database {chosen!r} is not one of {', '.join(names)}")
        reason = one_line(reply["reason"], 500)
        return Route(reply["route"], reason, reply["rewrite"], reply["split"], chosen)

    described = [
        {
            "name": d.options.name,
            "description": d.options.description,
            "tables": [table.name for table in d.tables],
        }
        for d in usable
    ]
    schema = object_schema(
        {
            "route": {"type": "string", "enum": sorted(kinds)},
            "database": {"type": "string", "enum": sorted(["", *names])},
            "reason": {"type": "string"},
            "rewrite": {"type": "boolean"},
            "split": {"type": "boolean"},
        }
    )
    values = {"question": question, "databases": described}
    # names of tables of sheets are texts of their documents
    sources = tuple(name for database in usable for name in database.documents)
    return StructuredQuestion(model, "route", values, parse, ruled, schema=schema, sources=sources)


_KEYS: dict[str, type] = {
    "route": str,
    "database": str,
    "reason": str,
    "rewrite": bool,
    "split": bool,
}
