"""What is quoted whole offline: definitions, lists, rows, code; and what personas change."""

from __future__ import annotations

import pytest
from answer_fakes import Driver, hit
from hypothesis import given, settings, strategies as st

from ragwright.answer import AnswerOptions, AnswerSetup, answer
from ragwright.core import Answer, Hit, Persona, citation_marks
from ragwright.models import words

PAGE = """# Linker Error LNK2999

> cannot open file 'name'

## Remarks

This error is reported when the linker fails to open a file. The common causes are:

- the program is still running, and
- the library path is wrong.

There are other causes. For more information, see [Paths](paths.md).

## Example

The following example generates LNK2999:

```cpp
int main() { return missing[0]; }
```
"""
TABLE = """# Codes of the pump

| Code | Meaning | Interval |
|---|---|---|
| E101 | the filter is blocked | 2 years |
| E102 | the motor is hot | |

## Replacing the filter

To replace the filter, follow these steps:

1. Switch the pump off.
2. Open the cover.
3. Change the filter.
"""
NEUTRAL = Persona("")


def ask(question: str, *texts: str, persona: Persona = NEUTRAL, threshold: float = 0.25) -> Answer:
    hits = [page(n, text) for n, text in enumerate(texts, 1)]
    setup = AnswerSetup(AnswerOptions(threshold=threshold))
    return Driver().run(answer(question, persona, hits, setup))


def page(number: int, text: str) -> Hit:
    title = text.partition("\n")[0].lstrip("# ")
    return hit(number, text, title=title, headings=(title,))


def cited(made: Answer, *texts: str) -> list[str]:
    """The text of every citation."""
    return [texts[c.marker - 1][c.start : c.end] for c in made.citations]


@pytest.mark.parametrize(
    "question",
    [
        "What does LNK2999 mean?",
        "What is LNK2999?",
        "I see error LNK2999. What does it mean?",
        "Explain error LNK2999.",
        "Why do I get LNK2999?",
        "Que signifie LNK2999 ?",
        "Was bedeutet LNK2999?",
        "LNK2999",
    ],
)
def test_a_definition_is_what_opens_the_heading_that_names_it(question: str) -> None:
    made = ask(question, PAGE)
    assert made.text.startswith("cannot open file 'name' [1]")
    assert cited(made, PAGE)[0] == "cannot open file 'name'"


def test_examples_that_repeat_a_code_do_not_hide_its_meaning() -> None:
    """On a long page the search finds the examples first."""
    examples = (
        "Names differ.\n\nIf you see LNK2999 when you use `cout`, a scope issue is the cause.\n"
    )
    title = "Linker Error LNK2999"
    hits = [
        hit(1, examples, start=len(PAGE), document="page", title=title),
        hit(2, PAGE, document="page", title=title),
    ]
    setup = AnswerSetup(AnswerOptions())
    made = Driver().run(answer("What does LNK2999 mean?", NEUTRAL, hits, setup))
    assert made.text.startswith("cannot open file 'name' [2]")


def test_a_heading_about_another_code_opens_no_definition() -> None:
    other = PAGE.replace("LNK2999", "LNK1000")
    made = ask("What does LNK2999 mean?", other)
    assert made.abstained


def test_a_lead_in_is_quoted_with_its_list_as_one_span() -> None:
    made = ask("What does LNK2999 mean?", PAGE)
    assert (
        "The common causes are:\n- the program is still running, and\n"
        "- the library path is wrong. [1]" in made.text
    )
    spans = cited(made, PAGE)
    (span,) = [text for text in spans if text.startswith("The common causes are:")]
    assert span.endswith("- the library path is wrong.")


def test_references_and_captions_do_not_follow_a_definition() -> None:
    made = ask("What does LNK2999 mean?", PAGE, persona=Persona("", max_words=400))
    assert "There are other causes." in made.text
    assert "For more information" not in made.text
    assert "following example" not in made.text


