"""Filters as people type them, and settings."""

from __future__ import annotations

from typing import Any

import pytest

from ragwright.core import (
    ConfigError,
    Filter,
    FilterError,
    SoftFilter,
    build_options,
    list_changed_options,
    parse_yaml,
)
from ragwright.retrieve import (
    DatabaseOptions,
    QueryOptions,
    RetrieveOptions,
    SelectOptions,
    parse_filter,
    parse_soft_filter,
)


def F(field: str, *values: str, low: str | None = None, high: str | None = None) -> Filter:
    """A filter; the field says with ``!`` that it excludes."""
    return Filter(field.rstrip("!"), values, low, high, exclude=field.endswith("!"))


@pytest.mark.parametrize(
    ("text", "filter_"),
    [
        ("party=D", F("party", "D")),
        (" topic = health | tax ", F("topic", "health", "tax")),
        ("year=2019..2021", F("year", low="2019", high="2021")),
        ("year=..2021", F("year", high="2021")),
        ("score=1.5..2.5", F("score", low="1.5", high="2.5")),
        ("created=2021-05-01..", F("created", low="2021-05-01")),
        ("open=true", F("open", "true")),
        ("code=007", F("code", "007")),
        ("path=..", F("path", "..")),
        ("source=https://a.b/c?d=e", F("source", "https://a.b/c?d=e")),
        ("source=../docs/x.md", F("source", "../docs/x.md")),
        ("source=docs/..", F("source", "docs/..")),
        ("source=a/../b", F("source", "a/../b")),
        ("title=Wait...", F("title", "Wait...")),
        ("title=... and then", F("title", "... and then")),
        ("a=1..2|3", F("a", "1..2", "3")),
        ("a=x|..5", F("a", "x", "..5")),
        ("a=1..2..3", F("a", "1..2..3")),
        ("a=1 .. 2", F("a", low="1", high="2")),
        ("title=1.2.3", F("title", "1.2.3")),
        ("kind!=record", F("kind!", "record")),
        (" topic != health | tax ", F("topic!", "health", "tax")),
        ("year!=2019..2021", F("year!", low="2019", high="2021")),
        ("year!=..2021", F("year!", high="2021")),
        ("mood=!", F("mood", "!")),
        ("mood!=!=", F("mood!", "!=")),
    ],
)
def test_a_filter_is_read_as_typed(text: str, filter_: Filter) -> None:
    assert parse_filter(text) == filter_


@pytest.mark.parametrize(
    "text",
    [
        *("", "party", "=D", "party=", "party= | ", "kind!=", "kind!= ", "!=x", "kind!!=x"),
        *("kind! !=x", "kind!=|"),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(FilterError):
        parse_filter(text)


def test_a_weight_stands_behind_a_caret() -> None:
    soft, plain = parse_soft_filter("topic=health^3"), parse_soft_filter("lang=fr")
    assert (soft.field, soft.values, soft.weight) == ("topic", ("health",), 3.0)
    assert (plain.weight, plain.exclude) == (1.0, False)
    barred = parse_soft_filter("lang!=fr|de^2").soft()
    assert barred == SoftFilter(F("lang!", "fr", "de"), 2.0)
    for text in ("topic=health^x", "topic=a^-1", "topic=a^nan", "topic^2", "lang!=^2"):
        with pytest.raises(FilterError):
            parse_soft_filter(text)


def built(text: str) -> RetrieveOptions:
    placed = parse_yaml(text, "f")
    return build_options(RetrieveOptions, placed.value, placed, ())


def test_a_file_says_the_same_with_a_key_more_and_what_is_kept_reads_back() -> None:
    text = """
    filters:
      - {field: kind, values: [record], exclude: true}
      - {field: year, low: 2019, exclude: true}
      - {field: lang, values: en}
    soft: [{field: lang, values: [fr], weight: 2, exclude: true}, {field: lang, values: [en]}]
    """
    read = built(text)
    years = Filter("year", low=2019, exclude=True)
    assert read.filters == (parse_filter("kind!=record"), years, parse_filter("lang=en"))
    assert read.soft == (parse_soft_filter("lang!=fr^2"), parse_soft_filter("lang=en"))
    kept = list_changed_options(read)
    assert [one.get("exclude") for one in kept["filters"]] == [True, True, None]
    assert build_options(RetrieveOptions, kept, parse_yaml("", "f"), ()) == read


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("fusion: sum", "fusion"),
        ("keyword_share: 1.5", "keyword_share"),
        ("search: semantic", "search"),
        ("top_k: 0", "top_k"),
        ("pool: 0", "pool"),
        ("weights: {dense: .nan}", "dense"),
        ("weights: {keyword: .inf}", "keyword"),
        ("iterate: {rounds: 9}", "rounds"),
        ("query: {methods: [rewrit]}", "rewrit"),
        ("rerank: {method: magic}", "magic"),
        ("route: {method: modelish}", "modelish"),
        ("filters: [{field: kind, values: [record], excludes: true}]", "exclude"),
        ("filters: [{field: kind!, values: [record]}]", "ends in '!'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(text: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        built(text)


@pytest.mark.parametrize(
    ("make", "given", "named"),
    [
        (SelectOptions, {"max_per": {"act": 0}}, "act"),
        (QueryOptions, {"methods": ("rewrite",)}, "chat model"),
        (DatabaseOptions, {"name": "", "address": "sqlite:///a"}, "name"),
        (DatabaseOptions, {"name": "a b", "address": "sqlite:///a"}, "name"),
        (DatabaseOptions, {"name": "a", "address": ""}, "address"),
        (DatabaseOptions, {"name": "a", "address": "postgresql://u:secret@h/d"}, "a password"),
        (DatabaseOptions, {"name": "a", "address": "postgresql://h/d?password=x"}, "a password"),
        (DatabaseOptions, {"name": "a", "address": "postgresql://u:a${B}@h/d"}, "a password"),
    ],
)
def test_options_that_clash_are_refused(make: Any, given: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named) as raised:
        make(**given)
    assert "secret" not in str(raised.value)
