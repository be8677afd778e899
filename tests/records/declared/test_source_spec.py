"""What source.yaml says of watermarks."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragwright.core import RecordsError
from ragwright.records import SourceSpec, load_spec

GIVEN = "source: a.csv\nkey: id\ntext: body\n"


def read(folder: Path, more: str) -> SourceSpec:
    (folder / "source.yaml").write_text(GIVEN + more)
    return load_spec(folder).source


def test_what_is_given_in_place_of_a_key_has_the_flag_as_its_place(tmp_path: Path) -> None:
    spec = read(tmp_path, "query: SELECT 1\n")
    places = {key: spec.place(key) for key in ("source", "key", "text", "query")}
    assert spec.instead({}) is spec
    other = spec.instead({"source": "b.csv", "query": ""})
    assert (other.source, other.query, other.key) == ("b.csv", "", "id")
    assert {key: other.place(key) for key in places} == {
        **places,
        "source": "--source",
        "query": "--source",
    }
    assert spec.instead({"query": "SELECT 2"}).place("query") == "--query"


@pytest.mark.parametrize(
    ("lag", "text"), [("90m", "90m"), ("1.5 h", "1.5 h"), ("1000", "1000"), ("0.5", "0.5")]
)
def test_a_lag_is_a_time_or_a_number(tmp_path: Path, lag: str, text: str) -> None:
    spec = read(tmp_path, f"watermark: at\nwatermark_lag: {lag}\n")
    assert (spec.watermark_lag, spec.lag.text) == (text, text)
    assert spec.lag.amount
    assert spec.fingerprint != read(tmp_path, "watermark: at\n").fingerprint


@pytest.mark.parametrize(
    ("more", "line", "what"),
    [
        ("watermark: at\nwatermark_lag: a day\n", 5, "'a day' is not a watermark lag"),
        ("watermark: at\nwatermark_lag: -1\n", 5, "'-1' is not a watermark lag"),
        ("watermark: at\nwatermark_lag: 99999999999w\n", 5, "is not a watermark lag"),
        ("watermark: at\nwatermark_lag: yes\n", 5, "watermark_lag"),
        ("watermark_lag: 1h\n", 4, "there is a watermark_lag, but no watermark"),
    ],
)
def test_a_lag_that_is_none_is_told_with_its_line(
    tmp_path: Path, more: str, line: int, what: str
) -> None:
    with pytest.raises(RecordsError) as raised:
        read(tmp_path, more)
    assert what in str(raised.value)
    assert str(raised.value.where).endswith(f"source.yaml:{line}")
