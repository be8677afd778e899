"""The models that a project names, and those that are on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ..core import RagwrightError
from ..models import NO_MODEL, LexicalReranker, list_cached_models
from ..retrieve import EMBED_PREFIX
from ._project import Project
from ._settings import project_keys


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model that a project names, or one that is in the hub's cache.

    Attributes:
        name: As it is written in a project.
        keys: Keys of the project file and personas that name it; empty for one that was only found.
        kind: ``offline`` (built in), ``server``, ``local`` or ``custom``.
        state: ``ready``, ``not fetched``, or ``fault``.
        text: The address, the pinned commit, the size of the files, or what is wrong and what to
            do.
    """

    name: str
    keys: tuple[str, ...]
    kind: Literal["offline", "server", "local", "custom"]
    state: Literal["ready", "not fetched", "fault"]
    text: str = ""


def list_models(project: Project) -> list[ListedModel]:
    """The models that a project names, then those in the hub's cache that it does not.

    Nothing is fetched or opened, and no server is called.
    """
    used: dict[str, list[str]] = {}
    for key, name in _model_keys(project):
        used.setdefault(name.removeprefix(EMBED_PREFIX), []).append(key)
    rows = [_model_row(project, name, tuple(keys)) for name, keys in used.items()]
    known = {name.removeprefix("hf:").partition("@")[0] for name in used}
    for repo, size in list_cached_models():
        if repo not in known:
            text = f"in the cache, {size / 1e6:,.0f} MB"
            rows.append(ListedModel(f"hf:{repo}", (), "local", "ready", text))
    return rows


def _model_keys(project: Project) -> Iterator[tuple[str, str]]:
    """Keys of settings that name a model, and the model."""
    for key, *_ in project_keys():
        last = key.rpartition(".")[2]
        if last not in {"model", "models", "embedder"} or "." not in key:
            continue
        value = project.settings.value(key)
        for name in (value,) if isinstance(value, str) else (value or ()):
            if isinstance(name, str) and name:
                yield key, name
    try:
        personas = project.personas
    except RagwrightError:
        return  # `doctor` reports damaged personas
    for persona in personas.values():
        if persona.model:
            yield f"persona {persona.name}", persona.model


def _model_row(project: Project, name: str, keys: tuple[str, ...]) -> ListedModel:
    models = project.models
    if name in (NO_MODEL, LexicalReranker.name):
        return ListedModel(name, keys, "offline", "ready", "built in")
    try:
        own = models.backend(name)
        if own is not None:
            return ListedModel(name, keys, "custom", "ready", type(own).__name__)
        target = models.target(name)
        if target.kind == "server":
            target.key()
            return ListedModel(name, keys, "server", "ready", target.base)
        from_hub = target.name.provider == "hf"
        folder = models.hub.located(target.name.name) if from_hub else models.folder(name)
        if folder is None:
            return ListedModel(name, keys, "local", "not fetched", "fetched when it is first used")
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
        text = f"commit {folder.name[:12]}, {size:,.0f} MB" if from_hub else f"{size:,.0f} MB"
        return ListedModel(name, keys, "local", "ready", text)
    except RagwrightError as error:
        return ListedModel(name, keys, "local", "fault", f"{error.what}; {error.hint or ''}")
