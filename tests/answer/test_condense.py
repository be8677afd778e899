"""Follow-up questions that stand alone."""

from __future__ import annotations

import pytest
from answer_fakes import Driver

from ragwright.answer import condense, condense_by_rule
from ragwright.flow import Message

HISTORY = [
    Message("user", "What does the error APP_w304 of the fuel pump mean?"),
    Message("assistant", "It means that the pump is blocked [1]."),
]


@pytest.mark.parametrize(
    "question",
    ["How do I fix it?", "What about the sensor?", "Why?", "Is that dangerous for them?"],
)
def test_a_question_that_points_back_gets_the_terms_of_the_last(question: str) -> None:
    made = condense_by_rule(question, HISTORY)
    assert made.method == "rule"
    assert made.text.startswith(question)
    assert "APP_w304" in made.text
    assert "the" not in made.text.removeprefix(question)


def test_french_follow_ups_are_understood_too() -> None:
    history = [Message("user", "Quelle est la longueur du Rhin ?")]
    made = condense_by_rule("Et où prend-il sa source ?", history)
    assert "Rhin" in made.text


@pytest.mark.parametrize(
    "question",
    ["How is the oil filter of the engine changed?", "Quelle est la capitale de la France ?"],
)
def test_a_question_that_stands_alone_is_left_alone(question: str) -> None:
    made = condense_by_rule(question, HISTORY)
    assert (made.text, made.method) == (question, "as asked")


def test_without_history_nothing_is_asked() -> None:
    driver = Driver()
    made = driver.run(condense("And it?", [], "openai:x"))
    assert made.method == "as asked"
    assert not driver.seen


def test_offline_the_rule_is_used_and_named() -> None:
    driver = Driver()
    made = driver.run(condense("How do I fix it?", HISTORY, "snippet"))
    assert made.method == "rule"
    assert not driver.seen


def test_a_model_rewrites_with_the_conversation_in_view() -> None:
    driver = Driver('"How do I fix APP_w304?"')
    made = driver.run(condense("How do I fix it?", HISTORY, "openai:x"))
    assert (made.text, made.method) == ("How do I fix APP_w304?", "openai:x")
    prompt = driver.chats[0].messages[-1].content
    assert "pump is blocked" in prompt
    assert "How do I fix it?" in prompt


def test_an_empty_rewrite_falls_back_to_the_question() -> None:
    assert Driver(" ").run(condense("How is it?", HISTORY, "m:x")).text == "How is it?"
