"""What an audit finds by reading, and what it leaves alone, kind by kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

import pytest

from ragwright.audit import AuditOptions, Finding, check_kinds, scan_documents
from ragwright.core import ConfigError, Document, Page, Section, Span

TODAY = date(2026, 11, 24)


def page(name: str, text: str, title: str = "", **more: object) -> Document:
    """A Markdown document with its headings."""
    sections = []
    at = 0
    for line in text.split("\n"):
        if line.startswith("#"):
            sections.append(Section(line.lstrip("# "), 1, Span(at, len(text))))
        at += len(line) + 1
    document = Document(name, name, text, title=title, language="en", sections=tuple(sections))
    return replace(document, **more)  # type: ignore[arg-type]


def audited(kind: str, *documents: Document, every: bool = False) -> list[Finding]:
    """Findings of a kind, or of several, separated by commas."""
    kinds = kind.split(",")
    by_id = {document.id: document for document in documents}
    scan = scan_documents(
        lambda: documents, by_id.get, AuditOptions(), kinds, lambda _: False, TODAY
    )
    assert {finding.kind for finding in scan.findings} <= {*kinds}
    return [finding for finding in scan.findings if finding.sure or every]


def faults(findings: Sequence[Finding]) -> list[str]:
    return sorted(finding.fault for finding in findings)


HOT = "The nozzle of the X5-HOT printer is heated to {} before the filament is loaded."


@pytest.mark.parametrize(
    ("first", "second", "fault"),
    [
        (HOT.format("215 °C"), HOT.format("230 °C"), "number"),
        (HOT.format("for 2 min"), HOT.format("for 2 h"), "unit"),
        (
            "The X5-HOT printer was first shown on 3 May 2021 at the fair.",
            "The X5-HOT printer was first shown on 3 June 2021 at the fair.",
            "date",
        ),
        (
            "The lid of the X5-HOT printer must be opened while it prints.",
            "The lid of the X5-HOT printer must not be opened while it prints.",
            "negation",
        ),
        (
            "The alarm of the X5-HOT printer is enabled when it leaves the works.",
            "The alarm of the X5-HOT printer is disabled when it leaves the works.",
            "opposite",
        ),
    ],
)
def test_statements_that_differ_in_one_value_contradict_each_other(
    first: str, second: str, fault: str
) -> None:
    [finding] = audited("contradictions", page("a.md", first), page("b.md", second))
    assert finding.fault == fault
    assert [place.text for place in finding.places] == [first, second]
    assert "speak of «X5-HOT»" in finding.why


def test_equal_quantities_in_other_units_and_other_articles_do_not_contradict() -> None:
    texts = ("The fan of the X5-HOT printer runs for 5 minutes after a print.",
             "The fan of the X5-HOT printer runs for five min after the print.")  # fmt: skip
    assert not audited("contradictions", page("a.md", texts[0]), page("b.md", texts[1]))


def test_pages_on_two_things_do_not_contradict_each_other() -> None:
    text = "# {0}\n\nThe nozzle is heated slowly and evenly to {1} degrees before the first print."
    pair = (
        page("a.md", text.format("MK3", 215), "MK3"),
        page("b.md", text.format("MK4", 230), "MK4"),
    )
    assert not audited("contradictions", *pair)
    assert audited("contradictions", *pair, every=True)


def test_one_heading_in_two_documents_names_the_subject() -> None:
    text = "# {0}\n\nThe screws take {1} turns."
    pair = (
        page("a.md", text.format("Guide rails", 4)),
        page("b.md", text.format("Guide rails", 6)),
    )
    [finding] = audited("contradictions", *pair)
    assert "guide rails" in finding.why
    apart = (pair[0], page("b.md", text.format("Covers", 6)))
    assert not audited("contradictions", *apart)


def test_a_cell_contradicts_that_of_the_same_row_and_column() -> None:
    table = "| Part | Torque (Nm) |\n| - | - |\n| Bolt A12 | {} |\n| Nut B7 | 3 |"
    [finding] = audited(
        "contradictions", page("a.md", table.format(20)), page("b.md", table.format(25))
    )
    assert finding.fault == "table cell"
    assert finding.marks["changed"] == [["20"], ["25"]]


def words(count: int, start: int = 0) -> str:
    return " ".join(
        f"word{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}" for n in range(start, start + count)
    )


def test_copies_are_found_with_the_newer_one_named() -> None:
    text = words(120)
    near = text.replace("wordba", "other")
    documents = (
        page("old.md", text, created="2020-01-01"),
        page("new.md", near, created="2024-01-01"),
        page("apart.md", words(120, 300)),
    )
    [finding] = audited("copies", *documents)
    assert finding.fault == "near copy"
    assert finding.marks["newer"] == "new.md"
    assert 0.8 <= finding.marks["similarity"] < 1
    [exact] = audited("copies", documents[0], page("b.md", text))
    assert exact.fault == "exact copy"


def test_pages_of_a_template_on_two_codes_are_copies_only_at_the_level_all() -> None:
    pair = (page("a.md", words(120), "Error C2001"), page("b.md", words(119), "Error C2002"))
    assert not audited("copies", *pair)
    assert faults(audited("copies", *pair, every=True)) == ["near copy"]


def test_an_undefined_code_of_a_defined_family() -> None:
    listed = "\n".join(f"E{n}: The valve number {n} is stuck." for n in range(201, 207))
    document = page("codes.md", f"{listed}\n\nAfter E999 the pump stops. See E201 to E210.")
    [finding] = audited("codes", document)
    assert finding.marks["term"] == "E999"
    assert not audited("codes", page("b.md", "After E999 the pump stops."))
    explained = page(
        "codes.md", f"{listed}\n\n# Warning E998, with the error E999\n\nThe pump stops."
    )
    assert not audited("codes", explained)
    assert len(audited("codes", explained, every=True)) == 2


def test_an_acronym_that_means_two_things_and_one_that_nobody_writes_out() -> None:
    first = page("a.md", "The Primary Return Valve (PRV) opens. " + "QZX opens it. " * 4)
    second = page("b.md", "The Panel Relay Voltage (PRV) is low. " + "QZX lowers it. " * 4)
    assert faults(audited("codes", first, second)) == ["two meanings", "unexpanded acronym"]
    known = page("c.md", "Quick Zone Exchange (QZX) is meant.")
    alike = page("d.md", "The primary return valves (PRV) open.")
    assert "unexpanded acronym" not in faults(audited("codes", first, second, known))
    assert not audited("codes", first, alike, known)


def test_references_into_nothing() -> None:
    text = (
        "# 1 Start\n\n# 2 Use\n\n# 3 End\n\nAs described in section 7, see [a](b.md), "
        "[b](gone.md), [c](b.md#here), [d](b.md#nowhere), [e](https://example.org/x)."
    )
    other = page("b.md", "# Here\n\nText.\n\n# There\n\nText of section 7.")
    findings = audited("references", page("a.md", text), other)
    assert faults(findings) == ["dead anchor", "dead link", "dead section"]


def test_references_that_lead_somewhere_are_left_alone() -> None:
    text = (
        "# 1 Start\n\n# 2 Use\n\n# 3 End\n\nSee section 2, section 3 and section 12 of the Act, "
        "[x](../top.md) and `[y](nothing.md)`.\n\n```\n[z](nothing.md)\n```"
    )
    documents = (
        page("docs/a.md", text.replace("`[y](nothing.md)`", "all")),
        page("top.md", "Top."),
    )
    assert not audited("references", *documents)


def test_many_links_to_one_dead_page_are_one_finding() -> None:
    documents = [page(f"{n}.md", "Go to [there](gone.md).") for n in range(6)]
    [finding] = audited("references", *documents)
    assert finding.marks["links"] == 6
    assert finding.severity == "medium"


DAMAGED = [
    ("no text", page("a.md", "  \n ")),
    ("mojibake", page("a.md", "Das GerÃ¤t ist heiÃŸ und darf nicht berÃ¼hrt werden.")),
    ("hyphenation", page("a.md", "The extru-\nder is hot. The extruder is heated. An extruder.")),
    ("table without head", page("a.md", "| a | 1 |\n| b | 2 |\n| c | 3 |")),
    ("poor OCR", page("a.md", "Read by a machine.", metadata={"ocr_confidence": 0.4})),
    (
        "page without text",
        page("a.md", "All is here.\n", pages=(Page(1, Span(0, 12)), Page(2, Span(12, 13)))),
    ),
    (
        "mixed languages",
        page(
            "a.md",
            "The printer must be switched off before the lid is opened and the bed is cleaned by "
            "hand. Der Drucker muss ausgeschaltet werden, bevor der Deckel geöffnet und das Bett "
            "von Hand gereinigt wird.",
        ),
    ),
]


@pytest.mark.parametrize(("fault", "document"), DAMAGED, ids=[fault for fault, _ in DAMAGED])
def test_damage_is_found(fault: str, document: Document) -> None:
    assert faults(audited("damage", document)) == [fault]


def test_sound_documents_are_not_damaged() -> None:
    text = (
        "Das Gerät ist heiß. Long- and short-term use, state-of-the-art parts.\n\n"
        "| Name | Value |\n| - | - |\n| a | 1 |\n| b | 2 |\n\nÂge and façade are words."
    )
    assert not audited("damage", page("a.md", text, metadata={"ocr_confidence": 0.97}))


def test_a_line_on_every_page_is_boilerplate() -> None:
    line = "Confidential: property of the Example Pump Company, do not copy."
    pages = [page(f"{n}.md", f"{line}\n\nText {words(9, n)}.") for n in range(12)]
    [finding] = audited("damage", *pages)
    assert (finding.fault, finding.marks["pages"]) == ("boilerplate", 12)
    assert finding.why.startswith("The same line, apart from numbers, is on 12 of 12 pages")
    assert not audited("damage", *pages[:9])


def test_dates_that_have_passed() -> None:
    text = (
        "This offer is valid until 31 December 2024. Support ends on 2030-01-01. "
        "The new plant will be opened in 2023."
    )
    assert faults(audited("age", page("a.md", text))) == ["expired date", "past plan"]
    history = "It was said that the plant will be opened in 2023. The licence was valid in 2020."
    assert not audited("age", page("b.md", history))


def test_an_older_document_beside_a_newer_one_of_its_title() -> None:
    old = page("old.md", "How to clean the pump.", "Cleaning the pump", modified="2018-02-01")
    new = page("new.md", "How the pump is cleaned.", "Cleaning the pump", modified="2025-02-01")
    [finding] = audited("age", old, new)
    assert finding.fault == "older version"
    assert [place.source for place in finding.places] == ["old.md", "new.md"]
    assert not audited("age", old, replace(new, modified="2019-02-01"))


def test_an_audit_of_the_same_documents_is_the_same() -> None:
    documents = (
        page("a.md", HOT.format("215 °C")),
        page("b.md", HOT.format("230 °C")),
        page("c.md", words(60)),
        page("d.md", words(60)),
    )
    runs = [
        [f.id for kind in ("contradictions", "copies") for f in audited(kind, *documents)]
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == 2


def test_an_unknown_kind_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match="did you mean 'copies'"):
        check_kinds(("copis",), "--kinds")
    with pytest.raises(ConfigError, match=r"audit\.kinds"):
        AuditOptions(kinds=("pages",))


def test_a_code_in_a_dead_link_alone_is_reported_once() -> None:
    defined = "\n\n".join(f"E10{n}: the motor {n} is too hot" for n in range(6))
    pages = (page("a.md", defined), page("b.md", "First stop it, then see [E107](e107.md)."))
    assert faults(audited("codes,references", *pages)) == ["dead link"]
    assert faults(audited("codes", *pages)) == ["undefined code"]
    used = page("c.md", "It ends with E107.")
    both = audited("codes,references", *pages, used)
    assert faults(both) == ["dead link", "undefined code"]


def test_a_year_that_begins_a_sentence_and_a_word_that_only_links_are_told_from_what_is_said() -> (
    None
):
    first = "2011 the X5-HOT printer was shown to the public at the fair in Lyon."
    second = "2013 the X5-HOT printer was indeed shown to the public at the fair in Lyon."
    [finding] = audited("contradictions", page("a.md", first), page("b.md", second))
    assert finding.marks["changed"] == [["2011"], ["2013"]]
    numbered = ("1. The X5-HOT printer is switched off.", "2. The X5-HOT printer is switched off.")
    assert not audited("contradictions", *(page(f"{n}.md", t) for n, t in enumerate(numbered)))


def test_a_value_of_one_page_is_held_against_a_sentence_that_many_pages_repeat() -> None:
    pages = [page(f"{n}.md", HOT.format("215 °C")) for n in range(15)]
    odd = page("odd.md", HOT.format("230 °C"))
    [finding] = audited("contradictions", *pages, odd, every=True)
    assert "odd.md" in {place.source for place in finding.places}


def test_questions_do_not_contradict_each_other() -> None:
    asked = "What was the total income of the X5-HOT division in {}?"
    assert not audited(
        "contradictions", page("a.md", asked.format(2014)), page("b.md", asked.format(2015))
    )
