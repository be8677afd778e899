"""Answers without a model from one page, and from chunks that are shorter than a section."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ragwright.workbench import Workbench

HANDBOOK = """# Employee handbook

## Leave
Employees receive 31 days of paid leave per year. Unused days expire on 31 March.
Parental leave lasts 14 weeks and is paid in full.

## Health
Whoever is ill calls before nine. Unpaid overtime is not allowed.

## IT
Laptops are replaced every four years. Passwords must have at least 14 characters.
"""
TARIFF = """# Tarifordnung

## Strom
Der Grundpreis für Strom beträgt 9,80 Euro im Monat.

## Zahlung
Die Jahresrechnung wird im Februar verschickt. Die Versammlung findet im März statt.
"""


def opened(folder: Path, text: str, settings: str = "") -> Workbench:
    (folder / "docs").mkdir()
    (folder / "docs" / "page.md").write_text(text, "utf-8")
    (folder / "ragwright.yaml").write_text(f"sources: [docs]\n{settings}", "utf-8")
    bench = Workbench.open(folder)
    bench.ingest()
    return bench


@pytest.fixture(scope="module")
def handbook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    with opened(tmp_path_factory.mktemp("handbook"), HANDBOOK) as bench:
        yield bench


@pytest.fixture(scope="module")
def tariff(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    with opened(tmp_path_factory.mktemp("tariff"), TARIFF) as bench:
        yield bench


@pytest.mark.parametrize(
    ("question", "right"),
    [
        ("How many days of paid leave do employees get?", "31 days"),
        ("How much paid leave do I get?", "31 days"),
        ("Is parental leave paid?", "paid in full"),
        ("How many characters does a password need?", "14 characters"),
    ],
)
def test_light_verbs_need_not_stand_in_the_answer(
    handbook: Workbench, question: str, right: str
) -> None:
    made = handbook.ask(question)
    assert not made.abstained
    assert right in made.text


@pytest.mark.parametrize(
    ("question", "word"),
    [
        ("How many days of sick leave do I get?", "sick"),
        ("How long does the battery last?", "battery"),
        ("How much paid leave do interns receive?", "interns"),
    ],
)
def test_a_thing_that_no_document_holds_is_refused_and_named(
    handbook: Workbench, question: str, word: str
) -> None:
    made = handbook.ask(question)
    assert made.abstained
    assert made.notes[-1].endswith(f"not in the index: {word}")


def test_another_kind_of_the_thing_is_no_answer(handbook: Workbench) -> None:
    assert handbook.ask("How many days of unpaid leave do I get?").abstained


@pytest.mark.parametrize(
    ("question", "right"),
    [
        ("Wie hoch ist der Grundpreis für Strom?", "9,80 Euro"),
        ("Wann bekomme ich die Jahresrechnung?", "Februar"),
        ("Wann findet die Versammlung statt?", "März"),
    ],
)
def test_amounts_and_months_answer_german_questions(
    tariff: Workbench, question: str, right: str
) -> None:
    assert right in tariff.ask(question).text


@pytest.mark.parametrize(
    "question", ["Wie hoch ist der Grundpreis für Gas?", "Wann findet das Sommerfest statt?"]
)
def test_german_nouns_that_no_document_holds_are_refused(tariff: Workbench, question: str) -> None:
    assert tariff.ask(question).abstained
