"""What an audit finds by reading, and what it leaves alone, kind by kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ragwright.audit import Finding, scan_documents
from ragwright.core import Document, Page, Section, Span


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


def words(count: int, start: int = 0) -> str:
    return " ".join(
        f"word{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}" for n in range(start, start + count)
    )


LISTED = "\n".join(f"E{n}: The valve number {n} is stuck." for n in range(201, 207))
EXPLAINED = page("c.md", f"{LISTED}\n\n# Warning E998, with the error E999\n\nThe pump stops.")
HOT = "\n\n".join(f"E10{n}: the motor {n} is too hot" for n in range(6))
LINKED = (page("a.md", HOT), page("b.md", "First stop it, then see [E107](e107.md)."))
USED = (*LINKED, page("c.md", "It ends with E107."))
HEADS = "# 1 Start\n\n# 2 Use\n\n# 3 End\n\n"
NOWHERE = f"{HEADS}As described in section 7, see [a](b.md), [b](gone.md), [c](b.md#here), "
NOWHERE += "[d](b.md#nowhere), [e](https://example.org/x)."
OTHER = page("b.md", "# Here\n\nText.\n\n# There\n\nText of section 7.")
SOMEWHERE = f"{HEADS}See section 2, section 3 and section 12 of the Act, [x](../top.md) and all."
SOMEWHERE += "\n\n```\n[z](nothing.md)\n```"
TEMPLATE = (page("a.md", words(120), "Error C2001"), page("b.md", words(119), "Error C2002"))
MOJIBAKE = page("a.md", "Das GerÃ¤t ist heiÃŸ und darf nicht berÃ¼hrt werden.")
HYPHENS = page("a.md", "The extru-\nder is hot. The extruder is heated. An extruder.")
OCR = page("a.md", "Read by a machine.", metadata={"ocr_confidence": 0.4})
EMPTY = page("a.md", "All is here.\n", pages=(Page(1, Span(0, 12)), Page(2, Span(12, 13))))
SOUND = (
    "Das Gerät ist heiß. Long- and short-term use, state-of-the-art parts.\n\n"
    "| Name | Value |\n| - | - |\n| a | 1 |\n| b | 2 |\n\nÂge and façade are words."
)
GOOD_OCR = page("a.md", SOUND, metadata={"ocr_confidence": 0.97})

NO_CODE = (page("b.md", "After E999 it stops."),)
THREE = ["dead anchor", "dead link", "dead section"]
FOUND = (page("docs/a.md", SOMEWHERE), page("top.md", "Top."))
CASES: dict[str, tuple[str, tuple[Document, ...], list[str]]] = {
    "a code that no family defines": ("codes", NO_CODE, []),
    "a code that a heading explains": ("codes", (EXPLAINED,), []),
    "a code in a dead link alone": ("codes", LINKED, ["undefined code"]),
    "that is one finding": ("codes,references", LINKED, ["dead link"]),
    "used elsewhere, too": ("codes,references", USED, ["dead link", "undefined code"]),
    "references into nothing": ("references", (page("a.md", NOWHERE), OTHER), THREE),
    "references that lead somewhere": ("references", FOUND, []),
    "pages of a template on two codes": ("copies", TEMPLATE, []),
    "no text": ("damage", (page("a.md", "  \n "),), ["no text"]),
    "mojibake": ("damage", (MOJIBAKE,), ["mojibake"]),
    "hyphenation": ("damage", (HYPHENS,), ["hyphenation"]),
    "poor OCR": ("damage", (OCR,), ["poor OCR"]),
    "a page without text": ("damage", (EMPTY,), ["page without text"]),
    "a sound document": ("damage", (GOOD_OCR,), []),
}


@pytest.mark.parametrize(("kind", "documents", "expected"), CASES.values(), ids=CASES)
def test_faults(kind: str, documents: tuple[Document, ...], expected: list[str]) -> None:
    assert faults(audited(kind, *documents)) == expected


def test_at_the_level_all_less_sure_findings_stand() -> None:
    assert faults(audited("copies", *TEMPLATE, every=True)) == ["near copy"]
    assert len(audited("codes", EXPLAINED, every=True)) == 2


def test_copies_are_found_with_the_newer_one_named() -> None:
    text = words(120)
    old = page("old.md", text, created="2020-01-01")
    new = page("new.md", text.replace("wordba", "other"), created="2024-01-01")
    [finding] = audited("copies", old, new, page("apart.md", words(120, 300)))
    assert (finding.fault, finding.marks["newer"]) == ("near copy", "new.md")
    assert 0.8 <= finding.marks["similarity"] < 1
    assert faults(audited("copies", old, page("b.md", text))) == ["exact copy"]


def test_findings_say_what_they_found() -> None:
    listed = page("codes.md", f"{LISTED}\n\nAfter E999 the pump stops. See E201 to E210.")
    [code] = audited("codes", listed)
    assert code.marks["term"] == "E999"
    [link] = audited("references", *(page(f"{n}.md", "Go [there](gone.md).") for n in range(6)))
    assert (link.marks["links"], link.severity) == (6, "medium")
    line = "Confidential: property of the Example Pump Company, do not copy."
    pages = [page(f"{n}.md", f"{line}\n\nText {words(9, n)}.") for n in range(12)]
    [same] = audited("damage", *pages)
    assert (same.fault, same.marks["pages"]) == ("boilerplate", 12)
    assert same.why.startswith("The same line, apart from numbers, is on 12 of 12 pages")
    assert not audited("damage", *pages[:9])


def test_an_audit_of_the_same_documents_is_the_same() -> None:
    hot = "The nozzle of the X5-HOT printer is heated to {} before the filament is loaded."
    texts = (hot.format("215 °C"), hot.format("230 °C"), words(60), words(60))
    documents = [page(f"{n}.md", text) for n, text in enumerate(texts)]
    first, second = (
        [f.id for f in audited("contradictions,copies", *documents, every=True)] for _ in "ab"
    )
    assert first == second
    assert len(set(first)) == 2
