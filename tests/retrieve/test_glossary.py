"""Glossaries from files, and queries that carry the meanings of their codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragwright.core import ConfigError, Filter
from ragwright.flow import Flow, Gather, Search, SearchReply
from ragwright.retrieve import Glossary, Meaning, Target, load_glossary, visible_glossary

PLAIN = {"APP_w304": "accelerator pedal sensor", "XX-31201": "hotend fan", "IT": "computers"}


def glossary(**entries: str) -> Glossary:
    return Glossary({term: (Meaning(text),) for term, text in entries.items()})


def test_a_file_holds_terms_and_their_meanings(tmp_path: Path) -> None:
    file = tmp_path / "g.yaml"
    file.write_text("APP_w304: pedal\nLNK2019: [symbol, linker]\n", "utf-8")
    found = load_glossary(file)
    assert {t: [m.text for m in ms] for t, ms in found.entries.items()} == {
        "APP_w304": ["pedal"],
        "LNK2019": ["symbol", "linker"],
    }


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a1: x\nb2: 3\n", "'b2'"),
        ("a1: x\nb2: ''\n", "empty"),
        ("a1: x\nb2: []\n", "no meaning"),
        ("a1: x\n'!!': y\n", "no word"),
        ("a1: x\na1: y\n", "twice"),
        ("a1: x\n\tb: y\n", "tab"),
        (f"a1: x\nb2: {'long ' * 500}\n", "2499"),
    ],
)
def test_a_wrong_entry_is_named_with_its_line(tmp_path: Path, text: str, what: str) -> None:
    file = tmp_path / "g.yaml"
    file.write_text(text, "utf-8")
    with pytest.raises(ConfigError, match=what) as caught:
        load_glossary(file)
    assert caught.value.where == f"{file}:2"


@pytest.mark.parametrize("text", ["", "a1,x\nb2,y\n", "[]"])
def test_a_file_without_terms_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "g.yaml").write_text(text)
    with pytest.raises(ConfigError, match="terms"):
        load_glossary(tmp_path / "g.yaml")


def test_a_missing_file_and_a_broken_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        load_glossary(tmp_path / "g.yaml")
    for text in ("[]", "{", '{"E1": "x"}', '{"E1": [{"word": "x"}]}'):
        (tmp_path / "g.json").write_text(text)
        with pytest.raises(ConfigError, match="not a glossary that was mined"):
            load_glossary(tmp_path / "g.json")


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    made = Glossary({"C2065": (Meaning("undeclared", "heading", "d", 3, 9, "Compiler"),)})
    file = tmp_path / "g.json"
    file.write_text(made.to_json(), "utf-8")
    assert load_glossary(file) == made


def test_a_file_of_many_terms_is_read_in_time(tmp_path: Path) -> None:
    """8,000 terms took 15 s; the limit is generous, for a busy machine."""
    file = tmp_path / "g.json"
    made = Glossary({f"E{n}": (Meaning(f"meaning {n}"),) for n in range(8_000)})
    file.write_text(made.to_json())
    assert len(load_glossary(file).entries) == 8_000


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("I see error app_W304, what now?", ("APP_w304",)),
        ("(APP_w304) or XX-31201!", ("APP_w304", "XX-31201")),
        ("APP_w304 APP_w304", ("APP_w304",)),
        ("APP_w3045 is another code", ()),
        ("Is it on? I ask IT.", ("IT",)),
        ("Is it on?", ()),
        ("", ()),
        ("📟 !!! ,,,", ()),
    ],
)
def test_terms_are_found_whatever_their_case_and_the_marks_around_them(
    query: str, terms: tuple[str, ...]
) -> None:
    assert glossary(**PLAIN).find(query) == terms


def test_the_longest_of_overlapping_terms_is_found() -> None:
    found = Glossary({t: (Meaning(t),) for t in ("cruise", "adaptive cruise control")})
    assert found.find("Adaptive cruise control fails; cruise works") == (
        "adaptive cruise control",
        "cruise",
    )


def test_a_query_gets_the_meanings_of_all_its_codes() -> None:
    found = glossary(**PLAIN).expand("APP_w304 and XX-31201?")
    assert found.texts == ("APP_w304 and XX-31201? (accelerator pedal sensor; hotend fan)",)
    assert [term for term, _ in found.used] == ["APP_w304", "XX-31201"]
    assert glossary(**PLAIN).expand("nothing here").texts == ()


def several() -> Glossary:
    return Glossary(
        {
            "XX102": (
                Meaning("homing failed", "heading", "mk4", 0, 1, "Errors of the MK4 printer"),
                Meaning("tower jammed", "heading", "sl1", 0, 1, "Errors of the SL1 printer"),
                Meaning("a row elsewhere", "row", "list", 0, 1, "All of SL1"),
            )
        }
    )


def test_the_document_that_the_query_points_at_decides_between_meanings() -> None:
    found = several().expand("What is XX102 on my SL1?")
    assert found.texts == ("What is XX102 on my SL1? (tower jammed)",)


def test_words_of_a_meaning_do_not_decide_where_it_holds() -> None:
    found = Glossary(
        {
            "XX208": (
                Meaning("MINTEMP ERROR", "heading", "a", 0, 1, "MINTEMP ERROR MK4"),
                Meaning("UV LED too cold", "heading", "b", 0, 1, "UV LED M1"),
            )
        }
    )
    assert found.expand("What does error XX208 mean on the M1?").texts == (
        "What does error XX208 mean on the M1? (UV LED too cold)",
    )


def test_where_nothing_decides_each_meaning_is_a_text_of_its_own() -> None:
    both = several().expand("What is XX102?")
    assert both.texts == ("What is XX102? (homing failed)", "What is XX102? (tower jammed)")
    one = several().expand("What is XX102?", most=1)
    assert one.texts == ("What is XX102? (homing failed)",)
    assert "2 meanings, 1 used" in one.notes[0]


def visible(glossary: Glossary, query: str, *allowed: str) -> dict[str, list[str]]:
    """What is left of a glossary where the filters let these documents through."""

    def drive(flow: Flow[object]) -> object:
        try:
            step = next(flow)
            while True:
                if isinstance(step, Gather):
                    step = flow.send([drive(one) for one in step.flows])
                    continue
                assert isinstance(step, Search)
                tenant, documents = step.filters
                assert tenant == Filter("tenant", ("a",))
                seen = set(allowed) & set(documents.values)
                step = flow.send(SearchReply(tuple((f"{d}:0", 0.0) for d in sorted(seen))[:1]))
        except StopIteration as end:
            return end.value

    flow = visible_glossary(query, Target("s", glossary=glossary), [Filter("tenant", ("a",))])
    left = drive(flow)
    assert isinstance(left, Glossary)
    return {term: [m.text for m in every] for term, every in left.entries.items()}


def test_meanings_of_barred_documents_are_not_there() -> None:
    made = Glossary(
        {
            "XK9": (Meaning("ours", "heading", "a"), Meaning("theirs", "row", "b")),
            "YK9": (Meaning("theirs alone", "heading", "b"),),
            "ZK9": (Meaning("said by both", "heading", "b", also=("c", "a")),),
            "WK9": (Meaning("given"),),
        }
    )
    assert visible(made, "XK9, YK9, ZK9 or WK9?", "a") == {
        "XK9": ["ours"],
        "ZK9": ["said by both"],
        "WK9": ["given"],
    }
    assert visible(made, "YK9", "a") == {}


def test_a_hidden_term_covers_no_shorter_one() -> None:
    made = Glossary(
        {
            "cruise control": (Meaning("theirs", "heading", "b"),),
            "cruise": (Meaning("ours", "heading", "a"),),
        }
    )
    assert visible(made, "cruise control fails", "a") == {"cruise": ["ours"]}
