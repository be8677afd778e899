"""`synth`, `review` and `suite`: test sets are made, split, reviewed and measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import ragwright
from small_project import MakeProject
from story_tools import lacking, make_project, read_json, read_rows, run, write_rows
from voted import serve_answer

from ragwright import Workbench

WORDS = ("pump", "valve", "tank", "boiler", "sensor", "burner", "filter", "fan")
TEXTS = {
    f"{word}.md": f"# The {word}\n\nThe Marlow {word} was built in {1900 + n} by the engineer "
    f"Brice{n} for the house.\n\n## Care\n\nThe {word} is cleaned by the firm Tollen{n} every "
    f"{n + 2} years, and the {word} is then tested for leaks.\n"
    for n, word in enumerate(WORDS)
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("project"), TEXTS)


def reviewed(folder: Path, words: str, typed: str = "", code: int = 0) -> tuple[str, str]:
    """What a review prints and asks."""
    done = ragwright(folder, "review", *words.split(), code=code, typed=typed, USER="ann")
    return done.stdout.strip(), done.stderr


@pytest.mark.slow
def test_a_testset_is_made_measured_and_its_confirm_split_opened_in_writing(project: Path) -> None:
    told = read_json(project, "synth -o testsets/a.jsonl -n 12")
    assert told["questions"] == told["rows"] == 12
    assert set(told["made"]) == {"cloze", "heading"}
    rows = read_rows(project / "testsets" / "a.jsonl")
    assert all(row["metadata"]["generated"] is True for row in rows)
    assert min(told["splits"].values()) > 0
    assert len(told["leak"]) == 5
    error = ragwright(project, "synth", "-o", "testsets/a.jsonl", code=1).stderr
    assert "exists already" in error
    measure = "eval --testset testsets/a.jsonl --measures SpanIoU@5"
    assert "only the tune split is measured" in run(project, measure)
    log = project / "testsets" / "openings.jsonl"
    run(project, f"{measure} --split confirm --dry-run")
    assert not log.exists()
    assert "for the first time" in run(project, f"{measure} --split confirm")
    assert "opened once before" in run(project, f"{measure} --split all")
    opened = read_rows(log)
    assert [one["purpose"] for one in opened] == ["eval", "eval"]
    assert {one["rows"] for one in opened} == {told["splits"]["confirm"]}


def test_rows_are_reviewed_one_by_one_and_taken_up_again(project: Path) -> None:
    run(project, "synth -o testsets/b.jsonl -n 6 --kinds cloze -q")
    file = project / "testsets" / "b.jsonl"
    rows = read_rows(file)
    write_rows(file, [{**rows[0], "user_input": "Which \x1b[31m one?"}, *rows[1:]])
    shown, asked = reviewed(project, "testsets/b.jsonl", "a\nr\nu\nx\nr\ns\nq\n")
    assert shown == "1 accepted, 0 edited, 1 rejected, 4 open"
    assert "a, e, r, s, u or q" in asked
    assert "Which \\u001b[31m one?" in asked
    assert "\x1b" not in asked, "a question commands no terminal"
    shown, asked = reviewed(project, "testsets/b.jsonl --by bob", "e\nNew question?\n\na\n")
    assert shown == "2 accepted, 1 edited, 1 rejected, 2 open"
    assert "3/6" in asked
    assert not lacking(file.read_text(), '"New question?"', '"reviewed_by": "bob"')


def test_rows_are_reviewed_on_a_sheet(project: Path) -> None:
    run(project, "synth -o testsets/c.jsonl -n 3 --kinds heading -q")
    reviewed(project, "testsets/c.jsonl --csv sheet.csv")
    sheet = project / "sheet.csv"
    lines = sheet.read_text("utf-8-sig")
    key = lines.splitlines()[1].split(",")[0]
    sheet.write_text(lines.replace(f"{key},,", f"{key},rejected,"), "utf-8-sig")
    shown, _ = reviewed(project, "testsets/c.jsonl --read sheet.csv")
    assert shown == "0 accepted, 0 edited, 1 rejected, 2 open, 0 unchanged"
    sheet.write_text(lines.replace(f"{key},,", f"{key},accepted,"), "utf-8-sig")
    shown, _ = reviewed(project, "testsets/c.jsonl --read sheet.csv", code=1)
    assert f"row '{key}' was changed in the testset" in shown


def test_rows_of_others_are_taken_over_and_get_both_splits(project: Path, tmp_path: Path) -> None:
    sentence = "The Marlow pump was built in 1900 by the engineer Brice0 for the house."
    row = {"question": "Who built the pump?", "ground_truth": "Brice0", "contexts": ["x"]}
    write_rows(project / "given.jsonl", [{**row, "reference_contexts": [sentence]}])
    shown = run(project, "synth --from given.jsonl -o testsets/d.jsonl")
    assert "1 of 1 rows have their gold as spans" in shown
    [made] = read_rows(project / "testsets" / "d.jsonl")
    assert made["reference_spans"][0]["text"] == sentence
    assert made["metadata"]["kind"] == "imported"
    sentences = [f"The {word} of hall {n} was built in {1900 + n}." for n, word in enumerate(WORDS)]
    make_project(tmp_path, {"halls.md": "\n\n".join(sentences)})
    rows = [
        {"question": f"{asked} {text}", "reference_contexts": [text]}
        for asked in ("When?", "Where?")
        for text in sentences
    ]
    write_rows(tmp_path / "given.jsonl", rows)
    model = ("--kinds", "model", "--model", "opnai:x", "--dry-run")
    assert "unknown provider 'opnai'" in ragwright(tmp_path, "synth", *model, code=1).stderr
    run(tmp_path, "synth --from given.jsonl -o testsets/one.jsonl")
    splits: dict[str, set[str]] = {}
    for each in read_rows(tmp_path / "testsets/one.jsonl"):
        split = each["metadata"]["split"]
        splits.setdefault(each["reference_spans"][0]["text"], set()).add(split)
    assert {split for each in splits.values() for split in each} == {"tune", "confirm"}
    assert all(len(each) == 1 for each in splits.values()), "a passage is in one split"


def test_votes_become_gold_that_is_measured_and_forgotten(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)()
    with Workbench.open(folder) as bench:
        bench.ingest()
        serve_answer(bench, "How often must the brake fluid be changed?", "-+")
        serve_answer(bench, "What does APP_w305 mean?", "--")
        serve_answer(bench, "When is the coolant changed?", "+")
    reviewed(folder, "--feedback --csv sheet.csv")
    assert len((folder / "sheet.csv").read_text("utf-8-sig").splitlines()) >= 4
    asked = "eval --testset testsets/feedback.jsonl --measures nDCG@5"
    refused = ragwright(folder, *asked.split(), code=1).stderr
    assert "3 rows wait for review and 0 were rejected" in refused
    typed = "a\na\ne\n\nthe switch does not respond\nr\n"
    shown, said = reviewed(folder, "--feedback --by ann", typed)
    assert "Readers: accepted." in said
    assert "neither a gold passage nor a gold answer" in said, "accepted without gold"
    assert shown == "1 accepted, 1 edited, 1 rejected, 0 open"
    body = read_json(folder, asked)
    assert body["measures"]["nDCG@5"]["n"] == 1, "the other row has a gold answer alone"
    assert body["measures"]["nDCG@5"]["mean"] == 1
    assert any("from readers' feedback" in note for note in body["notes"])
    gone = read_json(folder, "forget docs/codes.md")["feedback rows"]
    assert gone >= 1
    assert len(read_rows(folder / "testsets" / "feedback.jsonl")) == 3 - gone


# -- suites ----------------------------------------------------------------------------------

TEAMS = {"north": "Abel", "south": "Bruno", "east": "Clara", "west": "Dora", "hill": "Emil"}


@pytest.mark.slow
def test_suites_go_from_a_testset_to_curves(tmp_path: Path) -> None:
    texts = {f"{team}.txt": f"The {team} team is led by {name}." for team, name in TEAMS.items()}
    rooms = {f"{team}-room.txt": f"The {team} team meets on weekdays." for team in TEAMS}
    project = make_project(tmp_path, {**texts, **rooms})
    bare = [
        {"user_input": f"Who is the {team} team led by?", "reference": name}
        for team, name in TEAMS.items()
    ]
    quoted = [{**r, "reference_contexts": [t]} for r, t in zip(bare, texts.values(), strict=True)]
    write_rows(project / "quoted.jsonl", quoted)
    run(project, "synth --from quoted.jsonl -o set.jsonl -q")
    rows = read_rows(project / "set.jsonl")
    write_rows(
        project / "set.jsonl", [{k: row[k] for k in (*bare[0], "reference_spans")} for row in rows]
    )
    made = "suite make --testset set.jsonl -o suite.jsonl --suite"
    told = ragwright(project, *f"{made} noise,rejection --doses 0,1/2,1".split()).stderr
    assert "25 rows written to suite.jsonl" in told
    evaluation = read_json(project, "eval --testset suite.jsonl -q")
    states = evaluation["measures"]["RejectionRate"]["states"]
    assert states["scored"] == 10, "noise 100 % too"
    assert any("suite curves" in note for note in evaluation["notes"])
    run(project, "suite curves -o curves.json")
    told = json.loads((project / "curves.json").read_text())
    assert told["run"] == evaluation["run"]
    curves = {(curve["suite"], curve["quantity"]): curve for curve in told["curves"]}
    accuracy = curves["noise", "accuracy"]["points"]
    assert [(point["dose"], point["mean"]) for point in accuracy[::2]] == [(0, 1), (1, 0)]
    table = run(project, f"suite curves {evaluation['run']}")
    assert "rejection: rejection rate (RejectionRate)" in table
