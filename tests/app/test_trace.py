"""`ask --trace` under hard filters."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import ragwright as called

TEXTS = {
    "ours.md": "---\ntenant: a\n---\n\n# XK9\n\nXK9 means that the pump is dry.\n",
    "secret.md": "---\ntenant: b\n---\n\n# YK9\n\nYK9 means that the tank is empty.\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_trace_names_no_document_of_another_tenant(tmp_path: Path, form: tuple[str, ...]) -> None:
    (tmp_path / "docs").mkdir()
    for name, text in TEXTS.items():
        (tmp_path / "docs" / name).write_text(text)
    (tmp_path / "ragwright.yaml").write_text(
        "sources: [docs]\nretrieve: {query: {methods: [glossary]}}\n"
    )
    called(tmp_path, "ingest", "-q")
    words = ("ask", "What do XK9 and YK9 mean?", "--trace", *form)
    assert "secret.md" in called(tmp_path, *words).stdout
    told = called(tmp_path, *words, "--filter", "tenant=a").stdout
    assert "ours.md" in told
    assert "secret.md" not in told
    assert "tank is empty" not in told
