"""Web pages over the same service: each module adds its routes to one router."""

from . import _ask, _drafts, _experiments, _testsets  # noqa: F401
from ._base import router

__all__ = ["router"]
