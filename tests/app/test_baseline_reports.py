"""Stored baselines: reports, comparisons and pages of `ragwright baseline` runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import ragwright
from served import served
from test_baseline import compared, project, reader

from ragwright import Workbench
from ragwright.experiment import load_baseline
from ragwright.report import baseline_json
from ragwright.testing import ScriptedServer


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[str]]]:
    """A project with three baselines: as it is, closed book, and with another embedding model."""
    with ScriptedServer(reader) as server:
        folder = project(tmp_path_factory.mktemp("baselines"), server)
        runs = [
            compared(folder),
            compared(folder, "--name", "no-context", "--set", "answer.closed_book=true"),
            compared(folder, "--set", "embed.model=scripted:others"),
        ]
        yield folder, [str(run["run"]) for run in runs]


pytestmark = pytest.mark.slow


def test_a_stored_baseline_is_what_the_command_printed(measured: tuple[Path, list[str]]) -> None:
    folder, _ = measured
    with ScriptedServer(reader) as server:
        other = project(folder.parent / "again", server)
        printed = compared(other, "--context")
    with Workbench.open(other) as bench:
        read = baseline_json(load_baseline(bench.project.runs, str(printed["run"])))
    assert json.loads(json.dumps(read)) == printed


def test_a_report_shows_both_sets_the_bands_and_every_experiment(
    measured: tuple[Path, list[str]],
) -> None:
    folder, runs = measured
    report = json.loads(ragwright(folder, "report", runs[1], "--json").stdout)
    assert report["verdict"]["headline"] == "S_e against S_b: larger."
    assert report["verdict"]["state"] == "worse"
    pairs, board = report["charts"]["distances"], report["charts"]["distance-board"]
    drawn = [layer["data"]["values"] for layer in pairs["spec"]["layer"]]
    assert {band["group"] for band in drawn[0]} == {"shuffled answers", "question echoed"}
    assert [sum(p["group"] == group for p in drawn[2]) for group in ("S_b", "S_e")] == [8, 8]
    lines = {row[0]: row for row in board["table"]["rows"]}
    assert set(lines) == set(runs)
    assert lines[runs[1]][1] == "no-context"
    assert "different embedding models are not comparable" in board["note"]
    means = {entry["label"]: entry["measures"]["QADistance"]["mean"] for entry in report["entries"]}
    assert means["S_b: the pairs"] < means["S_e: the experiment"]
    html = ragwright(folder, "report", runs[1], "-o", "baseline.html").stderr
    assert "S_e against S_b: larger." in html
    text = (folder / "baseline.html").read_text("utf-8")
    assert "S_b against S_e, pair by pair" in text


def test_two_baselines_are_compared_by_their_answers(measured: tuple[Path, list[str]]) -> None:
    folder, runs = measured
    found = json.loads(ragwright(folder, "compare", runs[0], runs[1], "--json").stdout)
    distance = found["measures"]["QADistance"]
    assert distance["n"] == 8
    assert distance["difference"] > 0.3
    assert distance["p"] < 0.05
    assert [one["run"] for one in found["baselines"]] == runs[:2]
    assert [one["outcome"] for one in found["baselines"]] == ["about equal", "larger"]
    assert [change["key"] for change in found["settings"]] == ["answer.closed_book"]
    shown = ragwright(folder, "compare", runs[0], runs[1]).stdout
    assert "S_b" in shown
    assert "about equal" in shown
    beside = json.loads(ragwright(folder, "report", runs[0], runs[1], "--json").stdout)
    assert beside["kind"] == "pair"
    assert [entry["label"] for entry in beside["entries"]] == [
        "S_e of the project as it is",
        "S_e of no-context",
    ]


def test_distances_of_two_embedding_models_get_no_verdict(
    measured: tuple[Path, list[str]],
) -> None:
    folder, runs = measured
    shown = ragwright(folder, "compare", runs[0], runs[2]).stdout
    assert "judge.embedder" in shown
    report = json.loads(ragwright(folder, "report", runs[0], runs[2], "--json").stdout)
    assert "different embedding models" in report["verdict"]["headline"]
    assert report["comparison"] is None


def test_without_a_second_name_the_newest_baseline_is_taken(
    measured: tuple[Path, list[str]],
) -> None:
    folder, runs = measured
    found = json.loads(ragwright(folder, "compare", runs[0], "--json").stdout)
    assert (found["a"], found["b"]) == (runs[0], runs[2])
    listed = json.loads(ragwright(folder, "compare", "--json").stdout)
    assert [run["id"] for run in listed["baselines"]] == runs[::-1]


def test_scoring_a_baseline_again_says_what_it_is(measured: tuple[Path, list[str]]) -> None:
    folder, runs = measured
    done = ragwright(folder, "score", runs[0], "--measures", "ExactMatch", code=1)
    assert "is of `ragwright baseline`" in done.stderr


def test_pages_show_every_baseline_and_compare_two(measured: tuple[Path, list[str]]) -> None:
    folder, runs = measured
    with served(folder) as running:
        page = running.http.get("/experiments").text
        beside = running.http.get(f"/compare?baseline={runs[0]}&run={runs[1]}").text
        report = running.http.get(f"/experiments/{runs[1]}").text
    for run in runs:
        assert f'value="{run}"' in page
    assert "answer.closed_book" in beside
    assert "S_b against S_e, pair by pair" in report
