"""What an answer without a model quotes whole, by what the question asks for."""

from __future__ import annotations

from pathlib import Path

import pytest
from answer_fakes import Driver, hit

from ragwright.answer import AnswerOptions, AnswerSetup, answer
from ragwright.core import Answer, ChannelScore, Hit, Persona
from ragwright.workbench import Workbench

GUIDE = """# The pump

A pump moves water from the tank to the roof. It is switched on by hand.

## Connecting the pump

```bash
pumpctl connect roof
```

1. The valve opens.
2. The lamp turns green.

## Exit codes

| code | meaning |
|---|---|
| 0 | the pump runs |
| 1 | the filter is blocked |
| 2 | the motor is hot |

## To fix by checking the following possible causes of E7

1. The filter is full.

1. The valve is shut.

## Limits

Three things limit the pump.

- the height of the roof
- the size of the tank
- the age of the filter

Command for flushing:

```bash
pumpctl flush
```

**Emptying the tank.** Open the lower valve. Wait for the lamp. Close the valve.
"""


def page(number: int, text: str, **more: object) -> Hit:
    title = text.partition("\n")[0].lstrip("# ")
    return hit(number, text, title=title, headings=(title,), **more)  # type: ignore[arg-type]


def ask(question: str, *texts: str) -> Answer:
    hits = [page(n, text) for n, text in enumerate(texts, 1)]
    return Driver().run(answer(question, Persona(""), hits, AnswerSetup(AnswerOptions())))


def test_a_how_to_question_gets_the_command_and_the_steps_of_the_section_that_names_it() -> None:
    made = ask("How do I connect the pump?", GUIDE)
    assert "pumpctl connect roof" in made.text
    assert "1. The valve opens.\n2. The lamp turns green." in made.text
    assert made.text.startswith("Connecting the pump\n```bash")


def test_a_question_for_a_table_gets_every_row() -> None:
    made = ask("What do the exit codes mean?", GUIDE)
    rows = "- 0: the pump runs\n- 1: the filter is blocked\n- 2: the motor is hot"
    assert rows in made.text


def test_possible_causes_are_quoted_whole() -> None:
    for question in ("What are the possible causes of E7?", "What causes E7?"):
        made = ask(question, GUIDE)
        assert "1. The filter is full.\n1. The valve is shut." in made.text


def test_a_sentence_that_counts_what_follows_brings_it() -> None:
    made = ask("Which things limit the pump?", GUIDE)
    assert "Three things limit the pump.\n- the height of the roof\n- the size" in made.text


def test_what_follows_a_colon_is_quoted_with_it() -> None:
    made = ask("What is the command for flushing?", GUIDE)
    assert "Command for flushing:\n```bash\npumpctl flush\n```" in made.text


def test_a_line_in_bold_brings_its_steps() -> None:
    made = ask("How do I empty the tank?", GUIDE)
    assert "Open the lower valve." in made.text


def test_a_definition_is_preferred_to_other_sentences_about_the_thing() -> None:
    texts = (
        "# Ponds\n\nThe duckling follows its mother. A duckling swims on its first day.\n",
        "# Ducks\n\nA male is a drake. A duckling is a young duck in downy plumage.\n",
    )
    assert ask("What is a duckling?", *texts).text.startswith("A duckling is a young duck")


def test_an_abbreviation_is_defined_where_it_is_written_out() -> None:
    texts = (
        "# Ties\n\nRRF does not see how far the first result is ahead.\n",
        "# Fusion\n\nReciprocal rank fusion (RRF) merges lists. It adds 1 / (60 + rank).\n",
    )
    assert ask("What is RRF?", *texts).text.startswith("Reciprocal rank fusion (RRF) merges")


def test_a_difference_is_a_unit_about_each_of_the_two() -> None:
    text = (
        "# Ducks\n\nDabbling ducks are ducks that feed at the surface. They are common.\n\n"
        "Diving ducks are ducks that feed deep under water.\n"
    )
    made = ask("What is the difference between dabbling ducks and diving ducks?", text)
    assert "at the surface" in made.text
    assert "deep under water" in made.text
    refused = ask("What is the difference between dabbling ducks and geese?", text)
    assert refused.abstained


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Who is the CEO of Acme?", "# Firms\n\nAcme makes pumps. Bob Stone is the CEO of Bolt."),
        ("How tall was Ada Lovelace?", "# Ada Lovelace\n\nAda Lovelace (1815–1852) was a writer."),
        ("When was NMAKE first released?", "# NMAKE\n\nNMAKE read 3 rules in 1994 tests of NMAKE."),
        ("How many pages has the Pump Book?", "# Pump Book\n\nThe Pump Book has 3 authors."),
        ("Who directed the film Pump?", "# Pump\n\nThe film Pump was broadcast by Channel Four."),
        ("Wie alt wurde Ada Lovelace?", "# Ada Lovelace\n\nAda Lovelace schrieb 1843 ein Buch."),
        ("Wie schwer ist die Pumpe?", "# Pumpe\n\nDie Pumpe ist rot und hat 3 Ventile."),
        ("Combien mesurait Ada Lovelace ?", "# Ada Lovelace\n\nAda Lovelace est née en 1815."),
        ("Qui a réalisé le film Pompe ?", "# Pompe\n\nLe film Pompe est sorti en 1990 à Paris."),
        ("¿Cuánto pesa la bomba Acme?", "# Acme\n\nLa bomba Acme tiene 3 válvulas rojas."),
    ],
)
def test_what_is_asked_of_a_thing_must_stand_in_the_quoted_unit(question: str, text: str) -> None:
    assert ask(question, text).abstained


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Who is the CEO of Acme?", "# Acme\n\nBob Stone has been chief executive of Acme."),
        ("How tall was Ada Lovelace?", "# Ada Lovelace\n\nAda Lovelace measured 1.65 m."),
        ("Wie alt wurde Ada Lovelace?", "# Ada Lovelace\n\nAda Lovelace starb im Alter von 36."),
        ("Combien pèse la pompe Acme ?", "# Acme\n\nLa pompe Acme a un poids de 12 kg."),
    ],
)
def test_other_words_for_what_is_asked_answer_too(question: str, text: str) -> None:
    assert not ask(question, text).abstained


