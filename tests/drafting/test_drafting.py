"""What was served becomes rows: drawn by seed, exported, scored into a run, forgotten."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from drafted import REQUEST, drafted
from small_project import MakeProject

from ragwright import EvaluationOptions, Session, Workbench
from ragwright.core import ConfigError, StoreError
from ragwright.drafting import (
    Origin,
    OutputQuery,
    OutputSample,
    export_outputs,
    moment,
    sample_outputs,
)
from ragwright.experiment import compare_evaluations, evaluate_outputs, forecast_outputs
from ragwright.testing import ScriptedServer
from ragwright.testsets import read_rows

TOPICS = ("health care", "taxes", "schools", "roads", "water")
EVERY, A = OutputQuery(), OutputQuery(scope="a")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    with Workbench.open(MakeProject(tmp_path)("budget: {concurrency: 2}\n")) as opened:
        opened.ingest()
        yield opened


def fill(bench: Workbench, origin: Origin | None = None, batches: int = 5) -> None:
    for at in range(batches):
        request = replace(REQUEST, topics=(TOPICS[at % 5],))
        texts = [f"the text of record:{at} number {n}" for n in range(4)]
        bench.outputs.save(drafted(texts, (f"record:{at}",), request), origin)


def test_a_sample_is_drawn_by_seed_without_replacement(bench: Workbench) -> None:
    fill(bench)
    drawn = sample_outputs(bench.outputs, OutputSample(count=7, seed=3))
    assert drawn == sample_outputs(bench.outputs, OutputSample(count=7, seed=3))
    assert (len({row.id for row in drawn.rows}), drawn.total) == (7, 20)
    # Against a slow reference: the ids of all texts in their order, and the module's own sample.
    ids = [f"{batch}.{n}" for batch in range(1, 6) for n in range(1, 5)]
    for seed in (3, 4):
        wanted = sorted(random.Random(seed).sample(ids, 7), key=ids.index)
        rows = sample_outputs(bench.outputs, OutputSample(count=7, seed=seed)).rows
        assert [row.metadata["output"] for row in rows] == wanted
    assert len(sample_outputs(bench.outputs, OutputSample(count=50)).rows) == 20
    sample = drawn.manifest["sample"]
    assert (sample["n"], sample["of"], sample["seed"]) == (7, 20, 3)
    assert drawn.notes[0].startswith("7 of 20 stored texts")


def test_rows_say_what_was_asked_used_and_thought(bench: Workbench) -> None:
    bench.outputs.save(drafted(), Origin(configuration="cafe", served=2))
    bench.outputs.respond("1.2", by="ann", verdict="accepted", score=3)
    first, second = sample_outputs(bench.outputs, OutputSample()).rows
    assert "client: Jane Doe" in first.user_input
    assert "count" not in first.user_input
    assert first.response == "Give now"
    assert first.retrieved_contexts == ("the text of record:1", "the text of record:2")
    assert first.retrieved_context_ids == ("record:1", "record:2")
    assert (first.metadata["topics"], first.metadata["served"]) == (("health care",), 2)
    assert "accepted" not in first.metadata
    assert (second.metadata["accepted"], second.metadata["feedback_score"]) == (1, 3)
    assert first.id[:12] == second.id[:12]  # one request


def test_texts_of_a_tenant_are_drawn_for_that_tenant_alone(bench: Workbench) -> None:
    fill(bench, Origin(scope="a"), batches=1)
    with pytest.raises(StoreError, match="no stored text"):
        sample_outputs(bench.outputs, OutputSample())
    fill(bench, batches=2)
    assert sample_outputs(bench.outputs, OutputSample()).total == 8
    assert sample_outputs(bench.outputs, OutputSample(A)).total == 4
    with pytest.raises(ConfigError, match="all scopes at once"):
        sample_outputs(bench.outputs, OutputSample(OutputQuery(scope=None)))
    with pytest.raises(ConfigError, match="ask for 1"):
        sample_outputs(bench.outputs, OutputSample(count=0))


def test_what_was_served_is_scored_into_a_run(bench: Workbench) -> None:
    fill(bench)
    how = EvaluationOptions(name="served", seed=1)
    sampling = OutputSample(count=10, seed=1)
    evaluation, summary, sampled = evaluate_outputs(bench.project, "KPrecision", sampling, how)
    [mean] = evaluation.summaries
    assert (mean.measure, mean.n, summary.complete) == ("KPrecision", 10, True)
    manifest = bench.project.runs.get(summary.run).manifest
    assert (manifest["sample"]["of"], manifest["testset"]) == (20, "outputs: 10 of 20")
    assert bench.results("served").summaries[0].mean == mean.mean
    assert [r.row_id for r in evaluation.results] == [row.id for row in sampled.rows]
    # the five requests are what is independent, not their texts
    assert (mean.clusters or 9) <= 5
    good = json.dumps({"reasoning": "It answers.", "score": 5})
    with ScriptedServer(good) as server:
        session = Session((f"judge.model={server.url}#judge",))
        with Workbench.open(bench.project.folder.root, session) as judged:
            forecast = forecast_outputs(judged.project, "Faithfulness", OutputSample(count=6))
            assert forecast.calls.expected == 6
            found, *_ = evaluate_outputs(judged.project, "Faithfulness", OutputSample(count=6))
        assert (found.summaries[0].mean, len(server.requests)) == (5, 6)


@pytest.mark.slow
def test_forgetting_reaches_outputs_and_the_runs_made_of_them(bench: Workbench) -> None:
    fill(bench)
    fill(bench, Origin(scope="a"))
    bench.project.replies.clear()  # leaves outputs alone
    _, summary, _ = evaluate_outputs(bench.project, "KPrecision", OutputSample())
    _, of_tenant, _ = evaluate_outputs(bench.project, "KPrecision", OutputSample(A))
    gone = bench.forget("record:2")
    assert gone["outputs"] == 10  # a prompt and four texts, in each scope
    assert gone["rows"] == 8  # and what was scored of them
    assert len(list(bench.project.runs.rows(summary.run))) == 16
    assert bench.forget_tenant("a")["outputs"] == 20
    assert not bench.project.runs.holds(of_tenant.run)
    assert bench.outputs.count(A) == 0
    data = bench.project.folder.data
    bench.close()
    stored = b"".join(file.read_bytes() for file in data.glob("*.sqlite*"))
    assert b"the text of record:2" not in stored


def test_an_export_adds_up_to_what_was_paid(bench: Workbench, tmp_path: Path) -> None:
    bench.outputs.save(drafted())
    bench.outputs.save(drafted(), Origin(scope="a"))
    path = tmp_path / "all.csv"

    def total(query: OutputQuery) -> tuple[int, float]:
        count = export_outputs(bench.outputs, query, path)
        with path.open(newline="") as file:
            return count, sum(float(line["cost"] or 0) for line in csv.DictReader(file))

    assert total(EVERY) == (3, 0.5)  # of no tenant, as lists and samples are
    assert total(A) == (3, 0.5)
    assert total(OutputQuery(scope=None)) == (6, 1.0)
    assert total(OutputQuery(kind="text")) == (2, 0.0)


def test_outputs_are_written_for_others(bench: Workbench, tmp_path: Path) -> None:
    from pyarrow import parquet

    fill(bench, batches=2)
    bench.outputs.respond("2.3", by="ann", verdict="accepted", score=1)
    bench.outputs.respond("1.1", by="ann", verdict="rejected")
    assert export_outputs(bench.outputs, EVERY, tmp_path / "rows.jsonl") == 8
    rows = read_rows(tmp_path / "rows.jsonl")
    assert [row.id for row in rows][:2] == ["1.1", "1.2"]
    assert rows[6].metadata["accepted"] == 1
    assert rows[6].retrieved_context_ids == ("record:1",)
    assert export_outputs(bench.outputs, EVERY, tmp_path / "all.csv") == 10
    with (tmp_path / "all.csv").open(newline="") as file:
        cells = list(csv.DictReader(file))
    assert cells[0]["source"] == "prompt"
    assert json.loads(cells[0]["request"])["client"] == "Jane Doe"
    assert export_outputs(bench.outputs, EVERY, tmp_path / "fit.chat.jsonl") == 1
    [line] = (tmp_path / "fit.chat.jsonl").read_text().splitlines()
    assert json.loads(line)["messages"] == [
        {"role": "system", "content": "You write texts."},
        {"role": "user", "content": "A donate text from Jane Doe about health care"},
        {"role": "assistant", "content": "the text of record:1 number 2"},
    ]
    with pytest.raises(ConfigError, match="unknown ending"):
        export_outputs(bench.outputs, EVERY, tmp_path / "all.xlsx")
    assert (tmp_path / "rows.jsonl").stat().st_mode & 0o777 == 0o600
    path = tmp_path / "all.parquet"
    assert export_outputs(bench.outputs, OutputQuery(kind="text"), path) == 8
    table = parquet.read_table(path)
    assert table.column("id").to_pylist()[:2] == ["1.1", "1.2"]
    assert table.schema.field("batch").type == "int64"
    assert table.column("cost").to_pylist()[0] is None


def test_two_configurations_asked_the_same_are_compared_row_by_row(bench: Workbench) -> None:
    for name in ("aaaaaa", "bbbbbb"):
        fill(bench, Origin(configuration=name))
    a, b = (
        evaluate_outputs(bench.project, "KPrecision", OutputSample(OutputQuery(configuration=name)))
        for name in ("aaaaaa", "bbbbbb")
    )
    assert a[2].configurations == {"aaaaaa": 20}
    assert compare_evaluations(a[0], b[0]).measures[0].n == 20
    both = sample_outputs(bench.outputs, OutputSample())
    assert both.configurations == {"aaaaaa": 20, "bbbbbb": 20}
    assert "under 2 configurations" in both.notes[-1]


def test_an_export_that_fails_leaves_what_was_there(
    bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(bench, batches=1)
    path = tmp_path / "rows.jsonl"
    path.write_text("before")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(bench.outputs), "used", full)
    with pytest.raises(StoreError, match="No space"):
        export_outputs(bench.outputs, EVERY, path)
    assert path.read_text() == "before"
    assert [one.name for one in tmp_path.glob(".rows*")] == []


def test_times_are_read_as_people_write_them() -> None:
    now = datetime.now().astimezone()
    assert moment("2026-11-02T08:30:00+01:00") == "2026-11-02T07:30:00.000Z"
    day = datetime.fromisoformat(moment("7d").replace("Z", "+00:00"))
    assert abs(now - timedelta(days=7) - day) < timedelta(minutes=1)
    midnight = datetime.fromisoformat(moment("2026-11-02").replace("Z", "+00:00"))
    assert midnight == datetime(2026, 11, 2).astimezone()
    for wrong in ("yesterday", "7x", "d", "2026-13-01", "99999999999d"):
        with pytest.raises(ConfigError, match="not a time"):
            moment(wrong)
