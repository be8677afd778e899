"""Web pages over the same service: ask, sources, experiments, outputs, settings."""

from ._routes import page_routes

__all__ = [
    "page_routes",
]
