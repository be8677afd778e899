"""Gold questions and answers as chat turns for fine-tuning."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragwright.core import Row, TestsetError
from ragwright.testsets import write_chat

ROWS = (
    Row(
        "1", "How often?", reference="Every two years.", reference_contexts=("The fluid.", "More.")
    ),
    Row("2", "By whom?", reference="A mechanic."),
    Row("3", "Why?"),
    Row("4", "When?", reference="Never.", metadata={"review": "rejected"}),
)


def test_gold_rows_become_a_user_and_an_assistant_turn(tmp_path: Path) -> None:
    path = tmp_path / "gold.chat.jsonl"
    assert write_chat(ROWS, path) == 2
    first, second = (json.loads(line)["messages"] for line in path.read_text().splitlines())
    assert first == [
        {"role": "user", "content": "[1] The fluid.\n\n[2] More.\n\nQuestion: How often?"},
        {"role": "assistant", "content": "Every two years."},
    ]
    assert second[0] == {"role": "user", "content": "By whom?"}


def test_without_a_gold_answer_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(TestsetError, match="no row has a gold answer"):
        write_chat(ROWS[2:], tmp_path / "none.chat.jsonl")
    assert not (tmp_path / "none.chat.jsonl").exists()
