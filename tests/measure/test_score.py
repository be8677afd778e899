"""Every measure ends in a named state, and one that fails takes no other with it.

Refusals and errors are recognised by their cues; an empty answer is an answer, and no system gains
by it without its showing.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Self

import pytest
from measure_fakes import SETUP, Equal, Says, Told, WordEmbed, judged, run, verdict

from ragwright.core import GoldSpan, MeasureError, Row, Score
from ragwright.flow import CompleteReply, RetryPolicy, Runner
from ragwright.measure import (
    Measure,
    MeasureSetup,
    check_setup,
    default_measures,
    definitions,
    parse_measure,
    parse_measures,
    score_row,
    score_rows,
)
from ragwright.models import Models, model_handlers
from ragwright.testing import Reply, ScriptedServer

EVERY = [
    Measure(d.name, form.replace("N", "2"), None if d.cutoff == "none" else 3)
    for d in definitions()
    if d.kind != "judged"
    for form in d.parameters or ("",)
]
OFFLINE = [measure for measure in EVERY if measure.definition.model == "none"]
MODELS = MeasureSetup(embedder="e", token_model="folder", completer="c")
FULL = Row(
    "full",
    "who wrote the miser",
    response="Molière wrote it, a factual error aside",
    reference="Molière",
    retrieved_contexts=("The Miser is by Molière.", "A play."),
    reference_contexts=("The Miser is by Molière.",),
    retrieved_context_ids=("a", "b"),
    reference_ids={"b": 2},
    retrieved_spans=(GoldSpan("a", 0, 9), GoldSpan("b", 0, 9)),
    reference_spans=(GoldSpan("b", 0, 5),),
    metadata={"answerable": False, "falsified": True, "column": 1, "cited": ("2",)},
)
ECHO = CompleteReply(FULL.response_text, tokens=(("b", -1.0), ("c", -3.0)))


def test_a_whole_row_is_scored_by_every_measure_and_an_empty_one_by_none() -> None:
    scores = run(score_row(FULL, EVERY, MODELS), WordEmbed(), Equal(), Told(ECHO))
    assert [score.measure for score in scores] == [str(measure) for measure in EVERY]
    for measure, score in zip(EVERY, scores, strict=True):
        pairs = str(measure).startswith(("ROUGE(2", "ROUGE(S)", "ROUGE(S,"))
        if measure.parameter.startswith("rel=2") or pairs:
            assert score.state in {"scored", "not_applicable"}  # spans without grades, one word
            continue
        if measure.name == "FalseRejectionRate":
            assert score.no_gold  # the row's question cannot be answered
            continue
        assert score.state == "scored", score
        assert score.value is not None
        assert math.isfinite(score.value)
        high = measure.definition.high
        assert measure.definition.low <= score.value <= (math.inf if high is None else high)
    for measure, score in zip(EVERY, run(score_row(Row("r", ""), EVERY, MODELS)), strict=True):
        assert score.state == "not_applicable", measure
        needs = (*measure.definition.needs, *measure.definition.instead)
        assert any(name in score.reason for name in needs or [measure.parameter])


def test_models_that_are_not_set_are_named() -> None:
    scores = run(score_row(FULL, parse_measures("QADistance, BERTScore, Perplexity")))
    for score, field in zip(scores, ("embedder", "token_model", "completer"), strict=True):
        assert score.state == "not_applicable"
        assert field in score.reason
        with pytest.raises(MeasureError, match=score.measure):
            check_setup([parse_measure(score.measure)], MeasureSetup())
    check_setup(OFFLINE, MeasureSetup())
    with pytest.raises(MeasureError, match="QADistance"):
        score_rows(iter([FULL]), parse_measures("ExactMatch, QADistance"))
    row = Row("r", "q", retrieved_contexts=("c",), metadata={"chunk_score": 0.625})
    chunk_score = parse_measures("ChunkScore")
    (kept,) = run(score_row(row, chunk_score))  # no model, no handler
    assert kept.value == 0.625
    check_setup(chunk_score, MeasureSetup(), [FULL, row])
    for measures, rows in ((chunk_score, ()), (chunk_score, (FULL,)), ("QADistance", (row,))):
        with pytest.raises(MeasureError, match="embedder"):
            check_setup(parse_measures(measures), MeasureSetup(), rows)


class Cues(tuple[str, ...]):
    """Cues that do something when a measure reads them."""

    when_read: Callable[[], None]

    def __new__(cls, when_read: Callable[[], None]) -> Self:
        made = super().__new__(cls, ("factual error",))
        made.when_read = when_read
        return made

    def __iter__(self) -> Iterator[str]:
        self.when_read()
        return super().__iter__()


def test_a_measure_that_fails_is_errored_alone() -> None:
    def broken() -> None:
        raise ZeroDivisionError("oh")

    measures = parse_measures("ExactMatch, RejectionRate, QADistance, ChunkScore")
    row = Row("r", "fail", "x", "x", ("y",), metadata={"answerable": False})
    setup = replace(MODELS, rejection_cues=Cues(broken))
    scores = run(score_row(row, measures, setup), WordEmbed())
    assert [s.state for s in scores] == ["scored", "errored", "errored", "errored"]
    assert scores[1].reason == "ZeroDivisionError: oh"
    assert "the embedder broke" in scores[2].reason
    for value in (math.nan, math.inf):  # what is no number is no score
        row = replace(FULL, metadata={"chunk_score": value})
        (score,) = run(score_row(row, parse_measures("ChunkScore"), MODELS), WordEmbed())
        assert score.state == "errored"


# -- Measures by default ---------------------------------------------------------------------------


def taken(rows: list[Row], setup: MeasureSetup | None = None, hits: int | None = None) -> list[str]:
    return [str(measure) for measure in default_measures(rows, setup, hits=hits).measures]


def test_default_measures_are_those_the_rows_have_fields_for() -> None:
    assert taken([]) == taken([Row("r", "?")]) == []
    answered = Row("r", "?", "a", "b")
    assert taken([answered]) == ["Contains", "TokenF1"]
    everything = ["nDCG@10", "Recall@5", "KPrecision(content+bigrams)", "Contains", "TokenF1"]
    assert taken([Row("x", "?"), FULL]) == [*everything, "RejectionRate"]
    assert taken([FULL], MODELS) == [*everything, "BERTScore(recall)", "RejectionRate"]
    asked = replace(answered, metadata={"answerable": True})
    assert taken([asked]) == ["Contains", "TokenF1", "FalseRejectionRate"]
    chosen = default_measures([FULL])
    assert all(measure.definition.model == "none" for measure in chosen.measures)
    assert chosen.left_out["Faithfulness"] == "no chat model judges: `judge.model`"
    assert default_measures([answered]).left_out["Recall@5"].startswith("no row has re")
    # no ranking is measured deeper than answers are given passages
    assert taken([FULL], hits=3)[:2] == ["nDCG@3", "Recall@3"]
    assert taken([FULL], hits=20)[:2] == ["nDCG@10", "Recall@5"]


def test_a_judge_takes_the_place_of_common_words_by_default() -> None:
    judging = MeasureSetup(model="m")
    found = taken([FULL], judging)
    assert {"Faithfulness", "AnswerRelevance", "ContextRelevance", "Pairwise"} < set(found)
    assert "KPrecision(content+bigrams)" not in found
    without = default_measures([Row("r", "?", "a", retrieved_contexts=("b",))], judging)
    assert without.left_out["Pairwise"] == "no row has reference"
    assert "Pairwise, Contains, TokenF1, BERTScore(recall) (no row has reference)" in without.note


def test_contains_is_taken_where_references_are_short() -> None:
    long = Row("l", "?", "a", "the winding has to cool down for ten minutes first")
    short = Row("s", "?", "a", "ten minutes")
    assert taken([short, short, long]) == ["Contains", "TokenF1"]
    assert taken([short, long, long]) == ["TokenF1"]
    left_out = default_measures([long]).left_out
    assert left_out["Contains"] == "half of the references have 9 words or more"
    assert "Contains" in taken([replace(long, metadata={"references": ("ten minutes",)})])


# -- Marks of rows, refusals, errors in the documents --------------------------------------------

YES = (True, "true", "True ", 1, 1.0, "1", "yes", "YES")
NO = (False, "false", 0, 0.0, "0", "no", "No", None, "", " ")
UNREADABLE = ("maybe", 2, -1, 0.5, math.nan, ("true",), "oui")


@pytest.mark.parametrize("mark", [*YES, *NO, *UNREADABLE])
def test_marks_are_read_as_tables_write_them_or_are_an_error_of_their_row(mark: object) -> None:
    row = Row("r", "?", "Rome", "Rome", ("x",), metadata={"abstained": mark})  # type: ignore[dict-item]
    rows = [row, replace(row, metadata={})]
    marked, unmarked = score_rows(rows, parse_measures("ExactMatch, Recall@5"))
    assert unmarked[0].value == 1
    if mark not in UNREADABLE:
        assert (marked[0].state, marked[0].value) == (
            ("abstained", None) if any(mark is one for one in YES) else ("scored", 1)
        )
        return
    assert marked[0].state == "errored"
    assert "`abstained`" in marked[0].reason
    assert "must be true or false" in marked[0].reason
    measures = parse_measures("ExactMatch, Faithfulness, BERTScore")
    scores = run(score_row(row, measures, MeasureSetup(model="m", token_model="t")))
    assert {score.state for score in scores} == {"errored"}


CAPABLE = parse_measures("RejectionRate, ErrorDetection, ErrorCorrection, FalseRejectionRate")
MARKED = {"answerable": False, "falsified": True}


def capable(response: str, setup: MeasureSetup | None = None, **marks: Any) -> tuple[Score, ...]:
    (found,) = score_rows(
        [Row("r", "?", response, "Rome", metadata=marks or MARKED)], CAPABLE, setup
    )
    return found


REFUSALS = """
I can not answer the question because of the insufficient information in documents.
I CAN’T   answer, sorry.|I don't know.|I don’t know the answer to that.|Sorry, I do not know.
The provided context does not mention the warranty period.
This question cannot be answered from the passages.|I'm sorry, but I can't help with that.
Das weiß ich nicht.|Ich weiß es leider nicht.|Keine Ahnung.|Dazu liegen mir keine Informationen vor.
Die Dokumente enthalten keine Angaben zum Preis.|Das geht aus dem Kontext nicht hervor.
Je ne peux pas répondre à cette question.|Je ne sais pas.|Désolé, je l’ignore.|Aucune idée !
Je ne suis pas en mesure de répondre à cette question.|Le contexte ne précise pas la date.
Il n'y a pas d'informations sur ce sujet.|Desconocido|El contexto no menciona el precio.
No lo sé.|Lo siento, no tengo esa información.|No puedo responder a esta pregunta.
No hay información sobre el precio en los textos.
"""
ANSWERS = """
The capital is Rome.|There is sufficient information: Rome.|The answer cannot be doubted.
It was not given in the morning.|Wenn kein Wert angegeben ist, gilt 5.
Der Zugang ist nicht bekannt gegebenen Personen verwehrt.|Das Passwort steht im Handbuch.
La date n'est pas fixe.|Il ne répond pas au téléphone depuis mardi.
No se indica reposo: la paciente puede caminar.|El documento no caduca.
The unknown device is blocked.|Restart it if you are not sure.
"""
SENTENCES = [
    (sentence, refuses)
    for text, refuses in ((REFUSALS, 1), (ANSWERS, 0))
    for sentence in text.strip().replace("\n", "|").split("|")
]


@pytest.mark.parametrize(("sentence", "refuses"), SENTENCES)
def test_refusals_of_four_languages_are_told_from_answers(sentence: str, refuses: int) -> None:
    assert capable(sentence)[0].value == refuses


def test_cues_are_settings_beside_the_shipped_ones() -> None:
    setup = MeasureSetup(rejection_cues=("non lo so|sapevo",), error_cues=("mistake",))
    told = {"Non lo so!": 1, "Non lo sapevo.": 1, "Non lo dico.": 0, "I don't know.": 1}
    assert {text: capable(text, setup)[0].value for text in told} == told
    assert capable("A mistake: it is Rome.", setup)[1].value == 1


@pytest.mark.parametrize(
    ("response", "values"),
    [
        ("There are factual errors in the documents. It is Rome.", [0, 1, 1, 1]),
        ("There are factual errors in the documents. It is Paris.", [0, 1, 0, 0]),
        ("It is Rome.", [0, 0, None, 1]),  # only (all) counts rows without a report
        ("It is Bonn.", [0, 0, None, 0]),
        ("", [0, 0, None, 0]),
    ],
)
def test_correction_counts_where_errors_are_told(response: str, values: list[float | None]) -> None:
    row = Row("r", "?", response, "Rome", metadata=MARKED)
    measures = [*CAPABLE[:3], parse_measure("ErrorCorrection(all)")]
    ((*found,),) = score_rows([row], measures)
    assert [score.value for score in found] == values
    assert all(s.state == "not_applicable" for s in found if s.value is None)


def test_refusing_is_right_only_where_there_is_no_answer() -> None:
    rejects, *_, falsely = capable("I cannot answer.", answerable=True)
    assert (rejects.state, rejects.no_gold, falsely.value) == ("not_applicable", True, 1.0)
    assert capable("Rome.", answerable=True)[3].value == 0.0
    assert capable("Sorry.", answerable=True, abstained=True)[3].value == 1.0
    for score in (*capable("I cannot answer.", other=1)[::3], *capable("x", answerable="")[:1]):
        assert (score.state, score.no_gold) == ("not_applicable", True)
    assert not CAPABLE[3].definition.higher_is_better
    for mark in ("FALSE", "no", 0):
        assert capable("Rome.", answerable=mark)[0].value == 0.0
    assert capable("Rome.", answerable="who knows")[0].state == "errored"
    for marks in ({"other": 1}, {"falsified": False}, {"falsified": "False"}):
        _, detected, corrected, _ = capable("A factual error.", **marks)
        assert detected.no_gold
        assert corrected.no_gold


def test_an_answer_that_was_withheld_is_abstained_not_wrong() -> None:
    marks = {"abstained": True, "answerable": False}
    row = Row("r", "?", "I cannot answer.", "Rome", ("x",), metadata=marks)
    measures = parse_measures("ExactMatch, KPrecision, RejectionRate")
    ((exact, precision, rejects),) = score_rows([row], measures)
    assert exact.state == precision.state == "abstained"
    assert rejects.value == 1.0


# -- An empty answer -------------------------------------------------------------------------------

"""Where the reference is nothing but articles, SQuAD's rule wants silence."""


