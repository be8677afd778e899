"""Questions without a model: gaps and headings, and gold that is really there."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from hypothesis import given, strategies as st

from ragwright.core import Document, GoldSpan, Section, Span
from ragwright.models import Analyzer
from ragwright.testsets import (
    Candidate,
    Survey,
    assign_splits,
    cloze_questions,
    gold_documents,
    heading_questions,
    plan_splits,
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


def survey_of(documents: Iterable[Document], size: int = 0) -> Survey:
    survey = Survey(Analyzer())
    for one in documents:
        step = size or len(one.text)
        spans = [Span(s, min(s + step, len(one.text))) for s in range(0, len(one.text), step)]
        survey.add(one.id, one.text, spans)
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
        whole = one.question.replace("____", one.answer)
        assert whole == strip_marks(one.span.text)
        assert guide.text[one.span.start : one.span.end] == one.span.text
    told = {one.reason for one in made}
    assert "without context: refers to the text it is taken from" in told
    assert not any("listing" in one.question or "costs" in one.question for one in made)


def test_a_french_cloze_leaves_the_elided_article() -> None:
    text = "Le voyageur a quitté hier la ville pour rejoindre enfin l'Arménie avec ses compagnons."
    french = Document(id="f", source="f", text=text, language="fr")
    (one,) = cloze_questions(french, survey_of([french]), 0)
    assert one.answer == "Arménie"
    assert "l'____ avec" in one.question


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


def test_two_sections_of_one_heading_are_ambiguous_and_long_ones_are_cut() -> None:
    sentence = "These lines tell about the Marlow kiln number {n} and all of its many parts."
    long = "\n\n".join(sentence.format(n=n) for n in range(40))
    text = f"# Kiln\n\n{long}\n\n## Part\n\n{'One. ' * 30}\n\n## Part\n\n{'Two. ' * 30}\n"
    kiln = document(text)
    made = list(heading_questions(kiln, survey_of([kiln]), 0))
    reasons = [one.reason for one in made]
    assert reasons.count("several sections have this heading") == 2
    (whole,) = [one for one in made if not one.reason]
    assert 80 < len(whole.span.text) <= 1200
    assert whole.span.text.endswith(".")


def many(count: int) -> list[Document]:
    return [
        document(
            f"# House {n}\n\nThe Marlow{n} pump was built in 19{n:02} by the potter Brice{n}.\n\n"
            f"The Tollen{n} valve was closed in 18{n:02} by the smith Arne{n} for ever.\n",
            f"d{n:02}",
        )
        for n in range(count)
    ]


def test_questions_are_spread_over_documents_and_seeded() -> None:
    documents = many(12)
    survey = survey_of(documents)
    read = {one.id: one for one in documents}.get
    first = [next_of(survey, read, seed=0, count=12) for _ in range(2)]
    assert first[0] == first[1]
    assert len({one.span.document_id for one in first[0]}) == 12
    assert next_of(survey, read, seed=1, count=12) != first[0]


def next_of(survey: Survey, read: object, *, seed: int, count: int) -> list[Candidate]:
    made = spread(read, survey, cloze_questions, seed)  # type: ignore[arg-type]
    accepted = (one for one in made if not one.reason)
    return [one for one, _ in zip(accepted, range(count), strict=False)]


@given(st.lists(st.integers(0, 12), min_size=1, max_size=40))
def test_planned_splits_share_no_document_where_there_are_five(owners: list[int]) -> None:
    chosen = [
        Candidate("cloze", f"q{n}", "a", GoldSpan(f"d{owner:02}", n, n + 1, "x"))
        for n, owner in enumerate(sorted(owners))
    ]
    splits = plan_splits(chosen)
    assert len(splits) == len(chosen)
    if len(set(owners)) < 5:
        return
    sides: dict[str, set[str]] = {}
    for one, split in zip(chosen, splits, strict=True):
        sides.setdefault(one.span.document_id, set()).add(split)
    assert all(len(side) == 1 for side in sides.values())
    assert set(splits) == {"tune", "confirm"} or max(map(owners.count, owners)) > 0.4 * len(owners)


def test_of_few_documents_runs_of_text_are_split() -> None:
    chosen = [Candidate("cloze", f"q{n}", "a", GoldSpan("d", n, n + 1, "x")) for n in range(10)]
    splits = plan_splits(chosen)
    assert splits.count("confirm") == 4
    assert all(splits[n] == splits[n + 1] for n in range(0, 10, 2))


def test_rows_say_what_they_are_and_the_loader_splits_them_alike() -> None:
    documents = many(12)
    survey = survey_of(documents)
    read = {one.id: one for one in documents}
    candidates = next_of(survey, read.get, seed=0, count=20)
    bad = candidates[0].rejected("for a reason")
    made = synthesis_of([*candidates, bad], 15, survey, {k: d.text for k, d in read.items()})
    assert made.questions == len(made.rows) == 15
    assert made.rejected == {"for a reason": 1}
    assert assign_splits(made.rows) == {row.id: row.metadata["split"] for row in made.rows}
    sides: dict[str, set[object]] = {}
    for row in made.rows:
        assert row.metadata["kind"] == "cloze"
        assert 0 <= float(str(row.metadata["leak"])) <= 1
        sides.setdefault(gold_documents(row)[0], set()).add(row.metadata["split"])
    assert all(len(side) == 1 for side in sides.values())
    assert len(made.leak_quartiles()) == 5
    assert list(made.leak_quartiles()) == sorted(made.leak_quartiles())
    few = synthesis_of(candidates[:2], 15, survey, {k: d.text for k, d in read.items()})
    assert "2 of 15 questions" in few.notes[0]
    assert "fewer than 5 documents" in few.notes[1]


@pytest.mark.parametrize("text", ["", "No sentence", "| a | b |\n|---|---|\n", "#\n\n\n"])
def test_documents_without_prose_give_nothing(text: str) -> None:
    empty = document(text)
    survey = survey_of([empty], size=max(1, len(text)))
    assert list(cloze_questions(empty, survey, 0)) == []
    assert [one for one in heading_questions(empty, survey, 0) if not one.reason] == []
