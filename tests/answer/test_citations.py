"""Citation marks in replies."""

from __future__ import annotations

import pytest
from answer_fakes import hit

from ragwright.answer import citation, read_cited_numbers, resolve_citations


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("A [1].", [1]),
        ("A [1, 2] and [2].", [1, 2]),
        ("A [1][3].", [1, 3]),
        ("A [1-3].", [1, 2, 3]),
        ("A [2–4, 1].", [2, 3, 4, 1]),
        ("A [1; 2] b [3 and 4] c [5 & 6].", [1, 2, 3, 4, 5, 6]),
        ("A 【2】 b 【1†source】.", [2, 1]),
        ("In [2019] and [2019, 2020] nothing.", []),
        ("No [a] [see 1] [] (1) marks.", []),
        ("Backwards [3-1].", [3, 1]),
        ("Far [1-900].", [1, 900]),
    ],
)
def test_marks_are_found(text: str, numbers: list[int]) -> None:
    assert read_cited_numbers(text) == numbers


def test_marks_resolve_to_source_page_and_span_in_order_of_first_use() -> None:
    hits = [hit(1, "one", start=10), hit(2, "two", start=20, page=7)]
    citations, notes = resolve_citations("B [2]. A [1][2].", hits)
    assert [c.marker for c in citations] == [2, 1]
    assert (citations[0].source, citations[0].page) == ("doc2.pdf", 7)
    assert (citations[0].start, citations[0].end) == (20, 23)
    assert notes == ()


def test_a_cited_span_has_the_page_it_begins_on() -> None:
    found = hit(1, "x" * 40, start=100, page=3, pages=((110, 4), (125, 6)))
    pages = [citation(1, found, start, start + 2).page for start in (100, 109, 110, 124, 125, 139)]
    assert pages == [3, 3, 4, 4, 6, 6]
    assert citation(1, found).page == 3
    assert found.page_at(99) is None
    assert found.page_at(140) is None


def test_marks_that_name_no_passage_are_reported() -> None:
    citations, notes = resolve_citations("A [1]. B [7]. C [0].", [hit(1, "one")])
    assert [c.marker for c in citations] == [1]
    [note] = notes  # [0] is an index of a list, no mark
    assert "[7]" in note
