"""Questions without a model: gaps and headings, and gold that is really there."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ragwright.core import Document, Section, Span
from ragwright.models import Analyzer
from ragwright.testsets import (
    Candidate,
    Survey,
    assign_splits,
    cloze_questions,
    gold_documents,
    heading_questions,
    spread,
    strip_marks,
    synthesis_of,
)

GUIDE = """# Heating

Before the season, see **Valves** below; the [boiler](b.md) stands in the Marlow cellar for good.

## Pump

The circulation pump restarts once the winding of its motor has cooled down to 60 degrees.
It must never be opened by anybody who has not been taught how to do so.
The document says that hot water is prepared by the clock of the Marlow house at night.

```
# The circulation pump in this listing is started by a very long comment line of code.
run pump
```

## Valve

- The mixing `valve` of the Marlow house closes when the floor is warmer than the mixing limit.

| part | price |
|------|-------|
| The mixing valve of the house costs about as much as a new pump | 20 |

## Notes

Short.
"""


def document(text: str, name: str = "guide") -> Document:
    marks = [(m.start(), len(m[1]), m[2]) for m in re.finditer(r"(?m)^(#+) (.+)$", text)]
    inside = [m for m in marks if "listing" not in m[2]]
    sections = []
    for number, (start, level, title) in enumerate(inside):
        after = [s for s, other, _ in inside[number + 1 :] if other <= level]
        sections.append(Section(title, level, Span(start, after[0] if after else len(text))))
    return Document(id=name, source=name, text=text, title="Heating", sections=tuple(sections))


def survey_of(documents: Iterable[Document]) -> Survey:
    survey = Survey(Analyzer())
    for one in documents:
        survey.add(one.id, one.text, [Span(0, len(one.text))] if one.text else [])
    return survey


def test_marks_are_no_part_of_what_is_read() -> None:
    assert strip_marks("See **the [boiler](b.md)** `x_1` _now_[3].") == "See the boiler x_1 now."
    assert strip_marks("a snake_case name and 2 * 3 * 4") == "a snake_case name and 2 * 3 * 4"


def test_a_cloze_asks_for_a_term_of_a_sentence_of_prose() -> None:
    guide = document(GUIDE)
    made = list(cloze_questions(guide, survey_of([guide]), 0))
    accepted = [one for one in made if not one.reason]
    assert {one.answer for one in accepted} == {"60", "Marlow"}
    for one in accepted:
        assert one.question.count("____") == 1
        assert one.question.replace("____", one.answer) == strip_marks(one.span.text)
        assert guide.text[one.span.start : one.span.end] == one.span.text
    told = {one.reason for one in made}
    assert "without context: refers to the text it is taken from" in told
    assert not any("listing" in one.question or "costs" in one.question for one in made)
    text = "Le voyageur a quitté hier la ville pour rejoindre enfin l'Arménie avec ses compagnons."
    french = Document(id="f", source="f", text=text, language="fr")
    (one,) = cloze_questions(french, survey_of([french]), 0)
    assert one.answer == "Arménie"
    assert "l'____ avec" in one.question  # the elided article stays


def test_what_stands_twice_is_not_asked_for() -> None:
    same = "The circulation pump of the Marlow house restarts once the winding has cooled down."
    documents = [document(f"# Pump\n\n{same} Number {n}.\n", f"d{n}") for n in range(2)]
    survey = survey_of(documents)
    assert not [one for one in cloze_questions(documents[0], survey, 0) if not one.reason]
    assert next(heading_questions(documents[0], survey, 0)).reason


def test_a_heading_asks_for_its_own_text() -> None:
    guide = document(GUIDE)
    made = {one.question: one for one in heading_questions(guide, survey_of([guide]), 0)}
    assert set(made) == {"Heating", "Heating: Pump", "Heating: Valve"}  # Notes says too little
    pump = made["Heating: Pump"].span
    assert pump.text.startswith("The circulation pump")
    assert "mixing" not in pump.text
    assert made["Heating"].span.text.startswith("Before the season")
    assert all(guide.text[o.span.start : o.span.end] == o.span.text for o in made.values())
    # two sections of one heading are ambiguous, and long ones are cut
    sentence = "These lines tell about the Marlow kiln number {n} and all of its many parts."
    long = "\n\n".join(sentence.format(n=n) for n in range(40))
    text = f"# Kiln\n\n{long}\n\n## Part\n\n{'One. ' * 30}\n\n## Part\n\n{'Two. ' * 30}\n"
    kiln = document(text)
    found = list(heading_questions(kiln, survey_of([kiln]), 0))
    assert [one.reason for one in found].count("several sections have this heading") == 2
    (whole,) = [one for one in found if not one.reason]
    assert 80 < len(whole.span.text) <= 1200
    assert whole.span.text.endswith(".")


DOCUMENTS = [
    document(
        f"# House {n}\n\nThe Marlow{n} pump was built in 19{n:02} by the potter Brice{n}.\n\n"
        f"The Tollen{n} valve was closed in 18{n:02} by the smith Arne{n} for ever.\n",
        f"d{n:02}",
    )
    for n in range(12)
]


def first(survey: Survey, count: int, seed: int = 0) -> list[Candidate]:
    made = spread({one.id: one for one in DOCUMENTS}.get, survey, cloze_questions, seed)
    accepted = (one for one in made if not one.reason)
    return [one for one, _ in zip(accepted, range(count), strict=False)]


def test_questions_are_spread_over_documents_and_seeded() -> None:
    survey = survey_of(DOCUMENTS)
    found = first(survey, 12)
    assert found == first(survey, 12) != first(survey, 12, seed=1)
    assert len({one.span.document_id for one in found}) == 12


def test_rows_say_what_they_are_and_the_loader_splits_them_alike() -> None:
    survey, texts = survey_of(DOCUMENTS), {one.id: one.text for one in DOCUMENTS}
    candidates = first(survey, 20)
    made = synthesis_of([*candidates, candidates[0].rejected("for a reason")], 15, survey, texts)
    assert made.questions == len(made.rows) == 15
    assert made.rejected == {"for a reason": 1}
    assert assign_splits(made.rows) == {row.id: row.metadata["split"] for row in made.rows}
    for row in made.rows:
        assert row.metadata["kind"] == "cloze"
        assert 0 <= float(str(row.metadata["leak"])) <= 1
    sides = {(gold_documents(row)[0], str(row.metadata["split"])) for row in made.rows}
    assert len(sides) == len({document for document, _ in sides})
    quartiles = made.leak_quartiles()
    assert len(quartiles) == 5
    assert list(quartiles) == sorted(quartiles)
    few = synthesis_of(candidates[:2], 15, survey, texts)
    assert "2 of 15 questions" in few.notes[0]
    assert "fewer than 5 documents" in few.notes[1]
