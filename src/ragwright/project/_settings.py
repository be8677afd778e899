"""The project file and what a session asks for beyond it."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from .. import retrieve
from ..answer import AnswerOptions, PromptOptions
from ..core import (
    ConfigError,
    NamedOptions,
    Placed,
    addition,
    build_options,
    describe_options,
    list_changed_options,
    nearest_name,
    option,
    overlaid,
    read_yaml,
    scalar,
    unknown_key,
    well_formed,
)
from ..index import StoreOptions
from ..ingest import OURS, ChunkOptions, FetchOptions, GroupOptions, IngestOptions, SourceOptions
from ..measure import MeasureSetup
from ..models import AnalyzerOptions, EmbedOptions, ModelSettings
from ..retrieve import RetrieveOptions
from ._folder import (
    PartSections,
    SharedOptions,
    default_section,
    list_sections,
    read_section,
    section_kind,
    section_names,
    stage_sections,
)

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class BudgetOptions:
    """Limits of spending and of load on servers."""

    max_cost: float | None = option(
        None, "Most money one command may spend; models then need prices.", gt=0
    )
    daily_cost: float | None = option(
        None,
        "Most money that all commands of the project may spend in a day (UTC), on all machines "
        "that share its database; models then need prices.",
        gt=0,
    )
    concurrency: int = option(16, "Requests in flight per model, unless set under `models`.", ge=1)
    first_piece_timeout: float = option(
        600.0, "Seconds until the first piece of a model's reply arrives.", gt=0
    )
    silence_timeout: float = option(
        120.0, "Seconds without a piece after which a model's reply is given up.", gt=0
    )


@dataclass(frozen=True, slots=True)
class SourceEntry:
    """One source: an address, and how to read it."""

    source: str
    options: SourceOptions = field(default_factory=SourceOptions)


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a project; each section is an option record.

    Attributes:
        parts: Sections of the file that are not of the base, by name; see :meth:`section`.
    """

    sources: tuple[SourceEntry, ...] = ()
    ingest: IngestOptions = field(default_factory=IngestOptions)
    groups: GroupOptions = field(default_factory=GroupOptions)
    fetch: FetchOptions = field(default_factory=FetchOptions)
    chunk: ChunkOptions = field(default_factory=ChunkOptions)
    keyword: AnalyzerOptions = field(default_factory=AnalyzerOptions)
    embed: EmbedOptions = field(default_factory=EmbedOptions)
    store: StoreOptions = field(default_factory=StoreOptions)
    retrieve: RetrieveOptions = field(default_factory=RetrieveOptions)
    prompt: PromptOptions = field(default_factory=PromptOptions)
    answer: AnswerOptions = field(default_factory=AnswerOptions)
    judge: MeasureSetup = field(default_factory=MeasureSetup)
    models: Mapping[str, ModelSettings] = field(default_factory=dict)
    budget: BudgetOptions = field(default_factory=BudgetOptions)
    shared: SharedOptions = field(default_factory=SharedOptions)
    parts: Mapping[str, Any] = field(default_factory=dict)

    def section(self, name: str) -> Any:
        """A section by name, with its defaults where the file does not have it.

        Raises:
            ConfigError: There is no such section.
            PluginError: The part that it belongs to cannot be imported.
        """
        if name in SECTIONS or name in _LISTS:
            return getattr(self, name)
        if name in self.parts:
            return self.parts[name]
        kind = section_kind(name, self.retrieve)
        if kind is None:
            raise unknown_key(name, _all_names(), Placed({}), (name,))
        return default_section(kind, name)  # type: ignore[arg-type]

    def part(self, name: str, kind: type[Record]) -> Record:
        """A section whose option record is known; see :meth:`section`."""
        record = self.section(name)
        assert isinstance(record, kind), f"{name}: {type(record).__name__}"
        return record

    def entries(self) -> tuple[SourceEntry, ...]:
        """The sources, each with the parser of the section ``ingest`` where it names none."""
        return tuple(self.parsed(entry) for entry in self.sources)

    def parsed(self, entry: SourceEntry) -> SourceEntry:
        """A source with the parser of the section ``ingest`` where it names none."""
        if entry.options.parser or self.ingest.parser == OURS:
            return entry
        return replace(entry, options=replace(entry.options, parser=self.ingest.parser))

    def value(self, key: str) -> Any:
        """The value of a dotted key such as ``retrieve.top_k``; None if there is none."""
        first, *rest = key.split(".")
        value = self.section(first)
        for name in rest:
            value = getattr(value, name, None)
        return value