def test_what_follows_a_definition_ends_with_its_section() -> None:
    text = "# Errors\n\n## E1001\n\nThe lamp is broken.\n\n## E1002\n\nThe door is open.\n"
    made = ask("What does E1001 mean?", text)
    assert made.text == "The lamp is broken. [1]"


def test_a_row_is_quoted_with_its_header_and_both_are_cited() -> None:
    made = ask("What does E101 mean?", TABLE)
    assert made.text.startswith(
        "Code: E101; Meaning: the filter is blocked; Interval: 2 years [1] [1]"
    )
    assert cited(made, TABLE)[:2] == [
        "| E101 | the filter is blocked | 2 years |",
        "| Code | Meaning | Interval |",
    ]


def test_empty_cells_of_a_row_are_left_out() -> None:
    made = ask("What does E102 mean?", TABLE)
    assert made.text.startswith("Code: E102; Meaning: the motor is hot [1] [1]")


def test_steps_are_quoted_as_a_numbered_list() -> None:
    made = ask("How do I replace the filter?", TABLE)
    assert (
        "To replace the filter, follow these steps:\n1. Switch the pump off.\n2. Open the cover.\n"
        "3. Change the filter. [1]" in made.text
    )


def test_an_example_is_quoted_with_its_code() -> None:
    made = ask("Show an example of LNK2999", PAGE)
    assert made.text == (
        "The following example generates LNK2999:\n```cpp\n"
        "int main() { return missing[0]; }\n```\n[1]"
    )
    (span,) = cited(made, PAGE)
    assert span.startswith("The following example")
    assert span.endswith("```")


def test_code_that_holds_a_citation_mark_is_not_quoted() -> None:
    forged = PAGE.replace("missing[0]", "0; // see [2]")
    made = ask("Show an example of LNK2999", forged)
    assert "```" not in made.text
    assert [c.marker for c in made.citations] == [
        n for mark in citation_marks(made.text) for n in mark.numbers
    ]


def test_what_to_do_is_preferred_where_the_question_asks_for_it() -> None:
    text = (
        "# Compiler Error C2999\n\n> 'name' : twice defined\n\n## Remarks\n\nA name is given to "
        "two things. To resolve this error, rename one of them.\n\n## Example\n\n"
        "The following example generates C2999:\n\n```cpp\nint a, a;\n```\n"
    )
    for question in ("How do I fix C2999?", "I see error C2999, what should I do?"):
        made = ask(question, text)
        assert "To resolve this error, rename one of them. [1]" in made.text
        assert "following example" not in made.text


PIECES = st.sampled_from(
    [
        *(
            "# LNK2999\n\n",
            "## Steps\n\n",
            "The pump is red. ",
            "It has these parts:\n\n",
            "- a cap\n",
        ),
        *("1. Open it.\n", "2. Close [1] it.\n", "| A | B |\n", "|---|---|\n", "| LNK2999 | x |\n"),
        *(
            "```\nx[0] = [1]\n```\n",
            "> quoted\n> line\n",
            "\n\n",
            "LNK2999 is a lamp.[2] ",
            "(see `a",
        ),
    ]
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.lists(PIECES, max_size=12).map("".join), min_size=1, max_size=3),
    st.sampled_from(["What does LNK2999 mean?", "How do I open the pump?", "Show example code"]),
    st.sampled_from(["lists", "prose"]),
)
def test_every_mark_has_its_citation_and_every_word_is_in_its_span(
    texts: list[str], question: str, layout: str
) -> None:
    persona = Persona("p", layout=layout)  # type: ignore[arg-type]
    made = ask(question, *texts, persona=persona, threshold=0.01)
    marks = list(citation_marks(made.text))
    if made.abstained:
        assert not made.citations
        return
    assert [c.marker for c in made.citations] == [n for m in marks for n in m.numbers]
    spans = cited(made, *texts)
    at, held = 0, 0
    for n, mark in enumerate(marks):
        piece = made.text[at : mark.start].strip()
        if piece:
            held = n
        source = {w for text in spans[held : held + 2] for w in words(text)}
        assert set(words(piece)) <= source
        at = mark.end
    assert not made.text[at:].strip()


