"""The guard of a project's answers, from the promise in force."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ..answer import AnswerGuard
from ..experiment import judging
from ._certificate import standing_of
from ._fingerprint import changes_since, promised_parts
from ._scores import answer_score, shown_score

if TYPE_CHECKING:
    from ..project import Project
    from ._certificate import Certificate, Standing


def guard_of(project: Project) -> AnswerGuard | None:
    """The guard of a project's answers; None without a promise.

    Raises:
        StoreError: A file of the promise is damaged.
    """
    standing = standing_of(project.folder)
    if standing is None:
        return None
    certificate, state = standing
    changed = changes_since(certificate.parts, promised_parts(project))
    return AnswerGuard(
        certificate=certificate.number,
        score=shown_score(certificate.score),
        threshold=state.threshold,
        score_of=partial(answer_score, certificate.score, setup=judging(project)),
        line=_line(certificate, state),
        promised=certificate.promised,
        snapshot=certificate.snapshot,
        retrieve=project.settings.retrieve,
        personas=certificate.personas,
        suspended=changed,
        broken=state.reason if state.state == "broken" else "",
    )


def _line(certificate: Certificate, standing: Standing) -> str:
    """The sentence that answers show."""
    line = certificate.line(standing.threshold)
    return f"{line} ({standing.reason})" if standing.state == "fell back" else line
