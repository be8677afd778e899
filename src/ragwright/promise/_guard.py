"""The guard of a project's answers, from the promise in force."""

from __future__ import annotations

from functools import partial

from ..answer import AnswerGuard
from ..experiment import judging
from ..project import Project
from ._certificate import certificate_in_force
from ._fingerprint import changes_since, promised_parts
from ._scores import answer_score, shown_score


def guard_of(project: Project) -> AnswerGuard | None:
    """The guard of a project's answers; None without a promise.

    Raises:
        StoreError: A file of the promise is damaged.
    """
    certificate = certificate_in_force(project.folder)
    if certificate is None:
        return None
    changed = changes_since(certificate.parts, promised_parts(project))
    return AnswerGuard(
        certificate=certificate.number,
        score=shown_score(certificate.score),
        threshold=certificate.threshold,
        score_of=partial(answer_score, certificate.score, setup=judging(project)),
        line=certificate.line,
        promised=certificate.promised,
        snapshot=certificate.snapshot,
        retrieve=project.settings.retrieve,
        personas=certificate.personas,
        suspended=changed,
    )
