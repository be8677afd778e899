"""Study files: what is swept, what is fixed, and what is refused with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragwright.answer import PromptOptions
from ragwright.core import ConfigError, RagwrightError, StudyError, parse_yaml
from ragwright.experiment import (
    Study,
    grid_points,
    load_study,
    random_points,
    study_of,
)
from ragwright.ingest import ChunkOptions
from ragwright.measure import MeasureSetup
from ragwright.retrieve import RetrieveOptions

SECTIONS = {
    "chunk": ChunkOptions,
    "retrieve": RetrieveOptions,
    "prompt": PromptOptions,
    "judge": MeasureSetup,
}


def study(text: str) -> Study:
    return study_of(parse_yaml(text, "s.yaml"), "s", SECTIONS)


def test_lists_are_swept_and_lists_of_lists_where_a_key_is_a_list() -> None:
    found = study(
        "chunk: {size: [128, 256], overlap: 16}\n"
        "retrieve: {top_k: [3, 5], query: {methods: [glossary]}, weights: {keyword: [0.5, 1]}}\n"
        "prompt: {without: [[], [role], [role, tailor]], parts: [question, context]}\n"
    )
    assert {axis.key: axis.values for axis in found.axes} == {
        "chunk.size": (128, 256),
        "retrieve.top_k": (3, 5),
        "retrieve.weights.keyword": (0.5, 1),
        "prompt.without": ([], ["role"], ["role", "tailor"]),
    }
    assert found.fixed == {
        ("chunk", "overlap"): 16,
        ("retrieve", "query", "methods"): ["glossary"],
        ("prompt", "parts"): ["question", "context"],
    }
    assert found.size == 2 * 2 * 2 * 3
    points = list(grid_points(found))
    assert len(points) == 24
    assert points[0] == {
        "chunk.size": 128,
        "retrieve.top_k": 3,
        "retrieve.weights.keyword": 0.5,
        "prompt.without": [],
    }
    pairs = study("prompt: {swap: [[context, question]]}\nretrieve: {top_k: [1, 2]}\n")
    assert [axis.key for axis in pairs.axes] == ["retrieve.top_k"]  # one value of its key
    swept = study("prompt: {swap: [[], [[context, question]]]}\n")
    assert swept.axes[0].values == ([], [["context", "question"]])
    laid = found.settings_of(points[-1])
    assert laid[("prompt", "without")] == ["role", "tailor"]
    assert laid[("chunk", "overlap")] == 16


def test_random_points_differ_repeat_by_seed_and_stay_in_their_ranges() -> None:
    text = (
        "study: {search: random, trials: 60, seed: 4}\n"
        "chunk: {size: {low: 100, high: 1000, log: true}}\n"
        "retrieve: {keyword_share: {low: 0, high: 1}, search: [keyword, auto]}\n"
    )
    points = list(random_points(study(text)))
    assert points == list(random_points(study(text)))
    assert len(points) == 60
    sizes = [point["chunk.size"] for point in points]
    assert all(isinstance(size, int) and 100 <= size <= 1000 for size in sizes)
    assert sum(size < 316 for size in sizes) > 15  # half of them by the logarithm
    assert all(0 <= point["retrieve.keyword_share"] <= 1 for point in points)
    few = list(random_points(study("study: {search: random}\nretrieve: {top_k: [1, 2]}\n")))
    assert sorted(point["retrieve.top_k"] for point in few) == [1, 2]


MOST = "study: {search: tpe, trials: 2001}\nchunk: {size: {low: 1, high: 1000000}}"
WARM = "study: {search: random}\njudge: {temperature: {low: 0, high: 1}}"
SEACH = "retrieve: {top_k: [1, 2]}\nstudy: {seach: grid}"
HALVES = "chunk: {size: {low: 1, high: 5.5}}"
LOGS = "chunk: {size: {low: 0.5, high: 4, log: true}}"
MANY = list(range(1, 1001))
GRID = f"chunk: {{size: {MANY}, overlap: {MANY}}}\nretrieve: {{top_k: {MANY}}}\n"
COUNTED = "1,000,000,000 trials: chunk.size 1000 x"  # and not built
REFUSED: list[tuple[str, type[RagwrightError], str, str]] = [
    ("chunk: {sise: [1, 2]}", ConfigError, "unknown key 'chunk.sise'", "size"),
    ("chunks: {size: [1, 2]}", ConfigError, "unknown key 'chunks'", "chunk"),
    ("chunk: {size: 300}", StudyError, "sweeps nothing", "a list"),
    ("chunk: {size: [1, 1]}", StudyError, "contains 1 twice", "once"),
    ("chunk: {size: []}", StudyError, "has no values", ""),
    ("chunk: {size: {low: 9, high: 3}}", StudyError, "no values between", "low below high"),
    ("chunk: {size: {low: 1, high: 5, step: 2}}", ConfigError, "'chunk.size.step'", "log"),
    ("chunk: {by: {low: 1, high: 3}}", StudyError, "is not a number", ""),
    ("chunk: {size: {low: 1, high: 3}}", StudyError, "is a range", "search: random"),
    (HALVES, StudyError, "whole numbers", "fraction"),
    (LOGS, StudyError, "whole numbers", "fraction"),
    ("chunk: {size: {low: 1, high: .inf}}", StudyError, "too large", ""),
    ("chunk: {size: {low: .nan, high: 3}}", StudyError, "too large", ""),
    (MOST, ConfigError, "study.trials must be at most 2000", ""),
    (WARM, StudyError, "judge.temperature is a range", "temperature: [0, 1]"),
    (SEACH, ConfigError, "study.seach", "search"),
    (GRID, StudyError, COUNTED, "search: tpe"),
]


@pytest.mark.parametrize(
    ("text", "kind", "what", "hint"), REFUSED, ids=[row[2][:40] for row in REFUSED]
)
def test_what_is_wrong_is_said_with_its_place(
    text: str, kind: type[RagwrightError], what: str, hint: str
) -> None:
    with pytest.raises(kind) as caught:
        study(text)
    assert what in caught.value.what
    assert (caught.value.where or "").startswith("s.yaml:")
    assert hint in (caught.value.hint or "")


def test_the_file_is_read_with_its_name(tmp_path: Path) -> None:
    file = tmp_path / "sizes.yaml"
    file.write_text("chunk: {size: [1, 2]}\n")
    found = load_study(file, SECTIONS)
    described: dict[str, Any] = found.described()
    assert found.name == described["name"] == "sizes"
    assert described["axes"] == {"chunk.size": [1, 2]}
