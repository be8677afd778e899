"""Rows are packed without loss, and what does not fit is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from study_subject import HOSTILE, MEASURES, MakeStudy, entry, result

from ragwright.core import Row, Score
from ragwright.experiment import RowResult
from ragwright.report import STATES, PackedRows, pack_rows, unpack_block


class Reader:
    """Reads packed rows as the page's script does."""

    def __init__(self, packed: PackedRows) -> None:
        self.blocks = [unpack_block(block) for block in packed.blocks]
        self.index: Mapping[str, Any] = packed.index

    def entry(self, name: str) -> Mapping[str, Any]:
        return next(one for one in self.index["entries"] if one["id"] == name)

    def details(self, name: str) -> list[Any]:
        return [row for _, _, block in self.entry(name)["rows"] for row in self.blocks[block]]

    def scores(self, name: str) -> Any:
        return self.blocks[self.entry(name)["scores"]]

    def questions(self) -> list[Any]:
        return list(self.blocks[self.index["rows"]])


def test_everything_of_a_row_comes_back() -> None:
    subject = MakeStudy()(3)
    packed = pack_rows(subject.entries, MEASURES, 10**7)
    reader = Reader(packed)
    assert not packed.left_out
    for one in subject.entries:
        kept: list[RowResult] = list(one.read(True))
        for row, found in zip(kept, reader.details(one.id), strict=True):
            answer, about, hits, prompt, made, said = found
            assert row.row is not None
            assert row.made is not None
            assert answer == row.row.response
            assert about["topic"] == "numbers"
            assert [hit[1] for hit in hits] == list(row.row.retrieved_contexts)
            assert [hit[0] for hit in hits] == ["docs/a.md", "docs/b.md"]
            assert [(role, words) for role, words in prompt] == list(row.made.prompt)
            assert made["cost"] == 0.002
            assert said["0"][1] == row.scores[0].detail
        columns = reader.scores(one.id)["m"]
        assert columns[0][0] == [row.scores[0].value for row in kept]
        assert columns[1][1] == "a" * len(kept)
    assert [row[0] for row in reader.questions()] == [f"q{n}" for n in range(6)]


def _told(at: int, text: str) -> RowResult:
    """A row whose judges say something of their own."""
    kept = result(at, (0.5, 3.0))
    words = " ".join(f"{text} {number * 7919 % 1009}" for number in range(60))
    scores = tuple(replace(score, detail=words) for score in kept.scores)
    return replace(kept, scores=scores)


def test_what_does_not_fit_is_left_out_and_counted() -> None:
    # Texts that do not repeat, so that every trial needs room of its own.
    subject = MakeStudy(rows=40)(12)
    entries = [
        entry(one.id, [_told(at, f"{one.id} {at * n}") for at in range(40)], one.values)
        for n, one in enumerate(subject.entries, 1)
    ]
    whole = pack_rows(entries, MEASURES, 10**8)
    room = whole.size // 2
    packed = pack_rows(entries, MEASURES, room)
    assert packed.size <= room
    assert 0 < len(packed.left_out) < 12
    reader = Reader(packed)
    for one in entries:
        assert len(reader.scores(one.id)["r"]) == 40
        assert len(reader.details(one.id)) == 40 - packed.left_out.get(one.id, 0)
    first_out = min(packed.left_out)
    assert all(one.id < first_out or one.id in packed.left_out for one in entries)


def test_states_and_rows_that_failed() -> None:
    rows = [
        result(0, (0.25, None)),
        RowResult(
            "q1", (), tuple(Score(name, "errored", reason="Boom: gone") for name in MEASURES)
        ),
    ]
    packed = pack_rows([entry("a", [result(1, (1.0, 2.0))]), entry("b", rows)], MEASURES, 10**6)
    reader = Reader(packed)
    assert [STATES["abcdef".index(c)] for c in reader.scores("b")["m"][1][1]] == [
        "judge_invalid",
        "errored",
    ]
    assert reader.scores("b")["m"][0][0] == [0.25, None]
    failed = reader.details("b")[1]
    assert failed[0] is None
    assert failed[5]["0"][0] == "Boom: gone"
    # The row that failed shares the line of the question that the other entry knows.
    assert reader.questions()[reader.scores("b")["r"][1]][1].startswith("What is said about")


def test_rankings_alone() -> None:
    only = RowResult("q9", ("docs/x.md", "docs/y.md"), (Score("nDCG@10", "scored", 0.5),))
    reader = Reader(pack_rows([entry("a", [only])], ["nDCG@10"], 10**6))
    assert reader.questions() == [["q9", "", "", ""]]
    assert reader.details("a")[0][2] == [["docs/x.md"], ["docs/y.md"]]


def test_two_questions_under_one_id_stay_two() -> None:
    score = (Score("TokenF1", "scored", 1.0),)
    one = RowResult("q", (), score, Row("q", "first?", "yes"))
    other = RowResult("q", (), score, Row("q", "second?", "yes"))
    reader = Reader(pack_rows([entry("a", [one]), entry("b", [other])], ["TokenF1"], 10**6))
    assert reader.scores("a")["r"] != reader.scores("b")["r"]


def test_hostile_texts_come_back_as_they_are() -> None:
    subject = MakeStudy(text=HOSTILE)(2)
    reader = Reader(pack_rows(subject.entries, MEASURES, 10**7))
    told = HOSTILE.encode("utf-8", "replace").decode()
    assert told in reader.details("T000")[0][0]
