"""Meanings of codes and terms, from a file or mined from the corpus, and their use in queries.

An embedding model has never seen ``APP_w304``; it has seen "accelerator pedal position sensor".
A query with the meaning beside the code is understood by the dense channel.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

from ..core import ConfigError, read_yaml
from ..models import Analyzer, TokenSource, words

RULES = ("given", "heading", "row", "line", "below", "sentence", "acronym")
"""Kinds of places of a meaning, the most reliable first."""

_LONGEST = 2_000
"""Characters of a meaning in a file; a longer one would dominate the question."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of a term in one place.

    Attributes:
        text: The words that define it.
        rule: Kind of place, one of ``given`` (a glossary file), ``heading``, ``row``, ``line``,
            ``below`` (the line below one that is a code), ``sentence``, ``acronym``.
        document_id: Document it was mined from, empty if it was given.
        start: First character of the words in that document; likewise ``end``, exclusive.
        about: Title and metadata of the document, to distinguish meanings of the same code.
        also: Further documents with the same meaning, up to a limit.
    """

    text: str
    rule: str = "given"
    document_id: str = ""
    start: int = 0
    end: int = 0
    about: str = ""
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Expansion:
    """A query with the meanings of its terms.

    Attributes:
        texts: The query with meanings, one text per meaning of the term with most meanings; empty
            if the query has no term of the glossary.
        used: The terms and the meanings used, in query order.
        notes: Terms of which not every meaning was used.
    """

    texts: tuple[str, ...] = ()
    used: tuple[tuple[str, Meaning], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Glossary:
    """Terms and their meanings; a term may have several.

    Attributes:
        entries: Term as written -> its meanings, the most reliable first.
        left_out: Terms that did not fit while mining.
    """

    entries: Mapping[str, tuple[Meaning, ...]] = field(default_factory=dict)
    left_out: int = 0
    _by_key: dict[str, str] = field(init=False, repr=False, compare=False, default_factory=dict)
    _longest: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        """Index the terms by their words in lower case."""
        longest = 0
        for term in self.entries:
            parts = words(term)
            longest = max(longest, len(parts))
            self._by_key.setdefault(" ".join(parts).casefold(), term)
        object.__setattr__(self, "_longest", longest)

    def find(self, query: str, without: Container[str] = ()) -> tuple[str, ...]:
        """Terms of the glossary in a query, as written in the glossary, each once.

        Ignores case and punctuation around them; of overlapping terms the longest counts. A term of
        capital letters alone must be in capitals (*IT* is not *it*), unless the query has no
        capitals. Terms in ``without`` are skipped.
        """
        parts = words(query)
        small = query == query.lower()
        terms: dict[str, None] = {}
        at = 0
        while at < len(parts):
            for size in range(min(self._longest, len(parts) - at), 0, -1):
                piece = parts[at : at + size]
                term = self._by_key.get(" ".join(piece).casefold())
                if term is None or term in without:
                    continue
                if small or not (term.isalpha() and term.isupper()) or piece == [term]:
                    terms[term] = None
                    at += size - 1
                    break
            at += 1
        return tuple(terms)

    def expand(self, query: str, most: int = 3, analyzer: TokenSource | None = None) -> Expansion:
        """The query with the meanings of its terms.

        Of several meanings those from the most reliable kind of place are used, and of these those
        whose document the query points at (its title and metadata hold words of the query); at most
        ``most``.
        """
        cut = analyzer or Analyzer()
        used: list[tuple[str, Meaning]] = []
        notes: list[str] = []
        columns: list[Sequence[Meaning]] = []
        for term in self.find(query):
            every = self.entries[term]
            fitting = _fitting_meanings(query, term, every, cut)
            used_meanings = fitting[:most]
            if len(used_meanings) < len(fitting):
                notes.append(
                    f"glossary: {term} has {len(fitting)} meanings, {len(used_meanings)} used"
                )
            columns.append(used_meanings)
            used += [(term, meaning) for meaning in used_meanings]
        texts = []
        for row in range(max((len(column) for column in columns), default=0)):
            meanings = [column[min(row, len(column) - 1)].text for column in columns]
            texts.append(f"{query} ({'; '.join(dict.fromkeys(meanings))})")
        return Expansion(tuple(dict.fromkeys(texts)), tuple(used), tuple(notes))

    def to_json(self) -> str:
        """The glossary as JSON text that :func:`load_glossary` reads, terms sorted."""
        entries = {t: [asdict(m) for m in self.entries[t]] for t in sorted(self.entries)}
        return json.dumps(entries, ensure_ascii=False, indent=1)


def load_glossary(path: str | Path) -> Glossary:
    """The glossary in a file: YAML or JSON (term -> meaning, or a list of them), or CSV.

    A CSV file has two columns, term and meaning, separated by comma, semicolon or tab; a line
    ``term, meaning`` (or ``code, meaning``) at the top is a header. JSON may be the output of
    :meth:`Glossary.to_json`.

    Raises:
        ConfigError: No such file, an unknown suffix, or an entry that is not a term and its
            meaning; with file and line.
    """
    file = Path(path)
    kind = file.suffix.lower()
    if kind in {".yaml", ".yml"}:
        placed = read_yaml(file)
        return _from_mapping(placed.value, lambda *keys: placed.where(*keys), file)
    if kind not in {".json", ".csv", ".tsv"}:
        raise ConfigError(
            f"a glossary file must end in .yaml, .json, .csv or .tsv, not in {kind or 'nothing'}",
            where=str(file),
        )
    try:
        text = file.read_text("utf-8-sig")
    except FileNotFoundError as error:
        raise ConfigError("the glossary file does not exist", where=str(file)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the glossary file cannot be read: {error}", where=str(file)) from error
    if kind != ".json":
        return _csv_glossary(text, file)
    try:
        data = json.loads(text)
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        raise ConfigError(f"not JSON: {error}", where=f"{file}:{line}") from error

    def place_of(*keys: str) -> str:
        at = text.find(json.dumps(keys[0], ensure_ascii=False)) if keys else -1
        return f"{file}:{text.count(chr(10), 0, at) + 1}" if at >= 0 else str(file)

    return _from_mapping(data, place_of, file)


def _from_mapping(data: Any, where: Callable[..., str], file: Path) -> Glossary:
    if not isinstance(data, dict) or not data:
        raise ConfigError("a glossary file must hold terms and their meanings", where=str(file))
    entries: dict[str, tuple[Meaning, ...]] = {}
    for term, value in data.items():
        values = value if isinstance(value, list) else [value]
        # the position of a term is only searched for in an error
        place = partial(where, str(term))
        meanings = tuple(_read_meaning(str(term), meaning, place) for meaning in values)
        if not meanings:
            raise ConfigError(f"{term!r} has no meaning", where=place())
        entries[_checked_term(str(term), place)] = meanings
    return Glossary(entries)


def _read_meaning(term: str, value: Any, where: Callable[[], str]) -> Meaning:
    if isinstance(value, dict):
        keys = {f.name for f in fields(Meaning)}
        unknown = sorted(set(value) - keys)
        if unknown or not isinstance(value.get("text"), str):
            fault = f"unknown key {unknown[0]!r}" if unknown else "no text"
            raise ConfigError(f"{term!r}: {fault}", where=where(), hint="give the meaning as text")
        also = tuple(value.get("also", ()))
        return Meaning(**{**value, "text": _checked_text(term, value["text"], where), "also": also})
    if not isinstance(value, str):
        raise ConfigError(
            f"the meaning of {term!r} must be text, not {type(value).__name__}",
            where=where(),
            hint="put it in quotes",
        )
    return Meaning(_checked_text(term, value, where))


def _checked_text(term: str, text: str, where: Callable[[], str]) -> str:
    flat = " ".join(text.split())
    if not flat:
        raise ConfigError(f"the meaning of {term!r} is empty", where=where())
    if len(flat) > _LONGEST:
        raise ConfigError(
            f"the meaning of {term!r} has {len(flat)} characters, more than {_LONGEST}",
            where=where(),
            hint="write one or two sentences",
        )
    return flat


def _checked_term(term: str, where: Callable[[], str]) -> str:
    if not words(term):
        raise ConfigError(f"{term!r} contains no word to look for", where=where())
    return " ".join(term.split())


def _csv_glossary(text: str, file: Path) -> Glossary:
    head = text.partition("\n")[0]
    mark = max("\t;,", key=lambda c: (c in head, head.count(c)))
    entries: dict[str, tuple[Meaning, ...]] = {}
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark)
    try:
        for number, row in enumerate(reader):
            where = f"{file}:{reader.line_num}"
            cells = [cell.strip() for cell in row]
            if not any(cells) or (not number and [c.lower() for c in cells][1:] == ["meaning"]):
                continue
            if len(cells) != 2:
                raise ConfigError(
                    f"a row of a glossary has two columns, this one has {len(cells)}",
                    where=where,
                    hint="put a meaning that holds the separator in quotes",
                )
            place = partial(str, where)
            term = _checked_term(cells[0], place)
            meaning = Meaning(_checked_text(term, cells[1], place))
            entries[term] = (*entries.get(term, ()), meaning)
    except csv.Error as error:
        raise ConfigError(f"not CSV: {error}", where=f"{file}:{reader.line_num}") from error
    if not entries:
        raise ConfigError("a glossary file must hold terms and their meanings", where=str(file))
    return Glossary(entries)


def _fitting_meanings(
    query: str, term: str, every: Sequence[Meaning], analyzer: TokenSource
) -> Sequence[Meaning]:
    """Return the best kind of place's meanings whose documents share words with the query."""
    ranks = [RULES.index(m.rule) if m.rule in RULES else len(RULES) for m in every]
    level = [meaning for meaning, rank in zip(every, ranks, strict=True) if rank == min(ranks)]
    if len(level) < 2:
        return level
    query_tokens = set(analyzer.tokens(query)) - set(analyzer.tokens(term))
    # Words of the meaning itself are not evidence: many meanings contain "error".
    shared = [
        len(query_tokens.intersection(analyzer.tokens(m.about)).difference(analyzer.tokens(m.text)))
        for m in level
    ]
    return [m for m, count in zip(level, shared, strict=True) if count == max(shared)]
