"""Sentences that ragwright writes itself stand in the language of the question."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_project import MakeProject

from ragwright import Workbench
from ragwright.core import shipped_mapping
from ragwright.models import question_language

REFUSED = {
    "en": "The documents found do not answer this question.",
    "fr": "Les documents trouvés ne répondent pas à cette question.",
    "de": "Die gefundenen Dokumente beantworten diese Frage nicht.",
    "es": "Los documentos encontrados no responden a esta pregunta.",
    "it": "I documenti trovati non rispondono a questa domanda.",
}
QUESTIONS = [
    ("en", "Who is the mayor of Oslo?"),
    ("en", "Jackpot lottery numbers?"),
    ("fr", "Qui est le maire d'Oslo ?"),
    ("fr", "Où se situe Guilgal ?"),
    ("fr", "D'où vient Gesualdo ?"),
    ("de", "Wer ist der Bürgermeister von Oslo?"),
    ("de", "Wann startete Sky Digital?"),
    ("de", "Wie viele Punkte gab Carolina ab?"),
    ("es", "¿Quién es el alcalde de Oslo?"),
    ("es", "¿Qué obra de Lutero se hizo popular?"),
    ("es", "¿Cómo se llamaba el episodio?"),
    ("it", "Chi è il sindaco di Oslo?"),
]


@pytest.mark.parametrize(("language", "question"), QUESTIONS)
def test_a_refusal_is_in_the_language_of_the_question(
    tmp_path: Path, language: str, question: str
) -> None:
    folder = MakeProject(tmp_path)("")
    with Workbench.open(folder) as bench:
        bench.ingest()
        answer = bench.ask(question)
    assert answer.abstained
    assert answer.text == REFUSED[language]


@pytest.mark.parametrize("question", ["", "?", "Kolmogorov", "1 2 3", "ピエール は どこ"])
def test_a_question_without_a_language_is_open(question: str) -> None:
    assert question_language(question) == "auto"


def test_every_language_of_counted_answers_has_every_sentence() -> None:
    phrases = shipped_mapping("answer", "phrases.yaml").values
    for language in ("de", "fr", "es"):
        assert set(phrases[language]) == set(phrases["en"])
    for own in phrases.values():
        assert set(own) <= set(phrases["en"])
