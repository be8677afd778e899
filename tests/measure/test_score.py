"""The seam: every measure ends in a named state, and one that fails takes no other with it."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Self

import pytest
from hypothesis import given, settings, strategies as st
from measure_fakes import Equal, Told, WordEmbed, run

from ragwright.core import GoldSpan, MeasureError, Row
from ragwright.flow import CompleteReply, Runner
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


def every_measure() -> list[Measure]:
    found = []
    for definition in definitions():
        for form in definition.parameters or ("",):
            cutoff = None if definition.cutoff == "none" else 3
            found.append(Measure(definition.name, form.replace("N", "2"), cutoff))
    return found


EVERY = [measure for measure in every_measure() if measure.definition.kind != "judged"]
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
    metadata={
        "answerable": False,
        "answerability": "underspecified",
        "falsified": True,
        "column": 1,
        "cited": ("2",),
    },
)
ECHO = CompleteReply(FULL.response_text, tokens=(("b", -1.0), ("c", -3.0)))


def test_a_whole_row_is_scored_by_every_measure() -> None:
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


def test_an_empty_row_gives_reasons_and_no_number() -> None:
    scores = run(score_row(Row("r", ""), EVERY, MODELS))
    for measure, score in zip(EVERY, scores, strict=True):
        assert score.state == "not_applicable", measure
        needs = (*measure.definition.needs, *measure.definition.instead)
        assert any(name in score.reason for name in needs or [measure.parameter])


WORDS = st.lists(st.sampled_from(["the", "cat", "...", "é", "莫", "1668"]), max_size=6).map(
    " ".join
)


@pytest.mark.slow
@settings(deadline=None)
@given(WORDS, WORDS, st.lists(WORDS, max_size=2))
def test_no_text_gives_nan_or_an_error(response: str, reference: str, contexts: list[str]) -> None:
    row = Row("r", "?", response, reference, tuple(contexts))
    ((*scores,),) = score_rows([row], OFFLINE)
    for score in scores:
        assert score.state in {"scored", "not_applicable"}, score
        assert score.value is None or 0 <= score.value <= 1
        assert score.value is not None or score.reason


def test_models_that_are_not_set_are_named() -> None:
    scores = run(score_row(FULL, parse_measures("QADistance, BERTScore, Perplexity")))
    assert [score.state for score in scores] == ["not_applicable"] * 3
    for score, field in zip(scores, ("embedder", "token_model", "completer"), strict=True):
        assert field in score.reason
    for text in ("QADistance", "BERTScore", "Perplexity"):
        with pytest.raises(MeasureError, match=text):
            check_setup([parse_measure(text)], MeasureSetup())
    check_setup(OFFLINE, MeasureSetup())


class Cues(tuple[str, ...]):
    """Cues that do something when a measure reads them."""

    def __new__(cls, when_read: Callable[[], None]) -> Self:
        made = super().__new__(cls, ("factual error",))
        made.when_read = when_read
        return made

    when_read: Callable[[], None]

    def __iter__(self) -> Iterator[str]:
        self.when_read()
        return super().__iter__()


def test_a_measure_that_fails_is_errored_alone() -> None:
    def broken() -> None:
        raise ZeroDivisionError("oh")

    measures = parse_measures("ExactMatch, RejectionRate, QADistance, ChunkScore")
    marks = {"answerable": False}
    row = Row("r", "fail", response="x", reference="x", retrieved_contexts=("y",), metadata=marks)
    setup = replace(MODELS, rejection_cues=Cues(broken))
    scores = run(score_row(row, measures, setup), WordEmbed())
    assert [s.state for s in scores] == ["scored", "errored", "errored", "errored"]
    assert scores[1].reason == "ZeroDivisionError: oh"
    assert "the embedder broke" in scores[2].reason


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number_is_no_score(value: float) -> None:
    row = replace(FULL, metadata={"chunk_score": value})
    (score,) = run(score_row(row, parse_measures("ChunkScore"), MODELS), WordEmbed())
    assert score.state == "errored"


def test_an_answer_that_was_withheld_is_abstained_not_wrong() -> None:
    row = Row(
        "r",
        "?",
        "I cannot answer.",
        "Rome",
        ("x",),
        metadata={"abstained": True, "answerable": False},
    )
    ((exact, precision, rejects),) = score_rows(
        [row], parse_measures("ExactMatch, KPrecision, RejectionRate")
    )
    assert exact.state == precision.state == "abstained"
    assert rejects.value == 1.0


def test_retrieval_from_a_row_is_that_of_its_ids() -> None:
    row = Row("r", "?", retrieved_context_ids=("x", "a", "a"), reference_ids={"a": 1, "b": 1})
    ((recall, rank),) = score_rows([row], parse_measures("Recall@2, MRR"))
    assert (recall.value, rank.value) == (0.5, 0.5)


def test_streaming_refuses_models_before_it_reads_a_row() -> None:
    with pytest.raises(MeasureError, match="QADistance"):
        score_rows(iter([FULL]), parse_measures("ExactMatch, QADistance"))


def test_rows_are_streamed_one_at_a_time() -> None:
    taken = 0

    def rows() -> object:
        nonlocal taken
        for _ in range(5):
            taken += 1
            yield FULL

    scores = score_rows(rows(), OFFLINE)  # type: ignore[arg-type]
    next(scores)
    assert taken == 1


def taken(rows: list[Row], setup: MeasureSetup | None = None, hits: int | None = None) -> list[str]:
    return [str(measure) for measure in default_measures(rows, setup, hits=hits).measures]


def test_default_measures_are_those_the_rows_have_fields_for() -> None:
    assert taken([]) == taken([Row("r", "?")]) == []
    answered = Row("r", "?", "a", "b")
    assert taken([answered]) == ["Contains", "TokenF1"]
    everything = ["nDCG@10", "Recall@5", "KPrecision(content+bigrams)", "Contains", "TokenF1"]
    assert taken([Row("x", "?"), FULL]) == [*everything, "RejectionRate"]
    assert taken([FULL], MODELS) == [*everything, "BERTScore(recall)", "RejectionRate"]
    asked = Row("r", "?", "a", "b", metadata={"answerable": True})
    assert taken([asked]) == ["Contains", "TokenF1", "FalseRejectionRate"]
    chosen = default_measures([FULL])
    assert all(measure.definition.model == "none" for measure in chosen.measures)
    assert chosen.left_out["Faithfulness"] == "no chat model judges: `judge.model`"
    assert default_measures([answered]).left_out["Recall@5"].startswith("no row has re")


def test_a_judge_takes_the_place_of_common_words_by_default() -> None:
    judging = MeasureSetup(model="m")
    found = taken([FULL], judging)
    assert {"Faithfulness", "AnswerRelevance", "ContextRelevance", "Pairwise"} < set(found)
    assert "KPrecision(content+bigrams)" not in found
    without = default_measures([Row("r", "?", "a", retrieved_contexts=("b",))], judging)
    assert without.left_out["Pairwise"] == "no row has reference"
    assert "Pairwise, Contains, TokenF1, BERTScore(recall) (no row has reference)" in without.note


def test_no_ranking_is_measured_deeper_than_answers_are_given_passages() -> None:
    assert taken([FULL], hits=3)[:2] == ["nDCG@3", "Recall@3"]
    assert taken([FULL], hits=20)[:2] == ["nDCG@10", "Recall@5"]


def test_contains_is_taken_where_references_are_short() -> None:
    long = Row("l", "?", "a", "the winding has to cool down for ten minutes first")
    short = Row("s", "?", "a", "ten minutes")
    assert taken([short, short, long]) == ["Contains", "TokenF1"]
    assert taken([short, long, long]) == ["TokenF1"]
    assert (
        default_measures([long]).left_out["Contains"]
        == "half of the references have 9 words or more"
    )
    accepted = Row("a", "?", "a", long.reference, metadata={"references": ("ten minutes",)})
    assert "Contains" in taken([accepted])


def test_a_search_that_found_nothing_scores_nothing_rather_than_not_at_all() -> None:
    row = Row("1", "Who?", reference_ids={"d": 1})
    searched = Row("1", "Who?", reference_ids={"d": 1}, metadata={"retrieved": True})
    (measure,) = parse_measures("HitRate@1")
    assert next(score_rows([row], [measure]))[0].state == "not_applicable"
    assert next(score_rows([searched], [measure]))[0].value == 0.0


@pytest.mark.parametrize("mark", [True, "true", "True ", 1, 1.0, "1", "yes", "YES"])
def test_marks_are_read_as_tables_write_them(mark: object) -> None:
    row = Row("r", "?", "I pass.", "Rome", metadata={"abstained": mark})  # type: ignore[dict-item]
    ((score,),) = score_rows([row], parse_measures("ExactMatch"))
    assert score.state == "abstained"


@pytest.mark.parametrize("mark", [False, "false", 0, 0.0, "0", "no", "No", None, "", " "])
def test_marks_that_say_no_or_nothing(mark: object) -> None:
    row = Row("r", "?", "Rome", "Rome", metadata={"abstained": mark})  # type: ignore[dict-item]
    ((score,),) = score_rows([row], parse_measures("ExactMatch"))
    assert score.value == 1


@pytest.mark.parametrize("mark", ["maybe", 2, -1, 0.5, math.nan, ("true",), "oui"])
def test_a_mark_that_cannot_be_read_is_an_error_of_its_row(mark: object) -> None:
    row = Row("r", "?", "Rome", "Rome", ("x",), metadata={"abstained": mark})  # type: ignore[dict-item]
    fine = replace(row, metadata={})
    marked, unmarked = score_rows([row, fine], parse_measures("ExactMatch, Recall@5"))
    assert marked[0].state == "errored"
    assert "`abstained`" in marked[0].reason
    assert "must be true or false" in marked[0].reason
    assert unmarked[0].value == 1
    with Runner({}) as runner:
        measures = parse_measures("ExactMatch, Faithfulness, BERTScore")
        scores = runner.run(score_row(row, measures, MeasureSetup(model="m", token_model="t")))
    assert {score.state for score in scores} == {"errored"}


def test_a_chunk_score_kept_with_rows_needs_no_embedder() -> None:
    row = Row("r", "q", retrieved_contexts=("c",), metadata={"chunk_score": 0.625})
    chunk_score = parse_measures("ChunkScore")
    check_setup(chunk_score, MeasureSetup(), [FULL, row])
    for rows in ((), (FULL,)):
        with pytest.raises(MeasureError, match="embedder"):
            check_setup(chunk_score, MeasureSetup(), rows)
    with pytest.raises(MeasureError, match="embedder"):
        check_setup(parse_measures("QADistance"), MeasureSetup(), [row])


def test_texts_are_not_compared_on_the_runners_loop() -> None:
    threads: list[str] = []
    cues = Cues(lambda: threads.append(threading.current_thread().name))
    measures = parse_measures("ErrorDetection, ErrorCorrection")
    with Runner({}) as runner:
        scores = runner.run(score_row(FULL, measures, MeasureSetup(error_cues=cues)))
    assert [score.value for score in scores] == [1.0, 1.0]
    assert threads
    assert all(name.startswith("ragwright-batch") for name in threads)
