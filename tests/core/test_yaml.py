"""The YAML door: every fault of a file is a typed error with its line, whatever the file holds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from ragwright.core import (
    ConfigError,
    PromptError,
    build_options,
    option,
    parse_yaml,
    read_mapping,
    read_yaml,
    scalar,
)

_NESTED = zip("abcdefgh", "bcdefghi", strict=True)
_LAUGHS = "\n".join(
    [
        "a: &a [x, x, x, x, x, x, x, x, x]",
        *(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in _NESTED),
    ]
)
_FAULTS = {
    "a date that is none": ("day: 2024-02-30", "2024-02-30"),
    "a time that is none": ("at: 2024-01-01T25:61:00", "2024-01-01T25:61:00"),
    "5,000 digits": (f"n: {'9' * 5000}", "5,000 digits"),
    "5,000 digits to base 16": (f"n: 0x{'f' * 5000}", "digits"),
    "an alias to itself": ("a: &a [1, *a]", "holds itself"),
    "an alias to itself in a mapping": ("a: &a {b: {c: *a}}", "holds itself"),
    "nested aliases": (_LAUGHS, "aliases"),
    "a number that is none": ("n: !!int abc", "abc"),
    "a truth that is none": ("n: !!bool maybe", "maybe"),
    "a time tag on a word": ("n: !!timestamp soon", "soon"),
    "bytes": ("n: !!binary aGk=", "!!binary"),
    "a set": ("n: !!set {a, b}", "!!set"),
    "pairs": ("n: !!omap [a: 1]", "!!omap"),
    "a text that is a list": ("n: !!str [a]", "!!str"),
    "a Python object": ("n: !!python/object/apply:os.system [ls]", "python/object"),
    "a tag of one's own": ("n: !mine {a: 1}", "!mine"),
    "a list as a key": ("? [a, b]\n: 1", "key"),
    "a template that was not quoted": ("n: {{ question }}", "key"),
    "20,000 brackets": (f"n: {'[' * 20_000}", "levels"),
    "20,000 braces": (f"n: {'{a: ' * 20_000}", "levels"),
    "20,000 dashes": (f"n:\n  {'- ' * 20_000}", "levels"),
    "half of a surrogate pair": ('n: "\\ud83d!"', "half a character"),
    "a control character": ("n: a\x07b", "character"),
    "a second document": ("---\nb: 2", "a second document begins here"),
}


@pytest.mark.parametrize("name", _FAULTS)
def test_a_fault_is_a_typed_error_with_file_and_line(name: str) -> None:
    body, said = _FAULTS[name]
    with pytest.raises(ConfigError, match=r"^[^\n]{1,300}(\n|$)") as caught:
        parse_yaml(f"first: 1\n{body}\n", "p.yaml")
    assert said in caught.value.what
    where = caught.value.where or ""
    line = 3 if name == "20,000 dashes" else 2
    assert where == f"p.yaml:{line}" or (body == _LAUGHS and where.startswith("p.yaml:"))
    assert name != "a second document" or "---" in str(caught.value.hint)


def test_faults_of_files_name_their_line(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    for text, words, hint in (
        ("system: hi\nuser: 2024-02-30\n", "2024-02-30", ""),
        ("system: hi\nusr: there\n", "usr", "user"),
    ):
        file.write_text(text)
        with pytest.raises(PromptError, match=words) as caught:
            read_mapping(file).check_keys(("system", "user"), "a prompt")
        assert caught.value.where == f"{file}:2"
        assert hint in (caught.value.hint or "")
    file.write_bytes("tags:\n  café hook: x\n".encode("latin-1"))
    with pytest.raises(ConfigError, match="not UTF-8") as encoded:
        read_yaml(file, "records/tags.yaml")
    assert encoded.value.where == "records/tags.yaml:2"
    assert encoded.value.hint == "save it as UTF-8"


@pytest.mark.parametrize(
    "value", ["2024-02-30", "9" * 5000, "&a [*a]", "!!int abc", "[" * 20_000, '"\\ud800"', "\udcff"]
)
def test_set_refuses_what_no_value_can_be(value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        scalar(value, "--set key")
    assert caught.value.where == "--set key"


def test_set_takes_text_that_is_no_yaml_as_it_is_and_files_aliases_dates_and_emoji() -> None:
    assert scalar("note: [x", "--set key") == "note: [x"
    assert scalar("[a, 2024-01-02]", "--set key") == ["a", "2024-01-02"]
    read = parse_yaml('a: &a [1, 2]\nb: {c: *a, d: *a}\ne: "\\ud83d\\ude00"\nf: 2024-02-29\n', "p")
    wanted = {"a": [1, 2], "b": {"c": [1, 2], "d": [1, 2]}, "e": "\U0001f600", "f": "2024-02-29"}
    assert read.value == wanted


@dataclass(frozen=True, slots=True)
class Some:
    """Options of a test."""

    methods: tuple[Literal["rewrite", "subqueries"], ...] = option((), "Ways of rewording.")
    fusion: Literal["rrf", "weighted"] = option("rrf", "How lists are put together.")


@pytest.mark.parametrize(
    ("text", "bad", "meant"),
    [
        ("[rewrite]", "not a list", "its keys: methods, fusion"),
        ("methods: [rewrite, rewrit]", "not 'rewrit'", "did you mean rewrite?"),
        ("methods: [12]", "not 12", "Ways of rewording. Allowed: rewrite, subqueries."),
        ("fusion: weigted", "not 'weigted'", "did you mean weighted?"),
        ("fusion: [rrf]", "not a list", "How lists are put together. Allowed: rrf, weighted."),
    ],
)
def test_a_wrong_item_and_the_nearest_right_one_are_named(text: str, bad: str, meant: str) -> None:
    placed = parse_yaml(text, "some.yaml")
    with pytest.raises(ConfigError) as refused:
        build_options(Some, placed.value, placed, ())
    assert bad in refused.value.what
    assert refused.value.hint == meant
