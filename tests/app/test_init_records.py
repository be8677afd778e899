"""`init --template`: working files for a project of records, and nothing overwritten."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from command_line import ragwright

from ragwright.core import ConfigError, read_yaml
from ragwright.drafting import Drafting, DraftRequest
from ragwright.project import init_project, load_settings, project_templates
from ragwright.records import load_spec
from ragwright.workbench import Workbench

FILES = [
    ".gitignore",
    "ragwright.yaml",
    "records/biographies.csv",
    "records/cleaning.yaml",
    "records/messages.csv",
    "records/rollups.yaml",
    "records/rules.yaml",
    "records/source.yaml",
    "records/tags.yaml",
    "records/text_formats/message.yaml",
]


def written(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_the_template_is_written_whole_and_its_project_file_is_valid(tmp_path: Path) -> None:
    done = ragwright(tmp_path, "init", "--template", "records")
    assert written(tmp_path) == FILES
    assert "ragwright records check" in done.stderr
    load_settings(tmp_path / "ragwright.yaml")
    for name in FILES:
        if name.endswith(".yaml"):
            assert read_yaml(tmp_path / name).value


def test_messages_of_the_template_are_many_and_varied(tmp_path: Path) -> None:
    init_project(tmp_path, template="records")
    with (tmp_path / "records" / "messages.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) >= 60
    assert len({row["message_id"] for row in rows}) == len(rows)
    assert len({row["sender"] for row in rows}) > len({row["sender"].split()[0] for row in rows})
    assert any(not row["body"] for row in rows), "an empty text, so that its reason is seen"
    assert any(len(row["body"]) >= 1100 for row in rows)


def test_an_unknown_template_lists_those_there_are(tmp_path: Path) -> None:
    assert "records" in project_templates()
    done = ragwright(tmp_path, "init", "--template", "recrods", code=1)
    assert "known: records" in done.stderr
    assert not written(tmp_path)


def test_what_exists_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    own = tmp_path / "records" / "tags.yaml"
    own.write_text("tags: {}\n", "utf-8")
    made = init_project(tmp_path, template="records")
    assert sorted(path.name for path in made) == [".gitignore", "ragwright.yaml"]
    assert own.read_text("utf-8") == "tags: {}\n"
    with pytest.raises(ConfigError, match="nothing was changed"):
        init_project(tmp_path, template="records")
    assert written(tmp_path) == [".gitignore", "ragwright.yaml", "records/tags.yaml"]


def test_a_project_of_documents_gets_the_records_beside_them(tmp_path: Path) -> None:
    init_project(tmp_path, ("docs/",))
    before = (tmp_path / "ragwright.yaml").read_text("utf-8")
    made = init_project(tmp_path, template="records")
    assert {path.relative_to(tmp_path).parts[0] for path in made} == {"records"}
    assert (tmp_path / "ragwright.yaml").read_text("utf-8") == before


def test_sources_are_listed_in_the_templates_project_file(tmp_path: Path) -> None:
    init_project(tmp_path, ("docs/",), "records")
    assert read_yaml(tmp_path / "ragwright.yaml").value["sources"] == ["docs/"]


@pytest.mark.slow
def test_the_template_goes_from_rows_to_a_prompt(tmp_path: Path) -> None:
    init_project(tmp_path, template="records")
    with Workbench.open(tmp_path) as bench:
        report = bench.records.refresh()
        assert {name: counts.inserted for name, counts in report.tables.counts.items()} == {
            "bronze": 62,
            "silver": 60,
            "gold": 58,
        }
        again = bench.records.refresh()
        assert not any(counts.inserted + counts.updated for counts in again.tables.counts.values())
        assert report.index is not None
        assert again.index is not None
        assert (report.index.written, again.index.written) == (58, 0)
        wanted = DraftRequest("team maya", "donation", ("health care",), (), "short", 3, bio=True)
        batch = bench.draft(wanted, Drafting(preview=True))
    first = batch.hits[0].metadata
    assert batch.request.client == first["client"] == "Maya Delgado"
    assert "health care" in str(first["topic"])
    [prompt] = batch.prompts
    assert "a nurse's daughter" in prompt.messages[0][1]
    asked = prompt.messages[-1][1]
    head = "A text message: short; ask: donation; from Maya Delgado; about health care"
    assert asked.startswith(head)
    assert "https://" not in str(prompt.messages)


@pytest.mark.slow
def test_records_of_the_template_that_lack_something_still_read_well(tmp_path: Path) -> None:
    init_project(tmp_path, template="records")
    written = load_spec(tmp_path / "records").format
    assert written.fill({"length": "short", "ask_type": ["petition"], "topic": ["transit"]}) == (
        "A text message: short; ask: petition; about transit"
    )
    assert written.fill({"length": "long", "text": "Hi"}) == "A text message: long\n\nHi"
    assert not Workbench.open(tmp_path).records.check().notes


def test_jobs_of_the_template_are_ready_to_run(tmp_path: Path) -> None:
    init_project(tmp_path, template="records")
    listed = ragwright(tmp_path, "job", "list").stdout
    assert "30 7 * * mon-fri" in listed
    assert "by hand" in listed
