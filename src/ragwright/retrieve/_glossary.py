"""Meanings of codes and terms, from a file or mined from the corpus, and their use in queries.

An embedding model has never seen ``APP_w304``; it has seen "accelerator pedal position sensor".
A query with the meaning beside the code is understood by the dense channel.

Mining needs no model: it reads the places where texts define codes, the most reliable first: a
heading (or title) that holds one code, with the sentence below it; a row of a table whose first
cell is a code, also where blanks alone part its columns; a line ``CODE: meaning`` or
``CODE - meaning``; an entry of a list of codes, with its title; a line that is a code, with the
sentence below it; a sentence ``CODE means …``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

from ..core import ConfigError, Document, read_yaml
from ..models import Analyzer, is_code, words
from ._entries import HEADING_LINE, LEAST_ENTRIES, read_entries

RULES = ("given", "heading", "row", "line", "below", "sentence")
"""Kinds of places of a meaning, the most reliable first."""

_LONGEST = 2_000
"""Characters of a meaning in a file; a longer one would dominate the question."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of a term in one place.

    Attributes:
        text: The words that define it.
        rule: Kind of place, one of ``given`` (a glossary file), ``heading``, ``row``, ``line``,
            ``below`` (the line below one that is a code), ``sentence``.
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

    def expand(self, query: str, most: int = 3, analyzer: Analyzer | None = None) -> Expansion:
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
    """The glossary in a YAML file (term -> meaning, or a list of them), or one that was mined.

    A mined one is a ``.json`` file that :meth:`Glossary.to_json` wrote.

    Raises:
        ConfigError: No such file, or an entry that is not a term and its meaning; with file and
            line.
    """
    file = Path(path)
    if file.suffix == ".json":
        try:
            mined = json.loads(file.read_text("utf-8"))
            return Glossary(
                {
                    t: tuple(Meaning(**{**m, "also": tuple(m["also"])}) for m in ms)
                    for t, ms in mined.items()
                }
            )
        except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
            reason = f"this is not a glossary that was mined: {error}"
            raise ConfigError(reason, where=str(file), hint="write a YAML file") from error
    placed = read_yaml(file)
    if not isinstance(placed.value, dict) or not placed.value:
        raise ConfigError(
            "a glossary file must hold terms and their meanings",
            where=str(file),
            hint="write YAML, a line for each: TERM: meaning",
        )
    entries: dict[str, tuple[Meaning, ...]] = {}
    for term, value in placed.value.items():
        values = value if isinstance(value, list) else [value]
        # the position of a term is only searched for in an error
        place = partial(placed.where, term)
        if not words(str(term)) or not values:
            fault = "has no meaning" if words(str(term)) else "contains no word to look for"
            raise ConfigError(f"{term!r} {fault}", where=place())
        entries[" ".join(str(term).split())] = tuple(
            Meaning(_checked_text(str(term), meaning, place)) for meaning in values
        )
    return Glossary(entries)


def _checked_text(term: str, value: object, where: Callable[[], str]) -> str:
    if not isinstance(value, str):
        raise ConfigError(
            f"the meaning of {term!r} must be text, not {type(value).__name__}",
            where=where(),
            hint="put it in quotes",
        )
    flat = " ".join(value.split())
    if not 0 < len(flat) <= _LONGEST:
        size = f"has {len(flat)} characters, more than {_LONGEST}" if flat else "is empty"
        raise ConfigError(
            f"the meaning of {term!r} {size}", where=where(), hint="write one or two sentences"
        )
    return flat


