"""Small things that people try on the first day, and expect to work as elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import ragwright
from small_project import MakeProject


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = MakeProject(tmp_path)()
    ragwright(folder, "ingest", "-q")
    return folder


def test_retrieve_reads_standard_input_as_ask_does(project: Path) -> None:
    found = ragwright(project, "retrieve", "-", typed="APP_w304\n").stdout
    assert "docs/codes.md" in found
    nothing = ragwright(project, "retrieve", "-", typed=" \n", code=1).stderr
    assert "echo 'How often?' | ragwright retrieve -" in nothing


def test_init_takes_the_folder_as_other_commands_do(tmp_path: Path) -> None:
    ragwright(tmp_path, "init", "-C", "new")
    assert (tmp_path / "new" / "ragwright.yaml").is_file()
    assert "two folders" in ragwright(tmp_path, "init", "one", "-C", "two", code=1).stderr
    assert not (tmp_path / "one").exists()


@pytest.mark.slow
def test_ids_of_runs_stay_whole_in_narrow_terminals(project: Path) -> None:
    rows = {"user_input": "How often?", "reference": "every two years", "response": "every year"}
    (project / "rows.jsonl").write_text(json.dumps(rows), "utf-8")
    ragwright(project, "score", "rows.jsonl", "--measures", "TokenF1,Contains,ExactMatch", "-q")
    known = json.loads(ragwright(project, "compare", "--json").stdout)["runs"]
    shown = ragwright(project, "compare", COLUMNS="40").stdout
    assert known[0]["id"] in shown


@pytest.mark.slow
def test_quiet_leaves_out_notes_and_keeps_the_result(project: Path) -> None:
    (project / "docs/codes.md").unlink()
    loud = ragwright(project, "ingest").stdout
    quiet = ragwright(project, "ingest", "-q").stdout
    assert "note: 1 document is no longer in these sources" in loud
    assert "note: " not in quiet
    assert "1 unchanged" in quiet


def test_a_key_with_a_field_that_no_document_has_warns_and_names_fields(project: Path) -> None:
    made = ragwright(project, "keys", "add", "reader", "--filter", "nofield=1")
    assert "no chunk has the field 'nofield'" in made.stderr
    assert "title" in made.stderr
    assert made.stdout.startswith("rw_")
    fine = ragwright(project, "keys", "add", "other", "--filter", "title=Warning codes")
    assert "warning" not in fine.stderr


def test_a_baseline_without_an_embedding_model_says_so_before_anything_else(
    project: Path,
) -> None:
    done = ragwright(project, "baseline", "--testset", "no/such/file.jsonl", code=1)
    assert "distances need an embedding model" in done.stderr


@pytest.mark.slow
def test_the_language_of_keywords_can_be_swept(project: Path) -> None:
    (project / "rows.jsonl").write_text(
        "".join(
            json.dumps(
                {
                    "user_input": f"How often is fluid {n} changed?",
                    "reference_ids": ["docs/service.md" if n % 2 else "docs/codes.md"],
                    "split": "confirm" if n > 12 else "tune",
                }
            )
            + "\n"
            for n in range(20)
        ),
        "utf-8",
    )
    (project / "study.yaml").write_text(
        "study: {testset: rows.jsonl, measures: 'nDCG@5'}\nkeyword: {language: [en, fr]}\n",
        "utf-8",
    )
    shown = ragwright(project, "sweep", "study.yaml", "-q").stdout
    assert "T002" in shown
    forecast = ragwright(project, "confirm", "--dry-run").stdout
    assert "calls: 0" in forecast
    log = project / "testsets" / "confirm-log.jsonl"
    assert not log.exists()


@pytest.mark.slow
def test_a_dry_run_on_a_sample_needs_no_gold_in_it(project: Path) -> None:
    rows = [
        {"id": f"q{n}", "user_input": f"How often is fluid {n} changed?", "split": "tune"}
        for n in range(40)
    ]
    rows[7]["reference"] = "every two years"
    (project / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    (project / "study.yaml").write_text(
        "study: {testset: rows.jsonl, measures: TokenF1}\nretrieve: {top_k: [1, 2, 3, 4]}\n",
        "utf-8",
    )
    shown = ragwright(project, "sweep", "study.yaml", "--dry-run").stdout
    assert "trials: 5 on 40 rows" in shown
    assert "of 40 rows" in shown
