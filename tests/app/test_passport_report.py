"""`ragwright report` of a stored passport, and `ragwright passport -o page.html`."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import ragwright

ROWS = [
    {
        "id": str(n),
        "question": f"q{n}",
        "response": f"word{n % 3} word{n}",
        "contexts": [f"word{n} other"],
        "grade": 1 + n % 3,
    }
    for n in range(12)
]


def test_a_passport_is_written_as_a_page_at_once_or_later(tmp_path: Path) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    (tmp_path / "rows.jsonl").write_text(lines)
    words = ("passport", "rows.jsonl", "--map", "grade=label.quality(1..3)")
    ragwright(tmp_path, *words, "-o", "p.json")
    assert json.loads((tmp_path / "p.json").read_text())["people"]["quality"]["rows"] == 12
    later = ragwright(tmp_path, "report", "p.json", "-o", "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!doctype html>")
    assert 'data-chart="agreement-quality"' in page
    assert "for quality" in later.stderr or "on quality" in later.stderr
    ragwright(tmp_path, *words, "-o", "now.html")
    now = (tmp_path / "now.html").read_text()
    head = page.partition("<h1")[2].partition("</h1>")[0]
    assert head == now.partition("<h1")[2].partition("</h1>")[0]
    assert "not proven better than chance on quality" in head
    shown = json.loads(ragwright(tmp_path, "report", "p.json", "--json").stdout)
    assert shown["set"] == "rows"
    refused = ragwright(tmp_path, "report", "p.json", "-o", "x.csv", code=1)
    assert "cannot be written as CSV" in refused.stderr
    (tmp_path / "bad.json").write_text("{}")
    wrong = ragwright(tmp_path, "report", "bad.json", code=1)
    assert "not a passport" in wrong.stderr
