"""Settings of the sections ``sources``, ``chunk`` and ``fetch``; the interface of readers."""

from __future__ import annotations

import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

from ..core import (
    GROUPS,
    ConfigError,
    Document,
    RagwrightError,
    SourceError,
    StoppedError,
    addition,
    find_additions,
    group_names,
    meta_value,
    misspelt_groups,
    option,
    suggest_name,
)
from ..flow import FetchReply
from ._engine import EngineOptions

KINDS = ("tokens", "paragraphs", "sentences", "headings", "page", "entries", "whole")
"""Units by which documents are cut; anything else is a custom chunker."""

OURS = "ours"
"""The parser that ragwright itself is."""

Recognition: TypeAlias = Literal["auto", "always", "never"]
"""When text recognition is used."""


def check_parser_name(name: str, key: str) -> None:
    """Check that a parser of this name is known.

    Args:
        name: As written; empty for the default.
        key: Key that it is the value of, for the message.

    Raises:
        ConfigError: No installed package has it; the nearest name is given.
    """
    if name not in ("", OURS) and ":" not in name and not addition("parsers", name):
        raise ConfigError(
            f"{key}: {name!r} is not a parser",
            hint=suggest_name(name, (OURS, *find_additions("parsers")))
            + "; or write module:object",
        )


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """How a source is found and read."""

    include: tuple[str, ...] = option(
        (),
        "Glob patterns that a file of a folder must match, by name or path; empty: all.",
        when="index",
    )
    exclude: tuple[str, ...] = option(
        (), "Glob patterns of files and folders to leave out, by name or path.", when="index"
    )
    metadata: Mapping[str, Any] = option(
        dict,
        "Fields that every document of the source gets, such as {group: hr}, for filters. They "
        "win over fields that a document brings.",
        when="index",
    )
    groups: tuple[str, ...] = option(
        (),
        "Groups of readers that may read the documents of the source; empty: as the documents and "
        "the section `groups` say.",
        when="index",
    )
    max_bytes: int = option(200_000_000, "Largest local file read, in bytes.", when="index", ge=1)
    max_unpacked_bytes: int = option(
        1_000_000_000,
        "Largest total of an unpacked document archive, in bytes.",
        when="index",
        ge=1,
    )
    parser: str = option(
        "",
        "What reads PDF, office, HTML and mail files: ours, markitdown, kreuzberg, the parser of "
        "an installed package, or module:object; empty: that of `ingest.parser`.",
        when="index",
    )
    main_text: bool = option(
        False,
        "Reduce local HTML files to their main text, as for web pages; useful for saved web pages.",
        when="index",
    )
    max_memory: int = option(
        1_000_000_000,
        "Most memory that reading one file may take, in bytes, in addition to the file itself.",
        when="index",
        ge=100_000_000,
    )
    max_seconds: float = option(
        300.0, "Most processor time that reading one file may take, in seconds.", when="index", gt=0
    )
    encoding: str = option("", "Encoding of text files; empty: detected.", when="index")
    ocr: Recognition = option(
        "auto",
        "Read images, and PDF pages without text, by text recognition (OCR): auto (where the "
        "extra [ocr] is installed), always (without it, an error), never.",
        when="index",
    )
    ocr_pixels: int = option(
        2_200_000,
        "Pixels to which a page is reduced for OCR: an A4 page at 150 dots per inch. More reads "
        "smaller print, and takes more time and memory.",
        when="index",
        ge=10_000,
    )
    arguments: Mapping[str, Any] = option(
        dict, "Arguments of the file system of an address; secrets as {env: NAME}.", when="index"
    )
    reader: str = option("", "Custom reader of the source: module:object.", when="index")

    def __post_init__(self) -> None:
        """Check the parser, and that filters can use the source's fields.

        Raises:
            ConfigError: Unknown parser, or filters cannot use a value of ``metadata``.
        """
        check_parser_name(self.parser, "parser")
        for named in (self.groups, *(v for n, v in self.metadata.items() if n == GROUPS)):
            if named != ():
                group_names(named)
        if self.metadata and (misspelt := misspelt_groups(self.metadata)):
            raise ConfigError(
                f"metadata.{misspelt}: not a field, but nearly {GROUPS!r}",
                hint=f"write {GROUPS}: [hr], or give the field another name",
            )
        for name, value in self.metadata.items():
            if meta_value(value) in (None, "", ()):
                raise ConfigError(
                    f"metadata.{name}: {value!r} is not a value that filters can use",
                    hint="give a text, a number, true, false, a date, or a list of texts",
                )


@dataclass(frozen=True, slots=True)
class IngestOptions(EngineOptions):
    """Where documents are read, and by what."""

    parser: str = option(
        OURS,
        "What reads PDF, office, HTML and mail files of every source without a `parser`: ours, "
        "markitdown, kreuzberg, the parser of an installed package, or module:object. Each has an "
        "index of its own.",
        when="index",
    )

    def __post_init__(self) -> None:
        """Check the parser.

        Raises:
            ConfigError: No installed package has it.
        """
        check_parser_name(self.parser, "ingest.parser")


