"""The page of coverage on people's grades, at small size."""

from __future__ import annotations

import pytest
from benchmarks.people_coverage import DESIGNS, rag25, simulate


@pytest.mark.needs_data
def test_clustered_intervals_cover_where_topics_are_sampled_from_rag25() -> None:
    topics = rag25()
    assert len(topics.human) == 22
    assert sum(map(len, topics.human)) == 10_284
    again, without, finite = (simulate(topics, design, 11, 100) for design in DESIGNS)
    assert again["judge coverage"] >= 0.92
    assert without["judge coverage"] >= 0.95
    assert finite["judge coverage"] >= 0.92
    for figures in (again, without, finite):
        assert figures["judge width"] < 0.95 * figures["alone width"]
        assert figures["rows coverage"] < 0.5
