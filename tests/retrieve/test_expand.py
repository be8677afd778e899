"""Expansion: surroundings, merged where they overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ragwright.core import ChannelScore, Hit, RelaxationLevel, RetrieveError
from ragwright.flow import BatchHandler, Lookup, LookupReply, Runner
from ragwright.retrieve import (
    ExpandOptions,
    RetrieveOptions,
    SelectOptions,
    Target,
    diversify,
    expand_hits,
    merge_hits,
    retrieve,
)
from ragwright.testing import index_corpus, make_document

TEXT = "".join(chr(97 + n % 26) for n in range(400))
PAGES = ((0, 1), (150, 2), (300, 3))


def hit(rank: int, start: int, end: int, document: str = "d") -> Hit:
    page = max(number for place, number in PAGES if place <= start)
    turns = tuple((place, number) for place, number in PAGES if start < place < end)
    return Hit(
        rank,
        1.0 / rank,
        document,
        f"{document}:{start}-{end}",
        "d.txt",
        "Title",
        page,
        start,
        end,
        TEXT[start:end],
        channels={"keyword": ChannelScore(rank, 2.0)},
        pages=turns,
        rung=RelaxationLevel(1.0),
    )


spans = st.tuples(st.integers(0, 390), st.integers(1, 60), st.sampled_from("de"))


@pytest.mark.slow
@given(st.lists(spans, max_size=12))
def test_merged_hits_share_no_character_and_lose_none(drawn: list[tuple[int, int, str]]) -> None:
    hits = [hit(n, s, min(400, s + length), d) for n, (s, length, d) in enumerate(drawn, 1)]
    found = merge_hits(hits)
    assert [h.rank for h in found] == list(range(1, len(found) + 1))
    held = [(h.document_id, at) for h in found for at in range(h.start, h.end)]
    assert len(held) == len(set(held))
    assert set(held) == {(h.document_id, at) for h in hits for at in range(h.start, h.end)}
    for one in found:
        assert one.text == TEXT[one.start : one.end]
        plain = hit(1, one.start, one.end)
        assert (one.page, one.pages) == (plain.page, plain.pages)
        parts = [h for h in hits if h.document_id == one.document_id and one.start <= h.start
                 and h.end <= one.end]  # fmt: skip
        best = min(parts, key=lambda h: h.rank)
        assert (one.chunk_id, one.score, one.channels, one.rung) == (
            best.chunk_id,
            best.score,
            best.channels,
            best.rung,
        )
    order = [min(h.rank for h in hits if h.chunk_id == one.chunk_id) for one in found]
    assert order == sorted(order)


def test_hits_that_only_touch_stay_apart() -> None:
    hits = (hit(1, 10, 20), hit(2, 0, 10))
    assert merge_hits(hits) == hits


class Wide(BatchHandler[Lookup, LookupReply]):
    """An index whose chunks have 10 characters; neighbours reach 10 per chunk, sections 100."""

    def __init__(self) -> None:
        self.seen: list[Lookup] = []
        self.lose = False

    def durable(self, request: Lookup) -> bool:
        return False

    def carry(self, requests: Sequence[Lookup]) -> Sequence[LookupReply]:
        self.seen += requests
        return [LookupReply(self._hits(r)[self.lose :], notes=("noted",)) for r in requests]

    def _hits(self, request: Lookup) -> tuple[Hit, ...]:
        found = []
        for key in request.chunk_ids:
            document, _, span = key.rpartition(":")
            start, end = map(int, span.split("-"))
            if request.expand == "section":
                start = start // 100 * 100
                end = start + 100
            else:
                start, end = max(0, start - 10 * request.reach), end + 10 * request.reach
            found.append(replace(hit(1, start, end, document), rank=0, score=0.0, channels={}))
        return tuple(found)


@pytest.fixture
def index() -> Wide:
    return Wide()


def expanded(index: Wide, hits: Sequence[Hit], **options: Any) -> Any:
    with Runner({Lookup: index}) as runner:
        return runner.run(expand_hits(hits, Target("s"), ExpandOptions(**options)))


def test_without_settings_nothing_is_asked(index: Wide) -> None:
    hits = (hit(1, 50, 60),)
    assert expanded(index, hits) == (hits, ())
    assert expanded(index, (), by="section") == ((), ())
    assert index.seen == []


def test_neighbours_grow_text_and_span_and_nothing_else(index: Wide) -> None:
    hits = (hit(1, 140, 150), hit(2, 250, 260))
    found, notes = expanded(index, hits, by="neighbours")
    assert index.seen[0] == Lookup("s", ("d:140-150", "d:250-260"), expand="neighbours")
    assert [(h.start, h.end) for h in found] == [(130, 160), (240, 270)]
    for one, before in zip(found, hits, strict=True):
        assert one.text == TEXT[one.start : one.end]
        assert (one.rank, one.score, one.channels, one.chunk_id, one.rung) == (
            before.rank,
            before.score,
            before.channels,
            before.chunk_id,
            before.rung,
        )
    assert found[0].pages == ((150, 2),)
    assert notes == ("noted",)


def test_hits_of_one_section_become_one_in_the_place_of_the_better(index: Wide) -> None:
    hits = (hit(1, 210, 220), hit(2, 30, 40), hit(3, 250, 260), hit(4, 30, 40, "e"))
    found, notes = expanded(index, hits, by="section")
    assert [(h.rank, h.chunk_id, h.start, h.end) for h in found] == [
        (1, "d:210-220", 200, 300),
        (2, "d:30-40", 0, 100),
        (3, "e:30-40", 0, 100),
    ]
    assert notes == ("noted", "1 hit is merged into the surroundings of a better one")


class Wordy(Wide):
    """An index whose surroundings have some words."""

    words = 1_501

    def _hits(self, request: Lookup) -> tuple[Hit, ...]:
        return tuple(replace(found, text="a " * self.words) for found in super()._hits(request))


def test_surroundings_too_long_leave_the_chunk_alone_and_are_told() -> None:
    base = (hit(1, 50, 60),)
    found, notes = expanded(Wordy(), base, by="section")
    assert found == base
    assert notes[1] == "1 hit is not expanded: over 1,500 words by section"
    fitting = Wordy()
    fitting.words = 1_500
    assert expanded(fitting, base, by="section")[0][0].text == "a " * 1_500


def test_a_chunk_that_is_gone_is_an_error(index: Wide) -> None:
    index.lose = True
    with pytest.raises(RetrieveError, match="refresh"):
        expanded(index, (hit(1, 0, 10), hit(2, 20, 30)), by="neighbours")


@pytest.mark.parametrize(("by", "most"), [("neighbours", 5), ("section", 40)])
def test_on_a_real_index_text_and_span_agree_and_nothing_is_shown_twice(
    tmp_path: Path, by: Any, most: int
) -> None:
    texts = {document.id: document.text for document in map(make_document, range(40))}
    with index_corpus(tmp_path) as (routes, target), Runner(routes) as runner:
        options = RetrieveOptions(top_k=20, search="keyword")
        plain = runner.run(retrieve("oil pressure sensor pump", target, options)).hits
        found, _ = runner.run(expand_hits(plain, target, ExpandOptions(by)))
        picked, notes = runner.run(diversify(plain, 5, target, SelectOptions("mmr")))
    assert 0 < len(found) <= len(plain)
    assert [h.rank for h in found] == list(range(1, len(found) + 1))
    assert sum(len(h.text) for h in found) > sum(len(h.text) for h in plain)
    for one in found:
        assert one.text == texts[one.document_id][one.start : one.end]
        assert len(one.text) <= 120 * most
    held = [(h.document_id, at) for h in found for at in range(h.start, h.end)]
    assert len(held) == len(set(held))
    assert picked[0].chunk_id == plain[0].chunk_id
    assert len(picked) == 5
    assert notes == ()  # compared by the vectors of the index
