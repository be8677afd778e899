"""Patterns over texts are those of Python's ``re``, with a time limit for each row."""

from __future__ import annotations

import re
import warnings

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings, strategies as st
from records_rows import bronze_of, cleaning_of, tags_of

from ragwright.core import PatternError
from ragwright.records.stages import SilverStep, clean_each

ALPHABET = "aAbkKiIsS µK1_\n\r\té\u00a0😀ß日ꀀ-.$"

CLASSES = st.sampled_from([r"\s", r"\S", r"\d", r"\w", r"\W", ".", "[a-k]", "[^a-k]", r"[^\W\d_]"])
ANCHORS = st.sampled_from([r"\b", r"\B", "^", "$", r"\A", r"\Z", ""])
LITERALS = st.sampled_from([re.escape(c) for c in ALPHABET if c.isprintable()])
MARKS = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{2,}"])


def grown(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    two = st.tuples(parts, parts)
    return st.one_of(
        two.map("".join),
        two.map(lambda t: f"(?:{t[0]}|{t[1]})"),
        parts.map(lambda t: f"({t})"),
        st.tuples(LITERALS | CLASSES, MARKS).map("".join),
        parts.map(lambda t: f"(?={t})"),
        parts.map(lambda t: f"(?!{t})"),
        LITERALS.map(lambda t: f"(?<={t})"),
    )


PATTERNS = st.recursive(st.one_of(LITERALS, CLASSES, ANCHORS), grown, max_leaves=5)
TEXTS = st.lists(st.text(alphabet=ALPHABET, min_size=1, max_size=9), min_size=1, max_size=6)


def cleaned(pattern: str, replacement: str, texts: list[str | None]) -> list[str | None]:
    step = f"steps:\n- x:\n  - {{'{pattern.replace(chr(39), chr(39) * 2)}': '{replacement}'}}"
    keys = pa.array([f"row {at}" for at in range(len(texts))])
    *_, made = clean_each(pa.array(texts, pa.large_string()), keys, cleaning_of(step))
    return made


def carried(pattern: str, texts: list[str | None]) -> list[bool]:
    tags = tags_of(f"tags:\n  any ask: '{pattern.replace(chr(39), chr(39) * 2)}'")
    rows = SilverStep(cleaning_of("steps: []"), tags, "body")(bronze_of(texts)).to_pylist()
    return [row["tags"] == ["any ask"] for row in rows]


@pytest.mark.slow
@settings(derandomize=True)
@given(PATTERNS, TEXTS)
def test_searches_and_replacements_are_those_of_re(pattern: str, texts: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            python = re.compile(pattern)
        except re.error:
            assume(False)
    assume(pattern)
    assert carried(pattern, [*texts]) == [bool(python.search(text)) for text in texts]
    assert cleaned(pattern, "<>", [*texts]) == [python.sub("<>", text) for text in texts]


def test_a_replacement_is_literal_but_for_groups() -> None:
    assert cleaned(r"(\d+) euro", "€$1", ["5 euro", None]) == ["€5", None]
    assert cleaned(r"(?P<sum>\d+) dollars", r"$$${sum}\1$", ["5 dollars"]) == [r"$5\1$"]
    assert cleaned(r"(a)|b", "<${1}>", ["ab"]) == ["<a><>"]
    assert cleaned(r"(?=b)", "$$5", ["ab"]) == ["a$5b"]
    # a pattern knows categories of characters
    assert carried(r"\p{Lu}\p{Ll}+", ["Été", "été"]) == [True, False]
    assert cleaned(r"(?<head>\p{Lu})(\p{Ll})", "$2${head}", ["Été x"]) == ["tÉé x"]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(a|aa)+$", "a" * 60 + "!"),
        ("(a{1,9}){9,99}b", "a" * 200),
        ("(?:a|a)" * 30 + "[bc]", "a" * 60),
        ("a?" * 11 + "a*[bc]", "a" * 3000),
        ("a*a*a*[bc]", "a" * 4000),
        (r"(a*)(?:b|\1\1)[cd]", "a" * 4000),
        ("(?:long ){e<=9}[xy]", "lang " * 900),
        ("a*[bc]", "a" * 90_000),
    ],
)
def test_a_pattern_that_backtracks_is_stopped_and_the_row_named(pattern: str, text: str) -> None:
    steps = f"pattern_seconds: 0.01\nsteps:\n- slow: ['{pattern}']"
    texts, keys = ["aaab", text], pa.array(["row 0", "row 1"])
    with pytest.raises(PatternError, match="'row 1': it backtracks") as caught:
        list(clean_each(pa.array(texts, pa.large_string()), keys, cleaning_of(steps)))
    assert caught.value.where == "file.yaml:3"
