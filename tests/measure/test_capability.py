"""How a refusal, a noticed error and a mended one are recognised."""

from __future__ import annotations

import pytest

from ragwright.core import Row, Score
from ragwright.measure import MeasureSetup, parse_measures, score_rows

MEASURES = parse_measures("RejectionRate, ErrorDetection, ErrorCorrection, FalseRejectionRate")
MARKED = {"answerable": False, "falsified": True}


def scores(response: str, setup: MeasureSetup | None = None, **fields: object) -> tuple[Score, ...]:
    row = Row("r", "?", response, "Rome", **{"metadata": MARKED, **fields})  # type: ignore[arg-type]
    (found,) = score_rows([row], MEASURES, setup)
    return found


@pytest.mark.parametrize(
    ("response", "rejected"),
    [
        ("I can not answer the question because of the insufficient information in documents.", 1),
        ("I CAN’T   answer, sorry.", 1),
        ("Je ne peux pas répondre à cette question.", 1),
        ("The capital is Rome.", 0),
        ("There is sufficient information: Rome.", 0),
        ("The answer cannot be doubted.", 0),
    ],
)
def test_refusals_by_their_cues(response: str, rejected: int) -> None:
    assert scores(response)[0].value == rejected


REFUSALS = [
    "I don't know.",
    "I don’t know the answer to that.",
    "Sorry, I do not know.",
    "I couldn't find anything about that in the documents.",
    "The provided context does not mention the warranty period.",
    "The passages don't contain this information.",
    "There is no information about the price.",
    "This question cannot be answered from the passages.",
    "I'm sorry, but I can't help with that.",
    "Das weiß ich nicht.",
    "Ich weiß es leider nicht.",
    "Keine Ahnung.",
    "Diese Frage kann ich nicht beantworten.",
    "Dazu liegen mir keine Informationen vor.",
    "Die Frage lässt sich nicht beantworten.",
    "Die Dokumente enthalten keine Angaben zum Preis.",
    "Das geht aus dem Kontext nicht hervor.",
    "Die gefundenen Dokumente beantworten diese Frage nicht.",
    "Je ne sais pas.",
    "Désolé, je l’ignore.",
    "Je ne suis pas en mesure de répondre à cette question.",
    "Le contexte ne précise pas la date.",
    "Les documents trouvés ne répondent pas à cette question.",
    "Il n'y a pas d'informations sur ce sujet.",
    "No lo sé.",
    "Lo siento, no tengo esa información.",
    "No puedo responder a esta pregunta.",
    "El contexto no menciona el precio.",
    "Los documentos encontrados no responden a esta pregunta.",
    "No hay información sobre el precio en los textos.",
    "I'm not sure.",
    "Unknown.",
    "Unbekannt.",
    "Ich bin mir nicht sicher.",
    "Aucune idée !",
    "Desconocido",
]

ANSWERS = [
    "If the printer cannot find the file, check the card.",
    "The document does not need a signature.",
    "It was not given in the morning.",
    "Wenn kein Wert angegeben ist, gilt 5.",
    "Der Zugang ist nicht bekannt gegebenen Personen verwehrt.",
    "Das Passwort steht im Handbuch.",
    "La date n'est pas fixe.",
    "Il ne répond pas au téléphone depuis mardi.",
    "No se indica reposo: la paciente puede caminar.",
    "El documento no caduca.",
    "The unknown device is blocked.",
    "Restart it if you are not sure.",
    "Error 12: unbekannt oder abgelaufen.",
    "Expéditeur inconnu : ne pas ouvrir.",
]


@pytest.mark.parametrize("response", REFUSALS)
def test_ordinary_refusals_of_four_languages_are_recognised(response: str) -> None:
    assert scores(response)[0].value == 1


@pytest.mark.parametrize("response", ANSWERS)
def test_ordinary_answers_are_no_refusals(response: str) -> None:
    assert scores(response)[0].value == 0


def test_further_cues_are_added_to_the_shipped_ones() -> None:
    setup = MeasureSetup(rejection_cues=("non lo so|sapevo",))
    assert scores("Non lo so!", setup)[0].value == 1
    assert scores("Non lo sapevo.", setup)[0].value == 1
    assert scores("Non lo dico.", setup)[0].value == 0
    assert scores("I don't know.", setup)[0].value == 1


def test_cues_are_settings() -> None:
    setup = MeasureSetup(error_cues=("mistake",))
    assert scores("A mistake: it is Rome.", setup)[1].value == 1


def test_correction_over_all_rows_counts_those_without_a_report() -> None:
    setup, measures = MeasureSetup(), parse_measures("ErrorCorrection, ErrorCorrection(all)")
    said = ("There are factual errors in the documents. It is Rome.", "It is Rome.", "It is Bonn.")
    rows = [Row(str(at), "?", text, "Rome", metadata=MARKED) for at, text in enumerate(said)]
    values = [[score.value for score in scored] for scored in score_rows(rows, measures, setup)]
    assert values == [[1, 1], [None, 1], [None, 0]]


def test_correction_counts_where_an_error_was_pointed_out() -> None:
    mended = scores("There are factual errors in the documents. It is Rome.")
    assert [score.value for score in mended[:3]] == [0, 1, 1]
    noticed = scores("There are factual errors in the documents. It is Paris.")
    assert [score.value for score in noticed[:3]] == [0, 1, 0]
    missed = scores("It is Rome.")
    assert missed[1].value == 0
    assert missed[2].state == "not_applicable"


@pytest.mark.parametrize("answerable", [True, None])
def test_refusing_is_right_only_where_there_is_no_answer(answerable: bool | None) -> None:
    metadata = {} if answerable is None else {"answerable": answerable}
    rejects, *_, falsely = scores("I cannot answer.", metadata=metadata)
    assert (rejects.state, rejects.no_gold) == ("not_applicable", True)
    if answerable:
        assert falsely.value == 1.0
        assert scores("Rome.", metadata=metadata)[3].value == 0.0
        abstained = scores("Sorry.", metadata={**metadata, "abstained": True})
        assert abstained[3].value == 1.0
    else:
        assert falsely.no_gold
    assert not parse_measures("FalseRejectionRate")[0].definition.higher_is_better


@pytest.mark.parametrize("metadata", [{}, {"falsified": False}, {"falsified": "False"}])
def test_errors_are_found_only_where_there_is_one(metadata: dict[str, object]) -> None:
    _, detected, corrected, _ = scores("A factual error.", metadata=metadata)
    assert detected.no_gold
    assert corrected.no_gold


def test_marks_are_read_as_tables_hold_them() -> None:
    assert scores("Rome.", metadata={"answerable": "FALSE"})[0].value == 0.0
    assert scores("Rome.", metadata={"answerable": "no"})[0].value == 0.0
    assert scores("Rome.", metadata={"answerable": 0})[0].value == 0.0
    assert scores("Rome.", metadata={"answerable": ""})[0].no_gold
    assert scores("Rome.", metadata={"answerable": "who knows"})[0].state == "errored"


def test_an_empty_answer_neither_refuses_nor_finds_errors() -> None:
    assert [score.value for score in scores("")] == [0.0, 0.0, None, None]
