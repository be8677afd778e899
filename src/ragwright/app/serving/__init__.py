"""Commands that keep a project at work: serve, mcp, keys, promote, job."""

from ._job import line_problem
from ._serve import require_serving, serve_demo

__all__ = [
    "line_problem",
    "require_serving",
    "serve_demo",
]
