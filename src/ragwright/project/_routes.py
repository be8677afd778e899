"""Handlers of a project's requests: each made when the first request of its kind arises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import flow, index, ingest, models, retrieve
from ..core import PluginError, addition

if TYPE_CHECKING:
    from ..flow import Route
    from ..index import Views
    from ._project import Project


class Routes(dict[type[Any], "Route"]):
    """The handler of each kind of request; those that parts and packages add are found by name.

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
            KeyError: Nothing that is installed carries it out.
            PluginError: Its handler cannot be made.
        """
        project = self._project
        if kind is flow.Fetch:
            self[kind] = ingest.FetchHandler(project.settings.fetch)
        elif kind is flow.Sql:
            self[kind] = retrieve.SqlHandler(project.databases)
        else:
            self[kind] = self._added(kind)
        return self[kind]

    def _added(self, kind: type[Any]) -> Route:
        known = addition("handlers", kind.__name__)
        if known is None:
            raise KeyError(kind)
        where = f"handler {known.name!r} of the package {known.package}"
        try:
            handler = known.load()(self._project)
        except Exception as error:
            raise PluginError(f"it failed: {type(error).__name__}: {error}", where=where) from error
        if not isinstance(handler, flow.SendHandler | flow.BatchHandler):
            raise PluginError(
                f"it made {type(handler).__name__}, not a handler",
                where=where,
                hint="derive it from SendHandler or BatchHandler of ragwright.flow",
            )
        if handler.carries is not kind:
            raise PluginError(
                f"it does not carry out {kind.__module__}.{kind.__qualname__}",
                where=where,
                hint=f"set carries = {kind.__name__} in the class of the handler",
            )
        return handler
