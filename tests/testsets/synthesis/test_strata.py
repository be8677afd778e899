"""A testset is balanced over folders, formats, languages and kinds, as far as the corpus allows."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ragwright.core import GoldSpan
from ragwright.models import Analyzer
from ragwright.testsets import Candidate, Stratum, balanced, stratum_of, without_near_duplicates


def one(document: str, number: int, form: str = "definition") -> Candidate:
    return Candidate("template", f"{document} {number}?", "a", GoldSpan(document, number, 90), form)


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from("abc")), max_size=60))
def test_the_order_keeps_every_candidate_and_first_asks_each_document(
    owners: list[tuple[int, str]],
) -> None:
    candidates = [one(f"d{owner}", n, form) for n, (owner, form) in enumerate(owners)]
    strata = {f"d{n}": Stratum(folder=f"f{n % 3}") for n in range(10)}
    ordered = balanced([*candidates, one("d1", 99).rejected("no")], strata, {})
    assert ordered[-1].reason == "no"
    assert Counter(ordered[:-1]) == Counter(candidates)
    assert balanced(ordered, strata, {})[-1].reason == "no"
    # Within a folder and form, no document has two more than one that still has candidates.
    for folder in range(3):
        cell = [c for c in ordered[:-1] if strata[c.span.document_id].folder == f"f{folder}"]
        if len({c.level for c in cell}) == 1:
            asked: Counter[str] = Counter()
            left = Counter(c.span.document_id for c in cell)
            for before, after in pairwise(cell):
                asked[before.span.document_id] += 1
                left[before.span.document_id] -= 1
                name = after.span.document_id
                assert asked[name] <= min(asked[d] for d, n in left.items() if n)


def test_equal_groups_get_equal_numbers() -> None:
    candidates = [one(f"{folder}{n}", n) for folder in "abc" for n in range(40)]
    strata = {c.span.document_id: Stratum(folder=c.span.document_id[0]) for c in candidates}
    chosen = balanced(candidates, strata, {})[:30]
    assert Counter(c.span.document_id[0] for c in chosen) == {"a": 10, "b": 10, "c": 10}


def test_one_odd_file_does_not_count_as_much_as_a_hundred() -> None:
    candidates = [one("odd", n) for n in range(40)] + [one(f"d{n}", n) for n in range(100)]
    strata = {"odd": Stratum(folder="x"), **{f"d{n}": Stratum(folder="y") for n in range(100)}}
    chosen = balanced(candidates, strata, {})[:44]
    assert 3 <= sum(c.span.document_id == "odd" for c in chosen) <= 5  # 1 to 10 by square roots


@pytest.mark.parametrize(
    ("source", "folder", "ending"),
    [
        ("docs/a/b.PDF", "docs/a", "pdf"),
        ("note.txt", ".", "txt"),
        ("Makefile", ".", "none"),
        ("https://host.org/manual/start", "host.org/manual", "html"),
        ("https://host.org/a/b.pdf?v=1", "host.org/a", "pdf"),
        (r"C:\texts\b.docx", "C:/texts", "docx"),
    ],
)
def test_the_group_of_a_document_is_read_from_its_address(
    source: str, folder: str, ending: str
) -> None:
    assert stratum_of(source, "x") == Stratum(folder, ending, "unknown")
    assert stratum_of(source, "x", "fr").language == "fr"


def test_questions_on_two_codes_are_not_near_duplicates() -> None:
    asked = [f"What does the linker warning LNK{n} mean?" for n in (4099, 4217, 4217)]
    candidates = [
        Candidate("template", question, "a", GoldSpan(f"d{n}", 0, 9))
        for n, question in enumerate(asked)
    ]
    same = np.ones((3, 4), dtype=np.float32)
    kept = without_near_duplicates(candidates, Analyzer(), same)
    assert [bool(candidate.reason) for candidate in kept] == [False, False, True]
