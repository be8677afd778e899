"""Reports show the figures of passages, as long as the passage is what the run found."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from small_project import MakeProject

from ragwright import Workbench
from ragwright.experiment import Evaluating
from ragwright.report import Report, unpacked

pytest.importorskip("selectolax")

GIF = b"GIF89a" + (160).to_bytes(2, "little") + (110).to_bytes(2, "little")
PAGE = """<html><body><h1>Pumps</h1><p>The pump is driven by a {metal} shaft.</p>
<figure><img src="data:image/gif;base64,{image}"><figcaption>Figure 2. Shaft</figcaption></figure>
</body></html>"""


def shown(report: Report) -> list[list[Any]]:
    """The figures of a report, each with its image."""
    packed = report.packed
    figures = packed.index.get("figures", [])
    return [[*row, at if at < 0 else unpacked(packed.blocks[at])] for *row, at in figures]


def page(metal: str, size: int = 20) -> str:
    return PAGE.format(metal=metal, image=base64.b64encode(GIF + bytes(size)).decode())


def test_a_report_holds_the_figures_of_its_passages(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)(**{"a.html": page("steel"), "b.html": page("brass", 700_000)})
    rows = folder / "rows.jsonl"
    question = {"user_input": "What drives the pump?", "reference": "a steel shaft"}
    rows.write_text(json.dumps(question))
    with Workbench.open(folder) as bench:
        bench.ingest()
        bench.evaluate(str(rows), "TokenF1", Evaluating(answers=True))
        report = bench.report()
        small, large = sorted(shown(report), key=lambda row: row[-1] == -1)
        assert small[:4] == ["Figure 2. Shaft", None, 160, 110]
        assert small[-1] == "data:image/gif;base64," + base64.b64encode(GIF + bytes(20)).decode()
        assert large[-1] == -1
        assert len(report.html()) < 2_000_000
    (folder / "docs/a.html").write_text(page("bronze"))
    (folder / "docs/b.html").write_text("<html><body><p>Nothing.</p></body></html>")
    with Workbench.open(folder) as bench:
        bench.ingest()
        assert shown(bench.report()) == []  # the passages of the run are no longer there
