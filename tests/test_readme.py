"""The outputs that the README shows are those of its commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command_line import ragwright

README = Path(__file__).resolve().parents[1] / "README.md"
SHOWN: list[str] = re.findall(
    r"^```text\n(.*?)^```", README.read_text("utf-8"), re.MULTILINE | re.DOTALL
)


def block(start: str) -> str:
    [found] = [text for text in SHOWN if text.startswith(start)]
    return found


def test_the_explained_hit(tmp_path: Path) -> None:
    (tmp_path / "manuals").mkdir()
    service = "# Service plan\n\nThe brake fluid must be changed every two years.\n"
    codes = "# Codes\n\nAPP_w304 means that the accelerator pedal sensor has failed.\n"
    assert repr(service)[1:-1] in README.read_text("utf-8")
    assert repr(codes)[1:-1] in README.read_text("utf-8")
    (tmp_path / "manuals" / "service.md").write_text(service)
    (tmp_path / "manuals" / "codes.md").write_text(codes)
    ragwright(tmp_path, "init", "-q", "--source", "manuals/")
    ragwright(tmp_path, "ingest", "-q")
    assert block("query: ") in ragwright(tmp_path, "retrieve", "APP_w304", "--explain").stdout


def test_the_scored_rows(tmp_path: Path) -> None:
    lines = re.findall(
        r"^printf '%s\\n' '(.*)' \\\n +'(.*)' > rows.jsonl$", README.read_text(), re.M
    )
    (tmp_path / "rows.jsonl").write_text("\n".join(lines[0]))
    table, rows = block("measure ").strip().split("\n\n")
    shown = ragwright(tmp_path, "score", "rows.jsonl").stdout
    assert table in shown
    assert rows in shown


@pytest.mark.slow
def test_the_answer_of_the_demo_and_the_form_of_leaderboard_and_verdict(tmp_path: Path) -> None:
    """Figures change with every edit of the guide; words, columns and their order do not."""
    answer = block("# How does reciprocal")
    place = re.compile(r"characters \d+-\d+")
    shown = ragwright(tmp_path, "demo").stdout
    assert place.sub("", answer).strip() in place.sub("", shown)
    project = tmp_path / "ragwright-demo"
    study = re.search(r"<<'END'\n(.*?)^END", README.read_text("utf-8"), re.M | re.S)
    assert study is not None
    (project / "study.yaml").write_text(study[1])
    ragwright(project, "synth", "-q", "-o", "testsets/main.jsonl", "-n", "60")
    board, verdict = block("   trial ").strip().split("\n\n")
    shown = ragwright(project, "sweep", "-q", "study.yaml").stdout
    heads = re.split(r"\s{2,}", board.splitlines()[0].strip())
    found = next(line for line in shown.splitlines() if line.split()[:1] == ["trial"])
    assert re.split(r"\s{2,}", found.strip()) == heads
    confirmed = ragwright(project, "confirm", "-q", code=None).stdout
    forms = ("No change proven for ", "better than the current", " beats the current settings on")
    assert any(form in verdict for form in forms)
    assert any(form in confirmed for form in forms)