SECTIONS: Mapping[str, type[Any]] = {
    "ingest": IngestOptions,
    "groups": GroupOptions,
    "fetch": FetchOptions,
    "chunk": ChunkOptions,
    "keyword": AnalyzerOptions,
    "embed": EmbedOptions,
    "store": StoreOptions,
    "retrieve": RetrieveOptions,
    "prompt": PromptOptions,
    "answer": AnswerOptions,
    "judge": MeasureSetup,
    "budget": BudgetOptions,
    "shared": SharedOptions,
}
"""Sections of the base."""

_LISTS = ("sources", "models")
"""Sections of the base that are not option records."""

_EMPTY = ("", "~", "null", "Null", "NULL")
"""Texts that YAML reads as no value."""

_INDEXED = ("chunk", "keyword", "embed")
"""Sections with keys that an index is built by."""

SERVED_SECTIONS = ("chunk", "keyword", "embed", "store", "retrieve", "prompt", "answer", "models")
"""Sections of the base that determine results: those of a served configuration."""


@dataclass(frozen=True, slots=True)
class Overrides:
    """Values that override a project file, and where each was written.

    Attributes:
        values: Key path -> plain value.
        places: Key path -> ``file:line``.
    """

    values: Mapping[tuple[str, ...], Any] = field(default_factory=dict)
    places: Mapping[tuple[str, ...], str] = field(default_factory=dict)


def load_settings(
    file: Path,
    overrides: Sequence[str] = (),
    laid: Overrides | None = None,
    *,
    served: Mapping[str, Any] | None = None,
) -> Settings:
    """Settings of a project file, ``key.path=value`` overrides, then ``laid`` values. Sections in
    ``served`` replace the file's.

    Raises:
        ConfigError: With file and line, and the nearest key if one is unknown.
    """
    placed = read_yaml(file, file.name)
    values = placed.value
    if not isinstance(values, dict):
        raise ConfigError("the project file must be a mapping of sections", where=placed.where())
    if served is not None:
        values = {**values, **served}
    over = [(*parse_override(text), f"--set {text}") for text in overrides]
    if laid is not None:
        over += [(path, value, laid.places.get(path, "")) for path, value in laid.values.items()]
    for path, value, where in over:
        values = overlaid(values, path, value)
        placed.lines = {k: n for k, n in placed.lines.items() if k[: len(path)] != path}
        placed.overrides[path] = where
    placed.value = values
    return settings_from(placed)


def settings_without_file(overrides: Sequence[str], keys: Sequence[str]) -> Settings:
    """Settings from ``key.path=value`` alone, for work that needs no project.

    Args:
        overrides: As on the command line.
        keys: Sections and keys that mean something there.

    Raises:
        ConfigError: A key is none of these, is unknown, or its value is wrong.
    """
    placed, values = Placed({}), dict[str, Any]()
    for text in overrides:
        path, value = parse_override(text)
        if path[0] not in keys and ".".join(path) not in keys:
            raise ConfigError(
                f"{'.'.join(path)} means nothing without a project",
                where=f"--set {text}",
                hint=f"{', '.join(keys)} can be set here; for others run "
                "`ragwright init` first, or name a project with --project",
            )
        values = overlaid(values, path, value)
        placed.overrides[path] = f"--set {text}"
    placed.value = values
    return settings_from(placed)


def parse_override(text: str) -> tuple[tuple[str, ...], Any]:
    """``retrieve.top_k=3`` as a key path and a value.

    A key that holds a text gets it as it is written, with its blanks and colons; quotes around it
    are those of YAML.

    Raises:
        ConfigError: There is no ``=`` or no key, or the value cannot be read.
    """
    key, sign, value = text.partition("=")
    path = tuple(part.strip() for part in key.split("."))
    if not sign or not all(path):
        raise ConfigError(
            f"{text!r} is not of the form key=value",
            where="--set",
            hint="write --set retrieve.top_k=3",
        )
    if _holds_text(path) and not value.startswith(("'", '"')) and value not in _EMPTY:
        if well_formed(value) != value:
            raise ConfigError("the value is not UTF-8", where=f"--set {text}")
        return path, value
    return path, scalar(value, f"--set {text}")


