"""Questions by templates: the form of the passage, the language of the text, gold that answers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ragwright import Workbench
from ragwright.core import Document, Section, Span
from ragwright.models import Analyzer
from ragwright.testsets import (
    Candidate,
    Survey,
    Synthesizing,
    spread,
    synthesis_of,
    template_questions,
)


def document(text: str, language: str = "en", name: str = "d") -> Document:
    marks = [(m.start(), len(m[1]), m[2]) for m in re.finditer(r"(?m)^(#+) (.+)$", text)]
    sections = []
    for number, (start, level, title) in enumerate(marks):
        after = [s for s, other, _ in marks[number + 1 :] if other <= level]
        sections.append(Section(title, level, Span(start, after[0] if after else len(text))))
    return Document(
        id=name, source=name, text=text, title="", sections=tuple(sections), language=language
    )


def accepted(text: str, language: str = "en", seed: int = 0) -> list[Candidate]:
    one = document(text, language)
    survey = Survey(Analyzer())
    survey.add(one.id, one.text, [Span(0, len(one.text))])
    made = list(template_questions(one, survey, seed))
    for candidate in made:
        span = candidate.span
        assert one.text[span.start : span.end] == span.text
    return [candidate for candidate in made if not candidate.reason]


SENTENCES = """
en | The Weeks Bridge is a bridge over the river. | What is the Weeks Bridge? |
en | William Farel was a student of Lefevre. | Who was William Farel? |
en | The Weeks Bridge was built by hand in 1927. | When was the Weeks Bridge built by hand? | 1927
en | The Weeks Bridge was designed by Anna Marlow. | Who designed the Weeks Bridge? | Anna Marlow
en | Fort Marlow is located near the sea. | Where is Fort Marlow located? |
en | Fort Marlow has 14 towers. | How many towers does Fort Marlow have? | 14
en | To reset your boiler pump, press the red key. | How do I reset my boiler pump? |
en | The XB-7 protocol requires a token. | What does the XB-7 protocol require? |
fr | La tour Choukhov est une tour de Moscou. | Qu'est-ce que la tour Choukhov ? |
fr | Le club Arvor a été fondé en 1908. | Quand le club Arvor a-t-il été fondé ? | 1908
fr | La halle Eve a été bâtie par Anne Roux. | Par qui la halle Eve a-t-elle été bâtie ? | Anne Roux
fr | Pour vider la cuve à gaz, ouvrez le robinet. | Comment vider la cuve à gaz ? |
de | Die Weeks Brücke ist eine Brücke aus Stein. | Was ist die Weeks Brücke? |
de | Der Verein Arvor wurde 1908 gegründet. | Wann wurde der Verein Arvor gegründet? | 1908
de | Um den Kessel im Bad zu leeren, müssen Sie warten. | Wie kann ich den Kessel im Bad leeren? |
es | El puente Marlow es un puente de piedra. | ¿Qué es el puente Marlow? |
es | La ciudad de Arvor fue fundada en 1908. | ¿Cuándo fue fundada la ciudad de Arvor? | 1908
es | Para vaciar la caldera de gas, abra el grifo. | ¿Cómo vaciar la caldera de gas? |
"""
"""Language, sentence, question, and the answer if it is not the sentence."""


@pytest.mark.parametrize(
    ("language", "sentence", "question", "answer"),
    [[cell.strip() for cell in line.split("|")] for line in SENTENCES.strip().splitlines()],
)
def test_sentences_are_asked_for_in_their_language(
    language: str, sentence: str, question: str, answer: str
) -> None:
    (made,) = accepted(f"{sentence}\n", language)
    assert (made.question, made.answer) == (question, answer or sentence)
    assert made.span.text.strip() == sentence


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        ("en", "This is a bridge over the river Marlow."),
        ("en", "North of Los Angeles are the towns of the coast."),
        ("en", "The first phase is a test of the Marlow pump."),
        ("en", "However the pump was a gift of the Marlow family."),
        ("en", "The principle is based on the work of Anna Marlow."),
        ("fr", "Le dernier étage est une fissure du mur."),
        ("de", "Darüber hinaus sind die Regeln von Marlow streng."),
        ("de", "Ein Beispiel sind die Quallen im Meer."),
        ("es", "Una causa de preocupación son los ataques."),
        ("en", "Of particular interest is the Marlow bridge."),
        ("en", "Table 2-1 describes the columns of the Marlow view."),
        ("en", "The Marlow study was supported by the NIH."),
        ("en", "Determining where genes flow is a thriving research avenue."),
        ("en", "An evaluation with four judged measures reads the Marlow file."),
        ("it", "La torre Marlow è una torre di pietra."),
        ("pt", "A torre Marlow é uma torre de pedra."),
    ],
)
def test_what_no_reader_would_understand_alone_is_not_asked(language: str, sentence: str) -> None:
    assert accepted(f"{sentence}\n", language) == []


UNITS = """# Boiler

## Compiler Error C2076

'this' cannot be used here, because the class is not complete yet at this place of the program.

## How to bleed the radiator

1. Close the valve of the circuit and wait until the water is cold enough to be touched.
2. Open the screw.

## Installing your pump

Put the pump into the pit, and connect the cable with the plug that came with it, as shown below.

## Opening hours

The shop for boilers opens at eight in the morning on each day but Sunday, and closes at six.

## What happens if the power fails?

The boiler keeps its clock for two days, and starts again as soon as the power is back for good.

## Notes

The following sensors are part of the delivery:

- the outdoor sensor of the north wall
- the sensor of the tank

| option | meaning | default |
|---|---|---|
| `--night` | lowers the flow temperature | off |

