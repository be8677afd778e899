"""Distances of questions and answers stand beside what means nothing."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ragwright import evaluate
from ragwright.experiment import Evaluation
from ragwright.measure import MeasureSetup
from ragwright.models import Embedder, EmbedOptions, Models

WORDS = ("pump", "valve", "rotor", "flange", "gasket", "piston", "bearing", "nozzle")


class Counting(Embedder):
    """Texts as counts of their words, and how many were embedded."""

    identity = "counting"
    dimensions = 64

    def __init__(self) -> None:
        self.seen = 0

    def embed_batch(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.seen += len(texts)
        found = np.zeros((len(texts), 64), np.float32)
        for at, text in enumerate(texts):
            for word in text.split():
                found[at, zlib.crc32(word.encode()) % 64] += 1
        return found


def evaluated(measures: str = "QADistance", count: int = len(WORDS)) -> Evaluation:
    rows = [
        {"user_input": f"a {w}", "response": f"{w} here", "retrieved_contexts": [f"{w} text"]}
        for w in WORDS[:count]
    ]
    models = Models({}, EmbedOptions(), Path())
    models.register("counting", Counting())
    return evaluate(rows, measures, MeasureSetup(embedder="counting"), models=models, seed=2)


def test_baselines_stand_beside_the_distance() -> None:
    found = evaluated()
    names = [summary.measure for summary in found.baselines]
    assert names == [
        "QADistance, answers shuffled",
        "QADistance, question echoed",
        "QADistance, random chunk",
        "rank of the own answer of 8",
    ]
    means = [summary.mean or 0 for summary in found.baselines]
    own = found["QADistance"].mean
    assert own is not None
    assert means[1] == pytest.approx(0, abs=1e-6)
    assert means[1] < own < means[0]
    assert means[3] == 1
    assert found.baselines == evaluated().baselines


def test_where_none_can_be_made_the_scores_stay() -> None:
    found = evaluated(count=1)
    assert found["QADistance"].n == 1
    assert found.baselines == ()
    assert "QADistance has no null baselines: 1 row has a question and a response" in found.notes[0]
    assert evaluated("ChunkScore").baselines == ()
