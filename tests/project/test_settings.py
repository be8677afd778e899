"""The project file: sections reach the records of their rooms; faults are in ``messages``."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragwright.core import ConfigError, FilterError
from ragwright.project import Settings, load_settings, project_keys
from ragwright.retrieve import parse_filter

FULL = """\
sources: [docs/, https://example.org, {source: more/, include: ['*.md']}]
chunk: {by: headings, size: 100, overlap: 10}
store: {kind: lance, approximate: true}
embed: {model: 'st:x'}
retrieve:
  top_k: 3
  weights: {dense: 0.5}
  filters:
    - {field: language, values: [en]}
    - {field: created, low: 2024-01-01}
    - {field: language, values: fr}
models:
  openai:gpt-4o-mini: {price_in: 1, price_out: 2}
"""


def load(tmp_path: Path, text: str, *overrides: str) -> Settings:
    file = tmp_path / "ragwright.yaml"
    file.write_text(text, "utf-8")
    return load_settings(file, overrides)


def test_sections_reach_the_records_of_their_rooms_and_overrides_win(tmp_path: Path) -> None:
    settings = load(tmp_path, FULL)
    named = [entry.source for entry in settings.sources]
    assert named == ["docs/", "https://example.org", "more/"]
    assert settings.sources[2].options.include == ("*.md",)
    assert (settings.chunk.by, settings.chunk.size) == ("headings", 100)
    assert settings.store.approximate
    weights, filters = settings.retrieve.weights, settings.retrieve.filters
    assert (weights.dense, weights.keyword) == (0.5, 1.0)
    assert (filters[0].field, filters[1].low) == ("language", "2024-01-01")
    assert filters[2].values == ("fr",), "one value may stand for a list"
    assert settings.models["openai:gpt-4o-mini"].price_out == 2
    settings = load(tmp_path, FULL, "retrieve.top_k=7", "embed.model=")
    assert (settings.retrieve.top_k, settings.embed.model) == (7, "")
    settings = load(tmp_path, "sources: [docs/]", "embed.model=st:y")
    assert (settings.answer.model, settings.embed.model) == ("snippet", "st:y")
    with pytest.raises(ConfigError, match="no such file"):
        load_settings(tmp_path / "nowhere.yaml")


def test_every_key_has_a_sentence_and_says_when_it_applies() -> None:
    listed = list(project_keys())
    assert len(listed) > 40
    for name, when, _, sentence in listed:
        assert when in {"index", "query"}, name
        assert sentence.endswith((".", "…")), name


def test_a_prefix_reads_back_as_it_is_written() -> None:
    for text in ("document_id=docs/hr/*", "code!=20*"):
        assert str(parse_filter(text)) == text
    assert parse_filter("a=x|y*").values == ("x", "y*"), "a list holds plain values"
    with pytest.raises(FilterError):
        parse_filter("a=")
