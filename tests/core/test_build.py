"""Plain values become option records; what is wrong in them is named."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from ragwright.core import ConfigError, build_options, option, parse_yaml, read_yaml


@dataclass(frozen=True, slots=True)
class Some:
    """Options of a test."""

    methods: tuple[Literal["rewrite", "subqueries"], ...] = option((), "Ways of rewording.")
    fusion: Literal["rrf", "weighted"] = option("rrf", "How lists are put together.")


@pytest.mark.parametrize(
    ("text", "bad", "meant"),
    [
        ("methods: [rewrite, rewrit]", "not 'rewrit'", "did you mean 'rewrite'?"),
        ("methods: [12]", "not 12", "Ways of rewording. For example methods: [rewrite]"),
        ("fusion: weigted", "not 'weigted'", "did you mean 'weighted'?"),
        ("fusion: [rrf]", "not a list", "How lists are put together. For example fusion: rrf"),
    ],
)
def test_the_wrong_item_and_the_nearest_right_one_are_named(
    text: str, bad: str, meant: str
) -> None:
    placed = parse_yaml(text, "some.yaml")
    with pytest.raises(ConfigError) as refused:
        build_options(Some, placed.value, placed, ())
    assert bad in refused.value.what
    assert refused.value.hint == meant


def test_a_file_of_another_encoding_names_its_line(tmp_path: Path) -> None:
    file = tmp_path / "tags.yaml"
    file.write_bytes("tags:\n  café hook: x\n".encode("latin-1"))
    with pytest.raises(ConfigError, match="not UTF-8") as caught:
        read_yaml(file, "records/tags.yaml")
    assert caught.value.where == "records/tags.yaml:2"
    assert caught.value.hint == "save it as UTF-8"


def test_a_second_document_is_named_as_one() -> None:
    with pytest.raises(ConfigError, match="a second document begins here") as caught:
        parse_yaml("a: 1\n---\nb: 2\n", "x.yaml")
    assert caught.value.where == "x.yaml:2"
    assert "---" in str(caught.value.hint)