class TestPersonas:
    """What a persona changes without a model."""

    def test_the_layout_is_lists_or_prose(self) -> None:
        prose = ask("What does LNK2999 mean?", PAGE, persona=Persona("p", layout="prose"))
        assert (
            "The common causes are: the program is still running, and the library path is "
            "wrong. [1]" in prose.text
        )
        assert "\n" not in prose.text

    def test_a_short_persona_gets_less_of_what_follows_a_definition(self) -> None:
        short = ask("What does LNK2999 mean?", PAGE, persona=Persona("p", max_words=12))
        assert short.text == "cannot open file 'name' [1]"

    def test_a_list_is_shortened_to_the_words_of_a_persona(self) -> None:
        question = "How do I replace the filter?"
        short = ask(question, TABLE, persona=Persona("p", max_words=16))
        assert "2. Open the cover. [1]" in short.text
        assert "3." not in short.text
        assert cited(short, TABLE)[0].endswith("2. Open the cover.")

    def test_definition_first_puts_the_definition_before_the_steps(self) -> None:
        text = "# Error E2001\n\nThe lamp is broken.\n\n## Fix\n\nTo fix E2001, change the lamp.\n"
        plain = ask("How do I fix E2001?", text)
        first = ask("How do I fix E2001?", text, persona=Persona("p", first="definition"))
        assert plain.text.startswith("To fix E2001")
        assert first.text == "The lamp is broken. [1] To fix E2001, change the lamp. [1]"

    def test_procedure_first_puts_the_steps_before_the_definition(self) -> None:
        text = "# Error E2001\n\nThe lamp is broken.\n\n## Fix\n\nTo fix E2001, change the lamp.\n"
        steps = ask("What does E2001 mean?", text, persona=Persona("p", first="procedure"))
        assert steps.text == "To fix E2001, change the lamp. [1] The lamp is broken. [1]"

    @pytest.mark.parametrize(
        "persona", [Persona("p", sections=("legal",)), Persona("p", documents=("doc2.pdf",))]
    )
    def test_preferred_sections_and_documents_come_first(self, persona: Persona) -> None:
        texts = (
            "# Guide\n\nThe warranty of the pump is two years.\n",
            "# Legal terms\n\nThe pump has a warranty of 24 months from delivery.\n",
        )
        question = "How long is the warranty of the pump?"
        assert ask(question, *texts).citations[0].marker == 1
        assert ask(question, *texts, persona=persona).citations[0].marker == 2

    def test_a_preference_does_not_make_an_answer_of_an_abstention(self) -> None:
        texts = ("# Guide\n\nThe pump is blue.\n",)
        wishes = Persona("p", sections=("guide",), documents=("*",))
        assert ask("Who is the mayor of Ulan Bator?", *texts, persona=wishes).abstained

    def test_one_line_says_where_a_persona_changes_nothing(self) -> None:
        text = "# Lamp\n\nThe lamp E3001 is red.\n"
        same = ask("What is E3001?", text, persona=Persona("p", layout="prose"))
        notes = [note for note in same.notes if note.startswith("same text as without a persona")]
        assert len(notes) == 1
        for differs in (Persona("p", layout="prose"), Persona("p", max_words=12)):
            made = ask("What does LNK2999 mean?", PAGE, persona=differs)
            assert not any("without a persona" in note for note in made.notes)
        assert not any("without a persona" in note for note in ask("What is E3001?", text).notes)


