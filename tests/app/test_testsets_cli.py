"""Testsets from the command line: made, split, reviewed, measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import ragwright

WORDS = ("pump", "valve", "tank", "boiler", "sensor", "burner", "filter", "fan")
TEXTS = {
    f"{word}.md": f"# The {word}\n\nThe Marlow {word} was built in {1900 + n} by the engineer "
    f"Brice{n} for the house.\n\n## Care\n\nThe {word} is cleaned by the firm Tollen{n} every "
    f"{n + 2} years, and the {word} is then tested for leaks.\n"
    for n, word in enumerate(WORDS)
}


def run(folder: Path, *words: str, code: int = 0, typed: str = "") -> tuple[str, str]:
    """What a command prints on standard output and standard error."""
    done = ragwright(folder, *words, code=code, typed=typed, USER="ann")
    return done.stdout, done.stderr


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "docs").mkdir()
    for name, text in TEXTS.items():
        (folder / "docs" / name).write_text(text)
    (folder / "ragwright.yaml").write_text("sources: [docs]\n")
    run(folder, "ingest", "--quiet")
    return folder


@pytest.mark.slow
def test_a_testset_is_made_measured_and_its_confirm_split_opened_in_writing(project: Path) -> None:
    told = json.loads(run(project, "synth", "-o", "testsets/a.jsonl", "-n", "12", "--json")[0])
    assert told["questions"] == told["rows"] == 12
    assert set(told["made"]) == {"cloze", "heading"}
    made = (project / "testsets" / "a.jsonl").read_text("utf-8").splitlines()
    assert all(json.loads(line)["metadata"]["generated"] is True for line in made)
    assert min(told["splits"].values()) > 0
    assert len(told["leak"]) == 5
    error = run(project, "synth", "-o", "testsets/a.jsonl", code=1)[1]
    assert "exists already" in error
    measure = ("eval", "--testset", "testsets/a.jsonl", "--measures", "SpanIoU@5")
    assert "only the tune split is measured" in run(project, *measure)[0]
    log = project / "testsets" / "openings.jsonl"
    run(project, *measure, "--split", "confirm", "--dry-run")
    assert not log.exists()
    assert "for the first time" in run(project, *measure, "--split", "confirm")[0]
    assert "opened once before" in run(project, *measure, "--split", "all")[0]
    opened = [json.loads(line) for line in log.read_text().splitlines()]
    assert [one["purpose"] for one in opened] == ["eval", "eval"]
    assert {one["rows"] for one in opened} == {told["splits"]["confirm"]}


def test_rows_are_reviewed_one_by_one_and_taken_up_again(project: Path) -> None:
    run(project, "synth", "-o", "testsets/b.jsonl", "-n", "6", "--kinds", "cloze", "-q")
    shown, asked = run(project, "review", "testsets/b.jsonl", typed="a\nr\nu\nx\nr\ns\nq\n")
    assert shown.strip() == "1 accepted, 0 edited, 1 rejected, 4 open"
    assert "a, e, r, s, u or q" in asked
    shown, asked = run(
        project, "review", "testsets/b.jsonl", "--by", "bob", typed="e\nNew question?\n\na\n"
    )
    assert shown.strip() == "2 accepted, 1 edited, 1 rejected, 2 open"
    assert "3/6" in asked
    text = (project / "testsets" / "b.jsonl").read_text()
    assert '"New question?"' in text
    assert '"reviewed_by": "bob"' in text


def test_a_question_under_review_commands_no_terminal(project: Path) -> None:
    run(project, "synth", "-o", "testsets/e.jsonl", "-n", "6", "--kinds", "cloze", "-q")
    file = project / "testsets" / "e.jsonl"
    first, rest = file.read_text("utf-8").split("\n", 1)
    row = json.loads(first)
    row["user_input"] = "Which \x1b[31m one?"
    file.write_text(f"{json.dumps(row)}\n{rest}", "utf-8")
    asked = run(project, "review", "testsets/e.jsonl", typed="q\n")[1]
    assert "Which \\u001b[31m one?" in asked
    assert "\x1b" not in asked


def test_rows_are_reviewed_on_a_sheet(project: Path) -> None:
    run(project, "synth", "-o", "testsets/c.jsonl", "-n", "3", "--kinds", "heading", "-q")
    run(project, "review", "testsets/c.jsonl", "--csv", "sheet.csv")
    sheet = project / "sheet.csv"
    lines = sheet.read_text("utf-8-sig")
    key = lines.splitlines()[1].split(",")[0]
    sheet.write_text(lines.replace(f"{key},,", f"{key},rejected,"), "utf-8-sig")
    shown = run(project, "review", "testsets/c.jsonl", "--read", "sheet.csv")[0]
    assert shown.strip() == "0 accepted, 0 edited, 1 rejected, 2 open, 0 unchanged"
    sheet.write_text(lines.replace(f"{key},,", f"{key},accepted,"), "utf-8-sig")
    shown = run(project, "review", "testsets/c.jsonl", "--read", "sheet.csv", code=1)[0]
    assert f"row '{key}' was changed in the testset" in shown


def test_rows_of_others_are_taken_over(project: Path) -> None:
    sentence = "The Marlow pump was built in 1900 by the engineer Brice0 for the house."
    row = {"question": "Who built the pump?", "ground_truth": "Brice0", "contexts": ["x"]}
    given = project / "given.jsonl"
    given.write_text(json.dumps({**row, "reference_contexts": [sentence]}) + "\n")
    shown = run(project, "synth", "--from", "given.jsonl", "-o", "testsets/d.jsonl")[0]
    assert "1 of 1 rows have their gold as spans" in shown
    made = json.loads((project / "testsets" / "d.jsonl").read_text())
    assert made["reference_spans"][0]["text"] == sentence
    assert made["metadata"]["kind"] == "imported"


def test_rows_on_one_document_get_both_splits(tmp_path: Path) -> None:
    sentences = [f"The {word} of hall {n} was built in {1900 + n}." for n, word in enumerate(WORDS)]
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "halls.md").write_text("\n\n".join(sentences))
    (tmp_path / "ragwright.yaml").write_text("sources: [docs]\n")
    rows = [{"question": f"When? {text}", "reference_contexts": [text]} for text in sentences]
    rows += [{**row, "question": f"{row['question']} Where?"} for row in rows]
    (tmp_path / "given.jsonl").write_text("\n".join(map(json.dumps, rows)))
    run(tmp_path, "ingest", "--quiet")
    run(tmp_path, "synth", "--from", "given.jsonl", "-o", "testsets/one.jsonl")
    made = [json.loads(line) for line in (tmp_path / "testsets/one.jsonl").read_text().splitlines()]
    splits: dict[str, set[str]] = {}
    for row in made:
        text = row["reference_spans"][0]["text"]
        splits.setdefault(text, set()).add(row["metadata"]["split"])
    assert {split for each in splits.values() for split in each} == {"tune", "confirm"}
    assert all(len(each) == 1 for each in splits.values()), "a passage is in one split"


def test_what_is_not_there_is_said(project: Path) -> None:
    assert "no testset 'none.jsonl'" in run(project, "review", "none.jsonl", code=1)[1]
    assert "--measures" in run(project, "review", "none.jsonl", code=1)[1]
    assert "'clozes'" in run(project, "synth", "--kinds", "clozes", code=1)[1]
    assert "no chat model" in run(project, "synth", "--kinds", "model", code=1)[1]