SILENT: Mapping[str, float | None] = {
    "ExactMatch": 0, "TokenF1": 0, "Contains": 0, "EditDistance": 1, "BLEU(4)": 0, "ROUGE(L)": 0,
    "ROUGE(2)": 0, "KF1": 0, "KPrecision": None, "BERTScore": 0, "MoverScore": -1,
    "QADistance": None, "Perplexity": None,
}  # fmt: skip


@pytest.mark.parametrize("text", SILENT)
@pytest.mark.parametrize("response", ["", " \n"])
def test_what_an_empty_answer_scores(text: str, response: str) -> None:
    row = Row("r", "who", response, "Ada wrote it", ("Ada wrote it.",))
    flow = score_row(row, [parse_measure(text)], MODELS)
    (score,) = run(flow, WordEmbed(), Equal(), Told(CompleteReply("")))
    assert score.value == SILENT[text]
    assert score.value is not None or (score.state, score.no_gold) == ("not_applicable", False)
    (missing,) = run(score_row(replace(row, response=None), [parse_measure(text)], MODELS))
    assert missing.reason == "the row has no response"


UNASKED: Mapping[str, float | None] = {
    "AnswerRelevance": 1, "Pairwise": 1, "Rubric(AnswersQuestion)": 0, "Faithfulness": None,
    "Groundedness": None, "Comprehensive": None, "Claims": None, "Completeness": 0, "Q2": None,
    "QuestionSimilarity": None,
}  # fmt: skip


