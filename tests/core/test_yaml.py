"""The YAML door: every fault of a file is a typed error with its line, whatever the file holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragwright.core import ConfigError, PromptError, parse_yaml, read_mapping, scalar, well_formed

_LAUGHS = "\n".join(
    ["a: &a [x, x, x, x, x, x, x, x, x]"]
    + [
        f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]"
        for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    ]
)

_FAULTS = {
    "a date that is none": ("day: 2024-02-30", "2024-02-30", 2),
    "a time that is none": ("at: 2024-01-01T25:61:00", "2024-01-01T25:61:00", 2),
    "5,000 digits": (f"n: {'9' * 5000}", "5,000 digits", 2),
    "5,000 digits to base 16": (f"n: 0x{'f' * 5000}", "digits", 2),
    "an alias to itself": ("a: &a [1, *a]", "holds itself", 2),
    "an alias to itself in a mapping": ("a: &a {b: {c: *a}}", "holds itself", 2),
    "nested aliases": (_LAUGHS, "aliases", None),
    "a number that is none": ("n: !!int abc", "abc", 2),
    "a truth that is none": ("n: !!bool maybe", "maybe", 2),
    "a time tag on a word": ("n: !!timestamp soon", "soon", 2),
    "bytes": ("n: !!binary aGk=", "!!binary", 2),
    "a set": ("n: !!set {a, b}", "!!set", 2),
    "pairs": ("n: !!omap [a: 1]", "!!omap", 2),
    "a text that is a list": ("n: !!str [a]", "!!str", 2),
    "a Python object": ("n: !!python/object/apply:os.system [ls]", "python/object", 2),
    "a tag of one's own": ("n: !mine {a: 1}", "!mine", 2),
    "a list as a key": ("? [a, b]\n: 1", "key", 2),
    "a template that was not quoted": ("n: {{ question }}", "key", 2),
    "20,000 brackets": (f"n: {'[' * 20_000}", "levels", 2),
    "20,000 braces": (f"n: {'{a: ' * 20_000}", "levels", 2),
    "20,000 dashes": (f"n:\n  {'- ' * 20_000}", "levels", 3),
    "half of a surrogate pair": ('n: "\\ud83d!"', "half a character", 2),
    "a control character": ("n: a\x07b", "character", 2),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", _FAULTS)
def test_a_fault_is_a_typed_error_with_file_and_line(name: str) -> None:
    body, said, line = _FAULTS[name]
    with pytest.raises(ConfigError, match=r"^[^\n]{1,300}(\n|$)") as caught:
        parse_yaml(f"first: 1\n{body}\n", "p.yaml")
    assert said in caught.value.what
    where = caught.value.where or ""
    assert where == f"p.yaml:{line}" if line else where.startswith("p.yaml:")


def test_a_prompt_file_gives_the_same_error(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("system: hi\nuser: 2024-02-30\n")
    with pytest.raises(PromptError, match="2024-02-30") as caught:
        read_mapping(file)
    assert caught.value.where == f"{file}:2"


@pytest.mark.parametrize(
    "value", ["2024-02-30", "9" * 5000, "&a [*a]", "!!int abc", "[" * 20_000, '"\\ud800"', "\udcff"]
)
def test_set_refuses_what_no_value_can_be(value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        scalar(value, "--set key")
    assert caught.value.where == "--set key"


def test_set_takes_text_that_is_no_yaml_as_it_is() -> None:
    assert scalar("note: [x", "--set key") == "note: [x"
    assert scalar("[a, 2024-01-02]", "--set key") == ["a", "2024-01-02"]


def test_aliases_dates_and_emoji_in_pairs_are_read() -> None:
    read = parse_yaml('a: &a [1, 2]\nb: {c: *a, d: *a}\ne: "\\ud83d\\ude00"\nf: 2024-02-29\n', "p")
    assert read.value == {
        "a": [1, 2], "b": {"c": [1, 2], "d": [1, 2]}, "e": "\U0001f600", "f": "2024-02-29",
    }  # fmt: skip


def test_well_formed_replaces_halves_and_joins_pairs() -> None:
    assert well_formed("a\ud83db\udc00") == "a\ufffdb\ufffd"
    assert well_formed("\ud83d\ude00 \U0001f600 é") == "\U0001f600 \U0001f600 é"
