"""Plain values become option records; what is wrong in them is named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest

from ragwright.core import ConfigError, option
from ragwright.core._build import build_options
from ragwright.core._yaml import parse_yaml


@dataclass(frozen=True, slots=True)
class Some:
    """Options of a test."""

    methods: tuple[Literal["rewrite", "subqueries"], ...] = option((), "Ways of rewording.")
    fusion: Literal["rrf", "weighted"] = option("rrf", "How lists are put together.")


@pytest.mark.parametrize(
    ("text", "bad", "meant"),
    [
        ("methods: [rewrite, rewrit]", "not 'rewrit'", "did you mean 'rewrite'?"),
        ("methods: [12]", "not 12", "Ways of rewording."),
        ("fusion: weigted", "not 'weigted'", "did you mean 'weighted'?"),
        ("fusion: [rrf]", "not a list", "How lists are put together."),
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
