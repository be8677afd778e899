"""Rows scored as they are read: nothing held that is not asked for, and prices said before."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright
from small_project import MakeProject

from ragwright import Session, Workbench, evaluate
from ragwright.core import TestsetError
from ragwright.experiment import RowResult
from ragwright.testing import ScriptedServer

MEASURES = "ExactMatch, TokenF1, KPrecision"
GOOD = json.dumps({"reasoning": "It answers the question.", "score": 5})


def lines(count: int, padding: int = 0) -> Iterator[str]:
    for at in range(count):
        row: dict[str, Any] = {"user_input": f"q{at}", "response": "a b" if at % 3 else "a c"}
        row["reference"] = "a c"
        row["retrieved_contexts"] = ["a c " + f"{at} x" * (padding // 4)]
        if at % 5 == 0:
            del row["reference"]
        yield json.dumps(row) + "\n"


def rows_file(folder: Path, count: int, padding: int = 0) -> Path:
    path = folder / f"rows-{count}-{padding}.jsonl"
    with path.open("w") as file:
        file.writelines(lines(count, padding))
    return path


def passed_over(_: RowResult) -> None:
    """Hold nothing."""


def test_rows_that_are_not_held_come_to_the_same_numbers(tmp_path: Path) -> None:
    path = rows_file(tmp_path, 40)
    seen: list[RowResult] = []
    held, passed = evaluate(path, MEASURES), evaluate(path, MEASURES, each=seen.append)
    assert passed.results == ()
    assert passed == replace(held, results=())
    assert tuple(seen) == held.results
    with Workbench.open(MakeProject(tmp_path)()) as bench:
        whole, first = bench.score(str(path), MEASURES)
        streamed, second = bench.score(str(path), MEASURES, each=passed_over)
        assert first.run != second.run
        assert whole.results == held.results == bench.results(second.run).results
        assert (streamed.summaries, streamed.results) == (whole.summaries, ())
        assert streamed.manifest == whole.manifest
        again, _ = bench.score(second.run, MEASURES, each=passed_over)
        assert again.summaries == whole.summaries


def test_a_fault_in_the_last_row_is_told_before_the_first_is_scored(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(lines(5)) + '{"user_input": {}}\n')
    seen: list[RowResult] = []
    with pytest.raises(TestsetError, match="user_input is dict"):
        evaluate(path, MEASURES, each=seen.append)
    assert not seen
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    for measures in ("", MEASURES):
        with pytest.raises(TestsetError, match="no rows"):
            evaluate(empty, measures)


def peak(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("measures", ["", MEASURES])
def test_memory_does_not_grow_with_the_rows_of_a_file(tmp_path: Path, measures: str) -> None:
    few, many = rows_file(tmp_path, 10, 20_000), rows_file(tmp_path, 100, 20_000)
    evaluate(few, measures, each=passed_over)  # what is loaded once
    small = peak(lambda: evaluate(few, measures, each=passed_over))
    large = peak(lambda: evaluate(many, measures, each=passed_over))
    assert many.stat().st_size > 1_900_000
    assert large - small < 240_000


@pytest.mark.slow
def test_memory_of_a_project_does_not_grow_with_the_rows_of_a_file(tmp_path: Path) -> None:
    # Rows in flight and in the writer's queue are few against both files.
    few, many = rows_file(tmp_path, 800, 3_000), rows_file(tmp_path, 3200, 3_000)
    with Workbench.open(MakeProject(tmp_path)(), Session(jobs=4)) as bench:
        bench.score(str(few), "KPrecision", each=passed_over)
        small = peak(lambda: bench.score(str(few), "KPrecision", each=passed_over))
        large = peak(lambda: bench.score(str(many), "KPrecision", each=passed_over))
    assert many.stat().st_size - few.stat().st_size > 7_000_000
    assert large - small < 4_000_000


def command(folder: Path, *words: str) -> tuple[int, str]:
    """Exit code and standard error of a command in a folder."""
    done = ragwright(folder, *words, code=None)
    return done.returncode, done.stderr


@pytest.mark.slow
def test_what_judging_costs_is_said_before_and_never_exceeded(tmp_path: Path) -> None:
    with ScriptedServer(GOOD) as server:
        name = f"{server.url}#judge"
        folder = MakeProject(tmp_path)(
            f"judge: {{model: '{name}', max_tokens: 100}}\n"
            f"models: {{'{name}': {{price_in: 1000000, price_out: 1000000}}}}\n"
        )
        path = rows_file(folder, 3)
        code, said = command(folder, "score", path.name, "--max-cost", "0.5")
        assert (code, len(server.requests)) == (101, 0)
        assert f"calling {name}: " in said
        assert "cost" in said
        code, said = command(folder, "score", path.name, "--measures", "TokenF1")
        assert (code, len(server.requests)) == (0, 0)
        assert "asking" not in said
        words = ("score", path.name, "--measures", "AnswerRelevance")
        code, said = command(folder, *words)
        assert (code, len(server.requests)) == (0, 3)
        assert "3 .. 3 .. 6 calls" in said
        code, said = command(folder, *words, "--quiet", "--no-cache")
        assert (code, said, len(server.requests)) == (0, "", 6)


def test_where_no_price_is_known_that_is_said(tmp_path: Path) -> None:
    with ScriptedServer(GOOD) as server:
        name = f"{server.url}#judge"
        folder = MakeProject(tmp_path)(f"judge: {{model: '{name}', max_tokens: 100}}\n")
        for rows in (3, 5):
            path = rows_file(folder, rows)
            code, said = command(folder, "score", path.name, "--measures", "AnswerRelevance")
            assert code == 0
    line = f"calling {name}: 2 .. 2 .. 4 calls, 3 more from stored replies; no price is known"
    assert line in said
