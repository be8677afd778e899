"""Contexts made shorter before the answer is written."""

from __future__ import annotations

import pytest
from answer_fakes import Driver, hit

from ragwright.answer import AnswerOptions, AskPlan, ConsolidateOptions, answer, consolidate
from ragwright.core import Persona
from ragwright.flow import Chat

HITS = [hit(n, f"Long passage {n} about the pump.") for n in range(1, 6)]
PERSONA = Persona("p")


def summariser(request: Chat) -> str:
    """Summaries that name their passage; the third says nothing on the question."""
    text = request.messages[-1].content
    if "Merge the notes" in text:
        return "merged: " + " ".join(f"[{n}]" for n in range(1, 6) if f"[{n}]" in text)
    if "Notes so far" in text:
        return text.split("Notes so far:")[1].split("\n\n")[0].strip() + " +"
    if "Summarise the passage" in text:
        return "NOTHING." if "passage 3" in text else "short " + text[-20:]
    return "The pump [1]."


def test_concatenation_asks_nobody() -> None:
    driver = Driver(summariser)
    made = driver.run(consolidate("Why?", HITS, ConsolidateOptions("concatenate", "m:x", 5000)))
    assert made.hits == tuple(HITS)
    assert not driver.seen


def test_each_passage_is_summarised_under_its_own_address() -> None:
    made = Driver(summariser).run(
        consolidate("Why?", HITS, ConsolidateOptions("summarise_each", "m:x", 5000))
    )
    assert [h.chunk_id for h in made.hits] == [h.chunk_id for n, h in enumerate(HITS) if n != 2]
    assert all(h.text.startswith("short") for h in made.hits)
    assert any("left out" in note for note in made.notes)


def test_running_notes_pass_every_passage() -> None:
    driver = Driver(summariser)
    made = driver.run(consolidate("Why?", HITS, ConsolidateOptions("running", "m:x", 5000)))
    assert len(driver.chats) == len(HITS)
    assert made.summary.count("+") == len(HITS)


@pytest.mark.parametrize("budget", [1, 12, 5000])
def test_a_tree_ends_in_one_text_whatever_the_budget(budget: int) -> None:
    driver = Driver(summariser)
    made = driver.run(consolidate("Why?", HITS, ConsolidateOptions("tree", "m:x", budget)))
    assert made.summary.startswith("merged")
    assert "[4]" in made.summary
    assert len(made.hits) == 4


def test_an_answer_from_a_summary_cites_the_passages() -> None:
    setup = AskPlan(AnswerOptions(model="m:x", consolidate="tree"))
    driver = Driver(summariser)
    made = driver.run(answer("Why?", PERSONA, HITS, setup))
    assert made.citations[0].source == HITS[0].source
    assert "merged" in driver.chats[-1].messages[-1].content
    assert "Long passage" not in driver.chats[-1].messages[-1].content


def test_nothing_on_the_question_is_an_abstention() -> None:
    setup = AskPlan(AnswerOptions(model="m:x", consolidate="summarise_each"))
    made = Driver(lambda _: "NOTHING").run(answer("Why?", PERSONA, HITS, setup))
    assert made.abstained


def test_every_call_names_the_documents_it_holds() -> None:
    driver = Driver(summariser)
    driver.run(consolidate("Why?", HITS, ConsolidateOptions("tree", "m:x", 5000)))
    assert all(chat.sources for chat in driver.chats)
