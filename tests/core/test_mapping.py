"""Names that are told in messages."""

from __future__ import annotations

from ragwright.core import list_names


def test_a_list_that_is_cut_says_how_many_more_there_are() -> None:
    assert list_names(["a", "b", "c"], 3) == "a, b, c"
    assert list_names(["a", "b", "c"], 1) == "a and 2 more"
    assert list_names([str(n) for n in range(2000)], 2) == "0, 1 and 1,998 more"
