"""Explanations of a search: what the embedding model finds near the query."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import ragwright
from small_project import MakeProject

from ragwright import Workbench
from ragwright.testing import ScriptedServer

PAGES = {
    "cover.md": "Read this first. What should I do when the panel shows a code? Look it up.",
    "codes.md": "VLV_e215 is the return valve. It sticks. Free the plunger by hand.",
}
QUERY = "The panel shows VLV_e215, what should I do?"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with ScriptedServer() as server:
        settings = f"embed: {{model: '{server.url}#words'}}\nchunk: {{by: whole}}\n"
        made = MakeProject(tmp_path)(settings, **PAGES)
        with Workbench.open(made) as bench:
            bench.ingest()
        yield made


@pytest.mark.slow
def test_the_sentences_nearest_to_the_query_are_shown_for_a_dense_search(folder: Path) -> None:
    with Workbench.open(folder) as bench:
        found = bench.retrieve(QUERY)
        nearest = bench.explain(found).nearest
        assert list(nearest) == [hit.chunk_id for hit in found.hits]
        for hit in found.hits:
            scores = [score for score, _ in nearest[hit.chunk_id]]
            assert scores == sorted(scores, reverse=True)
            assert len(scores) == 3
            assert all(sentence in hit.text for _, sentence in nearest[hit.chunk_id])
        cover = next(hit for hit in found.hits if hit.source.endswith("cover.md"))
        score, sentence = nearest[cover.chunk_id][0]
        assert sentence == "What should I do when the panel shows a code?"
        assert 0.5 < score <= 1
    shown = ragwright(folder, "retrieve", QUERY, "--explain").stdout
    assert f"near the query: {score:.3f} {sentence}" in shown
    told = json.loads(ragwright(folder, "retrieve", QUERY, "--explain", "--json").stdout)
    assert told["explanation"]["nearest"][cover.chunk_id][0] == [score, sentence]


def test_a_keyword_search_has_no_nearest_sentences(folder: Path) -> None:
    done = ragwright(folder, "retrieve", QUERY, "--explain", "--set", "retrieve.search=keyword")
    assert "near the query" not in done.stdout


def test_the_text_shown_has_no_marks_of_headings_and_code(tmp_path: Path) -> None:
    page = (
        "# Pump\n\nThe pump.\n\n## Seal\n\n```sh\n# turn it off first\npumpctl seal\n```\n\n"
        "### Wear\n\nThe seal wears."
    )
    folder = MakeProject(tmp_path)("chunk: {by: whole}\n", **{"pump.md": page})
    with Workbench.open(folder) as bench:
        bench.ingest()
    shown = ragwright(folder, "retrieve", "seal", "--explain").stdout
    assert "Pump The pump. Seal # turn it off first pumpctl seal Wear The seal wears." in shown
