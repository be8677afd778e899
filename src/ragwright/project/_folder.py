"""The project folder, its files, and the sections of its settings that parts add."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from ..core import (
    ConfigError,
    NamedOptions,
    Placed,
    PluginError,
    addition,
    build_options,
    find_additions,
    holds_secret,
    load_addition,
    load_object,
    option,
    suggest_name,
)
from ..ledger import Place, SharedPlace

PROJECT_FILE = "ragwright.yaml"

_TEMPLATE = """\
# A ragwright project. Only `sources` is needed; every other key has a default.
# All keys: ragwright doctor --keys

sources:
{sources}
# embed:
#   model: hf:sentence-transformers/all-MiniLM-L6-v2   # vectors in addition to keyword search

# answer:
#   model: openai:gpt-4o-mini          # the key comes from OPENAI_API_KEY

# models:
#   openai:gpt-4o-mini:
#     price_in: 0.15                   # per million tokens; --max-cost needs prices
#     price_out: 0.60
"""

_PERSONA = """\
# An example of a reader to write for. Rename this file to support.yaml, then:
# ragwright ask "…" --personas support
name: support
audience: people on a help desk who must answer while the customer waits
technical_density: product names and error codes yes, internals no
language_complexity: plain
answer_length: two or three sentences
writing_style: friendly and direct
"""

_PROMPT = """\
# Own wording for parts of the prompt: every part named here replaces the shipped one.
# Use it with    prompt: {template: prompts/own.yaml}    in ragwright.yaml
# All parts: role, tailor, ignore_debris, only_context, cite, key_information, insufficient,
# readable_sentences, persona_length, persona_style, no_extraneous, answer_language, context, …
# To leave a part out, say    prompt: {without: [key_information]}    there.
parts:
  no_extraneous: Say nothing that was not asked for.
"""

_TESTSETS = """\
Testsets live here: JSONL rows, or BEIR folders.

    ragwright synth -o testsets/mine.jsonl      # questions made of your documents
    ragwright review testsets/mine.jsonl        # accept, edit, reject
    ragwright eval --testset testsets/mine.jsonl

