"""Chunkers: the span contract on any text, and what each way of cutting promises."""

from __future__ import annotations

import re
from itertools import cycle, pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ragwright.core import ChunkError, Document, Page, PluginError, Section, Span
from ragwright.ingest import Chunker, ChunkOptions, HeadedChunker, check_spans, make_chunker
from ragwright.models import Tokenizer, WordTokenizer
from ragwright.testing import ChunkerSuite

BY_SIZE = ("tokens", "paragraphs", "sentences", "headings")
KINDS = (*BY_SIZE, "page", "entries", "whole")


class Found(Tokenizer):
    def __init__(self, name: str, pattern: str) -> None:
        self.name, self._pattern = name, pattern

    def spans(self, text: str) -> list[Span]:
        return [Span(*m.span()) for m in re.finditer(self._pattern, text)]


class Bytes(Tokenizer):
    """One token a byte, as byte-level models fall back to: several on one character."""

    name = "bytes"

    def spans(self, text: str) -> list[Span]:
        sizes = [len(character.encode("utf-8", "surrogatepass")) for character in text]
        return [Span(at, at + 1) for at, size in enumerate(sizes) for _ in range(size)]


WORDS = Found("words", r"\w+")
PIECES = Found("pieces", r"\w{1,3}|[^\w\s]")  # words fall apart, marks too
SPACED = Found("spaced", r"\s?\w+|\s?[^\w\s]+|\s+")  # the space in front, as many vocabularies
TOKENIZERS: dict[str, Tokenizer] = {t.name: t for t in (WORDS, Bytes(), PIECES, SPACED)}


def options(by: str = "tokens", size: int = 8, overlap: int = 2, **more: Any) -> ChunkOptions:
    more.setdefault("pattern", r"^[A-Z]" if by == "entries" else "")
    return ChunkOptions(by, size=size, overlap=overlap, **more)


def document(text: str, **more: Any) -> Document:
    return Document(id="d", source="d", text=text, **more)


def pages_of(bounds: list[int]) -> tuple[Page, ...]:
    return tuple(Page(n, Span(a, b)) for n, (a, b) in enumerate(pairwise(bounds), 1))


def texts(by: str, text: str, tokenizer: str = "words", **settings: Any) -> list[str]:
    chunker = make_chunker(options(by, **settings), TOKENIZERS[tokenizer])
    return [chunk.text for chunk in chunker.chunks(document(text))]


def joined(text: str, spans: list[Span]) -> str:
    made, end = "", 0
    for span in spans:
        made += text[max(span.start, end) : span.end]
        end = max(end, span.end)
    return made


class TestOwnChunkers(ChunkerSuite):
    """Each kind with a tokenizer; all pairs are held by ``test_any_text_round_trips``."""

    @pytest.fixture(params=zip(KINDS, cycle(TOKENIZERS)), ids=" ".join)
    def chunker(self, request: pytest.FixtureRequest) -> Chunker:
        by, name = request.param
        return make_chunker(options(by), TOKENIZERS[name])


