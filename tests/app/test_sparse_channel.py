"""The learned sparse channel by the command line, with a model that needs no weights."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright

FILE = """\
sources: [docs]
sparse: {model: "own:stems"}
models:
  "own:stems": {backend: "scripted_sparse:Stems"}
  "own:other": {backend: "scripted_sparse:OtherStems"}
retrieve: {channels: [keyword, sparse]}
"""

TEXTS = {
    "fluid.md": "Change the brake fluid every two years.",
    "pump.md": "The pump is beside the motor. Brake it gently.",
    "motor.md": "A motor without oil is a hot motor.",
    "both.md": "Braking fluids differ. Ask before changing.",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of four documents with a sparse model, not ingested yet."""
    (tmp_path / "docs").mkdir()
    for name, text in TEXTS.items():
        (tmp_path / "docs" / name).write_text(text, "utf-8")
    (tmp_path / "ragwright.yaml").write_text(FILE, "utf-8")
    shutil.copy(Path(__file__).parents[1] / "projects" / "scripted_sparse.py", tmp_path)
    return tmp_path


def ingested(project: Path, *words: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(ragwright(project, "ingest", "--json", *words).stdout)
    return report


def found(project: Path, query: str, *words: str) -> list[dict[str, Any]]:
    reply = json.loads(ragwright(project, "retrieve", query, "--json", *words).stdout)
    hits: list[dict[str, Any]] = reply["hits"]
    return hits


def sparse_scores(hits: list[dict[str, Any]]) -> dict[str, float]:
    return {
        h["source"]: h["channels"]["sparse"]["score"] for h in hits if "sparse" in h["channels"]
    }


def test_chunks_are_encoded_by_the_ingest_and_found_by_their_terms(project: Path) -> None:
    assert ingested(project)["chunks"]["encoded"] == 4
    hits = found(project, "brakes and fluids")
    # "fluids" is not a word of fluid.md for the keyword channel's stemmer alone.
    assert sparse_scores(hits) == {"docs/fluid.md": 2, "docs/both.md": 2, "docs/pump.md": 1}
    alone = found(project, "motors", "--set", "retrieve.channels=[sparse]")
    assert [(hit["source"], hit["score"]) for hit in alone] == [
        ("docs/motor.md", 2.0),
        ("docs/pump.md", 1.0),
    ]
    shown = ragwright(project, "retrieve", "brakes and fluids", "--explain").stdout
    assert "sparse #1 2.000" in shown
    assert re.search(r"sparse terms: #\d+ 1\.00, #\d+ 1\.00\n", shown)
    assert "keyword 0.20, sparse 0.80" in shown


def test_only_what_changed_is_encoded_again(project: Path) -> None:
    ingested(project)
    (project / "docs" / "motor.md").write_text("An engine needs oil.", "utf-8")
    (project / "docs" / "pump.md").unlink()
    again = ingested(project, "--prune")
    assert (again["chunks"]["encoded"], again["documents"]["removed"]) == (1, 1)
    hits = found(project, "engine pump", "--set", "retrieve.channels=[sparse]")
    assert sparse_scores(hits) == {"docs/motor.md": 1}
    assert ingested(project)["chunks"]["encoded"] == 0


def test_another_model_encodes_anew_and_leaves_the_rest(project: Path) -> None:
    ingested(project)
    other = ("--set", "sparse.model=own:other")
    refused = ragwright(project, "retrieve", "brake", *other, code=1).stderr
    assert "4 chunks of this index have no data for the channel 'sparse'" in refused
    assert "run: ragwright ingest" in refused
    report = ingested(project, *other)
    assert (report["chunks"]["encoded"], report["documents"]["unchanged"]) == (4, 4)
    assert sparse_scores(found(project, "brake", *other))
    assert sparse_scores(found(project, "brake"))


def test_filters_permissions_and_soft_filters_hold_for_the_channel(project: Path) -> None:
    ingested(project)
    only = ("--set", "retrieve.channels=[sparse]")
    filtered = found(project, "brake fluid", *only, "--filter", "source=docs/both.md")
    assert sparse_scores(filtered) == {"docs/both.md": 2}
    soft = found(project, "brake fluid", *only, "--soft", "source=docs/pump.md")
    assert soft[0]["source"] == "docs/pump.md"
    assert len(soft) == 3
    high = found(project, "brake fluid", *only, "--set", "retrieve.threshold=1.5")
    assert sparse_scores(high) == {"docs/fluid.md": 2, "docs/both.md": 2}
    both = ragwright(project, "retrieve", "x", "--set", "retrieve.threshold=1", code=1).stderr
    assert "a threshold over the channels keyword, sparse means nothing" in both


def test_a_forgotten_document_leaves_no_encoding(project: Path) -> None:
    from scripted_sparse import sparse_bytes

    (project / "docs" / "secret.md").write_text("Zebra quartz vexing jumps.", "utf-8")
    ingested(project)
    assert sparse_scores(found(project, "zebra"))
    data = sparse_bytes("Zebra quartz vexing jumps.")[:16]
    assert any(
        data in path.read_bytes() for path in project.rglob(".ragwright/**/*") if path.is_file()
    )
    (project / "docs" / "secret.md").unlink()
    ragwright(project, "forget", "docs/secret.md")
    for path in project.rglob(".ragwright/**/*"):
        assert not path.is_file() or data not in path.read_bytes(), path
    assert not found(project, "zebra")
    assert sparse_scores(found(project, "brake")).keys() == {
        "docs/fluid.md", "docs/pump.md", "docs/both.md"
    }  # fmt: skip


def test_a_restored_state_has_its_encodings_again(project: Path) -> None:
    ingested(project)
    (project / "docs" / "motor.md").write_text("Nothing.", "utf-8")
    ingested(project)
    assert sparse_scores(found(project, "motor")).keys() == {"docs/pump.md"}
    ragwright(project, "snapshots", "restore", "1")
    assert sparse_scores(found(project, "motor")).keys() == {"docs/motor.md", "docs/pump.md"}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("retrieve.channels=[keyword, sparze]", "did you mean 'sparse'"),
        ("retrieve.channels={sparse: 1}", "write a list, channels: [keyword, sparse]"),
        ("sparse.model=", "retrieve.channels names sparse, and no model is set for it"),
        ("retrieve.channels=[dense, sparse]", "dense search needs vectors"),
        ("retrieve.weights={keyword: 0, sparse: 0}", "no channel has a weight above 0"),
        ("sparse.model=openai:small", "not a model for the channel 'sparse'"),
    ],
)
def test_bad_settings_are_refused(project: Path, setting: str, message: str) -> None:
    ingested(project)
    assert message in ragwright(project, "retrieve", "brake", "--set", setting, code=1).stderr