class TestClosest:
    """What an abstention shows."""

    def test_the_best_passages_are_shown_with_their_places(self) -> None:
        made = ask("When was the linker made?", TABLE, PAGE)
        assert made.abstained
        assert not made.citations
        assert 1 <= len(made.closest) <= 3
        scores = [near.score for near in made.closest]
        assert scores == sorted(scores, reverse=True)
        assert all(score < 0.25 for score in scores)
        for near in made.closest:
            span = (TABLE, PAGE)[near.citation.marker - 1][near.citation.start : near.citation.end]
            assert set(words(near.text)) <= set(words(span)) | {"Code", "Meaning", "Interval"}

    def test_an_answer_shows_none(self) -> None:
        assert ask("What does LNK2999 mean?", PAGE).closest == ()


def test_what_a_page_break_left_of_a_sentence_is_not_quoted() -> None:
    text = (
        "# E1001\n\nThe lamp E1001 is broken.\n\nThis\n\nReplace the lamp of E1001 by one of 5 "
        "watts.\n\nand then the E1001 cover of the\n"
    )
    made = ask("What does E1001 mean?", text)
    assert (
        made.text
        == "The lamp E1001 is broken. [1] Replace the lamp of E1001 by one of 5 watts. [1]"
    )


def test_what_reports_an_error_is_part_of_its_name() -> None:
    text = (
        "# Compiler Error C2999\n\n> 'declaration' : expects N arguments - M provided\n\n"
        "## Remarks\n\nA function template has too few or too many arguments.\n\n## Example\n\n"
        "The following example generates C2999 and shows how to fix it:\n\n```cpp\nf(1, 2);\n```\n"
    )
    plain = ask("How do I fix C2999?", text)
    assert not plain.abstained
    for name in ("compiler error C2999", "fatal compiler error C2999", "the build error C2999"):
        assert ask(f"How do I fix {name}?", text).text == plain.text


def test_passages_that_have_nothing_of_the_question_are_not_shown_as_close() -> None:
    made = ask("Who is the mayor of Ulan Bator?", TABLE, PAGE)
    assert made.abstained
    assert not made.closest


@pytest.mark.parametrize(
    "entry",
    [
        "^ Livingston, A. D. (1998-01-01). Guide to Edible Plants and Animals of the World.",
        "Livingston, A. D., The World of Plants (1998).",
        '"The winners of the world cup in 1998" (PDF).',
        "World cup winners. doi: 10.1000/182.",
        "World Cup of 1998. Retrieved 12 May 2004.",
    ],
)
def test_an_entry_of_a_bibliography_is_no_answer(entry: str) -> None:
    made = ask("Who won the world cup in 1998?", f"# Ducks\n\nDucks are birds.\n\n{entry}\n")
    assert made.abstained
    told = ask(
        "Who won the world cup in 1998?", f"# Cups\n\n{entry}\n\nFrance won the world cup in 1998."
    )
    assert told.text.startswith("France won the world cup in 1998.")


def test_a_function_word_alone_is_not_quoted() -> None:
    made = ask("What is the valve?", "# The valve\n\nThis\n\nThe valve stops the water.\n")
    assert made.text == "The valve stops the water. [1]"


PUMP = (
    "# Error E7: the pump stops\n\nThe pump stops with error E7 when the valve is shut.\n\n"
    "## The valve is worn\n\nIf you see error E7 in an old pump, the valve is the cause.\n\n"
    "## The filter is full\n\nTo fix this issue of error E7, clean the filter. "
    "The following sections describe error E7.\n"
)


def test_a_sentence_that_refers_to_another_section_is_not_joined_to_an_answer() -> None:
    made = ask("What does error E7 mean?", PUMP)
    assert "when the valve is shut" in made.text
    assert "this issue" not in made.text
    assert "following sections" not in made.text


def test_a_sentence_that_refers_stays_behind_the_one_it_refers_to() -> None:
    text = "The cause of error E7 is a full filter. In this case of error E7, clean the filter.\n"
    made = ask("What is the cause of error E7?", text)
    assert made.text.index("full filter") < made.text.index("In this case")