@pytest.mark.parametrize("by", KINDS)
@given(
    text=st.text(
        st.sampled_from("aB9é漢🙂 \n\t.?!'()。\u0301\u200d\ud800") | st.characters(), max_size=300
    ),
    size=st.integers(1, 30),
    share=st.floats(0, 0.99),
    slack=st.sampled_from([0, 0.15, 0.5]),
    name=st.sampled_from(sorted(TOKENIZERS)),
)
def test_any_text_round_trips(
    by: str, text: str, size: int, share: float, slack: float, name: str
) -> None:
    half, end = len(text) // 2, len(text)
    heads = (Section("t", 1, Span(half // 2, end)), Section("u", 2, Span(half, half)))
    made = document(text, pages=pages_of([0, half, end]), sections=heads)
    chunker = make_chunker(options(by, size, int(size * share), slack=slack), TOKENIZERS[name])
    chunks = chunker.chunks(made)
    spans = [chunk.span for chunk in chunks]
    assert spans == chunker.cut(made)
    check_spans(made, spans)
    assert joined(text, spans) == text
    for chunk in chunks:
        first = chunk.span.start + len(chunk.text) - len(chunk.text.lstrip() or chunk.text)
        assert chunk.page == made.page_at(first)
        assert set(made.headings_at(first)) <= set(chunk.headings)


@pytest.mark.slow
@given(text=st.text(st.sampled_from("abc éß.,\n'-("), max_size=400), size=st.integers(1, 12))
def test_windows_split_no_token_and_hold_no_more_than_the_size(text: str, size: int) -> None:
    for tokenizer in (WORDS, PIECES, SPACED):
        # the space in front of a word may go with either side
        borders = [s for s in tokenizer.spans(text) if not text[s.start].isspace()]
        for by in ("tokens", "sentences", "paragraphs"):
            chunker = make_chunker(options(by, size, size // 3), tokenizer)
            for chunk in chunker.chunks(document(text)):
                assert chunk.tokens <= size
                for edge in (chunk.span.start, chunk.span.end):
                    assert not any(t.start < edge < t.end for t in borders)


SENTENCE = "One two three four five six seven eight nine. "
ABBREVIATED = "One two three four five six seven eight Dr. Smith came in and said so"
PARAGRAPHS = "A b c.\n\nD e f. G h.\n\nI j k l m n o p q r.\n\nS t."
PARTS = ["A b c.\n\nD e f. G h.\n\n", "I j k l m n o p ", "q r.\n\n", "S t."]
CODES = "Codes of the car\n\nAPP_w304 brake\nworn out\nAPP_e101 belt\n"
ENTRIES = ["Codes of the car\n\n", "APP_w304 brake\nworn out\n", "APP_e101 belt\n"]
MARKED = "one two, (three four) five-six seven"
MARKS = ["one two, ", "(three four) ", "five-six ", "seven"]
FOUR = "A b c. D e f. G h i. J."


@pytest.mark.parametrize(
    ("by", "text", "settings", "found"),
    [
        pytest.param("tokens", SENTENCE * 4, {"size": 10}, [SENTENCE] * 4, id="sentence is near"),
        pytest.param("tokens", MARKED, {"size": 2, "slack": 0}, MARKS, id="punctuation stays"),
        pytest.param("tokens", ABBREVIATED, {"size": 10},
                     [ABBREVIATED[:50], ABBREVIATED[50:]], id="abbreviation ends nothing"),
        pytest.param("tokens", "a b c d e f g h. I\n\nj k l m n o p q r s t", {"size": 10},
                     ["a b c d e f g h. I\n\n", "j k l m n o p q r s ", "t"], id="paragraph near"),
        pytest.param("paragraphs", PARAGRAPHS, {"size": 8}, PARTS, id="paragraphs that fit"),
        pytest.param("sentences", FOUR, {"size": 6}, ["A b c. D e f. ", "G h i. J."], id="fit"),
        pytest.param("sentences", FOUR, {"size": 8, "tokenizer": "spaced"},
                     ["A b c. D e f. ", "G h i. J."], id="tokens that hold the space in front"),
        pytest.param("sentences", "A b c. D e. F g h. I j k. L m n. O p.",
                     {"size": 8, "overlap": 3},
                     ["A b c. D e. F g h. ", "F g h. I j k. ", "I j k. L m n. O p."],
                     id="overlap of whole sentences"),
        pytest.param("entries", CODES, {"pattern": r"^APP_\w\d{3}"}, ENTRIES, id="with a preamble"),
    ],
)  # fmt: skip
def test_cuts(by: str, text: str, settings: dict[str, Any], found: list[str]) -> None:
    assert texts(by, text, **{"overlap": 0, **settings}) == found


@pytest.mark.parametrize("by", ["headings", "page", "entries"])
def test_without_own_parts_a_document_is_cut_by_paragraphs(by: str) -> None:
    text = "\n\n".join(["some words here"] * 20)
    assert texts(by, text, pattern="XYZ") == texts("paragraphs", text)


def test_windows_are_exact_without_slack_and_spare_words() -> None:
    text = " ".join(f"w{n}" for n in range(100))
    found = [piece.split() for piece in texts("tokens", text, size=30, overlap=10, slack=0)]
    assert [len(words) for words in found[:-1]] == [30] * (len(found) - 1)
    for left, right in pairwise(found):
        assert left[-10:] == right[:10]
    for piece in texts("tokens", "abcdefgh " * 20, "pieces", size=20, overlap=4):
        assert set(piece.split()) == {"abcdefgh"}


def test_headings_give_one_chunk_a_section_with_its_titles() -> None:
    text = "intro\n\n# One\n\n## A\n\nalpha\n\n## B\n\nbeta\n\n# Two\n\ngamma"
    at, end = text.index, len(text)
    places = (("One", 1, "# Two"), ("A", 2, "## B"), ("B", 2, "# Two"), ("Two", 1, ""))
    sections = tuple(
        Section(title, level, Span(at("#" * level + f" {title}"), at(until) if until else end))
        for title, level, until in places
    )
    made = document(text, sections=sections)
    found = make_chunker(options("headings", 50, 0), WORDS).chunks(made)
    assert [(c.headings, c.text.split()[-1]) for c in found] == [
        ((), "intro"),
        (("One", "A"), "alpha"),
        (("One", "B"), "beta"),
        (("Two",), "gamma"),
    ]


def test_pages_name_their_number_and_long_ones_stay_whole_where_sections_are_cut() -> None:
    text = "first page\n\nsecond page\n\n\n\nfourth"
    made = document(text, pages=pages_of([0, 12, 25, 27, len(text)]))
    found = make_chunker(options("page"), WORDS).chunks(made)
    named = [(1, "first page"), (2, "second page"), (4, "fourth")]
    assert [(c.page, c.text.strip()) for c in found] == named
    text = "# T\n\n" + "\n\n".join(["some words here"] * 20)
    whole = Span(0, len(text))
    made = document(text, sections=(Section("T", 1, whole),), pages=(Page(1, whole),))
    cut = {by: make_chunker(options(by, 10, 0), WORDS).cut(made) for by in ("headings", "page")}
    assert len(cut["headings"]) > 1
    assert cut["page"] == [whole]


def test_a_chunk_over_several_pages_says_where_they_begin() -> None:
    text = "  one two three four five six seven"
    made = document(text, pages=pages_of([0, 10, 10, 16, 21, len(text)]))
    for chunk in make_chunker(options("tokens", 3, 1), WORDS).chunks(made):
        first = chunk.span.start + len(chunk.text) - len(chunk.text.lstrip())
        for position in range(first, chunk.span.end):
            begun = [number for start, number in chunk.pages if start <= position]
            assert (begun[-1] if begun else chunk.page) == made.page_at(position)
        assert all(first < start < chunk.span.end for start, _ in chunk.pages)


def test_specs_tell_what_matters_apart() -> None:
    more = [options(size=9), options(overlap=1), options("sentences"), options("entries")]
    chosen = [options(), *more, options("entries", pattern="x")]
    specs = [make_chunker(o, WORDS).spec for o in chosen] + [make_chunker(options(), PIECES).spec]
    assert len(set(specs)) == len(specs)
    whole = {make_chunker(options("whole", size), WORDS).spec for size in (8, 9)}
    assert len(whole) == 1


class Lines(Chunker):
    def __init__(self, options: ChunkOptions, tokenizer: Tokenizer) -> None:
        self.spec = f"lines({options.size})"

    def cut(self, document: Document) -> list[Span]:
        ends = [m.end() for m in re.finditer(r"\n|$", document.text)]
        return [Span(a, b) for a, b in pairwise([0, *ends]) if a < b]


class Gappy(Lines):
    def cut(self, document: Document) -> list[Span]:
        return super().cut(document)[::2]


class Halves(Chunker):
    spec = "halves"

    def cut(self, document: Document) -> list[Span]:
        borders = sorted({0, len(document.text) // 2, len(document.text)})
        return [Span(a, b) for a, b in pairwise(borders)]


HALVES = Halves()


def test_own_chunkers_are_loaded_and_held_to_the_contract() -> None:
    made = make_chunker(options(f"{__name__}:Lines"), WORDS)
    assert [c.text for c in made.chunks(document("a\nb\n"))] == ["a\n", "b\n"]
    for name in ("Halves", "HALVES"):
        made = make_chunker(options(f"{__name__}:{name}"), WORDS)
        assert isinstance(made, HeadedChunker)
        assert isinstance(made.chunker, Halves)
    with pytest.raises(ChunkError, match="leaves the characters"):
        make_chunker(options(f"{__name__}:Gappy"), WORDS).chunks(document("a\nb\nc"))
    for address in (f"{__name__}:document", "no.such.module:Thing"):
        with pytest.raises(PluginError):
            make_chunker(options(address), WORDS)


@pytest.mark.parametrize("tokenizer", [WORDS, PIECES, WordTokenizer()])
def test_tokens_of_a_long_text_do_not_depend_on_how_it_is_handed_over(tokenizer: Tokenizer) -> None:
    lines = [f"line {n} of a text\n  that is indented," + "\n" * (n % 3) for n in range(8_000)]
    text = "".join(lines)
    chunks = make_chunker(options(size=9, overlap=0, slack=0), tokenizer).chunks(document(text))
    spans = tokenizer.spans(text)
    assert [chunk.tokens for chunk in chunks[:-1]] == [9] * (len(chunks) - 1)
    assert sum(chunk.tokens for chunk in chunks) == len(spans)
    assert [chunk.span.end for chunk in chunks[:-1]] == [
        span.end - len(text[span.start : span.end].lstrip()) for span in spans[9::9]
    ]


@pytest.mark.slow
def test_a_chunk_pattern_that_backtracks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragwright.ingest._chunkers._PATTERN_SECONDS", 0.5)
    chunker = make_chunker(ChunkOptions(by="entries", pattern="^(a|aa)+$"), WordTokenizer())
    with pytest.raises(ChunkError, match=r"chunk\.pattern") as caught:
        chunker.chunks(Document(id="a.txt", source="a.txt", text="a" * 60 + "!\n"))
    assert caught.value.where == "a.txt"
    assert len(chunker.chunks(document("aa\nbb\naaa\ncc\n"))) == 2


TABLE = "Read daily.\n\n| Serial | Unit | Pressure |\n| - | - | - |\n"
ROWS = {"table": "| SN-{0} | unit {0} | {0}.5 bar |", "records": '{{"id": "T-{0}", "t": "stop"}}'}


@pytest.mark.parametrize("by", BY_SIZE)
@pytest.mark.parametrize("kind", ROWS)
def test_a_chunk_begins_and_ends_with_whole_rows(by: str, kind: str) -> None:
    rows = "".join(f"{ROWS[kind].format(number)}\n" for number in range(400))
    text = TABLE * (kind == "table") + rows
    chunks = make_chunker(options(by, 60, 15), WordTokenizer()).chunks(document(text))
    assert len(chunks) > 20
    for chunk in chunks[1:]:
        assert text[chunk.span.start - 1] == "\n"
        assert chunk.text[0] in "|{"
        assert chunk.tokens <= 60
    if kind == "table":
        assert all(c.head and c.head.table == "Serial | Unit | Pressure" for c in chunks[2:])
    whole = [sum(f"-{n} |" in c.text or f'-{n}"' in c.text for c in chunks) for n in range(400)]
    assert min(whole) == 1
    assert max(whole) > 1  # they overlap by whole rows


@pytest.mark.parametrize("letters", [21, 24, 40, 90])
@pytest.mark.parametrize("overlap", [0, 10, 49])
def test_long_words_that_overlap_are_cut_between_words(letters: int, overlap: int) -> None:
    text = " ".join(f"{number:0{letters}}" for number in range(700)) + "\n\nrevision 17\n"
    for by in BY_SIZE:
        found = texts(by, text, size=100, overlap=overlap)
        assert max(map(len, found)) <= 2_000
        assert all(len(word) == letters for word in " ".join(found[:-1]).split())


@pytest.mark.parametrize(
    "text", ["a" * 70_000, "0f" * 20_000 + " end", "日本" * 9_000, "x" * 9_000]
)
def test_a_chunk_has_a_bound_in_characters(text: str) -> None:
    for by in BY_SIZE:
        assert max(map(len, texts(by, text, size=100, overlap=10))) <= 2_000
    for by in ("page", "whole"):
        chunker = make_chunker(options(by, 100, 10), WORDS)
        (chunk,) = chunker.chunks(document(text, pages=pages_of([0, len(text)])))
        assert chunk.text == text
    row = "| a |\n| - |\n| " + "word " * 500 + "|\n| b |"
    chunks = make_chunker(options(size=50, overlap=0), WordTokenizer()).chunks(document(row))
    assert max(chunk.tokens for chunk in chunks) <= 50