def _holds_text(path: tuple[str, ...]) -> bool:
    """True if the option of a key is a text, or none."""
    if path[0] in _LISTS:
        kind: Any = ModelSettings if path[0] == "models" else None
    else:
        kind = SECTIONS.get(path[0]) or section_kind(path[0])
    for name in path[1:] if path[0] != "models" else path[-1:]:
        if not dataclasses.is_dataclass(kind) or not isinstance(kind, type):
            return False
        kind = get_type_hints(kind).get(name)
    return kind in (str, str | None)


def settings_from(placed: Placed) -> Settings:
    """Settings from parsed YAML; raises ConfigError as :func:`load_settings`.

    A section of a part is read when it is used, unless ``--set`` sets one of its keys.
    """
    arguments: dict[str, Any] = {}
    parts: dict[str, Any] = {}
    unread: dict[str, Any] = {}
    for name, value in placed.value.items():
        if name == "sources":
            arguments[name] = tuple(_read_sources(value, placed))
        elif name == "models":
            arguments[name] = _read_model_settings(value, placed)
        elif name in SECTIONS:
            arguments[name] = build_options(SECTIONS[name], value, placed, (name,))
        elif addition("sections", name) and not any(path[0] == name for path in placed.overrides):
            unread[name] = value
        else:
            kind = section_kind(name, placed.value.get("retrieve"))
            if kind is None:
                raise _unknown_section(name, placed)
            parts[name] = read_section(kind, value, placed, name)
    return Settings(**arguments, parts=PartSections(parts, unread, placed))


def _unknown_section(name: str, placed: Placed) -> ConfigError:
    """The error for an unknown section; a key without its section is named with it."""
    leaves = {
        key.name: f"{section}.{key.name}"
        for section, kind in SECTIONS.items()
        for key in dataclasses.fields(kind)
    }
    wanted = unknown_key(name, _all_names(), placed, (name,))
    near = nearest_name(name, leaves, least=0.8)
    if near and not nearest_name(name, _all_names()):
        wanted.hint = f"did you mean {leaves[near]}?"
    return wanted


def _all_names() -> tuple[str, ...]:
    return (*_LISTS, *SECTIONS, *section_names())


def project_sections(settings: Settings | None = None) -> Mapping[str, type[Any]]:
    """Section of a project file -> the record of its options, if it is one.

    Sections of installed packages are included, and those of stages and channels that
    ``settings`` name by address.
    """
    kinds = {**dict(list_sections()), **stage_sections(settings and settings.retrieve)}
    records = {name: kind for name, kind in kinds.items() if not isinstance(kind, NamedOptions)}
    return {**records, **SECTIONS}


def list_served_sections(retrieve: Any) -> tuple[str, ...]:
    """Sections that determine results, under the stages and channels that ``retrieve`` names.

    Args:
        retrieve: The section ``retrieve``: its record or its plain value.
    """
    return tuple(dict.fromkeys((*SERVED_SECTIONS, *stage_sections(retrieve))))


def project_keys() -> Iterator[tuple[str, str, Any, str]]:
    """(key, when, default, sentence) of every key of a project file."""
    named_options: dict[str, NamedOptions] = {}
    for name, kind in (*SECTIONS.items(), *list_sections()):
        if isinstance(kind, NamedOptions):
            named_options[name] = kind
        else:
            yield from describe_options(kind, (name,))
    yield from describe_options(ModelSettings, ("models", "NAME"))
    yield from describe_options(SourceOptions, ("sources", "[]"))
    for name, names in named_options.items():
        yield from describe_options(names.options, (name, "NAME"))


def index_settings(settings: Settings) -> dict[str, dict[str, Any]]:
    """Section -> key -> value of what an index is built by, where it differs from the default."""
    indexed: dict[str, dict[str, Any]] = {}
    for section in _INDEXED:
        changed = list_changed_options(getattr(settings, section))
        built = {key for key, when, _, _ in describe_options(SECTIONS[section]) if when == "index"}
        indexed[section] = {key: value for key, value in changed.items() if key in built}
    return indexed


