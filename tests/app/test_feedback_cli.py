"""From votes to gold on the command line: collected, reviewed, measured, erased."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import ragwright
from small_project import MakeProject
from voted import serve_answer

from ragwright import Workbench

BRAKE = "How often must the brake fluid be changed?"
SWITCH = "What does APP_w305 mean?"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = MakeProject(tmp_path)()
    with Workbench.open(folder) as bench:
        bench.ingest()
        serve_answer(bench, BRAKE, "-+")
        serve_answer(bench, SWITCH, "--")
        serve_answer(bench, "When is the coolant changed?", "+")
    return folder


def rows(project: Path) -> list[dict[str, object]]:
    lines = (project / "testsets" / "feedback.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_votes_become_gold_that_is_measured(project: Path) -> None:
    typed = "a\na\ne\n\nthe switch does not respond\nr\n"
    done = ragwright(project, "review", "--feedback", "--by", "ann", typed=typed)
    assert "Readers: accepted." in done.stderr
    assert "neither a gold passage nor a gold answer" in done.stderr, "accepted without gold"
    assert done.stdout.strip() == "1 accepted, 1 edited, 1 rejected, 0 open"
    measured = ragwright(
        project, "eval", "--testset", "testsets/feedback.jsonl", "--measures", "nDCG@5", "--json"
    )
    body = json.loads(measured.stdout)
    assert body["measures"]["nDCG@5"]["n"] == 1, "the other row has a gold answer alone"
    assert body["measures"]["nDCG@5"]["mean"] == 1
    assert any("from readers' feedback" in note for note in body["notes"])


def test_collecting_alone_leaves_everything_waiting(project: Path) -> None:
    ragwright(project, "review", "--feedback", "--csv", "sheet.csv")
    assert len((project / "sheet.csv").read_text("utf-8-sig").splitlines()) >= 4
    refused = ragwright(project, "eval", "--testset", "testsets/feedback.jsonl", code=1)
    assert "3 rows wait for review and 0 were rejected" in refused.stderr


def test_nothing_to_collect_and_nothing_named(tmp_path: Path) -> None:
    (tmp_path / "ragwright.yaml").write_text("sources: []\n")
    refused = ragwright(tmp_path, "review", "--feedback", code=1)
    assert "nobody has given feedback on served answers yet" in refused.stderr
    assert "nothing to review is named" in ragwright(tmp_path, "review", code=1).stderr
    assert not (tmp_path / "testsets" / "feedback.jsonl").exists()


def test_corrections_are_given_shown_and_refused(project: Path) -> None:
    given = ("outputs", "feedback", "1.1", "--correction", "two years", "--passage", "1")
    shown = ragwright(project, *given, "--json")
    assert json.loads(shown.stdout)["feedback"][-1]["correction"] == "two years"
    assert json.loads(shown.stdout)["feedback"][-1]["passages"] == [1]
    assert "no citation 5" in ragwright(project, *given[:-1], "5", code=1).stderr
    empty = ragwright(project, "outputs", "feedback", "1.1", "--correction", " ", code=1)
    assert "the feedback is empty" in empty.stderr
    assert (
        "no output '99.1'"
        in ragwright(project, "outputs", "feedback", "99.1", "--accept", code=1).stderr
    )


def test_forget_says_how_many_candidates_went(project: Path) -> None:
    ragwright(project, "review", "--feedback", typed="a\nq\n")
    done = ragwright(project, "forget", "docs/codes.md", "--json")
    gone = json.loads(done.stdout)["feedback rows"]
    assert gone >= 1
    assert len(rows(project)) == 3 - gone