@dataclass(frozen=True, slots=True)
class HeadOptions:
    """What each chunk is searched with besides its text.

    The head goes to vectors and keywords, never into the text of a hit, a quote or a citation. Of
    it the answering model sees the header row of a table.
    """

    document_tokens: ClassVar[int] = 8_000
    """Most tokens of a document that the model reads; of a longer one the part with the chunk."""

    max_tokens: ClassVar[int] = 100
    """Most tokens of title, headings and header row together, and of the model's sentence."""

    title: bool = option(True, "The document's title.", when="index")
    headings: bool = option(True, "The headings above the chunk.", when="index")
    model: str = option(
        "",
        "Chat model that writes a sentence about the chunk's place in its document, one call per "
        "chunk; empty: none.",
        when="index",
    )

    @property
    def pieces(self) -> tuple[str, ...]:
        """The pieces that are on, the header row of a table always; of the model its name."""
        names = [name for name in ("title", "headings") if getattr(self, name)]
        return (*names, "table_header", *([f"a sentence by {self.model}"] if self.model else []))

    @property
    def spec(self) -> str:
        """The settings as a part of the chunker's spec."""
        read = f" from {self.document_tokens} tokens" if self.model else ""
        return f" under {', '.join(self.pieces)}{read}, at most {self.max_tokens} tokens"


@dataclass(frozen=True, slots=True)
class ChunkOptions:
    """How documents are cut.

    ``by`` is one of

    - ``tokens``: windows of ``size`` tokens that share ``overlap`` tokens;
    - ``paragraphs``, ``sentences``: whole ones, as many as ``size`` holds; the last ones
      that fit into ``overlap`` open the next chunk; one longer than ``size`` is cut as by
      ``tokens``;
    - ``headings``: one chunk per section, each subsection its own; a section longer than
      ``size`` is cut as by ``paragraphs``; a heading without text joins what follows it;
    - ``page``: one chunk per page, slide or sheet;
    - ``entries``: one chunk from each match of ``pattern`` to the next; the text before the first
    match is a separate chunk;
    - ``whole``: one chunk per document;
    - ``module:object``: a custom chunker, or a class or function that makes one without arguments
    or from (options, tokenizer).

    Pages and entries stay whole however long they are. Documents without headings, pages or
    matches are cut as by ``paragraphs``.

    Raises:
        ConfigError: A value or a pair of values is invalid.
    """

    by: str = option(
        "tokens",
        "Unit: tokens, paragraphs, sentences, headings, page, entries, whole, or module:object.",
        when="index",
    )
    size: int = option(400, "Most tokens of a chunk.", when="index", ge=1)
    overlap: int = option(
        50, "Tokens that neighbouring chunks share; below `size`.", when="index", ge=0
    )
    pattern: str = option(
        "", "Regular expression that matches where an entry begins (`by: entries`).", when="index"
    )
    slack: float = option(
        0.15,
        "Share of a window at its end in which a paragraph, sentence or word border is "
        "preferred; 0 cuts at exactly `size`, inside a word too.",
        when="index",
        ge=0,
        le=0.5,
    )
    head: HeadOptions = option(HeadOptions, "What each chunk is searched with besides its text.")

    def __post_init__(self) -> None:
        """Check values that depend on each other."""
        if self.by not in KINDS and ":" not in self.by and not addition("chunkers", self.by):
            kinds = (*KINDS, *find_additions("chunkers"))
            raise ConfigError(
                f"chunk.by: {self.by!r} is not a chunking method",
                hint=f"{suggest_name(self.by, kinds)} (or module:object)",
            )
        if self.overlap >= self.size:
            raise ConfigError(
                f"chunk.overlap ({self.overlap}) must be below chunk.size ({self.size})",
                hint="set both; an eighth of the size is a usual overlap",
            )
        if self.by == "entries" and not self.pattern:
            raise ConfigError(
                "chunk.by: entries needs chunk.pattern",
                hint="for example pattern: '^[A-Z]+_\\w\\d{3}' (^ matches at each line)",
            )
        self.entry_pattern()

    def entry_pattern(self) -> Any:
        """The pattern as the module ``regex`` compiles it; ``^`` and ``$`` match at every line.

        Raises:
            ConfigError: Not a regular expression.
        """
        import regex

        try:
            return regex.compile(self.pattern, regex.MULTILINE)
        except regex.error as error:
            raise ConfigError(
                f"chunk.pattern {self.pattern!r} is not a regular expression: {error}",
                hint="quote it with single quotes in YAML, so that backslashes stay",
            ) from error


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """How addresses are fetched."""

    open_networks: tuple[str, ...] = option(
        (), "Private networks that fetching may access, as CIDR blocks."
    )
    proxy: str = option("", "Proxy to fetch through, http://host:port; it resolves names itself.")


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Failure:
    """A source, or a part of one, that could not be read, and why.

    ``skipped`` marks what is left out on purpose, such as a link that leads out of the source:
    it is reported, but does not count as a failure. ``warning`` marks damage in a document
    that was read all the same.
    """

    source: str
    error: RagwrightError
    skipped: bool = False
    warning: bool = False


