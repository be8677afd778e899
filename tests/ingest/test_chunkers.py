"""Chunkers: the span contract on any text, and what each way of cutting promises."""

from __future__ import annotations

import re
from itertools import accumulate, pairwise

import pytest
from benchmarks.data_sets import DATA
from hypothesis import given, settings, strategies as st

from ragwright.core import ChunkError, ConfigError, Document, Page, PluginError, Section, Span
from ragwright.ingest import (
    Chunker,
    ChunkOptions,
    HeadedChunker,
    check_spans,
    make_chunker,
)
from ragwright.models import Tokenizer, WordTokenizer
from ragwright.testing import ChunkerSuite

KINDS = ("tokens", "paragraphs", "sentences", "headings", "page", "entries", "whole")


class Words(Tokenizer):
    """Words, as a keyword analyzer counts them."""

    name = "words"

    def spans(self, text: str) -> list[Span]:
        return [Span(*m.span()) for m in re.finditer(r"\w+", text)]


class Bytes(Tokenizer):
    """One token a byte, as byte-level models fall back to: several on one character."""

    name = "bytes"

    def spans(self, text: str) -> list[Span]:
        return [
            Span(at, at + 1)
            for at, character in enumerate(text)
            for _ in character.encode("utf-8", "surrogatepass")
        ]


class Pieces(Tokenizer):
    """Pieces of at most three characters, the marks too: words fall apart."""

    name = "pieces"

    def spans(self, text: str) -> list[Span]:
        return [Span(*m.span()) for m in re.finditer(r"\w{1,3}|[^\w\s]", text)]


class Spaced(Tokenizer):
    """Words with the white space in front of them, as many vocabularies hold them."""

    name = "spaced"

    def spans(self, text: str) -> list[Span]:
        return [Span(*m.span()) for m in re.finditer(r"\s?\w+|\s?[^\w\s]+|\s+", text)]


TOKENIZERS: dict[str, Tokenizer] = {t.name: t for t in (Words(), Bytes(), Pieces(), Spaced())}


def options(by: str = "tokens", size: int = 8, overlap: int = 2, **more: object) -> ChunkOptions:
    more.setdefault("pattern", r"^[A-Z]" if by == "entries" else "")
    return ChunkOptions(by, size=size, overlap=overlap, **more)  # type: ignore[arg-type]


def document(text: str, **more: object) -> Document:
    return Document(id="d", source="d", text=text, **more)  # type: ignore[arg-type]


def texts(by: str, text: str, tokenizer: str = "words", **settings: object) -> list[str]:
    chunker = make_chunker(options(by, **settings), TOKENIZERS[tokenizer])  # type: ignore[arg-type]
    return [chunk.text for chunk in chunker.chunks(document(text))]


def joined(text: str, spans: list[Span]) -> str:
    made, end = "", 0
    for span in spans:
        made += text[max(span.start, end) : span.end]
        end = max(end, span.end)
    return made


class TestOwnChunkers(ChunkerSuite):
    @pytest.fixture(
        params=[(by, name) for by in KINDS for name in TOKENIZERS],
        ids=lambda pair: f"{pair[0]}-{pair[1]}",
    )
    def chunker(self, request: pytest.FixtureRequest) -> Chunker:
        by, name = request.param
        return make_chunker(options(by), TOKENIZERS[name])


