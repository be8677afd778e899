"""The guard of a project's answers, which a part provides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core import load_addition

if TYPE_CHECKING:
    from ..answer import AnswerGuard
    from ._project import Project


def answer_guard(project: Project) -> AnswerGuard | None:
    """The guard of a project's answers, from its file ``promise.json``.

    Raises:
        StoreError: That file, or the certificate that it names, is damaged.
    """
    make = load_addition("guards", "promise", where=str(project.folder.promise))
    guard: AnswerGuard | None = make(project)
    return guard
