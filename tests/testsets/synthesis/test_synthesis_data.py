"""Offline testsets on real documents: the guide, English and French articles, a French play."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from benchmarks.data_sets import DATA

from ragwright import Workbench
from ragwright.models import Analyzer
from ragwright.testsets import (
    SynthesisOptions,
    assign_splits,
    context_fault,
    gold_documents,
)

ROOT = Path(__file__).resolve().parents[3]


def articles(name: str, folder: Path, most: int = 40) -> Path:
    """Articles in SQuAD's shape as text files."""
    file = DATA / name
    folder.mkdir()
    for number, article in enumerate(json.loads(file.read_text("utf-8"))["data"][:most]):
        paragraphs = "\n\n".join(part["context"] for part in article["paragraphs"])
        (folder / f"{number:03}.txt").write_text(f"{article['title']}\n\n{paragraphs}\n", "utf-8")
    return folder


def play(name: str, folder: Path) -> Path:
    file = DATA / "moliere" / name
    folder.mkdir()
    (folder / name).write_bytes(file.read_bytes())
    return folder


SOURCES = {
    "guide": lambda folder: ROOT / "docs" / "guide",
    "xquad": lambda folder: articles("xquad/xquad.en.json", folder),
    "piaf": lambda folder: articles("piaf/piaf-v1.0.json", folder),
    "squad2": lambda folder: articles("squad2_subset/dev-v2.0.json", folder),
    "moliere": lambda folder: play("moliere_avare.xml", folder),
}


@pytest.mark.slow
@pytest.mark.needs_data
@pytest.mark.parametrize("name", list(SOURCES))
def test_questions_on_real_documents_are_what_they_say(tmp_path: Path, name: str) -> None:
    source = SOURCES[name](tmp_path / "docs")
    (tmp_path / "ragwright.yaml").write_text(f"sources: ['{source}']\n")
    with Workbench.open(tmp_path) as bench:
        bench.ingest()
        texts = {document.id: document.text for document in bench.documents()}
        made, _ = bench.synth(SynthesisOptions(questions=30, kinds=("cloze", "heading")))
        again, _ = bench.synth(SynthesisOptions(questions=30, kinds=("cloze", "heading")))
    assert again.rows == made.rows
    assert len(made.rows) == 30
    assert len({row.user_input for row in made.rows}) == 30
    words = Analyzer()
    for row in made.rows:
        (span,) = row.reference_spans
        assert texts[span.document_id][span.start : span.end] == span.text
        assert 0.0 <= float(str(row.metadata["leak"])) <= 1.0
        if row.metadata["kind"] == "cloze":
            assert row.user_input.count("____") == 1
            assert row.reference in span.text
            assert row.reference.casefold() not in row.user_input.casefold().split()
            assert context_fault(row.user_input, words) == ""
    placed = {row.id: str(row.metadata["split"]) for row in made.rows}
    assert assign_splits(made.rows) == placed
    assert 0.2 <= Counter(placed.values())["confirm"] / 30 <= 0.6
    sides: dict[str, set[str]] = {}
    for row in made.rows:
        sides.setdefault(gold_documents(row)[0], set()).add(placed[row.id])
    if len(sides) >= 5:
        assert all(len(side) == 1 for side in sides.values())
    # Documents take turns; one whose candidate was refused has used its turn.
    owners = Counter(gold_documents(row)[0] for row in made.rows if row.metadata["kind"] == "cloze")
    if len(texts) > 30:
        assert max(owners.values()) <= 2
