"""What flags say in place of source.yaml."""

from __future__ import annotations

from pathlib import Path

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