@pytest.mark.parametrize("by", KINDS)
@settings(max_examples=40, deadline=None)
@given(
    text=st.text(
        st.sampled_from("aB9é漢🙂 \n\t.?!'()。\u0301\u200d\ud800") | st.characters(),
        max_size=300,
    ),
    size=st.integers(1, 30),
    share=st.floats(0, 0.99),
    slack=st.sampled_from([0, 0.15, 0.5]),
    name=st.sampled_from(sorted(TOKENIZERS)),
)
def test_any_text_round_trips(
    by: str, text: str, size: int, share: float, slack: float, name: str
) -> None:
    half = len(text) // 2
    made = document(
        text,
        pages=(Page(1, Span(0, half)), Page(2, Span(half, len(text)))),
        sections=(
            Section("t", 1, Span(half // 2, len(text))),
            Section("u", 2, Span(half, half)),
        ),
    )
    chosen = options(by, size, int(size * share), slack=slack)
    chunker = make_chunker(chosen, TOKENIZERS[name])
    chunks = chunker.chunks(made)
    spans = [chunk.span for chunk in chunks]
    assert spans == chunker.cut(made)
    check_spans(made, spans)
    assert joined(text, spans) == text
    for chunk in chunks:
        first = chunk.span.start + len(chunk.text) - len(chunk.text.lstrip() or chunk.text)
        assert chunk.page == made.page_at(first)
        assert set(made.headings_at(first)) <= set(chunk.headings) or not made.sections


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(text=st.text(st.sampled_from("abc éß.,\n'-("), max_size=400), size=st.integers(1, 12))
def test_windows_split_no_token_and_hold_no_more_than_the_size(text: str, size: int) -> None:
    for name in ("words", "pieces", "spaced"):
        tokenizer = TOKENIZERS[name]
        # the space in front of a word may go with either side
        borders = [s for s in tokenizer.spans(text) if not text[s.start].isspace()]
        for by in ("tokens", "sentences", "paragraphs"):
            chunker = make_chunker(options(by, size, size // 3), tokenizer)
            for chunk in chunker.chunks(document(text)):
                assert chunk.tokens <= size
                for edge in (chunk.span.start, chunk.span.end):
                    assert not any(t.start < edge < t.end for t in borders)


def test_without_slack_windows_are_exact() -> None:
    text = " ".join(f"w{n}" for n in range(100))
    chunker = make_chunker(options(size=30, overlap=10, slack=0), Words())
    found = [chunk.text.split() for chunk in chunker.chunks(document(text))]
    assert [len(words) for words in found[:-1]] == [30] * (len(found) - 1)
    for left, right in pairwise(found):
        assert left[-10:] == right[:10]


def test_a_window_ends_at_a_border_that_is_near_its_end() -> None:
    sentence = "One two three four five six seven eight nine. "
    found = texts("tokens", sentence * 4, size=10, overlap=0)
    assert [piece.strip() for piece in found] == [sentence.strip()] * 4
    near = "a b c d e f g h. I\n\nj k l m n o p q r s t"
    assert texts("tokens", near, size=10, overlap=0)[0] == "a b c d e f g h. I\n\n"


def test_an_abbreviation_ends_no_window() -> None:
    text = "One two three four five six seven eight Dr. Smith came in and said so"
    assert texts("tokens", text, size=10, overlap=0)[0].endswith("Dr. Smith ")


def test_a_window_does_not_end_inside_a_word_where_it_can() -> None:
    text = "abcdefgh " * 20
    for piece in texts("tokens", text, "pieces", size=20, overlap=4):
        assert set(piece.split()) == {"abcdefgh"}


def test_punctuation_stays_with_its_word() -> None:
    found = texts("tokens", "one two, (three four) five-six seven", size=2, overlap=0, slack=0)
    assert found == ["one two, ", "(three four) ", "five-six ", "seven"]


def test_paragraphs_and_sentences_stay_whole_while_they_fit() -> None:
    text = "A b c.\n\nD e f. G h.\n\nI j k l m n o p q r.\n\nS t."
    assert texts("paragraphs", text, size=8, overlap=0) == [
        "A b c.\n\nD e f. G h.\n\n",
        "I j k l m n o p ",
        "q r.\n\n",
        "S t.",
    ]
    assert texts("sentences", "A b c. D e f. G h i. J.", size=6, overlap=0) == [
        "A b c. D e f. ",
        "G h i. J.",
    ]


def test_sentences_are_found_where_tokens_hold_the_space_in_front() -> None:
    text = "A b c. D e f. G h i. J."
    assert texts("sentences", text, "spaced", size=8, overlap=0) == ["A b c. D e f. ", "G h i. J."]


def test_overlap_repeats_whole_sentences() -> None:
    found = texts("sentences", "A b c. D e. F g h. I j k. L m n. O p.", size=8, overlap=3)
    for left, right in pairwise(found):
        repeated = right[: right.index(".") + 1]
        assert left.rstrip().endswith(repeated)


def test_headings_give_one_chunk_a_section_with_its_titles() -> None:
    text = "intro\n\n# One\n\n## A\n\nalpha\n\n## B\n\nbeta\n\n# Two\n\ngamma"
    at = text.index
    made = document(
        text,
        sections=(
            Section("One", 1, Span(at("# One"), at("# Two"))),
            Section("A", 2, Span(at("## A"), at("## B"))),
            Section("B", 2, Span(at("## B"), at("# Two"))),
            Section("Two", 1, Span(at("# Two"), len(text))),
        ),
    )
    found = make_chunker(options("headings", 50, 0), Words()).chunks(made)
    assert [(c.headings, c.text.split()[-1]) for c in found] == [
        ((), "intro"),
        (("One", "A"), "alpha"),
        (("One", "B"), "beta"),
        (("Two",), "gamma"),
    ]


def test_a_long_section_is_cut_and_a_long_page_is_not() -> None:
    text = "# T\n\n" + "\n\n".join(["some words here"] * 20)
    whole = Span(0, len(text))
    made = document(text, sections=(Section("T", 1, whole),), pages=(Page(1, whole),))

    def count(by: str) -> int:
        return len(make_chunker(options(by, 10, 0), Words()).cut(made))

    assert count("headings") > 1
    assert count("page") == 1


def test_pages_name_their_number() -> None:
    text = "first page\n\nsecond page\n\n\n\nfourth"
    spans = [Span(0, 12), Span(12, 25), Span(25, 27), Span(27, len(text))]
    made = document(text, pages=tuple(Page(n, s) for n, s in enumerate(spans, 1)))
    found = make_chunker(options("page"), Words()).chunks(made)
    assert [(c.page, c.text.strip()) for c in found] == [
        (1, "first page"),
        (2, "second page"),
        (4, "fourth"),
    ]


def test_a_chunk_over_several_pages_says_where_they_begin() -> None:
    text = "  one two three four five six seven"
    bounds = [0, 10, 10, 16, 21, len(text)]
    spans = [Span(a, b) for a, b in pairwise(bounds)]
    made = document(text, pages=tuple(Page(n, s) for n, s in enumerate(spans, 1)))
    for chunk in make_chunker(options("tokens", 3, 1), Words()).chunks(made):
        first = chunk.span.start + len(chunk.text) - len(chunk.text.lstrip())
        for position in range(first, chunk.span.end):
            begun = [number for start, number in chunk.pages if start <= position]
            assert (begun[-1] if begun else chunk.page) == made.page_at(position)
        assert all(first < start < chunk.span.end for start, _ in chunk.pages)


def test_entries_start_at_matches_and_the_preamble_is_its_own() -> None:
    text = "Codes of the car\n\nAPP_w304 brake\nworn out\nAPP_e101 belt\n"
    found = texts("entries", text, pattern=r"^APP_\w\d{3}")
    assert [piece.split()[0] for piece in found] == ["Codes", "APP_w304", "APP_e101"]


@pytest.mark.parametrize("by", ["headings", "page", "entries"])
def test_without_own_parts_a_document_is_cut_by_paragraphs(by: str) -> None:
    text = "\n\n".join(["some words here"] * 20)
    assert texts(by, text, pattern="XYZ") == texts("paragraphs", text)


@pytest.mark.parametrize(
    "wrong",
    [
        {"by": "chapters"},
        {"size": 10, "overlap": 10},
        {"size": 0, "overlap": 0},
        {"by": "entries"},
        {"by": "entries", "pattern": "("},
    ],
)
def test_senseless_settings_are_refused_with_a_way_out(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        ChunkOptions(**wrong)  # type: ignore[arg-type]


def test_specs_tell_what_matters_apart() -> None:
    chosen = [
        options(),
        options(size=9),
        options(overlap=1),
        options("sentences"),
        options("entries"),
        options("entries", pattern="x"),
    ]
    specs = [make_chunker(o, Words()).spec for o in chosen]
    specs.append(make_chunker(options(), Pieces()).spec)
    assert len(set(specs)) == len(specs)
    assert (
        make_chunker(options("whole"), Words()).spec
        == make_chunker(options("whole", 9), Words()).spec
    )


class Lines(Chunker):
    """An own chunker, as a stranger writes one."""

    def __init__(self, options: ChunkOptions, tokenizer: Tokenizer) -> None:
        self.spec = f"lines({options.size})"

    def cut(self, document: Document) -> list[Span]:
        ends = [m.end() for m in re.finditer(r"\n|$", document.text)]
        starts = [0, *ends]
        return [Span(a, b) for a, b in zip(starts, ends, strict=False) if a < b]


class Gappy(Lines):
    """Drops every second line."""

    def cut(self, document: Document) -> list[Span]:
        return super().cut(document)[::2]


class Halves(Chunker):
    """An own chunker without settings."""

    spec = "halves"

    def cut(self, document: Document) -> list[Span]:
        borders = sorted({0, len(document.text) // 2, len(document.text)})
        return [Span(a, b) for a, b in pairwise(borders)]


HALVES = Halves()


class TestLines(ChunkerSuite):
    @pytest.fixture
    def chunker(self) -> Chunker:
        return Lines(options(), Words())


def test_own_chunkers_are_loaded_and_held_to_the_contract() -> None:
    made = make_chunker(options(f"{__name__}:Lines"), Words())
    assert [c.text for c in made.chunks(document("a\nb\n"))] == ["a\n", "b\n"]
    for name in ("Halves", "HALVES"):
        made = make_chunker(options(f"{__name__}:{name}"), Words())
        assert isinstance(made, HeadedChunker)
        assert isinstance(made.chunker, Halves)
    with pytest.raises(ChunkError, match="leaves the characters"):
        make_chunker(options(f"{__name__}:Gappy"), Words()).chunks(document("a\nb\nc"))
    with pytest.raises(PluginError):
        make_chunker(options(f"{__name__}:document"), Words())
    with pytest.raises(PluginError):
        make_chunker(options("no.such.module:Thing"), Words())


@pytest.mark.parametrize("tokenizer", [Words(), Pieces(), WordTokenizer()])
def test_tokens_of_a_long_text_do_not_depend_on_how_it_is_handed_over(tokenizer: Tokenizer) -> None:
    """Longer than what a tokenizer gets at once, which ends after a line."""
    lines = [f"line {n} of a text\n  that is indented," + "\n" * (n % 3) for n in range(12_000)]
    text = "".join(lines)
    chunks = make_chunker(options(size=9, overlap=0, slack=0), tokenizer).chunks(document(text))
    spans = tokenizer.spans(text)
    assert [chunk.tokens for chunk in chunks[:-1]] == [9] * (len(chunks) - 1)
    assert sum(chunk.tokens for chunk in chunks) == len(spans)
    assert [chunk.span.end for chunk in chunks[:-1]] == [
        span.end - len(text[span.start : span.end].lstrip()) for span in spans[9::9]
    ]


@pytest.mark.slow
def test_many_pages_and_headings_cost_no_square() -> None:
    lines = [f"# Part {n}\n\nSome words of part {n}.\n\n" for n in range(20_000)]
    starts = [0, *accumulate(map(len, lines))]
    spans = [Span(a, b) for a, b in pairwise(starts)]
    made = document(
        "".join(lines),
        pages=tuple(Page(n, span) for n, span in enumerate(spans, 1)),
        sections=tuple(Section(f"Part {n}", 1, span) for n, span in enumerate(spans)),
    )
    chunks = make_chunker(options("headings", 400, 0), WordTokenizer()).chunks(made)
    assert [(c.page, c.headings) for c in chunks[:3]] == [(n + 1, (f"Part {n}",)) for n in range(3)]
    assert len(chunks) == len(lines)


def corpus(name: str) -> str:
    path = DATA / "chunking_eval" / "corpora" / name
    return path.read_text("utf-8")


@pytest.mark.slow
@pytest.mark.needs_data
@pytest.mark.parametrize(
    "name", ["chatlogs.md", "finance.md", "pubmed.md", "state_of_the_union.md", "wikitexts.md"]
)
@pytest.mark.parametrize("by", KINDS)
def test_real_corpora_round_trip(by: str, name: str) -> None:
    text = corpus(name)
    made = document(text)
    chunks = make_chunker(options(by, 200, 20), Words()).chunks(made)
    assert joined(text, [c.span for c in chunks]) == text
    if by not in {"whole", "page", "entries", "headings"}:
        assert max(c.tokens for c in chunks) <= 200


@pytest.mark.needs_data
def test_an_entry_pattern_gives_one_chunk_a_code() -> None:
    path = DATA / "prusa_error_codes" / "buddy-error-codes.yaml"
    text = path.read_text("utf-8")
    codes = re.findall(r'code:\s*"(\w+)"', text)
    pattern = r"^\s*- code:"
    chunks = make_chunker(options("entries", pattern=pattern), Words()).chunks(document(text))
    assert len(chunks) == len(codes) + 1
    for code, chunk in zip(codes, chunks[1:], strict=True):
        assert re.findall(r'code:\s*"(\w+)"', chunk.text) == [code]


def rows_of(kind: str, count: int) -> str:
    record = {
        "table": "| SN-{0} | unit {0} | {0}.5 bar |",
        "records": '{{"id": "T-{0}", "t": "it stops"}}',
    }
    head = "Read daily.\n\n| Serial | Unit | Pressure |\n| - | - | - |\n" if kind == "table" else ""
    return head + "".join(record[kind].format(number) + "\n" for number in range(count))


@pytest.mark.parametrize("by", ["tokens", "paragraphs", "sentences", "headings"])
@pytest.mark.parametrize("kind", ["table", "records"])
def test_a_chunk_begins_and_ends_with_whole_rows(by: str, kind: str) -> None:
    text = rows_of(kind, 400)
    options = ChunkOptions(by=by, size=60, overlap=15)
    chunks = make_chunker(options, WordTokenizer()).chunks(Document("d", "d", text))
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


def test_a_row_longer_than_a_chunk_is_cut() -> None:
    text = "| a |\n| - |\n| " + "word " * 500 + "|\n| b |"
    chunks = make_chunker(ChunkOptions(size=50, overlap=0), WordTokenizer()).chunks(
        Document("d", "d", text)
    )
    assert max(chunk.tokens for chunk in chunks) <= 50


@pytest.mark.parametrize("letters", [21, 24, 40, 90])
@pytest.mark.parametrize("overlap", [0, 10, 49])
def test_long_words_that_overlap_are_cut_between_words(letters: int, overlap: int) -> None:
    text = " ".join(f"{number:0{letters}}" for number in range(700)) + "\n\nrevision 17\n"
    for by in ("tokens", "paragraphs", "sentences", "headings"):
        chunks = make_chunker(ChunkOptions(by=by, size=100, overlap=overlap), Words()).chunks(
            Document("d", "d", text)
        )
        assert max(len(chunk.text) for chunk in chunks) <= 2_000
        assert all(len(word) == letters for word in " ".join(c.text for c in chunks[:-1]).split())


@pytest.mark.parametrize(
    "text", ["a" * 70_000, "0f" * 20_000 + " end", "日本" * 9_000, "x" * 9_000]
)
def test_a_chunk_has_a_bound_in_characters(text: str) -> None:
    for by in ("tokens", "paragraphs", "sentences", "headings"):
        chunks = make_chunker(ChunkOptions(by=by, size=100, overlap=10), Words()).chunks(
            Document("d", "d", text)
        )
        assert max(len(chunk.text) for chunk in chunks) <= 2_000
    for by in ("page", "whole"):
        (chunk,) = make_chunker(ChunkOptions(by=by, size=100, overlap=10), Words()).chunks(
            Document("d", "d", text, pages=(Page(1, Span(0, len(text))),))
        )
        assert chunk.text == text
