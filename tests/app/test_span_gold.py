"""`eval --retrieval-only`, `sweep`, `compare`, `gate` and `report` on gold that is spans."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright

from ragwright import Workbench

WORDS = ["brake", "coolant", "filter", "belt", "battery", "tyre", "wiper", "lamp"]
WORDS += ["clutch", "mirror", "pump", "valve"]
EVAL = ("eval", "--testset", "testsets/parts.jsonl", "--measures", "HitRate@1,MRR@10")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """One document; the gold of each question about a part is a section on another part."""
    sections = [
        f"# The {w}\n\nThe {w} is changed after {n + 2} years.\n\n" for n, w in enumerate(WORDS)
    ]
    (tmp_path / "docs").mkdir()
    (tmp_path / "testsets").mkdir()
    (tmp_path / "docs/manual.md").write_text("".join(sections))
    (tmp_path / "ragwright.yaml").write_text("sources: [docs]\nchunk: {size: 12, overlap: 0}\n")
    ragwright(tmp_path, "ingest")
    with Workbench.open(tmp_path) as bench:
        [document] = bench.documents()
    rows = []
    for number, word in enumerate(WORDS):
        text = f"The {WORDS[number - 4]} is changed after"
        start = document.text.index(text)
        span = {"document_id": document.id, "start": start, "end": start + len(text), "text": text}
        asked = f"When is the {word} changed?"
        rows.append({"id": word, "user_input": asked, "reference_spans": [span]})
    (tmp_path / "testsets/parts.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return tmp_path


def test_rankings_of_one_document_are_measured_by_spans(project: Path) -> None:
    ranked = told(project, *EVAL, "--retrieval-only")
    answered = told(project, *EVAL, "--set", "retrieve.top_k=12")
    for measure in ("HitRate@1", "MRR@10"):
        assert ranked["measures"][measure]["mean"] == answered["measures"][measure]["mean"]
        assert ranked["measures"][measure]["counted"] == {"spans": 12}
    assert ranked["measures"]["HitRate@1"]["mean"] == 0
    shown = ragwright(project, *EVAL, "--retrieval-only").stdout
    assert "HitRate@1 (0-1, spans)" in shown


def test_a_measure_that_looks_deeper_than_the_answer_says_so(project: Path) -> None:
    shown = ragwright(project, "eval", "--testset", "testsets/parts.jsonl", "--measures", "nDCG@10")
    assert "at most 5 (retrieve.top_k)" in " ".join(shown.stdout.split())


def test_rows_with_spans_and_rows_with_documents_are_counted_each_by_its_gold(
    project: Path,
) -> None:
    path = project / "testsets/parts.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows[:5]:
        row["reference_ids"] = [row.pop("reference_spans")[0]["document_id"]]
    path.write_text("\n".join(map(json.dumps, rows)))
    found = told(project, *EVAL, "--retrieval-only")["measures"]["HitRate@1"]
    assert found["counted"] == {"spans": 7, "documents": 5}
    assert found["mean"] == pytest.approx(5 / 12)
    shown = ragwright(project, *EVAL, "--retrieval-only").stdout
    assert "spans and documents" in " ".join(shown.split())


def test_measures_of_characters_need_no_answer(project: Path) -> None:
    measures = ("--measures", "SpanIoU@3,SpanPrecision@3")
    asked = ("eval", "--testset", "testsets/parts.jsonl", *measures)
    ranked = told(project, *asked, "--retrieval-only")["measures"]
    answered = told(project, *asked, "--set", "retrieve.top_k=12")["measures"]
    assert {name: one["mean"] for name, one in ranked.items()} == {
        name: one["mean"] for name, one in answered.items()
    }
    assert ranked["SpanIoU@3"]["n"] == 12


def test_a_sweep_of_rankings_tells_chunkers_apart(project: Path) -> None:
    study = {
        "study": {
            "testset": "testsets/parts.jsonl",
            "measures": "MRR@10",
            "retrieval_only": True,
        },
        "chunk": {"size": [12, 400]},
    }
    (project / "study.yaml").write_text(json.dumps(study))
    made = told(project, "sweep", "study.yaml")
    means = [trial["measures"]["MRR@10"]["mean"] for trial in made["trials"]]
    assert len(made["trials"]) == 3
    assert len(set(means)) > 1


def told(project: Path, *words: str, code: int | None = 0) -> Any:
    return json.loads(ragwright(project, *words, "--json", code=code).stdout)


def test_pages_say_what_was_counted(project: Path) -> None:
    from served import served

    run = told(project, *EVAL, "--retrieval-only")["run"]
    with served(project) as running:
        assert "0-1, spans" in running.http.get(f"/experiments/{run}").text
