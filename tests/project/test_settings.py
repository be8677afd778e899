from __future__ import annotations

from pathlib import Path

import pytest

from ragwright.core import ConfigError
from ragwright.project import Settings, load_settings, project_keys


def load(tmp_path: Path, text: str, *overrides: str) -> Settings:
    file = tmp_path / "ragwright.yaml"
    file.write_text(text, "utf-8")
    return load_settings(file, overrides)


def test_a_file_that_holds_only_sources_works(tmp_path: Path) -> None:
    settings = load(tmp_path, "sources:\n  - docs/\n  - https://example.org\n")
    assert [entry.source for entry in settings.sources] == ["docs/", "https://example.org"]
    assert settings.answer.model == "snippet"


def test_sections_reach_the_records_of_their_rooms(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        "chunk: {by: headings, size: 100, overlap: 10}\n"
        "retrieve:\n  top_k: 3\n  weights: {dense: 0.5}\n"
        "  filters: [{field: language, values: [en]}]\n"
        "models:\n  openai:gpt-4o-mini: {price_in: 1, price_out: 2}\n",
    )
    assert (settings.chunk.by, settings.chunk.size) == ("headings", 100)
    assert settings.retrieve.weights.dense == 0.5
    assert settings.retrieve.weights.keyword == 1.0
    assert settings.retrieve.filters[0].field == "language"
    assert settings.models["openai:gpt-4o-mini"].price_out == 2


def test_a_source_may_carry_its_own_options(tmp_path: Path) -> None:
    settings = load(tmp_path, "sources:\n  - source: docs/\n    include: ['*.md']\n")
    assert settings.sources[0].options.include == ("*.md",)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("retrieve:\n  topk: 3\n", 2, "top_k"),
        ("retreive:\n  top_k: 3\n", 1, "retrieve"),
        ("sources:\n  - source: a\n    inclde: ['*']\n", 3, "include"),
        ("models:\n  openai:x:\n    price_inn: 1\n", 3, "price_in"),
        ("retrieve:\n  weights:\n    desne: 1\n", 3, "dense"),
    ],
)
def test_an_unknown_key_names_line_and_nearest_key(
    tmp_path: Path, text: str, line: int, said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert caught.value.where == f"ragwright.yaml:{line}"
    assert said in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("retrieve:\n\ttop_k: 3\n", 2),
        ("retrieve:\n  top_k: 3\nretrieve:\n  top_k: 4\n", 3),
        ("retrieve:\n  top_k: many\n", 2),
        ("retrieve:\n  top_k: 0\n", 2),
        ("chunk:\n  size: 10\n  overlap: 20\n", 1),
        ("chunk: 5\n", 1),
        ("retrieve: {top_k: [1\n", 2),
        ("sources: 5\n", 1),
        ("serv:\n  port: 80\n", 1),
        ("jobs:\n  nightly: {step: ingest}\n", 2),
        ("store:\n  kind: mysql\n", 2),
        ("sources: []\nstore:\n  approximate: true\n", 2),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, line: int) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text).section(text.partition(":")[0])
    assert (caught.value.where or "").startswith(f"ragwright.yaml:{line}")


def test_approximate_search_names_the_store_that_has_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"store\.approximate needs store\.kind lance") as caught:
        load(tmp_path, "store: {approximate: true}\n")
    assert caught.value.hint == (
        "set store.kind: lance and run ragwright ingest again, or remove store.approximate"
    )
    assert load(tmp_path, "store: {kind: lance, approximate: true}\n").store.approximate


def test_overrides_win_and_are_checked_alike(tmp_path: Path) -> None:
    settings = load(tmp_path, "retrieve: {top_k: 3}\n", "retrieve.top_k=7", "embed.model=st:x")
    assert settings.retrieve.top_k == 7
    assert settings.embed.model == "st:x"
    with pytest.raises(ConfigError, match="unknown key"):
        load(tmp_path, "", "retrieve.topk=7")
    with pytest.raises(ConfigError, match="is not of the form key=value"):
        load(tmp_path, "", "retrieve.top_k")


def test_a_file_that_is_no_mapping_or_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="mapping"):
        load(tmp_path, "- a\n- b\n")
    with pytest.raises(ConfigError, match="does not exist"):
        load_settings(tmp_path / "nowhere.yaml")


def test_every_key_has_a_sentence_and_says_when_it_applies() -> None:
    listed = list(project_keys())
    assert len(listed) > 40
    for name, when, _, sentence in listed:
        assert when in {"index", "query"}, name
        assert sentence.endswith((".", "…")), name


@pytest.mark.parametrize(
    "item", ["{field: language, value: fr}", "{field: language}", "{values: [fr]}", "{}"]
)
def test_a_filter_that_would_filter_nothing_is_refused(tmp_path: Path, item: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, f"retrieve:\n  filters:\n    - {item}\n")
    assert caught.value.where == "ragwright.yaml:3"


def test_one_value_may_stand_for_a_list(tmp_path: Path) -> None:
    settings = load(tmp_path, "retrieve: {filters: [{field: created, low: 2024-01-01}]}\n")
    assert settings.retrieve.filters[0].low == "2024-01-01"
    settings = load(tmp_path, "retrieve: {filters: [{field: language, values: fr}]}\n")
    assert settings.retrieve.filters[0].values == ("fr",)


def test_an_override_is_blamed_for_its_own_fault(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, "retrieve: {top_k: 3}\n", "retrieve.topk=7")
    assert caught.value.where == "--set retrieve.topk=7"


def test_an_empty_override_means_the_empty_text(tmp_path: Path) -> None:
    assert load(tmp_path, "embed: {model: 'st:x'}\n", "embed.model=").embed.model == ""
