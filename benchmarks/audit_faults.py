"""Faults planted into real documents, for the measurement of audits.

Ten kinds, thirty faults each, half for development and half for the test; the documents are split
the same way, by a hash of their ids, so that rules are tuned on neither text nor faults of the
test. Half of the contradictions repeat the sentence as it is but for the value; the other half also
lose or gain a word, as an editor would change it.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from benchmarks.data_sets import DATA
from ragwright.core import Document, Section, Span, text_hash
from ragwright.ingest import FileReader
from ragwright.models import sentence_spans

SEED = 2711
KINDS = {
    "number": "contradictions",
    "negation": "contradictions",
    "table cell": "contradictions",
    "copy": "copies",
    "undefined code": "codes",
    "two meanings": "codes",
    "dead reference": "references",
    "mojibake": "damage",
    "hyphenation": "damage",
    "headless table": "damage",
}
"""Planted kind -> kind of the finding that should report it."""

EACH = 15
"""Faults of a kind in each half."""

_NUMBER = r"(?<![\w.,#/-])\d{1,4}(?![\w.,-])"
"""A number that a reader sees, not one in the address of a link."""

_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Fault:
    """A planted fault: its kind, and the documents and texts that show it."""

    kind: str
    documents: tuple[str, ...]
    texts: tuple[str, ...]
    reworded: bool = False


@dataclass
class Planted:
    """Documents of a half with its faults."""

    documents: dict[str, Document]
    faults: list[Fault] = field(default_factory=list)


def untouched(corpus: str, data: Path = DATA) -> list[Document]:
    """Documents of ``msvc``, ``prusa``, ``wiki`` or ``office``, as they are read."""
    return list(_CORPORA[corpus](data))


def in_half(document: Document, half: str) -> bool:
    """True for the documents of a half, ``development`` or ``test``."""
    return int(text_hash(f"audit {document.id}")[:8], 16) % 2 == (half == "test")


def planted(half: str, documents: Sequence[Document]) -> Planted:
    """The documents of a half with 150 faults."""
    chosen = random.Random(f"{SEED} {half}")
    mine = {document.id: document for document in documents if in_half(document, half)}
    state = Planted(mine)
    for kind, plant in _PLANTERS.items():
        done, tries = 0, 0
        while done < EACH and tries < 4_000:
            tries += 1
            fault = plant(state, chosen, done % 2 == 1)
            if fault is not None:
                state.faults.append(fault)
                done += 1
        if done < EACH:
            raise ValueError(f"only {done} faults of the kind {kind} could be planted")
    return state


def marked_up(document: Document, text: str) -> Document:
    """A document with another text; its headings are read again, its pages are dropped."""
    heads = list(_HEADING.finditer(text))
    sections = tuple(
        Section(
            head[1],
            len(head[0]) - len(head[0].lstrip("#")),
            Span(head.start(), heads[n + 1].start() if n + 1 < len(heads) else len(text)),
        )
        for n, head in enumerate(heads)
    )
    return replace(document, text=text, sections=sections, pages=())


def _msvc(data: Path) -> Iterator[Document]:
    root = data / "msvc_error_reference" / "docs"
    yield from _read(root, "msvc")


def _office(data: Path) -> Iterator[Document]:
    yield from _read(data / "documents" / "sources", "office")


def _prusa(data: Path) -> Iterator[Document]:
    for path in sorted((data / "prusa_error_codes").glob("*.yaml")):
        entries = yaml.safe_load(path.read_text("utf-8"))["Errors"]
        for number, entry in enumerate(entries):
            title = f"{entry['code']} {entry['title'].strip()}"
            text = f"# {title}\n\n{entry['text'].strip()}\n"
            name = f"prusa/{path.stem}/{number}.md"
            yield marked_up(Document(name, name, text, title=title, language="en"), text)


def _wiki(data: Path) -> Iterator[Document]:
    for language in ("en", "de"):
        path = data / "xquad" / f"xquad.{language}.json"
        for number, article in enumerate(json.loads(path.read_text("utf-8"))["data"]):
            title = article["title"].replace("_", " ")
            body = "\n\n".join(part["context"] for part in article["paragraphs"])
            name = f"wiki/{language}/{number}.md"
            text = f"# {title}\n\n{body}\n"
            yield marked_up(Document(name, name, text, title=title, language=language), text)
    whole = (data / "chunking_eval" / "corpora" / "wikitexts.md").read_text("utf-8")
    parts = re.split(r"(?m)^ *= ([^=\n].*?) = *$", whole)
    for number in range(1, len(parts) - 1, 2):
        body = re.sub(r"(?m)^ *= = (.*?) = = *$", r"## \1", parts[number + 1])
        name, title = f"wiki/texts/{number}.md", parts[number].strip()
        text = f"# {title}\n{body}"
        yield marked_up(Document(name, name, text, title=title, language="en"), text)


def _read(folder: Path, name: str) -> Iterator[Document]:
    """Documents of a folder, as an ingest reads them."""
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.name != "LICENSE"):
        for document in FileReader().read(str(path), _no_fetch):
            if isinstance(document, Document):
                relative = path.relative_to(folder).as_posix()
                place = f"{name}/{relative}"
                part = document.id.partition(relative)[2]  # a sheet, a chapter
                yield replace(document, id=f"{place}{part}", source=place)


def _no_fetch(address: str) -> Any:
    raise ValueError(f"the documents are files, not {address}")


_CORPORA: Mapping[str, Callable[[Path], Iterator[Document]]] = {
    "msvc": _msvc,
    "prusa": _prusa,
    "wiki": _wiki,
    "office": _office,
}


def _append(state: Planted, name: str, text: str, chosen: random.Random) -> None:
    """Put a paragraph between two paragraphs of a document, or at its end."""
    document = state.documents[name]
    code = [m.span() for m in re.finditer(r"(?ms)^```.*?^```", document.text)]
    gaps = [
        m.start()
        for m in re.finditer(r"\n\n(?=[A-Z])", document.text)
        if not any(start < m.start() < end for start, end in code)
    ] or [len(document.text)]
    at = chosen.choice(gaps)
    changed = f"{document.text[:at]}\n\n{text}\n{document.text[at:]}"
    state.documents[name] = marked_up(document, changed)


def _is_planted(state: Planted, sentence: str) -> bool:
    """True if a sentence belongs to a fault, which another one must not spoil."""
    return any(
        sentence in text or text in sentence for fault in state.faults for text in fault.texts
    )


def _any(state: Planted, chosen: random.Random) -> Document:
    return state.documents[chosen.choice(sorted(state.documents))]


def _other(state: Planted, chosen: random.Random, document: Document) -> Document:
    """A document of the same corpus."""
    corpus = document.id.partition("/")[0]
    names = [n for n in sorted(state.documents) if n.startswith(corpus) and n != document.id]
    return state.documents[chosen.choice(names)]


def _sentence(document: Document, chosen: random.Random, holds: str) -> str:
    """A sentence of a document that matches a pattern; empty if there is none."""
    prose = re.sub(r"(?ms)^```.*?^```|^[|>#].*?$", "", document.text)
    sentences = [
        " ".join(prose[span.start : span.end].split())
        for span in sentence_spans(prose, document.language)
    ]
    fit = [
        text
        for text in sentences
        if 8 <= len(text.split()) <= 35 and text.endswith(".") and re.search(holds, text)
    ]
    return chosen.choice(fit) if fit else ""


def _reworded(text: str, chosen: random.Random) -> str:
    """A sentence that has lost or gained one small word."""
    small = list(re.finditer(r" (?:the|a|an|also|then|is|are|der|die|das|und) ", text))
    if small and chosen.random() < 0.5:
        match = chosen.choice(small)
        return f"{text[: match.start()]} {text[match.end() :]}"
    parts = text.split(" ")
    at = chosen.randrange(2, len(parts) - 1)
    return " ".join([*parts[:at], chosen.choice(["usually", "normally", "indeed"]), *parts[at:]])


def _contradicting(
    state: Planted, chosen: random.Random, reworded: bool, kind: str, change: Callable[[str], str]
) -> Fault | None:
    holds = _NUMBER if kind == "number" else r"\b(?:is|are|can|must) \w"
    document = _any(state, chosen)
    sentence = _sentence(document, chosen, holds)
    if not sentence or not document.title:
        return None
    changed = change(sentence)
    if changed == sentence:
        return None
    if reworded:
        changed = _reworded(changed, chosen)
    other = _other(state, chosen, document)
    _append(state, other.id, f"## {document.title}\n\n{changed}", chosen)
    return Fault(kind, (document.id, other.id), (sentence, changed), reworded)


def _number(state: Planted, chosen: random.Random, reworded: bool) -> Fault | None:
    def change(text: str) -> str:
        matches = list(re.finditer(_NUMBER, text))
        match = chosen.choice(matches)
        value = int(match[0]) + chosen.choice([1, 2, 5, 10, 100])
        return f"{text[: match.start()]}{value}{text[match.end() :]}"

    return _contradicting(state, chosen, reworded, "number", change)


def _negation(state: Planted, chosen: random.Random, reworded: bool) -> Fault | None:
    def change(text: str) -> str:
        return re.sub(r"\b(is|are|can|must) (?!not\b)", r"\1 not ", text, count=1)

    return _contradicting(state, chosen, reworded, "negation", change)


def _cell(state: Planted, chosen: random.Random, reworded: bool) -> Fault | None:
    names = [f"{chosen.choice(_PARTS)} {chosen.choice('ABCDEFG')}{chosen.randrange(10, 99)}"
             for _ in range(3)]  # fmt: skip
    rows = [[name, str(chosen.randrange(10, 300)), str(chosen.randrange(2, 90))] for name in names]
    head = "| Part | Torque (Nm) | Length (mm) |\n| --- | --- | --- |"
    first = _any(state, chosen)
    second = _other(state, chosen, first)
    texts = []
    for document, change in ((first, 0), (second, chosen.choice([1, 5, 20]))):
        lines = [list(row) for row in rows]
        lines[1][1] = str(int(lines[1][1]) + change)
        body = "\n".join(f"| {' | '.join(row)} |" for row in lines)
        _append(state, document.id, f"{head}\n{body}", chosen)
        texts.append(f"| {' | '.join(lines[1])} |")
    return Fault("table cell", (first.id, second.id), tuple(texts))


_PARTS = ("Bolt", "Bracket", "Clamp", "Shaft", "Flange", "Hinge", "Spring", "Gasket")


def _copy(state: Planted, chosen: random.Random, reworded: bool) -> Fault | None:
    document = _any(state, chosen)
    words = document.text.split(" ")
    if not 120 < len(words) < 4_000 or "(copy)" in document.id:
        return None
    text = document.text
    if reworded:  # every hundredth word is another one
        for at in chosen.sample(range(len(words)), max(1, len(words) // 100)):
            words[at] = chosen.choice(["new", "old", "other", "main"])
        text = " ".join(words)
    name = f"{document.id} (copy)"
    copy = marked_up(replace(document, id=name, source=name), text)
    state.documents[name] = copy
    return Fault("copy", (document.id, name), (document.text, text), reworded)


def _code(state: Planted, chosen: random.Random, reworded: bool) -> Fault | None:
    names = sorted(n for n in state.documents if n.startswith("msvc/"))
    document = state.documents[chosen.choice(names)]
    code = f"{chosen.choice(['C', 'LNK', 'C', 'BK'])}{chosen.randrange(1000, 9999)}"
    if any(code in other.text for other in state.documents.values()):
        return None
    text = f"In that case the tool reports {code} and stops before the output is written."
    _append(state, document.id, text, chosen)
    return Fault("undefined code", (document.id,), (text,))


def _meaning(state: Planted, chosen: random.Random, reworded: bool) -> Fault | None:
    pairs = chosen.sample(_LONG_FORMS, 2)
    letters = "".join(chosen.choice("BDGKMPRTVXZ") for _ in range(3))
    first = _any(state, chosen)
    second = _other(state, chosen, first)
    if first.language != second.language or any(
        letters in other.text for other in state.documents.values()
    ):
        return None
    texts = []
    for document, words in ((first, pairs[0]), (second, pairs[1])):
        long = " ".join(f"{letter}{word}" for letter, word in zip(letters, words, strict=True))
        text = f"The {long} ({letters}) is checked before each start of the machine."
        _append(state, document.id, text, chosen)
        texts.append(text)
    return Fault("two meanings", (first.id, second.id), tuple(texts))


_LONG_FORMS = (
    ("anel", "otary", "alve"), ("ower", "eturn", "nit"), ("ital", "emote", "ank"),
    ("arine", "adial", "est"), ("rimary", "egular", "atch"), ("ilot", "elay", "imer"),
)  # fmt: skip


def _reference(state: Planted, chosen: random.Random, reworded: bool) -> Fault | None:
    document = _any(state, chosen)
    number = chosen.randrange(10_000)
    if reworded:
        text = f"More on this is in [the notes](#part-{number}-of-the-notes)."
        if len(document.sections) < 1:
            return None
    else:
        text = f"More on this is in [the notes](notes-{number}.md)."
    _append(state, document.id, text, chosen)
    return Fault("dead reference", (document.id,), (text,))


def _mojibake(state: Planted, chosen: random.Random, reworded: bool) -> Fault | None:
    document = _any(state, chosen)
    sentence = _sentence(document, chosen, r"[^\x00-\x7f]|'")
    if not sentence or document.text.count(sentence) != 1 or _is_planted(state, sentence):
        return None
    typeset = sentence.replace("'", "’")
    try:
        spoiled = typeset.encode("utf-8").decode("cp1252")
    except UnicodeDecodeError:
        return None
    if spoiled == typeset:
        return None
    state.documents[document.id] = marked_up(document, document.text.replace(sentence, spoiled))
    return Fault("mojibake", (document.id,), (spoiled,))


def _hyphen(state: Planted, chosen: random.Random, reworded: bool) -> Fault | None:
    document = _any(state, chosen)
    sentence = _sentence(document, chosen, r"\b[a-z]{8,}\b")
    if not sentence or document.text.count(sentence) != 1 or _is_planted(state, sentence):
        return None
    words = re.findall(r"\b[a-z]{8,}\b", sentence)
    word = chosen.choice(words)
    at = chosen.randrange(3, len(word) - 3)
    cut = sentence.replace(word, f"{word[:at]}-\n{word[at:]}", 1)
    state.documents[document.id] = marked_up(document, document.text.replace(sentence, cut))
    return Fault("hyphenation", (document.id,), (f"{word[:at]}-\n{word[at:]}",))


def _headless(state: Planted, chosen: random.Random, reworded: bool) -> Fault | None:
    document = _any(state, chosen)
    rows = "\n".join(
        f"| {chosen.choice(_PARTS)} {n} | {chosen.randrange(100)} | {chosen.randrange(9)} |"
        for n in range(4)
    )
    _append(state, document.id, rows, chosen)
    return Fault("headless table", (document.id,), (rows,))


_PLANTERS: Mapping[str, Callable[[Planted, random.Random, bool], Fault | None]] = {
    "copy": _copy,
    "number": _number,
    "negation": _negation,
    "table cell": _cell,
    "undefined code": _code,
    "two meanings": _meaning,
    "dead reference": _reference,
    "mojibake": _mojibake,
    "hyphenation": _hyphen,
    "headless table": _headless,
}
"""Copies first: of the others, a copy would show everything twice."""
