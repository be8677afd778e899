"""What stands below the table: why rows lack scores, missed refusals, and null baselines."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ragwright import evaluate
from ragwright.core import Row, Score
from ragwright.experiment import Evaluation, RowResult, summarise
from ragwright.flow import Runner
from ragwright.measure import MeasureSetup, parse_measures
from ragwright.models import Embedder, EmbedOptions, Models
from ragwright.testsets import Testset


def noted(*scores: Score) -> tuple[str, ...]:
    results = [RowResult(str(at), (), (score,)) for at, score in enumerate(scores)]
    rows = Testset("x", tuple(Row(result.row_id, "?") for result in results))
    with Runner({}) as runner:
        return summarise(results, rows, parse_measures([scores[0].measure]), (runner, None)).notes


def test_equal_reasons_are_counted_once() -> None:
    row = {"user_input": "?", "response": "", "retrieved_contexts": ["x"]}
    found = evaluate([{**row, "reference": "x"}, row], "KPrecision, KPrecision(content), TokenF1")
    # the missing reference is no fault of the system
    reason = "the response contains no words"
    assert found.notes == (f"not_applicable (KPrecision 2, KPrecision(content) 2): {reason}",)


def test_what_a_judge_said_does_not_part_equal_faults_and_only_the_frequent_are_told() -> None:
    faults = [
        Score("Faithfulness", "judge_invalid", reason=f"no usable judgment: two scores: «{n} 4»")
        for n in range(3)
    ]
    failed = Score("Faithfulness", "errored", reason="ModelError: " + "x" * 500)
    first, second = noted(*faults, failed)
    assert first == "judge_invalid (Faithfulness 3): no usable judgment: two scores"
    assert second.startswith("errored (Faithfulness 1): ModelError")
    assert len(second) < 220
    scores = [Score("TokenF1", "errored", reason=f"fault {n // 2}") for n in range(40)]
    told = noted(*scores, *[Score("TokenF1", "errored", reason="often")] * 9)
    assert (len(told), told[0]) == (5, "errored (TokenF1 9): often")


def refused(*responses: str, measures: str = "RejectionRate") -> Evaluation:
    row = {"user_input": "Who?", "answerable": False}
    row |= {"retrieved_contexts": ["Rome is the capital of Italy."]}
    return evaluate([{**row, "response": one} for one in responses], measures)


def test_a_note_names_the_words_of_refusals() -> None:
    found = refused("Non lo so.", "I don't know.")
    assert found["RejectionRate"].mean == 0.5
    [cues] = found.notes
    assert "`judge.rejection_cues`" in cues
    assert refused("Rome.", measures="KPrecision").notes == ()


WORDS = ("pump", "valve", "rotor", "flange", "gasket", "piston", "bearing", "nozzle")


class Counting(Embedder):
    """Texts as counts of their words."""

    identity = "counting"
    dimensions = 64

    def embed_batch(self, texts: Sequence[str]) -> NDArray[np.float32]:
        found = np.zeros((len(texts), 64), np.float32)
        for at, text in enumerate(texts):
            for word in text.split():
                found[at, zlib.crc32(word.encode()) % 64] += 1
        return found


def distances(measures: str = "QADistance", count: int = len(WORDS)) -> Evaluation:
    rows = [
        {"user_input": f"a {w}", "response": f"{w} here", "retrieved_contexts": [f"{w} text"]}
        for w in WORDS[:count]
    ]
    models = Models({}, EmbedOptions(), Path())
    models.register("counting", Counting())
    return evaluate(rows, measures, MeasureSetup(embedder="counting"), models=models, seed=2)


def test_baselines_that_mean_nothing_stand_beside_the_distance() -> None:
    found = distances()
    assert [summary.measure for summary in found.baselines] == [
        "QADistance, answers shuffled",
        "QADistance, question echoed",
        "QADistance, random chunk",
        "rank of the own answer of 8",
    ]
    means = [summary.mean or 0 for summary in found.baselines]
    assert means[1] == pytest.approx(0, abs=1e-6)
    assert means[1] < (found["QADistance"].mean or 0) < means[0]
    assert means[3] == 1
    assert found.baselines == distances().baselines
    # Where none can be made the scores stay.
    one = distances(count=1)
    assert (one["QADistance"].n, one.baselines) == (1, ())
    assert "QADistance has no null baselines: 1 row has a question and a response" in one.notes[0]
    assert distances("ChunkScore").baselines == ()
