"""Parsers as a setting, by the command line: read again, compared by a sweep and by eye."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from command_line import ragwright

OWN = """
from ragwright.ingest import Parser


class Shout(Parser):
    name = "shout"

    def parse(self, data, name, kind):
        if "broken" in name:
            raise ValueError("no <b>page</b>")
        return ["# PUMPS", "| part | days |\\n| - | - |\\n| FILTER | 30 |"]
"""


def pdf(*texts: str) -> bytes:
    """A PDF with a page for each text; without a table of places, which readers make up for."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(texts)))
    parts = [
        "%PDF-1.4",
        "1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj",
        f"2 0 obj<</Type/Pages/Kids[{kids}]/Count {len(texts)}>>endobj",
        "3 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj",
    ]
    for n, text in enumerate(texts):
        stream = f"BT /F 12 Tf 50 700 Td ({text}) Tj ET"
        parts.append(
            f"{4 + 2 * n} 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]"
            f"/Resources<</Font<</F 3 0 R>>>>/Contents {5 + 2 * n} 0 R>>endobj\n"
            f"{5 + 2 * n} 0 obj<</Length {len(stream)}>>stream\n{stream}\nendstream endobj"
        )
    return "\n".join([*parts, "trailer<</Root 1 0 R>>", "%%EOF"]).encode()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "pump.pdf").write_bytes(
        pdf("The filter is changed after thirty days", "Close the valve first")
    )
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "ragwright.yaml").write_text("sources: [docs/]\n")
    return tmp_path


def test_a_change_of_the_parser_reads_files_again(project: Path) -> None:
    def counts() -> dict[str, int]:
        done = ragwright(project, "ingest", "--json")
        return dict(json.loads(done.stdout)["documents"])

    assert counts()["added"] == 1
    assert counts()["unchanged"] == 1
    (project / "ragwright.yaml").write_text("sources: [{source: docs/, parser: 'own:Shout'}]\n")
    assert counts()["changed"] == 1
    assert "FILTER" in ragwright(project, "retrieve", "filter").stdout


def test_each_parser_of_all_sources_has_an_index_of_its_own_and_a_sweep_builds_it(
    project: Path,
) -> None:
    ragwright(project, "ingest")
    (project / "testsets").mkdir()
    row = {"user_input": "valve", "reference_ids": ["docs/pump.pdf"]}
    rows = [row, {**row, "user_input": "thirty days"}]
    (project / "testsets/t.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    study = {
        "study": {"testset": "testsets/t.jsonl", "measures": "MRR@5", "retrieval_only": True},
        "ingest": {"parser": ["ours", "own:Shout"]},
    }
    (project / "study.yaml").write_text(json.dumps(study))
    made = json.loads(ragwright(project, "sweep", "study.yaml", "--json").stdout)
    by_parser = {
        trial["values"].get("ingest.parser", "ours"): trial["measures"]["MRR@5"]["mean"]
        for trial in made["trials"]
    }
    assert by_parser["ours"] > by_parser["own:Shout"]
    theirs = ragwright(project, "retrieve", "filter", "--set", "ingest.parser=own:Shout").stdout
    assert "FILTER" in theirs
    assert "FILTER" not in ragwright(project, "retrieve", "filter").stdout


def test_another_index_by_the_same_parser_reads_no_unchanged_file_again(project: Path) -> None:
    counted = 'open("calls.txt", "a").write("x")\n        return'
    (project / "own.py").write_text(OWN.replace("return", counted))
    time.sleep(2.1)  # a file that was written just now may change again under the same time
    parser = ("--set", "ingest.parser=own:Shout")
    ragwright(project, "ingest", *parser)
    smaller = ("--set", "chunk.head.title=false")
    done = ragwright(project, "ingest", *parser, *smaller, "--json")
    assert json.loads(done.stdout)["documents"]["added"] == 1
    assert "FILTER" in ragwright(project, "retrieve", "filter", *parser, *smaller).stdout
    assert (project / "calls.txt").read_text() == "x"
    (project / "docs" / "pump.pdf").write_bytes(pdf("Another page"))
    ragwright(project, "ingest", *parser)
    assert (project / "calls.txt").read_text() == "xx"
