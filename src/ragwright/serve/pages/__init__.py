"""Web pages over the same service: each module adds its routes to one router."""

from . import _ask, _testsets  # noqa: F401
from ._base import error_page, router

__all__ = ["error_page", "router"]