def test_the_score_depends_on_words_and_not_on_the_channel_that_found_the_passages() -> None:
    texts = (
        "# LNK2999\n\nThe linker reports LNK2999 where a file is locked.\n",
        "# Files\n\nA file may be locked by another program.\n",
        "# Locks\n\nLocks protect files from other programs.\n",
    )
    scores = []
    for order in ((0, 1, 2), (2, 1, 0)):
        hits = [
            page(
                rank,
                texts[i],
                document=f"page{i}",
                channels={
                    "keyword": ChannelScore(i + 1, 3.0 - i),
                    "dense": ChannelScore(rank, 1.0),
                },
            )
            for rank, i in enumerate(order, 1)
        ]
        made = Driver().run(answer("Why do I get LNK2999?", Persona(""), hits))
        scores.append(made.notes[0].rpartition(" ")[2])
        assert "LNK2999" in made.text
    assert scores[0] == scores[1]


def test_the_opening_of_the_page_that_a_code_names_is_among_the_passages(
    tmp_path: Path,
) -> None:
    more = "".join(
        f"## Example {n}\n\nThe example generates C2999 twice, and C2999 again: C2999.\n\n"
        for n in range(8)
    )
    (tmp_path / "c2999.md").write_text(
        f"# Compiler Error C2999\n\n> the name is unknown\n\n{'Remarks follow. ' * 60}\n\n{more}"
    )
    (tmp_path / "other.md").write_text("# Other\n\nC2999 is mentioned here: C2999, C2999.\n")
    (tmp_path / "ragwright.yaml").write_text(
        "sources: ['*.md']\nchunk: {size: 40, overlap: 5}\nretrieve: {top_k: 3}\n"
    )
    with Workbench.open(tmp_path) as bench:
        bench.ingest()
        hits = bench.retrieve("What does C2999 mean?").hits
        assert len(hits) == 3
        assert any(hit.start == 0 and "C2999" in hit.title for hit in hits)
        assert "the name is unknown" in bench.ask("What does C2999 mean?").text


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Wo wurde Ada Lovelace beerdigt?", "# Leben\n\nAda Lovelace wurde in London geboren."),
        ("How much does an Acme licence cost?", "# Prices\n\nA read costs 5 $ in this region."),
        ("Can the Acme pump be reused?", "# Pumps\n\nThe Acme pump is made of steel and brass."),
        (
            "At which temperature may the SL1 pump run?",
            "# Pump\n\nThe pump is made for M1 and SL1 printers.",
        ),
        ("Where does the pump look for files?", "# Pump\n\nFor more information, see the files."),
    ],
)
def test_a_sentence_that_names_the_thing_and_says_something_else_is_no_answer(
    question: str, text: str
) -> None:
    assert ask(question, text).abstained


def test_a_heading_that_asks_the_question_is_answered_by_the_text_below_it() -> None:
    faq = (
        "# FAQ\n\n## Can two people use one pump at the same time?\n\n"
        "Several hands may turn it while one fills the tank.\n\n## Is it red?\n\nYes.\n"
    )
    made = ask("Can two people use a pump at the same time?", faq)
    assert made.text.startswith("Several hands may turn it")


def test_a_sentence_that_points_back_is_quoted_with_what_it_points_to() -> None:
    text = (
        "# Plague\n\nMany held that bad air caused it. Today, this is known as the Miasma theory.\n"
    )
    made = ask("What is the Miasma theory?", text)
    assert "bad air caused it" in made.text


def test_a_count_of_things_brings_the_rest_of_its_paragraph() -> None:
    text = "# Chunking\n\nThere are three reasons. A vector blurs. Room is short. Time flies.\n"
    made = ask("What are the three reasons for chunking?", text)
    assert "A vector blurs." in made.text
    assert "Room is short." in made.text


def test_a_list_within_a_block_quote_is_quoted_with_its_lead_in() -> None:
    text = (
        "# Error E9\n\n> The pump stopped.\n>\n> You can try these steps to fix this error:\n>\n"
        "> - Close the valve. Wait.\n> - Check the tank.\n"
    )
    made = ask("What are the steps to fix E9?", text)
    assert "Close the valve." in made.text
    assert "Check the tank." in made.text


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("On which days does the Pump Club meet?", "# Clubs\n\nThe Pump Club meets on Tuesdays."),
        ("Who proposed HyDE?", "# Rewriting\n\nHyDE (Gao and others, 2022) asks for a passage."),
        ("What is the plain ray?", "# Fish\n\nThe plain ray or brown ray (N. annotata) is a fish."),
        (
            "How do I halve an interval?",
            "# Sizes\n\nTo halve an interval you need four times more.",
        ),
    ],
)
def test_a_sentence_that_says_what_is_asked_is_quoted(question: str, text: str) -> None:
    assert not ask(question, text).abstained