def test_a_channel_without_weight_is_left_out(project: Path) -> None:
    ingested(project)
    setting = ("--set", "retrieve.weights.sparse=0")
    shown = ragwright(project, "retrieve", "brake", *setting).stdout
    assert "sparse channel left out: its weight is 0" in shown
    assert "sparse #" not in shown


@pytest.mark.slow
def test_a_lance_store_finds_the_same_by_both_channels(project: Path) -> None:
    shutil.copy(Path(__file__).parents[1] / "projects" / "scripted_late.py", project)
    late = 'late: {model: "own:late"}\nmodels:\n  "own:late": {backend: "scripted_late:Stems"}'
    more = FILE.replace("models:", late).replace("sparse]", "sparse, late]")
    (project / "ragwright.yaml").write_text(more, "utf-8")
    ingested(project)
    with_lance = ("--set", "store.kind=lance")
    assert ingested(project, *with_lance)["chunks"]["encoded"] == 8
    assert ingested(project, *with_lance)["chunks"]["encoded"] == 0
    hits = found(project, "brakes and fluids", *with_lance)
    assert len(sparse_scores(hits)) == 3
    assert hits == found(project, "brakes and fluids")
    doctor = ragwright(project, "doctor", *with_lance).stdout
    assert "sparse: 4 chunks encoded by own:stems" in doctor
    assert "late: 4 chunks encoded by own:late" in doctor
    with (project / "ragwright.yaml").open("a") as file:
        file.write("store: {kind: lance}\n")
    ragwright(project, "forget", "docs/fluid.md")
    assert "docs/fluid.md" not in sparse_scores(found(project, "brakes and fluids"))


def test_diagnose_leaves_each_channel_out_in_turn(project: Path) -> None:
    ingested(project)
    rows = [
        {"id": "a", "user_input": "fluids", "reference_ids": ["docs/fluid.md"]},
        {"id": "b", "user_input": "motors", "reference_ids": ["docs/motor.md"]},
    ]
    (project / "t.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    asked = ("--testset", "t.jsonl", "--measures", "MRR@3", "--json")
    document = json.loads(ragwright(project, "diagnose", *asked).stdout)
    effects = {each["channel"]: each["added"]["difference"] for each in document["channels"]}
    assert effects.keys() == {"keyword", "sparse"}
    table = ragwright(project, "diagnose", *asked[:-1]).stdout
    assert "channel  measure  without" in table
    plain = json.loads(
        ragwright(project, "diagnose", *asked, "--set", "retrieve.channels=[keyword]").stdout
    )
    assert plain["channels"] == []
