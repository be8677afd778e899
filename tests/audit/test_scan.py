"""What an audit finds by reading, and what it leaves alone, kind by kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ragwright.audit import Finding, check_kinds, scan_documents
from ragwright.core import ConfigError, Document, Page, Section, Span


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
    scan = scan_documents(lambda: documents, by_id.get, kinds, lambda _: False)
    assert {finding.kind for finding in scan.findings} <= {*kinds}
    return [finding for finding in scan.findings if finding.sure or every]


def faults(findings: Sequence[Finding]) -> list[str]:
    return sorted(finding.fault for finding in findings)


HOT = "The nozzle of the X5-HOT printer is heated to {} before the filament is loaded."


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
    ("poor OCR", page("a.md", "Read by a machine.", metadata={"ocr_confidence": 0.4})),
    (
        "page without text",
        page("a.md", "All is here.\n", pages=(Page(1, Span(0, 12)), Page(2, Span(12, 13)))),
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


def test_an_audit_of_the_same_documents_is_the_same() -> None:
    documents = (
        page("a.md", HOT.format("215 °C")),
        page("b.md", HOT.format("230 °C")),
        page("c.md", words(60)),
        page("d.md", words(60)),
    )
    runs = [
        [f.id for f in audited("contradictions,copies", *documents, every=True)] for _ in range(2)
    ]
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == 2


def test_an_unknown_kind_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match="did you mean 'copies'"):
        check_kinds(("copis",))


def test_a_code_in_a_dead_link_alone_is_reported_once() -> None:
    defined = "\n\n".join(f"E10{n}: the motor {n} is too hot" for n in range(6))
    pages = (page("a.md", defined), page("b.md", "First stop it, then see [E107](e107.md)."))
    assert faults(audited("codes,references", *pages)) == ["dead link"]
    assert faults(audited("codes", *pages)) == ["undefined code"]
    used = page("c.md", "It ends with E107.")
    both = audited("codes,references", *pages, used)
    assert faults(both) == ["dead link", "undefined code"]