- code: "E104"
  title: "PUMP STUCK"
  text: "Turn the shaft by hand."
"""


def test_units_are_asked_for_by_their_form() -> None:
    made = {one.question: one for one in accepted(UNITS)}
    assert {question: one.level for question, one in made.items()} == {
        "What does compiler error C2076 mean?": "code entry",
        "How do I bleed the radiator?": "procedure",
        "How do I install my pump?": "procedure",
        "What happens if the power fails?": "question",
        "Which sensors are part of the delivery?": "list",
        "What does --night mean?": "table row",
        'What does the message "PUMP STUCK" mean?': "code entry",
    }
    assert "the sensor of the tank" in made["Which sensors are part of the delivery?"].span.text
    assert made["What does --night mean?"].answer == "lowers the flow temperature"
    assert "shaft" in made['What does the message "PUMP STUCK" mean?'].span.text


ROWS = """
| column | meaning |
|---|---|
| effect | what a part changes |
| own rows | the rows of this stage |
| `max_ratio` | the largest ratio |
| `--filter "topic=a\\|b"` | any of several values |

| Species | Description |
|---|---|
| Mandarin Duck | Known for its striking plumage. |

| Term | Meaning |
|---|---|
| leakage | the test has influenced the system |

| key | default |
|---|---|
| seed | 0 |
| `top_k` | 10 |

| Country | Capital |
|---|---|
| Norway | Oslo |
"""


def test_only_names_of_rows_that_a_person_would_ask_for() -> None:
    assert sorted(one.question for one in accepted(ROWS)) == [
        "What does leakage mean?",
        "What does max_ratio mean?",
        "What is the capital of Norway?",
        "What is the default of top_k?",
    ]


NAMES = """
Mail virginia@example.org with the standard SCHEMA, or a schema of another creation.

Standard Ebooks is a project of volunteers. Virginia Gewin is a freelance science journalist.

SCHEMA language is a part of XML. Creative Commons provides means for authors to share their work.

The \\*star\\* operator is a sign of the Marlow grammar.
"""


def test_names_keep_their_capitals_and_questions_have_no_escapes() -> None:
    assert {one.question for one in accepted(NAMES)} == {
        "What is Standard Ebooks?",
        "Who is Virginia Gewin?",
        "What is SCHEMA language?",
        "What does Creative Commons provide?",
        "What is the *star* operator?",
    }


def test_a_sentence_that_begins_with_an_adverb_is_no_definition() -> None:
    text = "Afterwards the Marlow folder is an ordinary project that has other questions.\n"
    assert accepted(text) == []


def test_one_question_with_two_answers_is_rejected() -> None:
    twice = "The Weeks Bridge is a bridge.\n\nThe Weeks Bridge is a monument of stone.\n"
    assert accepted(twice) == []


def test_the_order_is_that_of_the_seed() -> None:
    assert accepted(UNITS, seed=1) == accepted(UNITS, seed=1)
    assert accepted(UNITS, seed=1) != accepted(UNITS, seed=2)


def test_rows_say_their_form_and_weak_ones_say_so() -> None:
    one = document(UNITS)
    survey = Survey(Analyzer())
    survey.add(one.id, one.text, [Span(0, len(one.text))])
    found = list(spread([one.id], {one.id: one}.get, survey, template_questions, 0))
    rows = synthesis_of(found, 9, survey, {one.id: one.text}).rows
    assert {row.metadata["form"] for row in rows} >= {"procedure", "list", "table row"}
    assert not any("weak" in row.metadata or "level" in row.metadata for row in rows)
    gap = Candidate("cloze", "The ____ of it", "x", found[0].span)
    made = synthesis_of([gap], 9, survey, {one.id: one.text})
    assert [row.metadata["weak"] for row in made.rows] == [True]
    assert made.weak == 1


def test_weak_questions_are_left_out_unless_they_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text(UNITS, "utf-8")
    prose = " ".join(
        f"The mixing valve of house {n} closes when the floor is warmer than limit {n * 7}."
        for n in range(9)
    )
    (tmp_path / "docs/b.md").write_text(f"# Valves\n\n{prose}\n", "utf-8")
    (tmp_path / "ragwright.yaml").write_text("sources: [docs]\n")
    with Workbench.open(tmp_path) as bench:
        bench.ingest()
        strong, _ = bench.synth(Synthesizing(questions=12))
        both, _ = bench.synth(Synthesizing(questions=12, weak=True))
        gaps, _ = bench.synth(Synthesizing(questions=3, kinds=("cloze",)))
    assert {row.metadata["kind"] for row in strong.rows} == {"template"}
    assert strong.questions < 12
    assert strong.weak == 0 < strong.weak_left_out
    assert any("--weak" in note for note in strong.notes)
    assert (both.questions, both.weak) == (12, 12 - strong.questions)
    assert {row.id for row in strong.rows} < {row.id for row in both.rows}
    assert gaps.questions == gaps.weak == 3


def test_the_answer_of_a_code_entry_is_its_prose_and_keeps_code_as_it_is() -> None:
    page = (
        "# Compiler Error C2100\n\n> illegal indirection\n\n## Remarks\n\n"
        "Indirection operator (`*`) is applied to `__LINE__`, a **nonpointer** value.\n\n"
        "## Example\n\nThe following example generates C2100:\n\n```cpp\n*s = 0; // OK\n```\n"
    )
    (entry,) = [one for one in accepted(page) if "C2100" in one.question]
    assert entry.answer == (
        "illegal indirection Indirection operator (*) is applied to __LINE__, a nonpointer value."
    )
