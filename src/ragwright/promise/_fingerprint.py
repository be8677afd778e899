"""What a certificate was made with: hashes of everything that determines an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..answer import DraftOptions
from ..core import value_hash
from ..project import Project, Settings, configuration_of
from ._certificate import Certificate


def answering_settings_of(settings: Settings) -> Settings:
    """Settings under which every question gets an answer, of which the best are then shown.

    What has no influence on answers is as if it were not set.
    """
    answer = replace(settings.answer, threshold=0.0, stream=False, draft=DraftOptions())
    return replace(settings, answer=answer)


def promised_parts(project: Project) -> Mapping[str, str]:
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
    changes = [changes_since(certificate.parts, promised_parts(project))]
    pair = project.pair
    held = project.store.holds(pair) and project.store.snapshot(pair) == certificate.snapshot
    changes += [] if held else ["the documents changed"]
    return ", ".join(filter(None, changes))
