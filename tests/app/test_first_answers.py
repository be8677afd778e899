"""What a newcomer types first, and what comes back."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from command_line import ragwright
from small_project import MakeProject

from ragwright.measure import definitions

QUESTION = "How often must the brake fluid be changed?"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = MakeProject(tmp_path)()
    ragwright(folder, "ingest", "--quiet")
    return folder


def test_the_bare_command_shows_help(tmp_path: Path) -> None:
    shown = ragwright(tmp_path)
    assert "Usage: ragwright" in shown.stdout
    assert shown.stdout == ragwright(tmp_path, "--help").stdout


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "nosuch")
    error = ragwright(tmp_path, "ask", "x", "-C", missing, code=1).stderr
    assert "this folder does not exist" in error
    assert missing in error


def test_a_value_without_its_option_is_told_which_it_may_be(tmp_path: Path) -> None:
    said = ragwright(tmp_path, "diagnose", "base", code=2).stderr
    assert "If you mean --testset or --run, write it before the value" in " ".join(said.split())


@pytest.mark.slow
def test_a_question_from_standard_input(project: Path) -> None:
    done = ragwright(project, "ask", "-", typed=f"{QUESTION}\n")
    assert "every two years" in done.stdout
    assert done.stdout == ragwright(project, "ask", QUESTION).stdout
    assert "standard input holds no question" in ragwright(project, "ask", "-", code=1).stderr


def test_where_nothing_is_found_no_model_is_said_to_have_written(project: Path) -> None:
    model = "answer.model=http://127.0.0.1:9/v1#m"  # nobody is there, and nobody is asked
    said = ragwright(project, "ask", "xyzzy", "--set", model).stdout
    assert said.startswith("(nothing was found, no model was asked)")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("answer.model=gpt-4o", "did you mean openai:gpt-4o?"),
        ("answer.model=mistral-small-latest", "did you mean mistral:mistral-small-latest?"),
        ("answer.model=house", "write provider:name"),
        ("retrieve.top_k=many", "For example retrieve.top_k: 5"),
        ("retrieve.filters=year", "for example retrieve.filters: [{field: "),
        ("retrieve.rerank=st:x", "for example retrieve.rerank: {model: provider:name"),
        ("models=gpt", "for example models: {openai:gpt-4o-mini: {price_in"),
        ("budget.max_cost=lots", "For example budget.max_cost: 0.5"),
    ],
)
def test_a_wrong_value_is_answered_with_a_right_one(project: Path, setting: str, said: str) -> None:
    assert said in ragwright(project, "ask", QUESTION, "--set", setting, code=1).stderr


@pytest.mark.parametrize("command", ["ask", "retrieve"])
def test_a_filter_on_an_unknown_field_names_the_fields_there_are(
    project: Path, command: str
) -> None:
    error = ragwright(project, command, QUESTION, "--filter", "foo=bar", code=1).stderr
    assert "no chunk has the field 'foo'" in error
    assert "language" in error
    assert "source" in error


def test_every_measure_cites_a_source_that_a_reader_can_find(tmp_path: Path) -> None:
    told = json.loads(ragwright(tmp_path, "measures", "--json").stdout)["measures"]
    assert len(told) == len(definitions())
    for one in told:
        assert "SPEC" not in one["source"], one["name"]
        assert len(one["source"]) > 10, one["name"]


def test_a_name_of_ragas_says_which_measure_it_is_here(tmp_path: Path) -> None:
    shown = ragwright(tmp_path, "measures", "faithfulness").stdout
    assert shown.startswith("faithfulness of ragas is Claims here\n\nClaims ")
    assert "of ragas" not in ragwright(tmp_path, "measures", "Faithfulness").stdout


def test_the_first_scoring_example_sees_the_wrong_answer(tmp_path: Path) -> None:
    row = {"question": "How often?", "contexts": ["Every two years."]}
    wrong = {**row, "answer": "Once a year.", "ground_truth": "every two years"}
    right = {**row, "answer": "Every two years.", "ground_truth": "every two years"}
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, (wrong, right, row))))
    shown = ragwright(tmp_path, "score", "rows.jsonl").stdout
    heads, first, second, third = (
        next(line for line in shown.splitlines() if line.startswith(start))
        for start in ("row ", "1 ", "2 ", "3 ")
    )
    assert "KPrecision" in heads
    assert first.split()[-3:] == ["0.5000", "0.0000", "0.0000"]
    assert second.split()[-3:] == ["1.0000", "1.0000", "1.0000"]
    assert "not_applicable" in third
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, [wrong] * 11)))
    assert "\nrow " not in ragwright(tmp_path, "score", "rows.jsonl").stdout


@pytest.mark.slow
def test_an_evaluation_against_a_server_that_is_down_ends_soon_with_one_message(
    project: Path,
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    rows = [{"user_input": f"{QUESTION} {n}", "reference": "two years"} for n in range(40)]
    (project / "set.jsonl").write_text("\n".join(map(json.dumps, rows)))
    asked = ("eval", "--testset", "set.jsonl", "--measures", "TokenF1")
    dead = ("--set", f"answer.model=http://127.0.0.1:{port}/v1#m")
    done = ragwright(project, *asked, *dead, "--json", code=101)
    assert done.stderr.count("cannot be reached") == 1
    assert "is the server running" in done.stderr
    assert "--resume" in done.stderr
    states = json.loads(done.stdout)["measures"]["TokenF1"]["states"]
    assert states["skipped"] == 40


def test_an_abstention_shows_the_closest_passages_with_their_sources(project: Path) -> None:
    question = "Who invented the brake fluid in Oslo?"
    shown = ragwright(project, "ask", question).stdout
    assert "closest passages:" in shown
    near = shown[shown.index("closest passages:") :]
    assert "The brake fluid must be changed every two years." in near
    assert "docs/service.md" in near
    [answer] = json.loads(ragwright(project, "ask", question, "--json").stdout)["answers"]
    assert answer["abstained"]
    assert answer["citations"] == []
    first = answer["closest"][0]
    assert first["source"].endswith("service.md")
    assert first["text"] == "The brake fluid must be changed every two years."
    assert 0 <= first["score"] < 0.25
    text = (project / "docs/service.md").read_text("utf-8")
    assert text[first["start"] : first["end"]] == first["text"]
    [given] = json.loads(ragwright(project, "ask", QUESTION, "--json").stdout)["answers"]
    assert given["closest"] == []
