"""The benchmark of conversations, on few turns."""

from __future__ import annotations

import pytest
from benchmarks.conversations import FILE, in_half, load, tables

needs_data = pytest.mark.needs_data


@needs_data
def test_the_condensing_beats_both_baselines_on_some_turns_of_the_development_half() -> None:
    if not FILE.is_file():
        pytest.skip("the data set mtrag is not beside the checkout")
    rows, documents = load()
    few = [row for row in rows if in_half(row) == "development"][:60]
    keyword, classes = tables(few, documents)
    last, whole, condensed = (float(str(line["Recall@5"])) for line in keyword.rows)
    assert condensed > max(last, whole)
    assert {"refers back", "stands alone by its words"} <= {str(r["class"]) for r in classes.rows}