openings.jsonl, once it is there, says who opened a confirm split and what for: keep it under \
version control.
"""

_IGNORED = b".ragwright/\n"

_TEMPLATES = Path(__file__).parent / "data" / "templates"


class ProjectFolder:
    """Paths of a project; nothing is created before it is needed.

    ``cache`` may be deleted, which only costs time and money; ``data`` must be kept.

    Args:
        root: The project.
        frozen: Folder with prompts, personas and record declarations as they were when this
            configuration was promoted; None for the project's present ones.

    Attributes:
        parts: Folder of prompts, personas and declarations of records.
        file: The project file.
        personas: Folder of persona files.
        prompts: Folder of prompt files.
        testsets: Folder of testsets.
        openings: Log of openings of confirm splits: who, and why.
        promise: The certified risk of wrong answers that is in force.
        data: Store, runs and outputs.
        cache: Replies, views and file stamps.
        ledger: All that is kept in tables: runs, outputs, money, jobs, keys, promotions.
        sheets: The tables of ingested spreadsheets; there only where there are such.
        ingest_marker: A file that exists during an ingest, and after one that was interrupted.
        without_file: Stands in for the project file of a folder whose runs are of other systems.
    """

    def __init__(self, root: Path, frozen: Path | None = None) -> None:
        self.root = root
        self.frozen = frozen
        self.parts = frozen or root
        self.file = root / PROJECT_FILE
        self.personas = self.parts / "personas"
        self.prompts = self.parts / "prompts"
        self.testsets = root / "testsets"
        self.openings = self.testsets / "openings.jsonl"
        self.promise = root / "promise.json"
        self.data = root / ".ragwright" / "data"
        self.cache = root / ".ragwright" / "cache"
        self.ledger = self.data / "ledger.sqlite"
        self.sheets = self.data / "sheets.sqlite"
        self.ingest_marker = self.data / "ingesting"
        self.without_file = self.data / "without-project-file.yaml"

    @property
    def settings(self) -> Path:
        """The file that settings are read from: the project file, or its replacement."""
        alone = not self.file.is_file() and self.without_file.is_file()
        return self.without_file if alone else self.file

    @property
    def opened(self) -> bool:
        """True where there is a project file, or runs of other systems without one."""
        return self.file.is_file() or self.without_file.is_file()

    def begin(self) -> ProjectFolder:
        """The folder itself; where it holds no project, runs can be stored in it from now on."""
        if not self.opened:
            self.data.mkdir(parents=True, exist_ok=True)
            (self.data.parent / ".gitignore").write_text("*\n", "utf-8")
            self.without_file.write_text("# ragwright eval --system\n{}\n", "utf-8")
        return self

    def require(self) -> ProjectFolder:
        """The folder itself, if it holds a project.

        Raises:
            ConfigError: The folder does not exist, or holds no project file.
        """
        if not self.root.is_dir():
            raise ConfigError(
                "no such folder" if not self.root.exists() else "this is not a folder",
                where=str(self.root.resolve()),
                hint="check the path given with -C (--project)",
            )
        if not self.opened:
            raise ConfigError(
                f"no {PROJECT_FILE} in this folder",
                where=str(self.root.resolve()),
                hint="run: ragwright init   (or change to the folder of a project)",
            )
        return self


def init_project(root: Path, sources: tuple[str, ...] = (), template: str = "") -> list[Path]:
    """Write a new project; returns the files written.

    Args:
        root: Folder of the project.
        sources: Document sources to list in the project file.
        template: A name of :func:`project_templates`, empty for a project over documents. A
            template can be added to an existing project: existing files and folders are left as
            they are.

    Raises:
        ConfigError: The project exists already, nothing is changed; or the template is unknown.
    """
    folder = ProjectFolder(root)
    if template:
        files = _template_files(template, root)
        if sources:
            files[folder.file] += f"\nsources:\n{_yaml_items(sources)}".encode()
    elif folder.file.exists():
        raise ConfigError(
            f"{PROJECT_FILE} exists already; nothing was changed",
            where=str(folder.file),
            hint="edit it, or choose another folder",
        )
    else:
        files = _plain_files(folder, sources)
    existing = {
        path
        for path in files
        if path.exists() or (template and (root / path.relative_to(root).parts[0]).exists())
    }
    written = [path for path in files if path not in existing]
    for path in written:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files[path])
    if not written:
        raise ConfigError(
            f"all files of the template {template!r} exist already; nothing was changed",
            where=str(root),
            hint="edit the files, or choose another folder",
        )
    return written


def project_templates() -> tuple[str, ...]:
    """Names of the templates that come with ragwright, sorted."""
    return tuple(sorted(path.name for path in _TEMPLATES.iterdir() if path.is_dir()))


def _template_files(name: str, root: Path) -> dict[Path, bytes]:
    """Path -> content of every file of a template."""
    known = project_templates()
    if name not in known:
        raise ConfigError(f"unknown template {name!r}", hint=suggest_name(name, known))
    shipped = _TEMPLATES / name
    files = {
        root / path.relative_to(shipped): path.read_bytes()
        for path in sorted(shipped.rglob("*"))
        if path.is_file()
    }
    return files | {root / ".gitignore": _IGNORED}


def _plain_files(folder: ProjectFolder, sources: tuple[str, ...]) -> dict[Path, bytes]:
    """Path -> content of every file of a project over documents."""
    texts = {
        folder.file: _TEMPLATE.format(sources=_yaml_items(sources) or "  - docs/\n"),
        folder.personas / "support.yaml.example": _PERSONA,
        folder.prompts / "own.yaml": _PROMPT,
        folder.testsets / "README.md": _TESTSETS,
    }
    files = {path: text.encode() for path, text in texts.items()}
    return files | {folder.root / ".gitignore": _IGNORED}


def _yaml_items(sources: tuple[str, ...]) -> str:
    plain = re.compile(r"[\w/.-]+")
    texts = (s if plain.fullmatch(s) else json.dumps(s, ensure_ascii=False) for s in sources)
    return "".join(f"  - {text}\n" for text in texts)


_NAME = re.compile(r"[a-z_][a-z0-9_]{0,39}")


@dataclass(frozen=True, slots=True)
class SharedOptions:
    """A database where several machines keep replies, runs and outputs together."""

    address: str = option(
        "",
        "PostgreSQL database for replies, runs and outputs: postgresql://host/database ([pg]); "
        "empty: files in .ragwright.",
    )
    schema: str = option(
        "ragwright",
        "Beginning of the names of its schemas; projects in one database need different ones.",
    )
    patience: float = option(
        30.0,
        "Most seconds to wait for the database when it is away; `ragwright serve` waits at most 3.",
        ge=0,
    )

    def __post_init__(self) -> None:
        """Refuse other databases, passwords, and names that would have to be quoted."""
        if self.address and not self.address.startswith(("postgresql://", "postgres://", "${")):
            raise ConfigError(
                "the shared database must be PostgreSQL",
                hint="write shared.address: postgresql://host/database",
            )
        if holds_secret(self.address):
            raise ConfigError(
                "the address of the shared database holds a password",
                hint="leave it out: it is read from PGPASSWORD or ~/.pgpass; or name a variable, "
                "postgresql://user:${MY_PASSWORD}@host/database",
            )
        if not _NAME.fullmatch(self.schema):
            raise ConfigError(
                f"{self.schema!r} is not a name of a schema",
                hint="use lower-case letters, digits and _, at most 40",
            )

    def place(self, file: Path) -> Place:
        """Return where tables are kept: the shared database if there is one, else the file."""
        if not self.address:
            return file
        return SharedPlace(self.address, self.schema, self.patience)


SectionKind: TypeAlias = type[Any] | NamedOptions
"""The option record of a section, or that of the names below it."""


def section_kind(name: str, retrieve: Any = None) -> SectionKind | None:
    """The option record of a section that an extension adds; None if no extension has it.

    Args:
        name: Name of the section.
        retrieve: The section ``retrieve``, whose stages may have sections: its record or its plain
            value.

    Raises:
        PluginError: It cannot be imported.
    """
    known = addition("sections", name)
    if known is not None:
        return _checked_kind(known.load(), known.address)  # type: ignore[no-any-return]
    known = addition("stages", name)
    if known is not None:
        stage = known.load()
        section = getattr(stage, "name", "") or name
        if section != name:
            raise PluginError(
                f"the stage {name!r} of {known.package} has no section {name!r}",
                where=name,
                hint=f"write its settings under {section}:, the name of its class",
            )
        return _checked_kind(getattr(stage, "settings", None), known.address)  # type: ignore[no-any-return]
    kinds = stage_sections(retrieve)
    if name in _named_stages(retrieve) and name not in kinds:
        load_addition("stages", name, where="retrieve.stages")  # an error if it is not installed
    return kinds.get(name)


def stage_sections(retrieve: Any) -> dict[str, type[Any]]:
    """Sections of the stages that the section ``retrieve`` names."""
    kinds: dict[str, type[Any]] = {}
    for name in _named_stages(retrieve):
        known = None if ":" in name else addition("stages", name)
        if ":" not in name and known is None:
            continue  # the search reports unknown names
        plugin = known.load() if known else load_object(name, where="retrieve.stages")
        kind = _checked_kind(getattr(plugin, "settings", None), name)
        section = str(getattr(plugin, "name", "")) or (name if known else "")
        if kind is not None and section:
            kinds[section] = kind
    return kinds


class PartSections(Mapping[str, Any]):
    """Sections of a project file that are not of the base; those of parts are read when used.

    Args:
        read: Sections that were read.
        unread: Plain values of the others.
        placed: The project file.
    """

    def __init__(self, read: Mapping[str, Any], unread: Mapping[str, Any], placed: Placed) -> None:
        self._read = dict(read)
        self._unread = dict(unread)
        self._placed = placed

    def __getitem__(self, name: str) -> Any:
        """The section's option record.

        Raises:
            ConfigError: A key or value is wrong, with file and line.
            PluginError: The part cannot be imported.
        """
        if name not in self._read:
            value = self._unread[name]
            kind = section_kind(name)
            assert kind is not None, "settings_from keeps sections of parts alone unread"
            self._read[name] = read_section(kind, value, self._placed, name)
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._read, **self._unread})

    def __len__(self) -> int:
        return len({**self._read, **self._unread})


def list_sections() -> Iterator[tuple[str, SectionKind]]:
    """Sections of all installed parts and stages; what cannot be imported is left out."""
    for name in section_names():
        try:
            kind = section_kind(name)
        except PluginError:  # `ragwright doctor` reports it
            continue
        if kind is not None:
            yield name, kind


def section_names() -> list[str]:
    """Names that sections of installed packages can have."""
    return [*find_additions("sections"), *find_additions("stages")]


def read_section(kind: SectionKind, value: Any, placed: Placed, name: str) -> Any:
    """A section from its plain value.

    Raises:
        ConfigError: A key or value is wrong, with file and line.
    """
    if isinstance(kind, NamedOptions):
        return kind.read(value, placed)
    return build_options(kind, value, placed, (name,))


@cache
def default_section(kind: SectionKind, name: str) -> Any:
    """A section that the project file does not have."""
    return read_section(kind, None, Placed({}), name)


def _named_stages(retrieve: Any) -> list[str]:
    """Names under ``retrieve.stages``; none of a faulty value."""
    value: Any = getattr(retrieve, "stages", ())
    if isinstance(retrieve, Mapping):
        value = retrieve.get("stages")
    names = [value] if isinstance(value, str) else value
    return [n for n in names if isinstance(n, str)] if isinstance(names, list | tuple) else []


def _checked_kind(kind: Any, address: str) -> Any:
    """The kind of a section's settings, None for none."""
    if kind is None or isinstance(kind, NamedOptions) or dataclasses.is_dataclass(kind):
        return kind
    raise PluginError(
        f"the settings of {address} are not an option record",
        where=address,
        hint="write a frozen dataclass whose fields are made with ragwright.core.option",
    )
