"""A rehearsal finds figures by their descriptions, and changes no figure that is kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from described_figures import TEXT, drawing, figures, images_of, page, settings
from small_project import MakeProject

from ragwright import Workbench
from ragwright.rehearsal import Rehearsing
from ragwright.testing import ScriptedServer, ServerRequest

pytest.importorskip("numpy")
pytest.importorskip("selectolax")

NEW = "A photo of the osmium valve VX-2."
ROWS = (
    '{"user_input": "zirconium gasket", "reference_ids": ["docs/a.html"]}\n'
    '{"user_input": "osmium valve", "reference_ids": ["docs/b.html"]}\n'
)


def script(request: ServerRequest) -> str:
    return TEXT if images_of(request) == [drawing(90)] else NEW


def patient(server: ScriptedServer) -> str:
    return settings(server).replace("timeout: 5", "timeout: 60")


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(script) as running:
        yield running


def test_a_rehearsal_of_changed_sources_describes_their_figures(
    tmp_path: Path, server: ScriptedServer
) -> None:
    folder = MakeProject(tmp_path)(
        patient(server), **{"a.html": page(drawing(90)), "b.html": page(drawing(60))}
    )
    changed = tmp_path / "changed"
    changed.mkdir()
    (changed / "b.html").write_text(page(drawing(40)).replace("steel shaft", "drive belt"))
    (changed / "a.html").write_text(page(drawing(90)))
    (folder / "rows.jsonl").write_text(ROWS)
    with Workbench.open(folder) as bench:
        assert bench.ingest().warnings == ()
        kept = figures(bench)
        server.play(lambda r: TEXT if images_of(r) == [drawing(90)] else "An osmium valve, new.")
        asked = server.count
        options = Rehearsing(
            sources=(f"{changed}=docs/",), testset="rows.jsonl", search_only=True, measures="MRR@5"
        )
        forecast = bench.forecast_rehearse(options)
        assert forecast.index is not None
        assert forecast.index.calls is not None
        assert forecast.index.calls.calls.expected == 1
        assert server.count == asked
        result = bench.rehearse(options)
        assert server.count == asked + 1  # the new image; the other was described before
        assert [d.document_id for d in result.documents] == ["docs/b.html"]
        assert [change.worse for change in result.changes] == [{}, {}]
        assert figures(bench) == kept
        assert "osmium valve VX-2" in (bench.retrieve("osmium", 1).hits[0].head.figures)  # type: ignore[union-attr]


def test_heads_by_a_model_are_searched_on_both_sides(
    tmp_path: Path, server: ScriptedServer
) -> None:
    folder = MakeProject(tmp_path)(patient(server), **{"a.html": page(drawing(90))})
    more = tmp_path / "more"
    more.mkdir()
    (more / "hose.md").write_text("# Hose\n\nA hose of rubber.\n")
    (folder / "rows.jsonl").write_text(ROWS.splitlines()[0])
    with Workbench.open(folder) as bench:
        bench.ingest()
        result = bench.rehearse(
            Rehearsing(
                sources=(str(more),), testset="rows.jsonl", search_only=True, measures="MRR@5"
            )
        )
        (change,) = result.changes
        assert not change.changed
