"""A sweep in which every trial fails says why."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import ragwright

STAGE = """
from ragwright.retrieve import Stage

class Broken(Stage):
    name = "broken"

    def apply(self, question, hits, target):
        yield from ()
        raise ValueError("no such column")
"""
STUDY = """
study: {testset: rows.jsonl, measures: nDCG@5, objective: nDCG@5}
retrieve:
  stages: [["stages_of_sweep:Broken"]]
  top_k: [3, 4]
"""


def test_trials_without_a_score_give_the_reason_of_their_rows(tmp_path: Path) -> None:
    (tmp_path / "stages_of_sweep.py").write_text(STAGE)
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "a.md").write_text("# Oil\n\nThe oil is changed every two years.\n")
    row = {"user_input": "When is the oil changed?", "reference_context_ids": ["a.md"]}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    ragwright(tmp_path, "init", "--source", "a.md", "-q")
    ragwright(tmp_path, "ingest", "-q")
    shown = ragwright(tmp_path, "sweep", "study.yaml", "-q").stdout
    assert "2 unscored: no row has a score for nDCG@5: " in shown
    assert "the stage 'broken' failed: ValueError: no such column" in shown
