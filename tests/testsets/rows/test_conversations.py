"""Conversations in files: every dialect, whole conversations, bad turns, and the way back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragwright.core import Row, TestsetError, Turn, value_hash
from ragwright.testsets import (
    Testset,
    make_plain_row,
    read_rows,
    rows_fingerprint,
    rows_of,
    split_clusters,
    write_rows,
)

BEFORE = (Turn("user", "What is a cat?"), Turn("assistant", "An animal."))
OPENAI = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": [{"type": "text", "text": "What is a cat?"}]},
    {"role": "assistant", "content": "An animal."},
    {"role": "user", "content": "What does it eat?"},
]
RAGAS = [
    {"type": "human", "content": "What is a cat?"},
    {"type": "tool", "content": "found"},
    {"type": "ai", "content": "An animal."},
    {"type": "human", "content": "What does it eat?"},
]
MTRAG = {
    "conversation_id": "c",
    "task_id": "c<::>2",
    "turn": "2",
    "input": [
        {"speaker": "user", "text": "What is a cat?"},
        {"speaker": "agent", "text": "An animal."},
        {"speaker": "user", "text": "What does it eat?"},
    ],
    "contexts": [{"document_id": "d1", "text": "Cats eat mice."}],
    "targets": [{"speaker": "agent", "text": "Mice."}],
    "Answerability": ["UNANSWERABLE"],
    "Multi-Turn": ["Follow-up"],
}


@pytest.mark.parametrize(
    "record",
    [
        {"messages": OPENAI},
        {"user_input": OPENAI},
        {"user_input": RAGAS},
        {"inputs": {"messages": OPENAI}},
        MTRAG,
        {"user_input": "What does it eat?", "history": OPENAI[:3]},
    ],
)
def test_every_dialect_gives_the_last_question_and_its_history(record: dict[str, Any]) -> None:
    (row,) = rows_of([record])
    assert (row.user_input, row.history) == ("What does it eat?", BEFORE)
    assert (row.metadata["turn"], row.metadata["standalone"]) == (2, False)


def test_a_task_of_mtrag_has_its_gold_and_its_kind() -> None:
    (row,) = rows_of([MTRAG])
    assert (row.id, row.reference, row.reference_ids) == ("c-2", "Mice.", {"d1": 1})
    assert row.reference_contexts == ("Cats eat mice.",)
    assert row.metadata["answerability"] == "unanswerable"
    assert row.metadata["answerable"] is False
    assert row.retrieved_contexts == ()


def test_a_whole_conversation_is_a_row_per_question() -> None:
    record = {
        "id": "c",
        "messages": [*OPENAI, {"role": "assistant", "content": "Mice."}],
        "reference_ids": ["d1"],
    }
    answered = tuple(rows_of([record]))
    assert [row.id for row in answered] == ["c-1", "c-2"]
    assert [row.response for row in answered] == ["An animal.", "Mice."]
    assert [dict(row.reference_ids) for row in answered] == [{}, {"d1": 1}]
    gold = tuple(rows_of([record], questions=True))
    assert [row.reference for row in gold] == ["An animal.", "Mice."]
    assert [row.response for row in gold] == [None, None]
    clusters = split_clusters((*gold, *(Row(str(n), f"other {n}") for n in range(4))))
    assert clusters["c-1"] == clusters["c-2"], "a conversation stays in one split"


@pytest.mark.parametrize(
    ("record", "fault"),
    [
        ({"user_input": []}, "holds no turn"),
        ({"messages": [{"role": "judge", "content": "a"}]}, "unknown role 'judge'"),
        ({"messages": [OPENAI[1], RAGAS[2], OPENAI[3]]}, "turn 2 of messages has 'type'"),
        ({"user_input": ["a", "b"]}, "turn 1 of user_input is not an object"),
        ({"messages": [{"role": "user", "content": 3}]}, "is int, not a string"),
        ({"messages": [{"role": "user"}]}, "turn 1 of messages is a question without text"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "is list"),
        ({"messages": [OPENAI[3], OPENAI[0]]}, "the last turn of messages is of 'system'"),
        ({"messages": [OPENAI[2]]}, "no turn is by the user"),
        ({"messages": OPENAI[:3], "response": "x"}, "the last turn is not by the user"),
        ({"user_input": "a", "history": "before"}, "history is str"),
    ],
)
def test_a_bad_turn_is_named_with_file_and_line(
    tmp_path: Path, record: dict[str, Any], fault: str
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"user_input": "fine"}\n' + json.dumps(record) + "\n", "utf-8")
    with pytest.raises(TestsetError, match=fault) as caught:
        read_rows(path)
    assert caught.value.where == f"{path}:2"
    assert caught.value.hint


def test_rows_with_history_are_written_and_read_back(tmp_path: Path) -> None:
    rows = tuple(rows_of([MTRAG, {"messages": OPENAI, "id": "b"}]))
    write_rows(rows, tmp_path / "rows.jsonl")
    assert read_rows(tmp_path / "rows.jsonl") == rows


def test_only_rows_with_history_have_another_hash() -> None:
    row = Row("1", "a", reference="b")
    assert "history" not in make_plain_row(row)
    assert rows_fingerprint((row,)) == value_hash([make_plain_row(row)])
    later = replace(row, history=BEFORE)
    assert rows_fingerprint((later,)) != rows_fingerprint((row,))
    assert Testset("t", (row, replace(later, id="2"))).questions == 2
