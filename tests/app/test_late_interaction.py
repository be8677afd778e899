"""Late interaction by the command line, with a model that needs no weights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright

FILE = """\
sources: [docs]
late: {model: "own:stems"}
models: {"own:stems": {backend: "scripted_late:Stems"}}
retrieve: {channels: [keyword, late]}
"""

TEXTS = {
    "fluid.md": "Change the brake fluid every two years.",
    "pump.md": "The pump stands beside the motor. Brake it gently.",
    "motor.md": "A motor without oil is a hot motor.",
    "both.md": "Braking fluids differ. Ask before changing.",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of four documents with late interaction, not ingested yet."""
    (tmp_path / "docs").mkdir()
    for name, text in TEXTS.items():
        (tmp_path / "docs" / name).write_text(text, "utf-8")
    (tmp_path / "ragwright.yaml").write_text(FILE, "utf-8")
    shutil.copy(Path(__file__).parents[1] / "projects" / "scripted_late.py", tmp_path)
    return tmp_path


def ingested(project: Path, *words: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(ragwright(project, "ingest", "--json", *words).stdout)
    return report


def found(project: Path, query: str, *words: str) -> list[dict[str, Any]]:
    reply = json.loads(ragwright(project, "retrieve", query, "--json", *words).stdout)
    hits: list[dict[str, Any]] = reply["hits"]
    return hits


def late_ids(hits: list[dict[str, Any]]) -> list[str]:
    """Sources that late interaction scored, by its rank."""
    ranks = {h["source"]: h["channels"]["late"]["rank"] for h in hits if "late" in h["channels"]}
    return sorted(ranks, key=lambda name: ranks[name])


def test_only_candidates_of_other_channels_are_scored_unless_all_are_wanted(project: Path) -> None:
    assert ingested(project)["chunks"]["encoded"] == 4
    hits = found(project, "motor oil")
    assert late_ids(hits) == ["docs/motor.md", "docs/pump.md"]
    assert hits[0]["channels"].keys() == {"keyword", "late"}
    # Every chunk: also those that share no whole word with the query, such as "Braking fluids".
    every = found(project, "brake fluid", "--set", "late.over=all")
    assert set(late_ids(every)[:2]) == {"docs/both.md", "docs/fluid.md"}
    assert len(every) == 4
    assert len(found(project, "brake", "--set", "late.candidates=1")) == 3


def test_late_interaction_alone_searches_every_chunk(project: Path) -> None:
    ingested(project)
    hits = found(project, "braking", "--set", "retrieve.channels=[late]")
    assert len(hits) == 4
    assert hits[0]["channels"].keys() == {"late"}


def test_filters_and_weights_apply(project: Path) -> None:
    ingested(project)
    name = '--set=retrieve.filters=[{field: source, values: ["docs/pump.md"]}]'
    assert late_ids(found(project, "brake motor", name)) == ["docs/pump.md"]
    without = found(project, "brake motor", "--set", "retrieve.weights.late=0")
    assert all(hit["channels"].keys() == {"keyword"} for hit in without)


def test_an_explanation_shows_the_words_that_matched(project: Path) -> None:
    ingested(project)
    shown = ragwright(project, "retrieve", "brake fluids", "--explain").stdout
    assert "late interaction: brake = Braking 1.00, fluids = fluids 1.00" in shown
    assert "weights: keyword" in shown


def test_changes_removals_and_forgetting_reach_the_vectors(project: Path) -> None:
    assert ingested(project)["chunks"]["encoded"] == 4
    assert ingested(project)["chunks"]["encoded"] == 0
    (project / "docs" / "pump.md").write_text("The pump is made of steel.", "utf-8")
    (project / "docs" / "motor.md").unlink()
    assert ingested(project, "--prune")["chunks"]["encoded"] == 1
    assert late_ids(found(project, "steel motor pump")) == ["docs/pump.md"]
    ragwright(project, "forget", "docs/pump.md")
    left = late_ids(found(project, "steel pump fluid", "--set", "late.over=all"))
    assert set(left) == {"docs/fluid.md", "docs/both.md"}


def test_doctor_says_which_channels_are_searched(project: Path) -> None:
    ingested(project)
    shown = ragwright(project, "doctor", code=None).stdout
    assert "search: channels: keyword, late" in shown
    assert "keyword search alone" not in shown
    unused = FILE.replace("retrieve: {channels: [keyword, late]}\n", "")
    (project / "ragwright.yaml").write_text(unused, "utf-8")
    shown = ragwright(project, "doctor", code=None).stdout
    assert "late.model is own:stems, but retrieve.channels does not name late" in shown
    assert "keyword search alone" in shown


def test_a_wrong_type_is_answered_with_an_example(project: Path) -> None:
    error = ragwright(project, "retrieve", "brake", "--set", "retrieve.channels=late", code=1)
    assert "For example retrieve.channels: [keyword, sparse]" in error.stderr


def test_an_index_built_before_the_channel_was_named_says_what_to_run(project: Path) -> None:
    text = FILE.replace('late: {model: "own:stems"}\n', "").replace(", late]", "]")
    (project / "ragwright.yaml").write_text(text, "utf-8")
    ingested(project)
    (project / "ragwright.yaml").write_text(FILE, "utf-8")
    error = ragwright(project, "retrieve", "brake", code=1).stderr
    assert "4 chunks of this index have no data for the channel 'late'" in error
    assert "ragwright ingest" in error
    doctor = ragwright(project, "doctor", code=None).stdout
    assert "late: 4 documents have no data of own:stems" in doctor
    assert ingested(project)["chunks"]["encoded"] == 4
    assert late_ids(found(project, "motor oil")) == ["docs/motor.md", "docs/pump.md"]


def test_a_channel_without_its_model_says_which_key_to_set(project: Path) -> None:
    ingested(project)
    error = ragwright(project, "retrieve", "brake", "--set", "late.model=", code=1).stderr
    assert "late.model" in error


def test_an_embedding_model_given_as_late_is_refused_before_anything_is_encoded(
    project: Path,
) -> None:
    dense = project / "dense"
    dense.mkdir()
    (dense / "config_sentence_transformers.json").write_text("{}", "utf-8")
    (dense / "modules.json").write_text("[]", "utf-8")
    error = ragwright(project, "ingest", "--set", "late.model=st:dense", code=1).stderr
    assert "not a late-interaction model: the folder holds an embedding model" in error


def test_doctor_shows_the_size_of_a_chunk_and_ingest_the_loss_of_8_bits(project: Path) -> None:
    for number in range(12):
        text = f"Valve {number} opens at {number * 7} bar."
        (project / "docs" / f"valve{number}.md").write_text(text, "utf-8")
    notes = " ".join(ingested(project)["notes"])
    assert "late: 8-bit vectors keep " in notes
    assert "(16 sentences as queries, 16 chunks)" in notes
    shown = ragwright(project, "doctor", code=None).stdout
    assert "late: 16 chunks encoded by own:stems, " in shown
    assert "bytes a chunk" in shown
