"""`--as-groups`: what readers of some groups see, from the command line."""

from __future__ import annotations

from pathlib import Path

from command_line import ragwright


def test_tables_are_asked_behind_groups(tmp_path: Path) -> None:
    """A right to read opens the tables that it allows, and no other ones."""
    (tmp_path / "pay").mkdir()
    (tmp_path / "pay/list.csv").write_text("Person,Salary (EUR)\nAda,5101\nBo,4202\n")
    (tmp_path / "ragwright.yaml").write_text("sources: [{source: pay/, groups: [hr]}]\n")
    ragwright(tmp_path, "ingest")
    question = ("ask", "What is the salary of Ada?", "--as-groups")
    assert "| Ada | 5101 |" in ragwright(tmp_path, *question, "hr").stdout
    hidden = ragwright(tmp_path, *question, "everyone", "--json").stdout
    assert "5101" not in hidden
    assert "Salary" not in hidden