def _fitting_meanings(
    query: str, term: str, every: Sequence[Meaning], analyzer: Analyzer
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


_LONGEST_MINED = 240
"""Characters of a mined meaning."""

_COUNTED = 100_000
"""Most terms over the limit that are counted."""

_ABOUT = 300
"""Characters of title and metadata kept with a meaning."""

_READ = 2_000
"""Characters read at a place to find a meaning."""

_ALSO = 50
"""Most further documents with the same meaning that are kept."""

_LISTED = 3
"""Codes of one shape from which lines that begin with them are a list."""

_LONE_WORDS = 3
"""Words of a line that is a code, such as "Error code E42"."""

_BELOW = 3
"""Lines below such a line in which its sentence ends."""

_HEADING_WORDS = 12
"""Most words of a heading that names a code; a longer line is a sentence."""

_TOKEN = re.compile(r"(?<![\w/.-])[^\W_](?:[\w]|[-.:#](?=\w)|::(?=\w))*\w(?![\w/])")
_LINE = re.compile(
    r"^[ \t>]*(?:[-*+•]\s+|\d+[.)]\s+)?[*_`\"]{0,3}(?P<code>[^\W_][^\s*`\"|]*[^\W_])[*_`\"]{0,3}"
    r"\s*(?::|=|→|[-–—](?=\s))[*_`]{0,3}\s+(?P<meaning>\S.*)$"
)
_MEANS = re.compile(
    r"(?<![\w.#-])(?P<code>[^\W_][\w.#-]{0,38}\w)[*_`\"]{0,3}\s+"
    r"(?:means|indicates|stands for|denotes|signals|is short for|signifie|indique|désigne|"
    r"bedeutet|steht für|significa|indica|betekent)(?: that| que| dass)?:?\s+(?P<meaning>\S.*)"
)
_COLUMNS = re.compile(r"\s{2,}")
_ENDED = re.compile(r"[.!?:;…。！？][\"'”’)]?\s*$")
_ROW = re.compile(r"^\s*\|(?P<cells>.*\S)\s*\|?\s*$")
_FENCE = re.compile(r"^\s*(?:```|~~~)")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_TAG = re.compile(r"</?[a-zA-Z][^<>]*=[^<>]*>|</?[a-z]{1,6}\s*/?>")
_END = re.compile(r"(?<=[.!?…。！？])\s")
_JOINED = re.compile(r"\s*(?:[,/&]|and|or|et|ou|und|oder|y|e|o)\s*")


_Definition: TypeAlias = tuple[str, str, str, int, int]
"""Term, defining text, rule, and the span of the place in the document."""


@dataclass(frozen=True, slots=True)
class _Line:
    """A line outside code blocks, its place in the text, and whether it is a heading."""

    text: str
    start: int
    heading: bool

    @property
    def end(self) -> int:
        """The end of the line in the document."""
        return self.start + len(self.text)


def mine_glossary(
    documents: Iterable[Document], *, most_terms: int = 100_000, most_meanings: int = 8
) -> Glossary:
    """Codes and identifiers of a corpus and their definitions.

    Reads one document at a time and keeps at most ``most_terms`` terms with ``most_meanings``
    distinct meanings of at most 240 characters each; others are only counted. Per document the most
    reliable place of a term is used, the first of several. The same documents in the same order
    give the same glossary.
    """
    entries: dict[str, dict[str, Meaning]] = {}
    refused: set[str] = set()
    for document in documents:
        for term, meaning in _best_meanings(document).items():
            if term not in entries and len(entries) >= most_terms:
                if len(refused) < _COUNTED:
                    refused.add(term)
                continue
            meanings = entries.setdefault(term, {})
            key = " ".join(words(meaning.text)).casefold()
            if key in meanings:
                meanings[key] = _merged_meaning(meanings[key], meaning)
            elif len(meanings) < most_meanings:
                meanings[key] = meaning
    return Glossary(
        {
            term: tuple(sorted(meanings.values(), key=lambda m: RULES.index(m.rule)))
            for term, meanings in entries.items()
        },
        len(refused),
    )


def _best_meanings(document: Document) -> dict[str, Meaning]:
    """The best meaning of each term in one document."""
    best: dict[str, Meaning] = {}
    about = _title_and_metadata(document)
    for term, text, rule, start, end in _definitions_of(document):
        clean = _clean_text(text)
        if not clean or clean.casefold() == term.casefold():
            continue
        earlier = best.get(term)
        if earlier is None or RULES.index(rule) < RULES.index(earlier.rule):
            best[term] = Meaning(clean, rule, document.id, start, end, about)
    return best


def _definitions_of(document: Document) -> Iterator[_Definition]:
    """Every definition of a document, in the order of its lines."""
    lines = _lines_of_text(document)
    yield from _title_definition(document, lines)
    yield from _in_entries(document)
    for number, line in enumerate(lines):
        if line.heading:
            yield from _under_heading(lines, number)
            continue
        row = _ROW.match(line.text)
        cells = row["cells"].split("|") if row else line.text.split("\t")
        if len(cells) == 1 and (code := _lone_code(line)):
            yield from _definition_below(lines, number, code)
            continue
        if len(cells) == 1:
            cells = _COLUMNS.split(line.text.strip()[:_READ])
        if len(cells) > 1 and (in_row := list(_in_row(cells, line))):
            yield from in_row
            continue
        match = _LINE.match(line.text)
        if match and is_code(match["code"], written=True):
            yield match["code"], match["meaning"], "line", *_group_span(line, match, "meaning")
        for statement in _MEANS.finditer(line.text):
            if is_code(statement["code"], written=True):
                text = _first_sentence(statement["meaning"])
                start, _ = _group_span(line, statement, "meaning")
                yield statement["code"], text, "sentence", start, start + len(text)


def _in_entries(document: Document) -> Iterator[_Definition]:
    """The codes of a list of entries, with their titles, or without those their first sentences.

    Headings and lines with a separator are read where they stand.
    """
    entries = read_entries(document.text, least=_LISTED)
    codes: dict[str, set[str]] = {}
    for entry in entries:
        codes.setdefault(entry.shape, set()).add(entry.code)
    for entry in entries:
        weak = not is_code(entry.code, written=True)
        if entry.form in ("heading", "line") or (weak and len(codes[entry.shape]) < LEAST_ENTRIES):
            continue
        below = document.text[entry.body : entry.end]
        text = entry.title or _first_sentence(below)
        if not _is_worded(text):
            continue
        at = entry.body + max(0, below.find(text))
        rule = "below" if entry.form == "alone" else "line"
        yield entry.code, text, rule, at, at + len(text)


def _lines_of_text(document: Document) -> list[_Line]:
    heads = {section.span.start for section in document.sections}
    lines: list[_Line] = []
    at, fenced = 0, False
    for text in document.text.split("\n"):
        if _FENCE.match(text):
            fenced = not fenced
        elif not fenced and text.strip():
            heading = at in heads or bool(HEADING_LINE.match(text))
            lines.append(_Line(text, at, heading))
        at += len(text) + 1
    return lines


def _group_span(line: _Line, match: re.Match[str], group: str) -> tuple[int, int]:
    return line.start + match.start(group), line.start + match.end(group)


def _title_definition(document: Document, lines: list[_Line]) -> Iterator[_Definition]:
    """The title's code, with the first sentence that is not a heading."""
    codes = _heading_codes(document.title)
    title = _clean_text(document.title)
    body = next(
        (line for line in lines if not line.heading and _clean_text(line.text) != title), None
    )
    if body is None:
        return
    for code in codes:
        yield code, _heading_text(title, code, body.text), "heading", body.start, body.end


def _under_heading(lines: list[_Line], number: int) -> Iterator[_Definition]:
    """A heading's code, with the rest of the heading and the sentence below it."""
    line = lines[number]
    codes = _heading_codes(line.text)
    if not codes:
        return
    near = lines[number + 1 : number + 3]
    below = next((later for later in near if not later.heading), None)
    if below is not None and near[0].heading and _heading_codes(near[0].text):
        below = None
    for code in codes:
        text = _heading_text(line.text, code, below.text if below else "")
        yield code, text, "heading", line.start, below.end if below else line.end


def _heading_text(heading: str, code: str, below: str) -> str:
    """The heading's text besides its code, and the first sentence below."""
    rest = _clean_text(heading).replace(code, " ")
    rest = " ".join(rest.split()).strip(" :–—-,.")
    rest = rest.replace("()", "").replace("[]", "").strip()
    sentence = _first_sentence(_clean_text(below))
    return f"{rest}: {sentence}" if rest and sentence else rest or sentence


def _heading_codes(heading: str) -> tuple[str, ...]:
    """The codes of a heading: several if it lists them, none if it is a range."""
    clean = _clean_text(heading)
    if len(clean.split()) > _HEADING_WORDS:
        return ()
    codes = [m for m in _TOKEN.finditer(clean) if is_code(m[0], written=True)]
    # Beside a code with digits, a word in mixed case is a word.
    codes = [m for m in codes if any(c.isdigit() for c in m[0])] or codes
    for first, second in pairwise(codes):
        if not _JOINED.fullmatch(clean[first.end() : second.start()]):
            return ()
    return tuple(dict.fromkeys(m[0] for m in codes[:4]))


def _in_row(cells: list[str], line: _Line) -> Iterator[_Definition]:
    """A table row: the code of its first cell and its first cell in words."""
    codes = _heading_codes(cells[0])
    if len(codes) != 1 or len(_clean_text(cells[0]).split()) > 5:
        return
    # Beside other columns one word may be a state or a part.
    least = 1 if sum(bool(cell.strip()) for cell in cells) == 2 else 2
    for cell in cells[1:]:
        text = cell.strip()
        if len(words(_clean_text(text))) >= least and _is_worded(text):
            at = line.start + line.text.find(text)
            yield codes[0], text, "row", at, at + len(text)
            return


def _is_worded(text: str) -> bool:
    """True for a text with a word of three letters or more that is not a code."""
    return any(
        sum(map(str.isalpha, word)) > 2 and not is_code(word, written=True)
        for word in words(_clean_text(text))
    )


def _lone_code(line: _Line) -> str:
    """The code that a line is, such as ``E42`` or ``Error code E42:``; empty where it says more."""
    clean = _clean_text(line.text).rstrip(":")
    if line.heading or len(clean) > _ABOUT or len(clean.split()) > _LONE_WORDS:
        return ""
    codes = _heading_codes(clean)
    return codes[0] if len(codes) == 1 and clean.endswith(codes[0]) else ""


def _definition_below(lines: list[_Line], number: int, code: str) -> Iterator[_Definition]:
    """A line that is a code, with the sentence below it.

    Not where codes follow each other, as in a column of them, and not where a text runs on: there
    the line is the end of a sentence that began above.
    """
    line = lines[number]
    before = lines[number - 1] if number else None
    if before is not None and _lone_code(before):
        return
    if before is not None and line.start - before.end <= 1 and not before.heading:
        alternate = number > 1 and bool(_lone_code(lines[number - 2]))
        if not alternate and not _ENDED.search(before.text):
            return
    sentence_lines: list[_Line] = []
    for later in lines[number + 1 : number + 1 + _BELOW]:
        if later.heading or _lone_code(later) or _ROW.match(later.text) or "\t" in later.text:
            break
        if sentence_lines and later.start - sentence_lines[-1].end > 1:
            break
        sentence_lines.append(later)
        if _ENDED.search(later.text) or _END.search(later.text):
            break
    text = _first_sentence(" ".join(later.text.strip() for later in sentence_lines))
    if text and _is_worded(text):
        yield code, text, "below", sentence_lines[0].start, sentence_lines[-1].end


def _first_sentence(text: str) -> str:
    """The first sentence."""
    return _END.split(text.strip(), maxsplit=1)[0]


def _clean_text(text: str) -> str:
    """Text without the marks of Markdown, on one line, at most 240 characters."""
    text = _TAG.sub(" ", _LINK.sub(r"\1", HEADING_LINE.sub("", text[:_READ])))
    text = re.sub(r"^[\s>]+|[`*]+|\\(?=\W)", "", text)
    text = " ".join(text.split()).strip(" |:–—-")
    if len(text) <= _LONGEST_MINED:
        return text
    return text[:_LONGEST_MINED].rpartition(" ")[0] or text[:_LONGEST_MINED]


def _title_and_metadata(document: Document) -> str:
    """Title and metadata as words, if they are short."""
    values: list[str] = [document.title]
    metadata: Mapping[str, object] = document.metadata
    for name in sorted(metadata):
        value = metadata[name]
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, str) and len(item) <= 60:
                values.append(item)
    return " ".join(" ".join(values).split())[:_ABOUT]


def _merged_meaning(first: Meaning, second: Meaning) -> Meaning:
    """Merge two equal meanings: the first place, the documents of both."""
    about = " ".join(dict.fromkeys(f"{first.about} {second.about}".split()))[:_ABOUT]
    better = min(first, second, key=lambda m: RULES.index(m.rule))
    every = dict.fromkeys((first.document_id, *first.also, second.document_id, *second.also))
    return replace(
        better,
        about=about,
        also=tuple(name for name in every if name != better.document_id)[:_ALSO],
    )
