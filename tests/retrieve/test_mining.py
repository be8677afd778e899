"""A glossary mined from documents: where definitions stand, and what is none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ragwright.core import Document, Section, Span
from ragwright.models import is_code
from ragwright.retrieve import Glossary, load_glossary, mine_glossary


def document(text: str, name: str = "d", **more: Any) -> Document:
    return Document(name, f"{name}.md", text, **more)


def mined(text: str, **more: Any) -> dict[str, list[tuple[str, str]]]:
    found = mine_glossary([document(text, **more)])
    return {t: [(m.text, m.rule) for m in ms] for t, ms in found.entries.items()}


@pytest.mark.parametrize(
    ("text", "term", "meaning", "rule"),
    [
        (
            "# Compiler Error C2065\n\n> '*identifier*' : undeclared identifier\n\n## Remarks\n",
            "C2065",
            "Compiler Error: 'identifier' : undeclared identifier",
            "heading",
        ),
        ("## C2065: undeclared name\n", "C2065", "undeclared name", "heading"),
        ("## E42 FIRMWARExPUMP\n", "E42", "FIRMWARExPUMP", "heading"),
        ("## E42\n\nThe pump is dry. Fill it.\n", "E42", "The pump is dry.", "heading"),
        ("| Code | Meaning |\n|---|---|\n| E42 | pump is dry |\n", "E42", "pump is dry", "row"),
        ("|Error E42|1|pump is dry|\n", "E42", "pump is dry", "row"),
        ("E42\tpump is dry\n", "E42", "pump is dry", "row"),
        ("| Code | Meaning |\n|---|---|\n| E42 | Overheating |\n", "E42", "Overheating", "row"),
        ("Code     Meaning\nE42      Overheating\n", "E42", "Overheating", "row"),
        ("E42   pump is dry   fill it\n", "E42", "pump is dry", "row"),
        ("E42\nThe pump is dry. Fill it.\n", "E42", "The pump is dry.", "below"),
        ("**E42**\n\nPump is dry\n", "E42", "Pump is dry", "below"),
        ("Error code E42:\nOverheating\n", "E42", "Overheating", "below"),
        (
            "Look here.\nE42\nThe pump is dry because the\nvalve is shut. Open it.\n",
            "E42",
            "The pump is dry because the valve is shut.",
            "below",
        ),
        ("- **APP_w304**: pedal sensor\n", "APP_w304", "pedal sensor", "line"),
        ("APP_w304 – pedal sensor\n", "APP_w304", "pedal sensor", "line"),
        ("XX-31201 = fan stalled\n", "XX-31201", "fan stalled", "line"),
        (
            "If E42 means that the pump is dry, stop.",
            "E42",
            "the pump is dry, stop.",
            "sentence",
        ),
        ("Le code E42 indique une panne. Autre.", "E42", "une panne.", "sentence"),
    ],
)
def test_definitions_are_found_where_they_stand(
    text: str, term: str, meaning: str, rule: str
) -> None:
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


def test_codes_and_meanings_in_alternate_lines_are_pairs() -> None:
    text = "E41\nPump dry\nE42\nValve stuck\nE43\nFan blocked by\nleaves\n"
    assert mined(text) == {
        "E41": [("Pump dry", "below")],
        "E42": [("Valve stuck", "below")],
        "E43": [("Fan blocked by leaves", "below")],
    }
    [meaning] = mine_glossary([document(text)]).entries["E42"]
    assert text[meaning.start : meaning.end] == "Valve stuck"


def test_the_title_is_a_heading_too() -> None:
    found = mined("The pump is dry. Fill it.", title="Error E42")
    assert found == {"E42": [("Error: The pump is dry.", "heading")]}


def test_sections_of_formats_without_marks_are_headings() -> None:
    text = "E42\nThe pump is dry."
    found = mined(text, sections=(Section("E42", 1, Span(0, len(text))),))
    assert found == {"E42": [("The pump is dry.", "heading")]}


def test_meanings_keep_their_document_their_place_and_what_tells_them_apart() -> None:
    one = document("E42: pump dry", "mk4", title="MK4", metadata={"printers": ("MK4", "XL")})
    two = document("E42: tower jammed", "sl1", title="SL1")
    three = document("- E42: pump dry", "xl", title="XL manual")
    found = mine_glossary([one, two, three]).entries["E42"]
    assert [(m.text, m.document_id, m.start, m.end) for m in found] == [
        ("pump dry", "mk4", 5, 13),
        ("tower jammed", "sl1", 5, 17),
    ]
    assert found[0].about == "MK4 XL manual"
    assert one.text[found[0].start : found[0].end] == "pump dry"


def test_the_most_reliable_place_of_a_document_counts() -> None:
    assert mined("E42: see below\n\n# E42\n\nThe pump is dry.")["E42"] == [
        ("The pump is dry.", "heading")
    ]


def test_memory_is_bounded_and_what_did_not_fit_is_counted() -> None:
    texts = (document("\n".join(f"E{n}: meaning {n}" for n in range(100, 200)), "d"),)
    found = mine_glossary(texts, most_terms=10)
    assert len(found.entries) == 10
    assert found.left_out == 90
    many = [document(f"E42: meaning number {n}", f"d{n}") for n in range(50)]
    assert len(mine_glossary(many, most_meanings=3).entries["E42"]) == 3


def test_documents_are_read_one_at_a_time() -> None:
    read = 0

    def stream() -> Iterator[Document]:
        nonlocal read
        for n in range(1000):
            read += 1
            yield document(f"E{n}: meaning {n}", f"d{n}")

    assert len(mine_glossary(stream()).entries) == 990
    assert read == 1000


def test_mining_twice_gives_the_same_file(tmp_path: Path) -> None:
    texts = [document(f"# Error E{n}\n\nPart {n} fails (PF).", f"d{n}") for n in range(50, 80)]
    made = mine_glossary(texts)
    assert made.to_json() == mine_glossary(texts).to_json()
    (tmp_path / "g.json").write_text(made.to_json(), "utf-8")
    assert load_glossary(tmp_path / "g.json") == Glossary(made.entries)


@pytest.mark.parametrize(
    "text",
    [
        "a" * 20_000,
        "![x](data:image/png;base64," + "aB3/+" * 8_000 + ")",
        "a.b-" * 10_000,
        "(AB) " * 8_000,
        "E42: " + "[" * 30_000,
        "E42: <a" + "=" * 30_000,
    ],
)
def test_long_tokens_and_lines_are_read_in_time(text: str) -> None:
    """Some took 11 s; the limit is generous, for a busy machine."""
    mined(text)


def test_a_meaning_of_several_documents_names_them_all() -> None:
    found = mine_glossary([document("E42: pump dry", name) for name in ("a", "b", "c", "b")])
    (meaning,) = found.entries["E42"]
    assert (meaning.document_id, meaning.also) == ("a", ("b", "c"))


@given(st.text(max_size=400))
def test_any_text_is_mined_and_every_span_lies_in_it(text: str) -> None:
    for meanings in mine_glossary([document(text, title=text[:30])]).entries.values():
        for meaning in meanings:
            assert 0 <= meaning.start <= meaning.end <= len(text)
            assert 0 < len(meaning.text) <= 240


@pytest.mark.parametrize(
    "word",
    ["C2065", "APP_w304", "XX-31201", "LNK2019", "std::move", "camelCase", "v2.3.1", "04321"],
)
def test_codes_and_identifiers_are_codes(word: str) -> None:
    assert is_code(word, written=True)


@pytest.mark.parametrize(
    "word", ["pump", "Pump", "1998", "12kg", "3-phase", "NOTE", "E1", "x" * 50]
)
def test_words_numbers_and_measures_are_none(word: str) -> None:
    assert not is_code(word, written=True)