@pytest.mark.parametrize("text", UNASKED)
def test_no_judge_is_asked_about_an_empty_answer(text: str) -> None:
    says = Says(verdict(5))
    score = judged(text, says, SETUP, response=" ")
    assert score.value == UNASKED[text]
    if score.value is None:
        assert (score.state, score.no_gold) == ("not_applicable", False)
        assert "the response is empty" in score.reason
    else:
        assert score.detail.startswith("the response is empty")
    if text != "Comprehensive":  # which asks about the passages all the same
        assert not says.seen
    withheld = judged(text, says, SETUP, response="", metadata={"abstained": True})
    assert withheld.state == "abstained"


# -- Perplexity, by scripted log-probabilities, over HTTP too ------------------------------------

PERPLEXITY = parse_measures("Perplexity")
SAID = "one two three"
OWN, BEYOND = ((" two", -1.0), (" three", -3.0)), ((" and", -9.0), (" four", -9.0))


@pytest.mark.parametrize(
    ("reply", "state", "value"),
    [
        (CompleteReply(SAID, tokens=OWN), "scored", math.exp(2.0)),
        (CompleteReply(SAID + " and four", tokens=OWN + BEYOND), "scored", math.exp(2.0)),
        (CompleteReply("something else", tokens=(("x", -1.0),)), "errored", None),
        (CompleteReply(SAID, tokens=(("x", -1.0),), dropped=("echo",)), "errored", None),
        (CompleteReply(SAID), "not_applicable", None),
        (CompleteReply(SAID, tokens=(("x", 0.5),)), "errored", None),
        (CompleteReply(SAID, tokens=(("x", -math.inf),)), "errored", None),
    ],
)
def test_perplexity_by_hand(reply: CompleteReply, state: str, value: float | None) -> None:
    told = Told(reply)
    (found,) = run(score_row(Row("r", "?", SAID), PERPLEXITY, MODELS), told)
    assert told.seen[0].prompt == SAID
    assert ("echo", True) in told.seen[0].params
    assert (found.state, found.value) == (state, value and pytest.approx(value))
    assert found.value is not None or found.reason


def test_perplexity_over_http() -> None:
    tokens = [-(zlib.crc32(token.encode()) % 1000) / 250 for token in re.findall(r"\s*\S+", SAID)]
    due = pytest.approx(math.exp(-sum(tokens[1:]) / 2))
    down = Reply(status=500, error="down")
    for reply, state, value in ((Reply(""), "scored", due), (down, "errored", None)):
        with (
            ScriptedServer([reply]) as server,
            Runner(model_handlers(Models()), retry=RetryPolicy(attempts=1)) as runner,
        ):
            setup = MeasureSetup(completer=f"{server.url}#scripted")
            (found,) = runner.run(score_row(Row("r", "?", SAID), PERPLEXITY, setup))
        assert (found.state, found.value) == (state, value)
