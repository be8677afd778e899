"""`ragwright suite` and what `eval` makes of its rows, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import ragwright

TEAMS = {"north": "Abel", "south": "Bruno", "east": "Clara", "west": "Dora", "hill": "Emil"}


def run(folder: Path, *words: str, code: int = 0) -> tuple[str, str]:
    """Standard output and error of a command in a folder."""
    done = ragwright(folder, *words, code=code)
    return done.stdout, done.stderr


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "docs").mkdir()
    rows = []
    for team, name in TEAMS.items():
        text = f"The {team} team is led by {name}."
        (folder / "docs" / f"{team}.txt").write_text(text)
        (folder / "docs" / f"{team}-room.txt").write_text(f"The {team} team meets on weekdays.")
        at = text.index(name)
        span = {"document_id": f"docs/{team}.txt", "start": at, "end": at + len(name), "text": name}
        question = f"Who is the {team} team led by?"
        rows.append({"user_input": question, "reference": name, "reference_spans": [span]})
    (folder / "ragwright.yaml").write_text("sources: [docs]\n")
    (folder / "set.jsonl").write_text("\n".join(map(json.dumps, rows)))
    run(folder, "ingest", "--quiet")
    return folder


@pytest.mark.slow
def test_from_a_testset_to_curves(project: Path) -> None:
    made = ("suite", "make", "--testset", "set.jsonl", "-o", "suite.jsonl")
    _, remarks = run(project, *made, "--suite", "noise,rejection", "--doses", "0,1/2,1")
    assert "25 rows written to suite.jsonl" in remarks
    rows = [json.loads(line) for line in (project / "suite.jsonl").read_text().splitlines()]
    assert {row["metadata"]["suite"] for row in rows} == {"noise", "rejection", "closed_book"}
    printed, _ = run(project, "eval", "--testset", "suite.jsonl", "--json", "-q")
    evaluation = json.loads(printed)
    assert evaluation["measures"]["RejectionRate"]["states"]["scored"] == 10  # noise 100 % too
    assert any("suite curves" in note for note in evaluation["notes"])
    printed, _ = run(project, "suite", "curves", "--json")
    curves = {(c["suite"], c["quantity"]): c for c in json.loads(printed)["curves"]}
    accuracy = curves["noise", "accuracy"]["points"]
    assert [point["dose"] for point in accuracy] == [0, 0.5, 1]
    assert accuracy[0]["mean"] == 1  # the only passage is what is shown
    assert accuracy[2]["mean"] == 0
    assert accuracy[0]["closed_book"] == 0
    table, _ = run(project, "suite", "curves", evaluation["run"])
    assert "rejection: rejection rate (RejectionRate)" in table
    run(project, "suite", "curves", "-o", "curves.json")
    assert json.loads((project / "curves.json").read_text())["run"] == evaluation["run"]


def test_what_is_priced_is_not_run(project: Path) -> None:
    made = ("suite", "make", "--testset", "set.jsonl", "-o", "few.jsonl", "--suite", "rejection")
    run(project, *made, "-q")
    printed, _ = run(project, "eval", "--testset", "few.jsonl", "--dry-run", "--json")
    assert json.loads(printed)


def test_a_file_of_rgb_needs_no_documents(tmp_path: Path) -> None:
    line = {
        "id": 0,
        "query": "Who is the north team led by?",
        "answer": "Abel",
        "positive": ["The north team is led by Abel."],
        "negative": ["The team meets.", "The tea is hot.", "North is up."],
    }
    (tmp_path / "en.json").write_text(json.dumps(line))
    (tmp_path / "ragwright.yaml").write_text("sources: []\n")
    printed, _ = run(tmp_path, "eval", "--testset", "rgb:en.json/noise", "--json", "-q")
    assert json.loads(printed)["measures"]["Contains"]["n"] >= 1
    run(tmp_path, "suite", "make", "--testset", "rgb:en.json/all", "-o", "all.jsonl")
    assert (tmp_path / "all.jsonl").is_file()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--suite", "nose"), "unknown suite 'nose'"),
        (("--doses", "many"), "must be shares between 0 and 1"),
        (("--doses", "1/0"), "must be shares between 0 and 1"),
        (("--doses", "2"), "a dose of 2"),
        (("--distractors", "easy"), "unknown distractors"),
    ],
)
def test_wrong_words_are_told(project: Path, words: tuple[str, ...], said: str) -> None:
    made = ("suite", "make", "--testset", "set.jsonl", "-o", "no.jsonl")
    _, remarks = run(project, *made, *words, code=1)
    assert said in remarks
    assert not (project / "no.jsonl").exists()


def test_questions_without_gold_are_told_how_to_get_some(project: Path) -> None:
    rows: list[dict[str, object]] = [
        {"user_input": f"Who is the {team} team led by?", "reference": name}
        for team, name in TEAMS.items()
    ]
    (project / "bare.jsonl").write_text("\n".join(map(json.dumps, rows)))
    made = (
        "suite",
        "make",
        "--suite",
        "rejection",
        "-o",
        "suite.jsonl",
    )
    _, remarks = run(project, *made, "--testset", "bare.jsonl", code=1)
    assert "`ragwright synth --from FILE -o NEW.jsonl`" in " ".join(remarks.split())
    for row, (team, name) in zip(rows, TEAMS.items(), strict=True):
        row |= {"reference_contexts": [f"The {team} team is led by {name}."]}
    (project / "quoted.jsonl").write_text("\n".join(map(json.dumps, rows)))
    run(project, "synth", "--from", "quoted.jsonl", "-o", "with-gold.jsonl", "-q")
    run(project, *made, "--testset", "with-gold.jsonl")
    assert (project / "suite.jsonl").is_file(), "what the message says helps"


def test_a_run_of_something_else_has_no_curves(project: Path) -> None:
    run(project, "eval", "--testset", "set.jsonl", "-q", "-o", "e.txt")
    _, remarks = run(project, "suite", "curves", code=1)
    assert "no row of the run belongs to a capability suite" in remarks
