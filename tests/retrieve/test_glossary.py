"""Glossaries from files and mined from documents, and queries that carry their meanings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hand_driver import Driver
from hypothesis import given, strategies as st

from ragwright.core import ConfigError, Document, Filter, Section, Span
from ragwright.flow import Search, SearchReply
from ragwright.retrieve import (
    Glossary,
    Meaning,
    Target,
    load_glossary,
    mine_glossary,
    visible_glossary,
)

PLAIN = {"APP_w304": "accelerator pedal sensor", "XX-31201": "hotend fan", "IT": "computers"}


def glossary(**entries: str) -> Glossary:
    return Glossary({term: (Meaning(text),) for term, text in entries.items()})


def said(of: Glossary) -> dict[str, list[str]]:
    return {term: [meaning.text for meaning in every] for term, every in of.entries.items()}


def test_a_file_holds_terms_and_meanings_and_is_read_back(tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text("APP_w304: pedal\nLNK2019: [symbol, linker]\n", "utf-8")
    found = said(load_glossary(tmp_path / "g.yaml"))
    assert found == {"APP_w304": ["pedal"], "LNK2019": ["symbol", "linker"]}
    made = Glossary({"C2065": (Meaning("undeclared", "heading", "d", 3, 9, "Compiler"),)})
    (tmp_path / "g.json").write_text(made.to_json(), "utf-8")
    assert load_glossary(tmp_path / "g.json") == made
    # 8,000 terms took 15 s.
    many = glossary(**{f"E{n}": f"meaning {n}" for n in range(8_000)})
    (tmp_path / "g.json").write_text(many.to_json())
    assert len(load_glossary(tmp_path / "g.json").entries) == 8_000


MINED = "not a glossary that was mined"


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("g.yaml", "a1: x\nb2: 3\n", "'b2'"),
        ("g.yaml", "a1: x\nb2: ''\n", "empty"),
        ("g.yaml", "a1: x\nb2: []\n", "no meaning"),
        ("g.yaml", "a1: x\n'!!': y\n", "no word"),
        ("g.yaml", "a1: x\na1: y\n", "twice"),
        ("g.yaml", "a1: x\n\tb: y\n", "tab"),
        ("g.yaml", f"a1: x\nb2: {'long ' * 500}\n", "2499"),
        *(("g.yaml", text, "terms") for text in ("", "a1,x\nb2,y\n", "[]")),
        *(
            ("g.json", text, MINED)
            for text in ("[]", "{", '{"E1": "x"}', '{"E1": [{"word": "x"}]}')
        ),
        ("g.yaml", None, "no such file"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(
    tmp_path: Path, name: str, text: str | None, what: str
) -> None:
    file = tmp_path / name
    if text is not None:
        file.write_text(text, "utf-8")
    with pytest.raises(ConfigError, match=what) as caught:
        load_glossary(file)
    if what not in ("terms", MINED, "no such file"):
        assert caught.value.where == f"{file}:2"


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
        ("Adaptive cruise control fails; cruise works", ("adaptive cruise control", "cruise")),
    ],
)
def test_terms_are_found_whatever_their_case_and_marks(query: str, terms: tuple[str, ...]) -> None:
    more = {"cruise": "cruise", "adaptive cruise control": "adaptive"}
    assert glossary(**PLAIN, **more).find(query) == terms


def place(text: str, document: str, about: str) -> Meaning:
    return Meaning(text, "heading", document, 0, 1, about)


SEVERAL = Glossary(
    {
        **{term: (Meaning(text),) for term, text in PLAIN.items()},
        "XX102": (
            place("homing failed", "mk4", "Errors of the MK4 printer"),
            place("tower jammed", "sl1", "Errors of the SL1 printer"),
            Meaning("a row elsewhere", "row", "list", 0, 1, "All of SL1"),
        ),
        "XX208": (
            place("MINTEMP ERROR", "a", "MINTEMP ERROR MK4"),
            place("UV LED too cold", "b", "UV LED M1"),
        ),
    }
)


@pytest.mark.parametrize(
    ("query", "meanings"),
    [
        ("APP_w304 and XX-31201?", ["accelerator pedal sensor; hotend fan"]),
        ("nothing here", []),
        # The document that the query points at decides; words of a meaning do not.
        ("What is XX102 on my SL1?", ["tower jammed"]),
        ("What does error XX208 mean on the M1?", ["UV LED too cold"]),
        ("What is XX102?", ["homing failed", "tower jammed"]),
    ],
)
def test_a_query_gets_the_meanings_of_all_its_codes(query: str, meanings: list[str]) -> None:
    found = SEVERAL.expand(query)
    assert list(found.texts) == [f"{query} ({meaning})" for meaning in meanings]
    if len(meanings) == 2:
        one = SEVERAL.expand(query, most=1)
        assert one.texts == found.texts[:1]
        assert "2 meanings, 1 used" in one.notes[0]


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("XK9, YK9, ZK9 or WK9?", {"XK9": ["ours"], "ZK9": ["said by both"], "WK9": ["given"]}),
        ("YK9", {}),
        ("cruise control fails", {"cruise": ["ours"]}),  # a hidden term covers no shorter one
    ],
)
def test_meanings_of_barred_documents_are_not_there(query: str, left: dict[str, list[str]]) -> None:
    made = Glossary(
        {
            "XK9": (Meaning("ours", "heading", "a"), Meaning("theirs", "row", "b")),
            "YK9": (Meaning("theirs alone", "heading", "b"),),
            "ZK9": (Meaning("said by both", "heading", "b", also=("c", "a")),),
            "WK9": (Meaning("given"),),
            "cruise control": (Meaning("theirs", "heading", "b"),),
            "cruise": (Meaning("ours", "heading", "a"),),
        }
    )

    def only_a(step: Search) -> SearchReply:
        tenant, documents = step.filters
        assert tenant == Filter("tenant", ("a",))
        return SearchReply((("a:0", 0.0),) if "a" in documents.values else ())

    flow = visible_glossary(query, Target("s", glossary=made), [Filter("tenant", ("a",))])
    seen = Driver(others=only_a).run(flow)
    assert seen is not None
    assert said(seen) == left


# -- mined from documents --------------------------------------------------------------------


def document(text: str, name: str = "d", **more: Any) -> Document:
    return Document(name, f"{name}.md", text, **more)


def mined(text: str, **more: Any) -> dict[str, list[tuple[str, str]]]:
    found = mine_glossary([document(text, **more)])
    return {t: [(m.text, m.rule) for m in ms] for t, ms in found.entries.items()}


C2065 = "# Compiler Error C2065\n\n> '*identifier*' : undeclared identifier\n\n## Remarks\n"
BECAUSE = "Look here.\nE42\nThe pump is dry because the\nvalve is shut. Open it.\n"
TABLE = "| Code | Meaning |\n|---|---|\n| E42 | {} |\n"


@pytest.mark.parametrize(
    ("text", "term", "meaning", "rule"),
    [
        (C2065, "C2065", "Compiler Error: 'identifier' : undeclared identifier", "heading"),
        ("## C2065: undeclared name\n", "C2065", "undeclared name", "heading"),
        ("## E42 FIRMWARExPUMP\n", "E42", "FIRMWARExPUMP", "heading"),
        ("## E42\n\nThe pump is dry. Fill it.\n", "E42", "The pump is dry.", "heading"),
        (TABLE.format("pump is dry"), "E42", "pump is dry", "row"),
        ("|Error E42|1|pump is dry|\n", "E42", "pump is dry", "row"),
        ("E42\tpump is dry\n", "E42", "pump is dry", "row"),
        (TABLE.format("Overheating"), "E42", "Overheating", "row"),
        ("Code     Meaning\nE42      Overheating\n", "E42", "Overheating", "row"),
        ("E42   pump is dry   fill it\n", "E42", "pump is dry", "row"),
        ("E42\nThe pump is dry. Fill it.\n", "E42", "The pump is dry.", "below"),
        ("**E42**\n\nPump is dry\n", "E42", "Pump is dry", "below"),
        ("Error code E42:\nOverheating\n", "E42", "Overheating", "below"),
        (BECAUSE, "E42", "The pump is dry because the valve is shut.", "below"),
        ("- **APP_w304**: pedal sensor\n", "APP_w304", "pedal sensor", "line"),
        ("APP_w304 – pedal sensor\n", "APP_w304", "pedal sensor", "line"),
        ("XX-31201 = fan stalled\n", "XX-31201", "fan stalled", "line"),
        ("If E42 means that it is dry, stop.", "E42", "it is dry, stop.", "sentence"),
        ("Le code E42 indique une panne. Autre.", "E42", "une panne.", "sentence"),
        # The most reliable place of a document counts.
        ("E42: see below\n\n# E42\n\nThe pump is dry.", "E42", "The pump is dry.", "heading"),
    ],
)
def test_definitions_are_found_in_place(text: str, term: str, meaning: str, rule: str) -> None:
    assert mined(text) == {term: [(meaning, rule)]}


@pytest.mark.parametrize(
    "text",
    [
        "Note: the pump is dry.\nWARNING: hot surface\nStep 3: open the lid",
        "# Compiler errors C2000 through C2099\n\nThe following pages explain them.",
        "```\nE42: not a definition but output\n```",
        "See (Figure 2) and (e.g. pumps) and [the page](c2065.md).",
        "The year 1998: a good one. 12:30 - lunch.",
        "It weighs 12kg: heavy. 3-phase: common.",
        "E41\nE42\nE43\nPump dry\nValve stuck\nFan blocked\n",
        "The board then shows the code\nE42\nand stops, as do all others.\n",
        "E42\n\n# Remarks\n\nThe pump is dry.\n",
        "E42   0.5   1.25\nE43   0   on\n",
        "E42\n12.5\n",
        "",
    ],
)
def test_what_defines_nothing_gives_nothing(text: str) -> None:
    assert mined(text) == {}


def test_pairs_titles_and_sections_are_read_too() -> None:
    text = "E41\nPump dry\nE42\nValve stuck\nE43\nFan blocked by\nleaves\n"
    pairs = {"E41": "Pump dry", "E42": "Valve stuck", "E43": "Fan blocked by leaves"}
    assert mined(text) == {term: [(meaning, "below")] for term, meaning in pairs.items()}
    [meaning] = mine_glossary([document(text)]).entries["E42"]
    assert text[meaning.start : meaning.end] == "Valve stuck"
    found = mined("The pump is dry. Fill it.", title="Error E42")
    assert found == {"E42": [("Error: The pump is dry.", "heading")]}
    found = mined("E42\nThe pump is dry.", sections=(Section("E42", 1, Span(0, 20)),))
    assert found == {"E42": [("The pump is dry.", "heading")]}


def test_meanings_keep_their_documents_their_place_and_what_tells_them_apart() -> None:
    one = document("E42: pump dry", "mk4", title="MK4", metadata={"printers": ("MK4", "XL")})
    two = document("E42: tower jammed", "sl1", title="SL1")
    three = document("- E42: pump dry", "xl", title="XL manual")
    dry, jammed = mine_glossary([one, two, three, one]).entries["E42"]
    assert (dry.text, dry.document_id, dry.start, dry.end) == ("pump dry", "mk4", 5, 13)
    assert (jammed.text, jammed.document_id, jammed.start, jammed.end) == (
        *("tower jammed", "sl1", 5, 17),
    )
    assert (dry.about, dry.also) == ("MK4 XL manual", ("xl",))
    assert one.text[dry.start : dry.end] == "pump dry"


def test_documents_are_read_one_at_a_time_and_memory_is_bounded(tmp_path: Path) -> None:
    read = 0

    def stream() -> Iterator[Document]:
        nonlocal read
        for n in range(1000):
            read += 1
            yield document(f"# Error E{n}\n\nPart {n} fails (PF).", f"d{n}")

    made = mine_glossary(stream())
    assert (len(made.entries), read) == (990, 1000)
    assert made.to_json() == mine_glossary(stream()).to_json()
    (tmp_path / "g.json").write_text(made.to_json(), "utf-8")
    assert load_glossary(tmp_path / "g.json") == Glossary(made.entries)
    few = mine_glossary(stream(), most_terms=10)
    assert (len(few.entries), few.left_out) == (10, 980)
    many = [document(f"E42: meaning number {n}", f"d{n}") for n in range(50)]
    assert len(mine_glossary(many, most_meanings=3).entries["E42"]) == 3


@pytest.mark.parametrize(
    "text",
    [
        *("a" * 20_000, "a.b-" * 10_000, "(AB) " * 8_000, "E42: " + "[" * 30_000),
        *("![x](data:image/png;base64," + "aB3/+" * 8_000 + ")", "E42: <a" + "=" * 30_000),
    ],
    ids=lambda text: text[:6],
)
def test_long_tokens_and_lines_are_read_in_time(text: str) -> None:
    """Some took 11 s; the limit is generous, for a busy machine."""
    mined(text)


@given(st.text(max_size=400))
def test_any_text_is_mined_and_every_span_lies_in_it(text: str) -> None:
    for meanings in mine_glossary([document(text, title=text[:30])]).entries.values():
        for meaning in meanings:
            assert 0 <= meaning.start <= meaning.end <= len(text)
            assert 0 < len(meaning.text) <= 240
