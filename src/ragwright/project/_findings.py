"""What `ragwright doctor` and `ragwright models` find in a project."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..answer import compose
from ..core import Persona, RagwrightError, count_noun
from ..ledger import writable
from ..models import NO_MODEL, LexicalReranker, check_model, list_cached_models
from ._project import Project
from ._settings import project_keys

FindingState: TypeAlias = Literal["ok", "note", "fault"]


@dataclass(frozen=True, slots=True)
class Check:
    """One finding: ``ok``, ``note`` (works, with a remark) or ``fault``, and what to do."""

    topic: str
    state: FindingState
    text: str
    do: str = ""


def index_findings(project: Project) -> Iterator[Check]:
    """Findings on the folder, the sources and the index."""
    yield from _folder_checks(project)
    yield from _source_checks(project)
    yield from _index_checks(project)


def model_findings(project: Project, *, ask: bool = False) -> Iterator[Check]:
    """Findings on models and databases.

    With ``ask`` each server is asked for its list of models and each local model is opened; no
    reply is paid for.
    """
    yield from _model_checks(project)
    yield from _database_checks(project)
    if ask:
        yield from _server_checks(project)


def _folder_checks(project: Project) -> Iterator[Check]:
    """Faults if the project's folders cannot be written."""
    folder = project.folder
    if not writable(folder.data / "store"):
        yield Check(
            "folder",
            "note",
            f"{folder.data} cannot be written: the project can be read and searched, but nothing "
            "new is stored",
            "to ingest, draft or measure, give this user the right to write there",
        )
    if not writable(folder.cache / "replies"):
        yield Check(
            "folder",
            "note",
            f"{folder.cache} cannot be written: replies and views last for one command, and "
            "repeated calls are paid for again",
            "give this user the right to write there; it is only a cache",
        )


def _source_checks(project: Project) -> Iterator[Check]:
    entries = project.settings.sources
    if not entries and not (project.folder.root / "records").is_dir():
        yield Check("sources", "note", "no sources are listed", "list them in ragwright.yaml")
    for entry in entries:
        path = project.folder.root / entry.source
        remote = ":" in entry.source.partition("/")[0]
        if remote or path.exists():
            yield Check("sources", "ok", entry.source)
        elif not any(c in entry.source for c in "*?["):
            yield Check(
                "sources",
                "fault",
                f"no such file or folder: {entry.source}",
                f"create {path}, or edit `sources` in ragwright.yaml",
            )


def _database_checks(project: Project) -> Iterator[Check]:
    for database in project.databases.described():
        name = database.options.name
        if database.problem:
            yield Check(
                "database", "fault", f"{name}: {database.problem}", "see retrieve.databases"
            )
        elif project.settings.answer.model == NO_MODEL:
            tables = count_noun(len(database.tables), "table")
            text = f"{name}: {tables}, but no chat model to write statements"
            yield Check("database", "note", text, "set answer.model")
        else:
            yield Check(
                "database", "ok", f"{name}: {count_noun(len(database.tables), 'table')}, read-only"
            )


def _index_checks(project: Project) -> Iterator[Check]:
    try:
        spec = project.index_spec
        specs = project.store.index_specs()
    except RagwrightError as error:
        yield Check("index", "fault", error.what, error.hint or "")
        return
    documents = len(project.store.content_hashes(spec))
    if not documents:
        yield Check(
            "index", "note", "nothing is indexed under the present settings", project.filled_by
        )
    else:
        view = project.store.view(spec)
        try:
            size = view.statistics()
        finally:
            view.close()
        yield Check(
            "index",
            "ok",
            f"{count_noun(size.documents, 'document')}, {count_noun(size.chunks, 'chunk')}, "
            f"{count_noun(size.tokens, 'token')}; the view takes {size.bytes / 1e6:.1f} MB",
        )
        if size.approximate:
            yield Check("index", "note", size.approximate)
    for note in project.partial_note():
        yield Check("index", "note", note)
    for other in specs:
        if other.key != spec.key:
            documents_kept = len(project.store.content_hashes(other))
            under = count_noun(documents_kept, "document")
            yield Check("index", "note", f"also built under other settings: {under}")


def _answering_models(project: Project) -> set[str]:
    """Models that answer: the project's, and those of valid personas."""
    try:
        own = {persona.model for persona in project.personas.values()}
    except RagwrightError:  # reported by _model_checks
        own = set()
    return {project.settings.answer.model} | own - {""}


def _model_checks(project: Project) -> Iterator[Check]:
    try:
        compose("?", Persona("nobody"), (), project.settings.prompt)
        _ = project.personas
    except RagwrightError as error:
        yield Check("answers", "fault", str(error))
    model = project.settings.embed.model
    if not model:
        yield Check(
            "search",
            "note",
            "keyword search alone: no embedding model is configured",
            "for semantic search too, write in ragwright.yaml: embed: {model: "
            "hf:sentence-transformers/all-MiniLM-L6-v2}  (fetched once, about 90 MB)",
        )
    else:
        yield from _model_check(project, "search", model, "vectors")
    for key, name in unproven_models(project):
        own = key == "embed.model"
        yield Check(
            "search",
            "note",
            f"{name}: fine-tuned, and not proven better than "
            + ("the model it was trained from" if own else f"the search without it ({key})"),
            "use that model, or compare the two again: ragwright compare --table tutorial"
            if own
            else "train it on more questions, or leave it out",
        )
    for name in sorted(_answering_models(project)):
        if name == NO_MODEL:
            yield Check(
                "answers", "note", "no chat model: the best passages are shown", "set answer.model"
            )
        else:
            yield from _model_check(project, "answers", name, "answers")


def unproven_models(project: Project) -> list[tuple[str, str]]:
    """(Key, name) of the search's models that training kept although nothing was proven."""
    settings = project.settings
    named = {
        "embed.model": settings.embed.model,
        "retrieve.rerank.model": settings.retrieve.rerank.model,
    }
    return [(key, name) for key, name in named.items() if project.models.is_unproven(name)]


def _model_check(project: Project, topic: str, name: str, use: str) -> Iterator[Check]:
    try:
        if project.models.free(name):
            yield Check(topic, "ok", f"{name}: {use}, free of charge")
        else:
            project.models.target(name).key()
            yield Check(topic, "ok", f"{name}: {use}, paid for; the key is set")
    except RagwrightError as error:
        yield Check(topic, "fault", f"{name}: {error.what}", error.hint or "")


def _server_checks(project: Project) -> Iterator[Check]:
    states: dict[str, FindingState] = {"warning": "note", "error": "fault"}
    names = _answering_models(project) | {project.settings.embed.model}
    for name in sorted(names - {"", NO_MODEL}):
        finding = check_model(project.models, name)
        yield Check("models", states.get(finding.state, "ok"), f"{name}: {finding.text}")


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
        used.setdefault(name, []).append(key)
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
        from_hub = target.provider == "hf"
        folder = models.hub.located(target.name) if from_hub else models.folder(name)
        if folder is None:
            return ListedModel(name, keys, "local", "not fetched", "fetched when it is first used")
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
        text = f"commit {folder.name[:12]}, {size:,.0f} MB" if from_hub else f"{size:,.0f} MB"
        return ListedModel(name, keys, "local", "ready", text)
    except RagwrightError as error:
        return ListedModel(name, keys, "local", "fault", f"{error.what}; {error.hint or ''}")
