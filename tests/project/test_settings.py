"""The project file: sections reach the records of their rooms; faults are in ``messages``."""

from __future__ import annotations

from pathlib import Path

import pytest
from job_project import jobs_of

from ragwright.core import ConfigError, FilterError
from ragwright.project import ProjectFolder, Settings, load_settings, project_keys
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
jobs:
  refresh:
    steps: ["records refresh"]
    schedule: "30 7 * * mon-fri"
    timezone: Europe/Paris
    retries: 2
    retry_wait: 60
    timeout: 3600
    notify: {failure: ["mailto://u:${PASSWORD}@example.org", "${WEBHOOK}"], success: ["${WEBHOOK}"]}
  generate:
    flags: {refresh: false}
    steps:
      - {run: records refresh, when: refresh, timeout: 5}
      - {run: ragwright outputs, when: not refresh}
      - draft --client "Jane Doe" -n 5
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
    with pytest.raises(ConfigError, match="does not exist"):
        load_settings(tmp_path / "nowhere.yaml")


def test_jobs_are_read_as_they_are_written(tmp_path: Path) -> None:
    load(tmp_path, FULL)
    jobs = jobs_of(ProjectFolder(tmp_path))
    refresh, generate = jobs["refresh"].options, jobs["generate"]
    assert (refresh.schedule, refresh.timezone) == ("30 7 * * mon-fri", "Europe/Paris")
    assert (refresh.retries, len(refresh.notify.addresses)) == (2, 2)
    first, second, third = generate.options.steps
    assert (first.timeout, second.words) == (5, ("outputs",))
    assert third.words == ("draft", "--client", "Jane Doe", "-n", "5")
    on, off = generate.flags(["refresh"]), generate.flags(["refresh=false"])
    assert [step.wanted(on) for step in (first, second, third)] == [True, False, True]
    assert [step.wanted(off) for step in (first, second, third)] == [False, True, True]
    assert generate.flags() == {"refresh": False}
    assert generate.where("steps", "1") == "ragwright.yaml:27"
    for given in ("refesh", "refresh=maybe"):
        with pytest.raises(ConfigError) as caught:
            generate.flags([given])
        assert caught.value.hint


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
