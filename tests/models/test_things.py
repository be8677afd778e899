"""The words for things in a question."""

from __future__ import annotations

import pytest

from ragwright.models import things


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ("How many days of sick leave do I get?", ("days", "sick", "leave")),
        ("How long does parental leave last?", ("parental", "leave")),
        ("How much do I have to pay for a lost badge?", ("lost", "badge")),
        (
            "With which exit code does a program end after a crash?",
            ("exit", "code", "program", "crash"),
        ),
        ("Which company makes the sensor?", ("sensor",)),
        ("What is the height of the kettle?", ("kettle",)),
        ("Does the server talk to Jira?", ("server", "Jira")),
        ("Wie viel zahlen Rentner im Jahr?", ("Rentner", "Jahr")),
        ("Welche Frist gilt bei einem Umzug?", ("Umzug",)),
        ("Combien de carottes faut-il dans la pâte ?", ("carottes", "pâte")),
        ("¿Cuántos días de la semana abre la tienda?", ("días", "semana", "tienda")),
        ("31201", ()),
    ],
)
def test_verbs_classes_and_properties_are_no_things(question: str, named: tuple[str, ...]) -> None:
    assert things(question) == named


def test_the_gap_of_a_sentence_is_no_thing() -> None:
    assert "____" not in things("Each ____ was compared with its own meter of the year before.")


def test_polite_words_are_no_things() -> None:
    assert "Please" not in things("How often must the brake fluid be changed? Please.")
    assert not things("Hello, please, thanks.")
