"""Sentence spans: tricky stops, Markdown, several scripts, real corpora."""

from __future__ import annotations

import pytest
from benchmarks.data_sets import DATA

from ragwright.models import sentence_spans


def cut(text: str) -> list[str]:
    return [text[s.start : s.end] for s in sentence_spans(text)]


@pytest.mark.parametrize(
    "sentences",
    [
        ["Dr. Smith paid $3.50 to J. K. Rowling, e.g. for a book.", "Was it good?", "Yes!"],
        ["He came on Jan. 5, 2020 at 5 p.m. with Mr. Jones.", "She left."],
        ["The U.S. Army came.", "It was in the U.S.", "He left."],
        ["See Fig. 3 and Eq. 2, vol. 4.", "Version 2.3.1 is out."],
        ["Visit www.example.com today.", "Or mail a.b@example.org."],
        ["What?!", "No way…", "Then he left."],
        ["A claim.[12]", "Another one.[3][4]", "End."],
        ['"It was."', "He left."],
        ["Il dit : « Viens ! »", "Elle part."],
        ["« Quoi ? » dit-il.", "M. Dupont arrive, c.-à-d. trop tard."],
        ["Il vend des pommes, des poires, etc.", "Puis il part."],
        ["Das ist z.B. gut.", "Er geht."],
        ["**Bold end.**", "Next one."],
        ["Hard wrapped prose is not cut before any work on the\nTank is begun, always."],
        [f"The fuse {'x' * 200_000}.", "It is red."],  # in no time
    ],
)
def test_prose_is_cut_at_its_stops(sentences: list[str]) -> None:
    assert cut(" ".join(sentences)) == sentences


MARKDOWN = """# Title
\nA line that\nwraps. Second.
\n| a | b. C |\n|---|---|\n| 1. x | 2 |
\n- one\n- two\n1. First\n2. Second
\n```\ncode. Here\n```\nEnd"""


def test_scripts_without_spaces_and_markdown_are_cut_where_they_end() -> None:
    assert cut("东京是首都。人口很多！对吗？") == ["东京是首都。", "人口很多！", "对吗？"]
    assert cut(MARKDOWN) == [
        *("# Title", "A line that\nwraps.", "Second."),
        *("| a | b. C |", "|---|---|", "| 1. x | 2 |"),
        *("- one", "- two", "1. First", "2. Second"),
        *("```", "code. Here", "```", "End"),
    ]
    title = "Safety notes\nThe pump must be switched off before any work on the tank is begun."
    assert cut(title)[0] == "Safety notes"


@pytest.mark.parametrize("text", ["", " \n ", ".", "...", "?!", "a", "\n\n\n", "1.", "A.", "```"])
def test_odd_texts_lose_nothing(text: str) -> None:
    assert "".join("".join(cut(text)).split()) == "".join(text.split())


@pytest.mark.needs_data
def test_every_character_of_real_corpora_is_in_exactly_one_sentence() -> None:
    folders = (DATA / "chunking_eval" / "corpora", DATA / "documents" / "groundtruth")
    for path in (path for folder in folders for path in sorted(folder.glob("*.md"))):
        text, end = path.read_text("utf-8")[:150_000], 0
        for span in sentence_spans(text):
            assert span.start >= end
            assert not text[end : span.start].strip()
            assert text[span.start : span.end] == text[span.start : span.end].strip()
            end = span.end
        assert not text[end:].strip()
