"""Handlers of a project's requests: each made when the first request of its kind arises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import flow, index, ingest, models, retrieve
from ..core import own_additions

if TYPE_CHECKING:
    from ..flow import Route
    from ..index import Views
    from ._project import Project


class Routes(dict[type[Any], "Route"]):
    """The handler of each kind of request; those that parts add are found by name.

    Args:
        project: The project.
        views: Views that searches are answered from.
    """

    def __init__(self, project: Project, views: Views) -> None:
        super().__init__(models.model_handlers(project.models))
        self._project = project
        self[flow.Search] = index.SearchHandler(views)
        self[flow.Lookup] = index.LookupHandler(views)

    def __missing__(self, kind: type[Any]) -> Route:
        """The handler of a further kind.

        Raises:
            KeyError: No part carries it out.
        """
        project = self._project
        if kind is flow.Fetch:
            self[kind] = ingest.FetchHandler(project.settings.fetch)
        elif kind is flow.Sql:
            self[kind] = retrieve.SqlHandler(project.databases)
        else:
            handlers = {known.name: known for known in own_additions("handlers")}
            self[kind] = handlers[kind.__name__].load()(project)
        return self[kind]
