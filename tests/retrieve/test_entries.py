"""Entries of printed lists: found in several forms, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragwright.core import Document, Section, Span
from ragwright.retrieve import mine_glossary, read_entries

PARTS = (
    "Pedal sensor",
    "Brake switch",
    "Coolant probe",
    "Fuel relay",
    "Oxygen heater",
    "Crank pin",
)
CODES = ("APP_w304", "BLS_w307", "CTS_e310", "FPR_w313", "OXH_w316", "CKS_e319")
SAID = "The part reports values that contradict each other. Drive to a workshop at low speed."
GUIDE = Path(__file__).parents[2] / "docs"


def listed(form: str, codes: tuple[str, ...] = CODES) -> str:
    entries = [
        form.format(code=code, title=part, text=SAID)
        for code, part in zip(codes, PARTS, strict=True)
    ]
    return "Codes of the car\n\nWhat the dashboard shows.\n\n" + "\n\n".join(entries) + "\n"


THREE = "{code}\n\n{title}\n\n{text}"
FORMS = (
    THREE,
    "{code}\n{title}\n{text}",
    "## {code} {title}\n\n{text}",
    "{code} {title}\n{text}",
    "{code}: {title}\n{text}",
    "Error code: {code}\n{title}\n{text}",
    '  - code: "{code}"\n    title: "{title}"\n    text: "{text}"',
)


@pytest.mark.parametrize("form", FORMS)
def test_an_entry_is_its_code_its_title_and_its_text(form: str) -> None:
    text = listed(form)
    entries = read_entries(text)
    assert [(entry.code, entry.title) for entry in entries] == list(zip(CODES, PARTS, strict=True))
    for entry in entries:
        own = text[entry.start : entry.end]
        assert SAID in own
        assert own.count("_e3") + own.count("_w3") == 1


@pytest.mark.parametrize(
    "codes",
    [
        tuple(f"{n}" for n in range(12101, 12107)),
        tuple(f"F {n}" for n in range(12, 18)),
        ("E10", "E11", "E12", "E1000", "E1001", "E1002"),
    ],
)
def test_numbers_and_short_codes_need_a_list(codes: tuple[str, ...]) -> None:
    glossary = mine_glossary([Document("m", "m", listed(THREE, codes))])
    assert {term: m[0].text for term, m in glossary.entries.items()} == dict(
        zip(codes, PARTS, strict=True)
    )


def test_titles_that_a_reader_takes_for_headings_are_mined() -> None:
    text = listed(THREE)
    sections = tuple(
        Section(part, 1, Span(text.index(part), text.index(part) + len(part))) for part in PARTS
    )
    glossary = mine_glossary([Document("m", "m", text, sections=sections)])
    for code, part in zip(CODES, PARTS, strict=True):
        (meaning,) = glossary.entries[code]
        assert meaning.text == part
        assert text[meaning.start : meaning.end] == part


def test_the_heading_of_the_next_chapter_is_no_part_of_an_entry() -> None:
    text = listed(THREE).replace("CTS_e310", "Cooling circuit\n\nCTS_e310")
    before = next(entry for entry in read_entries(text) if entry.code == "BLS_w307")
    assert text[before.start : before.end].endswith("low speed.")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "APP_w304\nBLS_w307\nCTS_e310\nFPR_w313\nOXH_w316\nCKS_e319\n",
        "The error\nE42\nis shown when the pump stops, and then\nE43\nfollows soon after it.",
        "\n\n".join(
            f"{year}\n\nThe year {year} was good for the town." for year in range(1990, 2001)
        ),
        "\n\n".join(
            f"## v1.{n}.0\n\nThe command got faster, and fault {n} went." for n in range(9)
        ),
        "\n\n".join(f"{n}\n\nThe text of page {n} stands here." for n in range(1, 40)),
        "\n\n".join(f"Speaker {n}: I have been here for {n} years." for n in range(9)),
        "\n\n".join(f"# Page\n\nSee C{n} too, and LNK{n} as well." for n in range(2000, 2020)),
    ],
)
def test_texts_without_entries_give_none(text: str) -> None:
    assert read_entries(text, least=3) == []


def test_a_long_text_is_read_in_little_time() -> None:
    codes = [f"E{n:05}" for n in range(20_000)]
    text = "\n\n".join(f"{code}\n\nPump\n\nThe pump number {code[1:]} stopped." for code in codes)
    assert len(read_entries(text)) == 20_000
    for further in ("x" * 200_000, "A" * 100_000 + ":", "\n \n" * 50_000):
        assert read_entries(further) == []
