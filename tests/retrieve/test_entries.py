"""Entries of printed lists: found in several forms, and nowhere else."""

from __future__ import annotations

import pytest

from ragwright.core import Document, Section, Span
from ragwright.retrieve import mine_glossary, read_entries

PARTS = ("Pedal sensor", "Brake switch", "Coolant probe", "Fuel relay", "O2 heater", "Crank pin")
CODES = ("APP_w304", "BLS_w307", "CTS_e310", "FPR_w313", "OXH_w316", "CKS_e319")
SAID = "The part reports values that contradict each other. Drive to a workshop at low speed."
THREE = "{code}\n\n{title}\n\n{text}"


def listed(form: str, codes: tuple[str, ...] = CODES) -> str:
    entries = [
        form.format(code=code, title=part, text=SAID)
        for code, part in zip(codes, PARTS, strict=True)
    ]
    return "Codes of the car\n\nWhat the dashboard shows.\n\n" + "\n\n".join(entries) + "\n"


@pytest.mark.parametrize(
    "form",
    [
        THREE,
        "{code}\n{title}\n{text}",
        "## {code} {title}\n\n{text}",
        "{code} {title}\n{text}",
        "{code}: {title}\n{text}",
        "Error code: {code}\n{title}\n{text}",
        '  - code: "{code}"\n    title: "{title}"\n    text: "{text}"',
    ],
)
def test_an_entry_is_its_code_its_title_and_its_text(form: str) -> None:
    text = listed(form)
    entries = read_entries(text)
    assert [(entry.code, entry.title) for entry in entries] == list(zip(CODES, PARTS, strict=True))
    for entry in entries:
        own = text[entry.start : entry.end]
        assert SAID in own
        assert own.count("_e3") + own.count("_w3") == 1


@pytest.mark.parametrize(
    ("codes", "headings"),
    [
        (tuple(f"{n}" for n in range(12101, 12107)), False),
        (tuple(f"F {n}" for n in range(12, 18)), False),
        (("E10", "E11", "E12", "E1000", "E1001", "E1002"), False),
        (CODES, True),  # a reader takes the titles for headings
    ],
)
def test_entries_of_a_list_are_mined(codes: tuple[str, ...], headings: bool) -> None:
    text = listed(THREE, codes)
    spans = [Span(text.index(part), text.index(part) + len(part)) for part in PARTS]
    named = zip(PARTS, spans, strict=True)
    sections = tuple(Section(part, 1, span) for part, span in named) if headings else ()
    found = mine_glossary([Document("m", "m", text, sections=sections)]).entries
    assert {t: (m[0].text, text[m[0].start : m[0].end]) for t, m in found.items()} == {
        code: (part, part) for code, part in zip(codes, PARTS, strict=True)
    }


def test_the_heading_of_the_next_chapter_is_no_part_of_an_entry() -> None:
    text = listed(THREE).replace("CTS_e310", "Cooling circuit\n\nCTS_e310")
    before = next(entry for entry in read_entries(text) if entry.code == "BLS_w307")
    assert text[before.start : before.end].endswith("low speed.")


def paragraphs(form: str, *numbers: int) -> str:
    return "\n\n".join(form.format(n=n) for n in range(*numbers))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "".join(f"{code}\n" for code in CODES),
        "The error\nE42\nis shown when the pump stops, and then\nE43\nfollows soon after it.",
        paragraphs("{n}\n\nThe year {n} was good for the town.", 1990, 2001),
        paragraphs("## v1.{n}.0\n\nThe command got faster, and fault {n} went.", 9),
        paragraphs("{n}\n\nThe text of page {n} stands here.", 1, 40),
        paragraphs("Speaker {n}: I have been here for {n} years.", 9),
        paragraphs("# Page\n\nSee C{n} too, and LNK{n} as well.", 2000, 2020),
    ],
    ids=lambda text: text[:12],
)
def test_texts_without_entries_give_none(text: str) -> None:
    assert read_entries(text, least=3) == []


def test_a_long_text_is_read_in_little_time() -> None:
    text = paragraphs("E{n:05}\n\nPump\n\nThe pump number {n:05} stopped.", 5_000)
    assert len(read_entries(text)) == 5_000
    for further in ("x" * 200_000, "A" * 100_000 + ":", "\n \n" * 50_000):
        assert read_entries(further) == []
