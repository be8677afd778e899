"""Values that every room shares: addresses, headers, numbers, names, CSV, hashes, records."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ragwright.core import (
    ConfigError,
    Filter,
    FilterError,
    GoldSpan,
    Row,
    count_noun,
    csv_cell,
    csv_lines,
    csv_text,
    fill_address,
    hide_secret,
    holds_secret,
    list_names,
    make_plain,
    retry_after,
    value_hash,
    values_hash,
    well_formed,
)
from ragwright.retrieve import parse_filter

# -- addresses of databases ----------------------------------------------------------------


def test_secrets_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    written = "postgresql://u:${SHOP_PASSWORD}@h/d"
    monkeypatch.setenv("SHOP_PASSWORD", "p@ss/word")
    assert fill_address(written) == "postgresql://u:p%40ss%2Fword@h/d"
    assert fill_address("${SHOP_PASSWORD}") == "p@ss/word"
    assert fill_address("sqlite:///${SHOP_PASSWORD}.db") == "sqlite:///p@ss/word.db"
    monkeypatch.delenv("SHOP_PASSWORD")
    with pytest.raises(ConfigError, match="SHOP_PASSWORD"):
        fill_address(written)


SECRET = """
postgresql://u:secret@h/d
postgresql+psycopg://u:secret@h/d
postgresql://h/d?password=x
postgresql://u:a${B}@h/d
postgresql://[::1:secret@h/d
postgresql://u:a/b#c@h/d
postgresql://u@h/d?passwd=x
snowflake://u@acct/d?warehouse=w&token=x
bigquery://p?credentials_base64=x
db://h/d?api_key=x
db://h/d?AccountKey=x
db://h/d?client_secret=x
mssql+pyodbc:///?odbc_connect=DRIVER%3DX%3BUID%3Du%3BPWD%3Dx%3By
mssql+pyodbc:///?odbc_connect=DRIVER=X;UID=u;PWD=x
mssql://h/d?driver=ODBC;pwd=x
"""
PUBLIC = """
postgresql://u:${B}@h/d
postgresql://u@h/d?host=/tmp
sqlite:///a:b@c.db
snowflake://u@acct/d?token=${TOKEN}
bigquery://p?credentials_path=/etc/google.json
mssql+pyodbc:///?odbc_connect=DRIVER%3DX%3BUID%3Du%3BPWD%3D%7B${B}%7D
postgresql://h/d?sslkey=/etc/me.key&keepalives_idle=30&passfile=/etc/p
db://h/d?keyspace=shop&token_url=http%3A%2F%2Fh
postgresql://[::1]:5432/d
"""


def test_a_password_in_an_address_is_seen() -> None:
    assert [one for one in SECRET.split() if not holds_secret(one)] == []
    assert [one for one in PUBLIC.split() if holds_secret(one)] == []


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://u:hun%40ter@h/d",
        "postgresql://u@h/d?sslpassword=hun%40ter&x=1",
        "snowflake://u@h/d?token=hun%40ter",
        "mssql+pyodbc:///?odbc_connect=DRIVER%3DX%3BPWD%3D%7Bhun%40ter%7D",
    ],
)
def test_messages_are_told_without_the_password(address: str) -> None:
    told = hide_secret(f"no route to {address}: hun@ter refused", address)
    assert "hun" not in told
    assert told.endswith("… refused")
    assert hide_secret("as it is", "postgresql://h/d") == "as it is"


# -- words and numbers ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("12", 12),
        (" 0.5 ", 0.5),
        ("-3", 0),
        ("Mon, 04 May 2026 10:00:30 GMT", 30),
        ("Mon, 04 May 2026 10:00:30 -0000", 30),
        ("Mon, 04 May 2026 09:00:00 GMT", 0),
        *((text, None) for text in ("soon", "inf", "nan", "", None)),
    ],
)
def test_retry_after_is_read_as_seconds_or_date(text: str | None, seconds: float | None) -> None:
    assert retry_after(text, datetime(2026, 5, 4, 10, 0, tzinfo=UTC).timestamp()) == seconds


def test_numbers_have_their_nouns_and_a_list_that_is_cut_says_how_many_more_there_are() -> None:
    rows = ["0 rows", "1 row", "2 rows", "1,200 rows"]
    assert [count_noun(n, "row") for n in (0, 1, 2, 1200)] == rows
    assert count_noun(1, "entry has", "entries have") == "1 entry has"
    assert count_noun(3, "entry has", "entries have") == "3 entries have"
    assert list_names(["a", "b", "c"], 3) == "a, b, c"
    assert list_names(["a", "b", "c"], 1) == "a and 2 more"
    assert list_names([str(n) for n in range(2000)], 2) == "0, 1 and 1,998 more"


def test_well_formed_replaces_halves_and_joins_pairs() -> None:
    assert well_formed("a\ud83db\udc00") == "a\ufffdb\ufffd"
    assert well_formed("\ud83d\ude00 \U0001f600 é") == "\U0001f600 \U0001f600 é"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.lists(VALUES))
def test_values_one_at_a_time_have_the_hash_of_their_list(values: list[Any]) -> None:
    assert values_hash(value for value in values) == value_hash(values)


# -- CSV that no spreadsheet runs, and that reads back as it was ----------------------------

PIECES = [*"'=+-@\t\r\n,;\"5.e", "cmd|' /C calc'!A0"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=6).map("".join)


@given(st.lists(st.lists(TEXTS, min_size=2, max_size=2), max_size=4), st.sampled_from(",;\t"))
def test_rows_read_back_as_they_were(rows: list[list[str]], delimiter: str) -> None:
    text = "".join(csv_lines(rows, delimiter=delimiter))
    found = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    assert [[csv_text(cell) for cell in cells] for cells in found] == rows
    for cell in (cell for cells in found for cell in cells):
        assert not cell.startswith(("=", "@", "\t", "\r"))
        assert not cell.startswith(("+", "-")) or float(cell) is not None


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        *((text, f"'{text}") for text in ("=cmd|' /C calc'!A0", "+49 170", "-", "@SUM(A1)")),
        *((text, f"'{text}") for text in ("-5+cmd|' /C calc'!A0", "\t=1", "\r=1", "'=1")),
        *((plain, plain) for plain in ("-5", "+1.5e-3", "'tis", -5, -0.5)),
        (None, ""),
    ],
)
def test_formulas_are_guarded_and_numbers_are_not(value: object, cell: object) -> None:
    assert csv_cell(value) == cell
    if isinstance(value, str):
        assert csv_text(str(cell)) == value


# -- records -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "typed"),
    [
        (Filter("client", ("North", "South")), "client=North|South"),
        (Filter("year", low=2019, high=2021), "year=2019..2021"),
        (Filter("year", low=2019), "year=2019.."),
        (Filter("year", high=2021), "year=..2021"),
        (Filter("kind", ("record",), exclude=True), "kind!=record"),
        (Filter("client", ("North", "South"), exclude=True), "client!=North|South"),
        (Filter("year", low=2019, high=2021, exclude=True), "year!=2019..2021"),
    ],
)
def test_a_filter_reads_as_it_is_typed(made: Filter, typed: str) -> None:
    assert str(made) == typed
    assert str(parse_filter(typed)) == typed
    assert eval(repr(made)) == made


def test_python_writes_an_excluding_filter_as_one_and_the_others_as_ever() -> None:
    """Manifests of runs hold this text."""
    plain = Filter("year", ("a",), low=2019)
    assert plain != Filter("year", ("a",), low=2019, exclude=True)
    for name in ("wow!", "wow! "):  # it would read as its opposite
        with pytest.raises(FilterError, match="ends in '!'"):
            Filter(name, ("x",))


def test_a_record_as_plain_values_is_a_copy_that_json_can_hold() -> None:
    spans = (GoldSpan("d", 0, 4, "text"),)
    row = Row("q", "What?", retrieved_spans=spans, metadata={"topics": ("a", "b"), "n": 1})
    made = make_plain(row)
    assert made == asdict(row)
    assert made["retrieved_spans"][0] == {"document_id": "d", "start": 0, "end": 4, "text": "text"}
    made["retrieved_spans"][0]["text"] = ""
    made["metadata"]["n"] = 2
    assert (row.retrieved_spans, row.metadata["n"]) == (spans, 1)
