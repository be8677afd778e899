"""`ragwright audit` from the command line, offline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import ragwright

from ragwright.flow import Progress

COPY = (
    "The nozzle of the X5-HOT printer is heated before the filament is loaded, and cleaned with a "
    "brush of brass after each print. Then the bed is wiped with alcohol, the fan of the case "
    "turns at full speed until the printer is cold, and the day is written into the book of the "
    "house."
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text(
        f"# Heating\n\n{COPY.replace('house', 'plant')}\n\nSee [the guide](gone.md).\n", "utf-8"
    )
    (tmp_path / "docs" / "b.md").write_text(f"# Bulletin\n\n{COPY}\n", "utf-8")
    (tmp_path / "ragwright.yaml").write_text("sources: [docs]\n")
    ragwright(tmp_path, "ingest", "--quiet")
    return tmp_path


def test_the_command_gates_writes_json_and_a_page(folder: Path) -> None:
    shown = ragwright(folder, "audit", "--gate", "copies=0, references<=3", "--json", code=100)
    document = json.loads(shown.stdout)
    assert "copies: 1 finding, at most 0 allowed" in shown.stderr
    finding = document["findings"][0]
    assert {"kind", "severity", "places", "why", "what_to_do"} <= set(finding)
    assert {"source", "start", "end", "text"} <= set(finding["places"][0])
    place = finding["places"][0]
    text = (folder / place["source"]).read_text("utf-8")
    assert text[place["start"] : place["end"]] == place["text"]
    ragwright(folder, "audit", "-o", "audit.html", "--gate", "copies<=1")
    page = (folder / "audit.html").read_text("utf-8")
    both = ragwright(folder, "audit", "--json", "-o", "both.html").stdout
    assert json.loads(both)["findings"]
    assert "<mark>plant" in (folder / "both.html").read_text("utf-8")
    assert "<mark>plant" in page
    assert "<mark>house" in page
    assert "http" not in page.split("</style>")[1].replace("http-equiv", "")
    shown = ragwright(folder, "audit", "--kinds", "refrences", code=1)
    assert "did you mean 'references'" in shown.stderr
    assert "default or all" in ragwright(folder, "audit", "--level", "most", code=1).stderr


def test_the_table_names_both_places_and_a_finding_can_be_dismissed(folder: Path) -> None:
    shown = ragwright(folder, "audit", "--kinds", "copies").stdout
    assert shown.startswith("1 finding in 2 documents.")
    assert "docs/a.md" in shown
    assert "docs/b.md" in shown
    name = shown.partition("[")[2].partition("]")[0]
    ragwright(folder, "audit", "--dismiss", name, "--why", "two models")
    assert "1 dismissed" in ragwright(folder, "audit", "--kinds", "copies").stdout
    again = ragwright(folder, "audit", "--kinds", "copies", "--since", "latest").stdout
    assert "0 new findings" in again
    assert "--dismiss" in ragwright(folder, "audit", "--why", "so", code=1).stderr
    told = json.loads(ragwright(folder, "audit", "--dry-run", "--json").stdout)
    assert told["cost"] is not None


def test_a_gate_that_could_not_fail_is_refused_before_anything_is_read(folder: Path) -> None:
    empty = ragwright(folder, "audit", "--gate", "", code=1)
    assert "the gate has no rule" in empty.stderr
    other = ragwright(
        folder, "audit", "--kinds", "copies", "--gate", "codes=0", "--dry-run", code=1
    )
    assert "--kinds: copies,codes" in other.stderr
    ragwright(folder, "audit", "--kinds", "damage", "--gate", "findings=0")


def test_the_terminal_shows_some_findings_of_each_kind(folder: Path) -> None:
    links = "\n\n".join(f"See [part {n}](part-{n}.md)." for n in range(24))
    (folder / "docs" / "c.md").write_text(f"# Parts\n\n{links}\n", "utf-8")
    ragwright(folder, "ingest", "--quiet")
    shown = ragwright(folder, "audit").stdout
    assert shown.count("references: dead link") == 5
    assert "and 20 references more: --all" in shown
    assert shown.index("copies: ") < shown.index("references: dead link")
    assert ragwright(folder, "audit", "--all").stdout.count("references: dead link") == 25
    written = ragwright(folder, "audit", "-o", "audit.html").stdout
    assert written.startswith("26 findings in 3 documents")
    page = (folder / "audit.html").read_text("utf-8")
    opened, _, folded = page.partition("<summary>5 findings more</summary>")
    assert (opened.count('class="finding"'), folded.count('class="finding"')) == (21, 5)
    assert page.index('id="copies"') < page.index('id="references"')


def test_an_audit_counts_the_documents_that_it_reads_and_the_questions_that_it_searches(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line of progress shows what the runner counts: before, an audit showed calls alone."""
    (folder / "set.jsonl").write_text('{"user_input": "Which plant?"}\n{"user_input": "Who?"}\n')
    begin, ended = Progress.begin, list[tuple[str, int | None, int]]()

    def noted(self: Progress, total: int | None, unit: str = "rows") -> None:
        ended.append((self.unit, self.total, self.finished))
        begin(self, total, unit)

    monkeypatch.setattr(Progress, "begin", noted)
    words = ("audit", "--kinds", "copies,reach", "--testset", "set.jsonl", "--quiet")
    ragwright(folder, *words)
    assert ended[1:] == [("documents", 2, 2), ("questions", 2, 2)]
