"""The text of a record: pieces per variable, and what a wrong format is told."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from ragwright.core import RecordsError, parse_yaml
from ragwright.records import TextFormat, load_shipped_format, parse_text_format

SIX = """\
prompt_variables: [length, ask_type, client, topic, tone, text]
prompt_structure: "A %s %s text message from %s about %s written with an emphasis on %s:\\n\\n%s"
"""

RECORD: dict[str, Any] = {
    "length": "short",
    "ask_type": ["fundraising"],
    "client": "Jane Doe",
    "topic": ["health care", "taxes"],
    "tone": ["urgent", "grateful"],
    "text": "Chip in $5 now: we are 90% there.",
}


def parsed(text: str, known: list[str] | None = None) -> TextFormat:
    return parse_text_format(parse_yaml(text, "records/text_formats/sms.yaml"), "sms", known)


def test_the_structure_is_cut_into_one_piece_per_variable() -> None:
    pieces = [f"{piece.before}%s{piece.after}" for piece in parsed(SIX).pieces]
    assert pieces == [
        "A %s",
        " %s",
        " text message from %s",
        " about %s",
        " written with an emphasis on %s",
        ":\n\n%s",
    ]


def test_a_record_with_everything() -> None:
    assert parsed(SIX).fill(RECORD) == (
        "A short fundraising text message from Jane Doe about health care, taxes written with an "
        "emphasis on urgent, grateful:\n\nChip in $5 now: we are 90% there."
    )


@pytest.mark.parametrize("nothing", [[], None, "", " ", [""]])
def test_no_tones_no_emphasis_clause(nothing: Any) -> None:
    assert parsed(SIX).fill({**RECORD, "tone": nothing}) == (
        "A short fundraising text message from Jane Doe about health care, taxes:\n\n"
        "Chip in $5 now: we are 90% there."
    )


def test_the_request_is_all_but_the_text() -> None:
    assert parsed(SIX).request({**RECORD, "topic": []}) == (
        "A short fundraising text message from Jane Doe written with an emphasis on urgent, "
        "grateful"
    )


def test_what_stands_behind_the_last_variable_goes_with_it() -> None:
    made = parsed('prompt_variables: [text, tone]\nprompt_structure: "%s (%s, 100%% sure)"\n')
    assert made.fill({"text": "Hi", "tone": "calm"}) == "Hi (calm, 100% sure)"
    assert made.fill({"text": "Hi"}) == "Hi"


def test_the_shipped_format_is_the_example() -> None:
    assert load_shipped_format().fill(RECORD) == parsed(SIX).fill(RECORD)
    assert load_shipped_format().fingerprint == parsed(SIX).fingerprint


@pytest.mark.parametrize(
    ("structure", "count"), [("%s %s %s", 3), ("%s", 1), ("no mark", 0), ("%s %s %%s %s", 3)]
)
def test_other_counts_are_refused_with_file_and_line(structure: str, count: int) -> None:
    text = f'# a comment\nprompt_variables: [client, text]\nprompt_structure: "{structure}"\n'
    with pytest.raises(RecordsError) as caught:
        parsed(text)
    assert caught.value.where == "records/text_formats/sms.yaml:3"
    assert caught.value.what == (f"prompt_structure has {count} %s, prompt_variables has 2 names")


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("prompt_variables: [text]\nprompt_structure: '%d %s'\n", 2, "'%d'"),
        ("prompt_variables: [text]\nprompt_structure: '%s 100%'\n", 2, "'%'"),
        ("prompt_variables: [client]\nprompt_structure: '%s'\n", 1, "'text' once, not 0"),
        ("prompt_variables: [text, tpic]\nprompt_structure: '%s%s'\n", 1, "'tpic'"),
        ("prompt_variables: [text]\n", 1, "prompt_structure"),
        ("prompt_variables: [text]\nprompt_struct: '%s'\n", 2, "prompt_struct"),
        ("prompt_variables: [text]\nprompt_structure: 3\n", 2, "must be a text"),
        ("[a, b]\n", 1, "must be a mapping"),
    ],
)
def test_faults_have_file_and_line(text: str, line: int, told: str) -> None:
    with pytest.raises(RecordsError, match=told) as caught:
        parsed(text, ["text", "topic", "client"])
    assert caught.value.where in (
        f"records/text_formats/sms.yaml:{line}",
        "records/text_formats/sms.yaml",
    )


VALUES = st.none() | st.text("aé😀 \x1c\u3000,", max_size=4)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "length": VALUES,
            "client": VALUES,
            "topic": st.lists(st.text("ab ", max_size=2), max_size=3),
            "count": st.none() | st.integers(0, 9),
            "text": VALUES,
        }
    ),
    min_size=1,
    max_size=5,
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(ROWS)
def test_a_batch_is_its_rows(rows: list[dict[str, Any]]) -> None:
    made = parsed(
        "prompt_variables: [length, topic, text, count, client]\n"
        'prompt_structure: "A %s of %s: %s [%s] by %s."\n'
    )
    kinds = {"topic": pa.list_(pa.string()), "count": pa.int64()}
    columns = {
        name: pa.array([row[name] for row in rows], kinds.get(name, pa.string()))
        for name in rows[0]
    }
    documents, at = made.fill_batch(pa.table(columns))
    assert documents.to_pylist() == [made.fill(row) for row in rows]
    assert at.to_pylist() == [made.message_at(row) for row in rows]
    for row, document, start in zip(rows, documents.to_pylist(), at.to_pylist(), strict=True):
        if row["text"] and row["text"].strip():
            assert document[start : start + len(row["text"])] == row["text"]
