"""`--as-groups`: what readers of some groups see, from the command line."""

from __future__ import annotations

from pathlib import Path

from command_line import ragwright


def test_tables_are_asked_behind_groups(tmp_path: Path) -> None:
    """A right to read narrows the tables; it does not close those that it allows."""
    (tmp_path / "pay").mkdir()
    (tmp_path / "pay/list.csv").write_text("Person,Salary (EUR)\nAda,5101\nBo,4202\n")
    (tmp_path / "ragwright.yaml").write_text("sources: [{source: pay/, groups: [hr]}]\n")
    ragwright(tmp_path, "ingest")
    question = ("ask", "What is the total salary?", "--as-groups")
    assert "9303 EUR" in ragwright(tmp_path, *question, "hr").stdout
    hidden = ragwright(tmp_path, *question, "everyone", "--json").stdout
    assert "9303" not in hidden
    assert "Salary" not in hidden
