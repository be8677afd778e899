"""`records` and `draft`, as a user types them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import ragwright
from one_client import one_client
from story_tools import lacking, read_json, run, settings

from ragwright.project import init_project
from ragwright.testing import ScriptedServer

ASKED = "draft --client Jane_Doe --ask donation --topic schools -n 2 --examples 3 --pool 6"
DRAFT = [word.replace("_", " ") for word in ASKED.split()]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return one_client(tmp_path_factory.mktemp("project"))


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer("1. Chip in now.\n2. " + "x" * 213) as running:
        yield running


@pytest.mark.slow
def test_a_check_ends_by_its_faults_and_takes_other_sources(tmp_path: Path) -> None:
    init_project(tmp_path, template="records")
    found = read_json(tmp_path, "records check --rows 20")
    assert (found["scanned"], found["rows"], found["faults"]) == (62, 20, [])
    (tmp_path / "other.csv").write_text("n,words\n1,please donate\n", "utf-8")
    told = run(tmp_path, "records check --source other.csv --key n --text words", code=1)
    assert "the source has no column 'channel'" in told
    assert "records/source.yaml:15" in told


def test_drafts_are_one_json_document_or_texts_for_a_person(
    project: Path, server: ScriptedServer
) -> None:
    model = f"{server.url}#scripted"
    found = json.loads(ragwright(project, *DRAFT, "--model", model, "--json").stdout)
    assert found["batch"] >= 1
    assert found["request"]["topics"] == ["schools"]
    assert found["models"] == [model]
    assert len(found["hits"]) == 6
    assert found["hits"][0]["rung"]["weight"] == 8 + 5 + 3 + 2
    assert [prompt["purpose"] for prompt in found["prompts"]] == ["first", "length"]
    assert found["prompts"][0]["messages"][0]["role"] == "system"
    first, second = found["texts"]
    assert (first["text"], first["model"], first["marks"]) == ("Chip in now.", model, [])
    assert (first["characters"], first["prompt"]) == (12, 0)
    assert second["marks"] == ["too long: 213 of 160"]
    assert found["notes"]
    done = ragwright(project, *DRAFT, "-m", model, "-o", "out/drafts.txt", "--no-save")
    assert done.stdout == ""
    text = (project / "out/drafts.txt").read_text("utf-8")
    assert not lacking(text, "1. (12 characters)", "too long: 213 of 160", "not stored: 2 texts")
    assert "6 x 18: client=Jane Doe, ask_type=donation, length=short, topic=schools" in text
    server.play("")
    done = ragwright(project, *DRAFT, "--model", f"{server.url}#silent", code=1)
    assert "no texts" in done.stdout


@pytest.mark.slow
def test_a_known_reply_is_free_and_of_one_scope_and_a_budget_stops(
    project: Path, server: ScriptedServer
) -> None:
    prices = settings(models__s__price_in=100, models__s__price_out=100, models__s__base=server.url)
    words = (*DRAFT, "--model", "s:scoped", "--json", *prices)
    first, again = (json.loads(ragwright(project, *words).stdout) for _ in range(2))
    assert first["cost"] > 0
    assert (first["usage"]["calls"], again["usage"]["calls"]) == (2, 0)
    assert (again["cost"], again["cached"]) == (0.0, True)
    assert again["snapshot"] == first["snapshot"] != ""
    own = json.loads(ragwright(project, *words, "--scope", "acme").stdout)
    assert not own["cached"]
    listed = read_json(project, "outputs list --scope acme")
    assert {one["batch"] for one in listed["outputs"]} == {own["batch"]}
    before = server.count
    server.play(lambda request: f"{server.count}. Chip in, friend. " * 30)
    long = ["--length", "long", "-n", "6", "-m", "s:m", "--max-cost", "0.15", "-j", "1"]
    done = ragwright(
        project, *DRAFT, *long, *prices, "--set", "answer.draft.max_tokens=500", code=101
    )
    assert 0 < server.count - before < 6
    assert "what was paid for is kept" in done.stderr


def test_prompts_and_forecasts_need_no_model(project: Path, server: ScriptedServer) -> None:
    shown = ragwright(project, *DRAFT, "--show-prompt").stdout
    assert not lacking(shown, "no model configured", "Write 2 such texts")
    told = json.loads(ragwright(project, *DRAFT, "--dry-run", "--json").stdout)
    assert told["calls"]["high"] == 0
    model = ("-m", f"{server.url}#other")
    told = json.loads(ragwright(project, *DRAFT, *model, "--dry-run", "--json").stdout)
    assert (told["calls"]["low"], told["calls"]["high"]) == (1, 2)
    assert server.count == 0
