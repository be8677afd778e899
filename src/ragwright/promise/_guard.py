"""The guard of a project's answers from the promise in force, and what suspends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from ..answer import AnswerGuard, DraftOptions
from ..core import value_hash
from ..experiment import judging
from ..project import Project, Settings, configuration_of
from ._certificate import Certificate, certificate_in_force
from ._scores import answer_score, name_score


def guard_of(project: Project) -> AnswerGuard | None:
    """The guard of a project's answers; None without a promise.

    Raises:
        StoreError: A file of the promise is damaged.
    """
    certificate = certificate_in_force(project.folder)
    if certificate is None:
        return None
    changed = changes_since(certificate.parts, hash_promised_parts(project))
    return AnswerGuard(
        certificate=certificate.number,
        score=name_score(certificate.score),
        threshold=certificate.threshold,
        score_of=partial(answer_score, certificate.score, setup=judging(project)),
        line=certificate.line,
        promised=certificate.promised,
        snapshot=certificate.snapshot,
        retrieve=project.settings.retrieve,
        personas=certificate.personas,
        suspended=changed,
    )


def answering_settings_of(settings: Settings) -> Settings:
    """Settings under which every question gets an answer, of which the best are then shown.

    What has no influence on answers is as if it were not set.
    """
    answer = replace(settings.answer, threshold=0.0, stream=False, draft=DraftOptions())
    return replace(settings, answer=answer)


def hash_promised_parts(project: Project) -> Mapping[str, str]:
    """Part -> hash, of all that determines answers except the index.

    ``model`` is the model that answers; the other parts are sections of the project file, and
    paths of prompts, personas and other files.
    """
    settings = answering_settings_of(project.settings)
    configuration = configuration_of(project.folder, settings)
    sections = dict(configuration.settings)
    answer = dict(sections.pop("answer", {}))
    answer.pop("model", None)
    hashes = {name: value_hash(value) for name, value in sections.items() if value}
    if answer:
        hashes["answer"] = value_hash(answer)
    return {**hashes, "model": settings.answer.model, **configuration.files}


def changes_since(then: Mapping[str, str], now: Mapping[str, str]) -> str:
    """What changed, as the beginning of a sentence; empty if nothing did."""
    changed = [name for name in sorted({*then, *now}) if then.get(name) != now.get(name)]
    files = [name for name in changed if "/" in name or "." in name]
    shown = [f"the {name} changed" for name in ("model", "prompt") if name in changed]
    sections = [name for name in changed if name not in (*files, "model", "prompt")]
    shown += [f"settings changed ({', '.join(sections)})"] if sections else []
    shown += [f"files changed ({', '.join(files)})"] if files else []
    return ", ".join(shown)


def suspending_changes(project: Project, certificate: Certificate) -> str:
    """What changed since a certificate was made, documents included; empty if nothing did."""
    changes = [changes_since(certificate.parts, hash_promised_parts(project))]
    pair = project.pair
    held = project.store.holds(pair) and project.store.snapshot(pair) == certificate.snapshot
    changes += [] if held else ["the documents changed"]
    return ", ".join(filter(None, changes))
