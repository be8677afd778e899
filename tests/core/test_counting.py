"""Numbers with their nouns."""

from __future__ import annotations

from ragwright.core import count_noun


def test_one_is_singular_and_all_else_plural() -> None:
    assert [count_noun(n, "row") for n in (0, 1, 2, 1200)] == [
        "0 rows",
        "1 row",
        "2 rows",
        "1,200 rows",
    ]
    assert count_noun(1, "entry has", "entries have") == "1 entry has"
    assert count_noun(3, "entry has", "entries have") == "3 entries have"
