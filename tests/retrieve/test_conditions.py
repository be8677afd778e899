"""Filters as people type them."""

from __future__ import annotations

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
from ragwright.retrieve import RetrieveOptions, parse_filter, parse_soft_filter


@pytest.mark.parametrize(
    ("text", "filter_"),
    [
        ("party=D", Filter("party", ("D",))),
        (" topic = health | tax ", Filter("topic", ("health", "tax"))),
        ("year=2019..2021", Filter("year", (), "2019", "2021")),
        ("year=..2021", Filter("year", (), None, "2021")),
        ("score=1.5..2.5", Filter("score", (), "1.5", "2.5")),
        ("created=2021-05-01..", Filter("created", (), "2021-05-01", None)),
        ("open=true", Filter("open", ("true",))),
        ("code=007", Filter("code", ("007",))),
        ("source=https://a.b/c?d=e", Filter("source", ("https://a.b/c?d=e",))),
        ("source=../docs/x.md", Filter("source", ("../docs/x.md",))),
        ("source=docs/..", Filter("source", ("docs/..",))),
        ("source=a/../b", Filter("source", ("a/../b",))),
        ("title=Wait...", Filter("title", ("Wait...",))),
        ("title=... and then", Filter("title", ("... and then",))),
        ("a=1..2|3", Filter("a", ("1..2", "3"))),
        ("a=x|..5", Filter("a", ("x", "..5"))),
        ("a=1..2..3", Filter("a", ("1..2..3",))),
        ("a=1 .. 2", Filter("a", (), "1", "2")),
        ("title=1.2.3", Filter("title", ("1.2.3",))),
        ("kind!=record", Filter("kind", ("record",), exclude=True)),
        (" topic != health | tax ", Filter("topic", ("health", "tax"), exclude=True)),
        ("year!=2019..2021", Filter("year", (), "2019", "2021", exclude=True)),
        ("year!=..2021", Filter("year", (), None, "2021", exclude=True)),
        ("mood=!", Filter("mood", ("!",))),
        ("mood!=!=", Filter("mood", ("!=",), exclude=True)),
    ],
)
def test_a_filter_is_read_as_typed(text: str, filter_: Filter) -> None:
    assert parse_filter(text) == filter_


@pytest.mark.parametrize(
    "text",
    [
        "",
        "party",
        "=D",
        "party=",
        "party= | ",
        "kind!=",
        "kind!= ",
        "!=x",
        "kind!!=x",
        "kind! !=x",
        "kind!=|",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(FilterError):
        parse_filter(text)


def test_two_dots_alone_are_a_value() -> None:
    assert parse_filter("path=..") == Filter("path", ("..",))


def test_a_weight_stands_behind_a_caret() -> None:
    soft = parse_soft_filter("topic=health^3")
    assert (soft.field, soft.values, soft.weight) == ("topic", ("health",), 3.0)
    assert parse_soft_filter("topic=health").weight == 1.0


def test_a_file_says_the_same_with_a_key_more_and_what_is_kept_reads_back() -> None:
    text = """
    filters:
      - {field: kind, values: [record], exclude: true}
      - {field: year, low: 2019, exclude: true}
      - {field: lang, values: en}
    soft: [{field: lang, values: [fr], weight: 2, exclude: true}, {field: lang, values: [en]}]
    """
    read = built(text)
    assert read.filters == (
        parse_filter("kind!=record"),
        Filter("year", low=2019, exclude=True),
        parse_filter("lang=en"),
    )
    assert read.soft == (parse_soft_filter("lang!=fr^2"), parse_soft_filter("lang=en"))
    kept = list_changed_options(read)
    assert [one.get("exclude") for one in kept["filters"]] == [True, True, None]
    assert build_options(RetrieveOptions, kept, parse_yaml("", "f"), ()) == read
    with pytest.raises(ConfigError, match="exclude"):
        built("filters: [{field: kind, values: [record], excludes: true}]")
    with pytest.raises(ConfigError, match="ends in '!'"):
        built("filters: [{field: kind!, values: [record]}]")


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
    ],
)
def test_settings_that_make_no_sense_are_refused(text: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        built(text)


def built(text: str) -> RetrieveOptions:
    placed = parse_yaml(text, "f")
    return build_options(RetrieveOptions, placed.value, placed, ())


def test_a_soft_filter_may_exclude() -> None:
    options = parse_soft_filter("lang!=fr|de^2")
    assert options.soft() == SoftFilter(Filter("lang", ("fr", "de"), exclude=True), 2.0)
    assert not parse_soft_filter("lang=fr").exclude
    with pytest.raises(FilterError):
        parse_soft_filter("lang!=^2")


@pytest.mark.parametrize("text", ["topic=health^x", "topic=a^-1", "topic=a^nan", "topic^2"])
def test_a_weight_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(FilterError):
        parse_soft_filter(text)