def _read_sources(value: Any, placed: Placed) -> Iterator[SourceEntry]:
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        raise ConfigError(
            "sources must be a list",
            where=placed.where("sources"),
            hint="for example sources: [manuals/, https://example.org/handbook]",
        )
    for number, item in enumerate(value):
        path = ("sources", str(number))
        entry = {"source": item} if isinstance(item, str) and item else item
        if not (isinstance(entry, dict) and isinstance(entry.get("source"), str)):
            raise ConfigError(
                "a source is an address, or a mapping with the key `source`",
                where=placed.where(*path),
                hint="write for example:  - source: docs/   and below it  include: ['*.md']",
            )
        options = {key: value for key, value in entry.items() if key != "source"}
        yield SourceEntry(entry["source"], build_options(SourceOptions, options, placed, path))


def _read_model_settings(value: Any, placed: Placed) -> dict[str, ModelSettings]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(
            "models must be a mapping from model name to settings",
            where=placed.where("models"),
            hint="for example models: {openai:gpt-4o-mini: {price_in: 0.15, price_out: 0.60}}",
        )
    return {
        name: build_options(ModelSettings, entry, placed, ("models", name))
        for name, entry in value.items()
    }


def resolve_paths(settings: Settings, root: Path) -> Settings:
    """Settings with relative paths resolved from the project folder."""
    prompt, answer = settings.prompt, settings.answer
    if prompt.template:
        prompt = replace(prompt, template=str(root / prompt.template))
    drafts = answer.draft
    if drafts.prompt:
        drafts = replace(drafts, prompt=str(root / drafts.prompt))
    if (prompt, drafts) == (settings.prompt, answer.draft):
        return settings
    return replace(settings, prompt=prompt, answer=replace(answer, draft=drafts))


@dataclass(frozen=True, slots=True)
class Session:
    """Settings of one session in addition to the project file.

    Attributes:
        overrides: ``key.path=value`` texts that override the project file.
        jobs: Most requests in flight per model.
        reuse: Answer from stored replies.
        attempt: Raised to request new replies in place of stored ones.
        max_cost: Most money to spend; the project's own bound if None.
        seed: Seed of all random choices.
        filters: Hard filters in addition to the project's, such as ``party=D``.
        soft: Soft filters in addition to the project's, such as ``topic=health^3``.
        served: Use the served configuration instead of the project's present settings.
        background: Give way to served answers: one request in flight per model, and none sent
            while a server of the project works on an answer.
    """

    overrides: tuple[str, ...] = ()
    jobs: int | None = None
    reuse: bool = True
    attempt: int = 0
    max_cost: float | None = None
    seed: int = 0
    filters: tuple[str, ...] = ()
    soft: tuple[str, ...] = ()
    served: bool = False
    background: bool = False

    def narrowed(self, settings: Settings) -> Settings:
        """Settings with the session's filters added to the project's."""
        options = settings.retrieve
        hard = tuple(map(retrieve.parse_filter, self.filters))
        soft = tuple(map(retrieve.parse_soft_filter, self.soft))
        return replace(
            settings,
            retrieve=replace(options, filters=options.filters + hard, soft=options.soft + soft),
        )


_FRESH = 2.0
"""Seconds after its last note in which an answer counts as under way."""

EVERY = 0.5
"""Seconds between two notes of a server that is answering."""


class AnswersUnderWay:
    """The time of a file says when a server of this project last worked on an answer.

    Nothing has to be removed after a crash: a note that is not repeated grows old.

    Args:
        data: The project's data folder.
    """

    def __init__(self, data: Path) -> None:
        self._file = data / "serve" / "answering"
        self._noted = 0.0

    def note(self) -> None:
        """Note that an answer is under way; does nothing if that was noted a moment ago."""
        now = time.monotonic()
        if now - self._noted < EVERY / 2:
            return
        self._noted = now
        with suppress(OSError):  # a full disk or a read-only folder stops no answer
            try:
                os.utime(self._file)
            except FileNotFoundError:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                self._file.touch()

    def any(self) -> bool:
        """True if a server of this project, in any process, works on an answer."""
        try:
            return time.time() - self._file.stat().st_mtime < _FRESH
        except OSError:
            return False


ABLATE = "ablate"
CONFIRM = "confirm"
SWEEP = "sweep"
TRIAL = "trial"
