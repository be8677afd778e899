"""The text of a record, piece by piece; one client under many spellings, with biographies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from ragwright.core import ConfigError, RecordsError, parse_yaml
from ragwright.records import Rollups, TextFormat, load_shipped_format
from ragwright.records.declared import read_biographies, read_text_format, spelling_key

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
    return read_text_format(parse_yaml(text, "records/text_formats/sms.yaml"), "sms", known)


HEAD = "A short fundraising text message from Jane Doe"
SAID = "Chip in $5 now: we are 90% there."


def test_the_structure_is_cut_into_one_piece_per_variable() -> None:
    made = parsed(SIX)
    assert [f"{piece.before}%s{piece.after}" for piece in made.pieces] == [
        "A %s",
        " %s",
        " text message from %s",
        " about %s",
        " written with an emphasis on %s",
        ":\n\n%s",
    ]
    emphasis = "written with an emphasis on urgent, grateful"
    whole = f"{HEAD} about health care, taxes {emphasis}:\n\n{SAID}"
    assert made.fill(RECORD) == load_shipped_format().fill(RECORD) == whole
    assert made.fingerprint == load_shipped_format().fingerprint
    for nothing in ([], None, "", " ", [""]):
        about = f"{HEAD} about health care, taxes:\n\n{SAID}"
        assert made.fill({**RECORD, "tone": nothing}) == about
    assert made.request({**RECORD, "topic": []}) == f"{HEAD} {emphasis}"  # all but the text
    # what stands behind the last variable goes with it
    made = parsed('prompt_variables: [text, tone]\nprompt_structure: "%s (%s, 100%% sure)"\n')
    assert made.fill({"text": "Hi", "tone": "calm"}) == "Hi (calm, 100% sure)"
    assert made.fill({"text": "Hi"}) == "Hi"


COUNT = "prompt_structure has {} %s, prompt_variables has 2 names".format
TWO = "# a comment\nprompt_variables: [client, text]\nprompt_structure: '{}'\n".format


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        (TWO("%s %s %s"), ":3", COUNT(3)),
        (TWO("%s"), ":3", COUNT(1)),
        (TWO("no mark"), ":3", COUNT(0)),
        (TWO("%s %s %%s %s"), ":3", COUNT(3)),
        (
            "prompt_variables: [text]\nprompt_structure: '%d %s'\n",
            ":2",
            COUNT(1).replace("2 names", "1 names"),
        ),
        (
            "prompt_variables: [text]\nprompt_structure: '%s 100%'\n",
            ":2",
            COUNT(1).replace("2 names", "1 names"),
        ),
        ("prompt_variables: [client]\nprompt_structure: '%s'\n", ":1", "'text' once, not 0"),
        ("prompt_variables: [text, tpic]\nprompt_structure: '%s%s'\n", ":1", "'tpic'"),
        ("prompt_variables: [text]\n", "", "prompt_structure"),
        ("prompt_variables: [text]\nprompt_struct: '%s'\n", ":2", "prompt_struct"),
        ("prompt_variables: [text]\nprompt_structure: 3\n", ":2", "must be text"),
        ("[a, b]\n", "", "must be a mapping"),
    ],
)
def test_faults_have_file_and_line(text: str, line: str, told: str) -> None:
    with pytest.raises((ConfigError, RecordsError)) as caught:
        parsed(text, ["text", "topic", "client"])
    assert told in caught.value.what
    assert caught.value.what == told or " names" not in told
    assert str(caught.value.where).startswith(f"records/text_formats/sms.yaml{line}")


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


# -- clients -------------------------------------------------------------------------------------

ROLLUPS = Rollups(
    "sender",
    {"Jane Doe": ("DOE, JANE", "Jane Doe for Congress"), "Sam Roe": ("Roe",)},
    {"doe, jane": "A nurse.", "Ann Poe": "A farmer."},
)


@pytest.mark.parametrize(
    "name", ["Jane Doe", "jane  doe", " DOE, JANE!", "“Jane Doe for Congress”", "JANE DOE."]
)
def test_any_spelling_is_the_client(name: str) -> None:
    assert ROLLUPS.canonical(name) == "Jane Doe"
    assert ROLLUPS.biography(name) == "A nurse."


@pytest.mark.parametrize("name", ["Jane", " Poe ", "", "!!!", "Doe,Jane"])
def test_an_unlisted_name_is_its_own(name: str) -> None:
    assert ROLLUPS.canonical(name) == name
    assert ROLLUPS.biography(name) is None


def test_nearest_names_and_biographies_without_a_rollup() -> None:
    assert ROLLUPS.biography("ann poe") == "A farmer."
    assert spelling_key(" J. Doe, Jr. ") == "j. doe, jr"  # punctuation inside a name counts
    assert spelling_key("...") == "..."


def test_biographies(tmp_path: Path) -> None:
    file = tmp_path / "b.csv"
    file.write_text('\ufeffid,Name,Biography\n1, Jane Doe ,"Two\nlines, a comma"\n\n', "utf-8")
    assert read_biographies(file, "b.csv") == {"Jane Doe": "Two\nlines, a comma"}
    with pytest.raises(RecordsError, match="cannot be read"):
        read_biographies(tmp_path / "none.csv", "none.csv")


@pytest.mark.parametrize(
    ("data", "line", "told"),
    [
        (b"name\nx\n", 1, "columns name and biography"),
        (b"", 1, "columns name and biography"),
        (b"name,biography\nx,\xff\n", 1, "can't decode byte 0xff"),
        (b"name,biography\n,y\n", 2, "no name"),
        (b"name,biography\nx,y\n\nX!,z\n", 4, "already"),
        (b'name,biography\nx,"y" z\n', 2, "cannot be read"),
        (b'name,biography\nx,"y\n', 2, "cannot be read"),
    ],
)
def test_faults_of_the_table(tmp_path: Path, data: bytes, line: int, told: str) -> None:
    file = tmp_path / "b.csv"
    file.write_bytes(data)
    with pytest.raises(RecordsError) as caught:
        read_biographies(file, "b.csv")
    assert told in caught.value.what
    assert caught.value.where == f"b.csv:{line}"