_NAMED = 5
"""Files that are named where many share a cause."""


def failure_lines(failures: Iterable[Failure]) -> list[str]:
    """Return what could not be read, as lines of text; many files with one cause are one entry."""
    causes: dict[tuple[str, str, str], list[Failure]] = {}
    for failure in failures:
        word = "warning" if failure.warning else "skipped" if failure.skipped else "failed"
        causes.setdefault((word, failure.error.what, failure.error.hint or ""), []).append(failure)
    lines = []
    for (word, what, hint), alike in causes.items():
        if len(alike) == 1:
            text = textwrap.indent(str(alike[0].error), "  ")
            lines.append(f"{word}: {alike[0].source}\n{text}")
            continue
        more = f" and {len(alike) - _NAMED} more" if len(alike) > _NAMED else ""
        named = ", ".join(failure.source for failure in alike[:_NAMED])
        lines.append(f"{word}: {len(alike)} files: {what}\n  where: {named}{more}")
        lines += [f"  do: {hint}"] * bool(hint)
    return lines


FetchBytes = Callable[[str], FetchReply]
"""Fetches an address; the workbench passes one that uses the runner."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file that is not local.

    It is known by its id, and by a version that changes with its content.

    An empty version says nothing: the file is read at every ingest. ``source`` is the address that
    the file was listed for, ``name`` its own in there.
    """

    id: str
    version: str
    size: int = 0
    source: str = ""
    name: str = ""

    def __str__(self) -> str:
        """Return the id, as a path does."""
        return self.id


SourceFile: TypeAlias = Path | RemoteFile
"""One file that a source is made of."""


class Reader(ABC):
    """Turns a source into documents.

    ``read`` is lazy and keeps going: a part that cannot be read is yielded as a Failure, so
    that one bad file never loses the others. What it raises is a failure of the whole source.
    A reader overrides it, or :meth:`files` and :meth:`read_file`.
    """

    name: str = ""

    @abstractmethod
    def accepts(self, source: str) -> bool:
        """Return True if this reader reads a source, decided by its address alone."""

    def read(self, source: str, fetch: FetchBytes) -> Iterator[Document | Failure]:
        """Read the documents of a source, one in memory at a time.

        Args:
            source: Path or address as the user gave it.
            fetch: The only way to the network.
        """
        for path in self.files(source) or ():
            if isinstance(path, Failure):
                yield path
            else:
                yield from self.read_file(path)

    def files(self, source: str) -> Iterator[SourceFile | Failure] | None:
        """List the files of a source, so that unchanged ones need not be read.

        None if there are none; else reading each with :meth:`read_file`, in this order, gives the
        same as :meth:`read`.
        """
        return None

    def read_file(self, path: Any) -> Iterator[Document | Failure]:
        """Read the documents of one of the :meth:`files`; ``path`` is a :data:`SourceFile`."""
        raise NotImplementedError(f"{type(self).__name__} reads no single files")


def catch_failures(
    items: Iterator[T | Failure], source: str, reader: Reader
) -> Iterator[T | Failure]:
    """Read a reader's documents; an error becomes a failure, so other sources are still read."""
    try:
        yield from items
    except StoppedError:
        raise
    except Exception as error:  # a custom reader must not affect the other sources
        yield Failure(source, reader_error(reader, source, error))


def reader_error(reader: Reader, source: str, error: Exception) -> RagwrightError:
    """Return an error of a reader as one that names it; one of ragwright stays as it is."""
    if isinstance(error, RagwrightError):
        return error
    of_file = isinstance(error, OSError | UnicodeError)  # missing, unreadable, not UTF-8
    hint = "check the file" if of_file else "correct the reader"
    return SourceError(
        f"the reader {reader.name or type(reader).__name__!r} failed: "
        f"{type(error).__name__}: {error}",
        where=source,
        hint=f"{hint}; the other sources were read",
    )


class SuffixReader(Reader):
    """Reads the files of a suffix wherever they are: alone, or in folders with other files.

    Attributes:
        suffixes: In lower case, with the dot: ``.log``.
    """

    suffixes: tuple[str, ...] = ()

    def accepts(self, source: str) -> bool:
        """False: the reader of files gives it every file with one of the suffixes."""
        return False

    def read(self, source: str, fetch: FetchBytes) -> Iterator[Document | Failure]:
        """Documents of the file at a path."""
        return self.read_file(Path(source))

    @abstractmethod
    def read_file(self, path: Path) -> Iterator[Document | Failure]:
        """Read the documents of one file, which is always local.

        If an id or a source begins with the path, the project replaces it by its id of the file.
        """
