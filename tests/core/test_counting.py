"""Numbers with their nouns."""

from __future__ import annotations

from ragwright.core import counted


def test_one_is_singular_and_all_else_plural() -> None:
    assert [counted(n, "row") for n in (0, 1, 2, 1200)] == [
        "0 rows",
        "1 row",
        "2 rows",
        "1,200 rows",
    ]
    assert counted(1, "entry has", "entries have") == "1 entry has"
    assert counted(3, "entry has", "entries have") == "3 entries have"
