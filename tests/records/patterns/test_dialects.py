"""Patterns that Rust's engine runs mean the same there; where they do not, Python sees the row."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings, strategies as st

from ragwright.records.patterns import Pattern, Replace, Replacement, matches, plan_of, replaced

CHARACTERS = [
    chr(code) for code in (*range(0xD800), *range(0xE000, 0x33000), *range(0xE0000, 0xE0400))
]
"""All but surrogates and planes in which nothing is assigned."""

ALPHABET = "aAbkKiIsS ıſİµK1_²½\n\r\t\x1c\x85é\u0301\ufe0f\u200d😀٣ǅßẞΣςσ-^&].$|~日"

ITEMS = st.sampled_from(
    [r"\w", r"\S", r"\d", "a-f", "é-ſ", "k", "İ", r"\-", "-", "^", "&", r"\]", " ", "#", "ß", "ς"]
)
CLASSES = st.builds(
    lambda mark, items: f"[{mark}{''.join(items)}]",
    st.sampled_from(["", "^"]),
    st.lists(ITEMS, min_size=1, max_size=3),
)
ATOMS = CLASSES | st.sampled_from(
    [".", r"\w", r"\W", r"\s", r"\S", r"\d", "a", "k", "i", "é", "ß", "😀", r"\t", r"\.", r"\xe9"]
)
PLACES = st.sampled_from([r"\b", "^", "$", r"\A", r"\Z"])
LOOPS = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{2,}", "*?", "+?", "??", "{0,2}?"])


def grown(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    two = st.tuples(parts, parts)
    return st.one_of(
        two.map("".join),
        two.map("|".join),
        two.map(lambda t: f"(?:{t[0]}|{t[1]})"),
        parts.map(lambda t: f"(?i:{t})"),
        parts.map(lambda t: f"(?s-i:{t})"),
        parts.map(lambda t: f"(?={t})"),
        st.tuples(parts, LOOPS).map(lambda t: f"({t[0]}){t[1]}"),
        st.tuples(ATOMS, LOOPS).map("".join),
    )


PATTERNS = st.tuples(
    st.sampled_from(["", "", "(?i)", "(?m)", "(?is)"]),
    st.recursive(ATOMS | PLACES, grown, max_leaves=6),
).map("".join)
TEXTS = st.lists(st.text(alphabet=ALPHABET, max_size=9), min_size=3, max_size=6)


def found_by(pattern: str, texts: Sequence[str]) -> list[bool]:
    rows = pa.array(texts, pa.large_string()), pa.array(np.arange(len(texts)))
    return [bool(row) for row in matches(*rows, [Pattern(pattern)], 5.0)[:, 0]]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Possible (nested set|set):FutureWarning")
@settings(max_examples=100, deadline=None, derandomize=True)
@given(PATTERNS, TEXTS)
def test_what_may_run_in_rust_is_that_of_re(pattern: str, texts: list[str]) -> None:
    try:
        python = re.compile(pattern)
    except re.error:  # such as a range of classes
        assume(False)
        raise
    assert found_by(pattern, texts) == [bool(python.search(text)) for text in texts]
    step = Replace("x", Pattern(pattern), Replacement("<>"))
    rows = pa.array(texts, pa.large_string()), pa.array(texts)
    assert replaced(*rows, [step], 5.0).to_pylist() == [python.sub("<>", text) for text in texts]


@pytest.mark.slow
@pytest.mark.parametrize(
    "pattern",
    [r"\w", r"\s", r"\d", r"^\b", r"[^\W\d_]", "(?i)[a-z]", "(?i)i|σ|µ|ǆ|é|ß", "(?i)[^k]"],
)
def test_every_character_is_matched_as_by_re(pattern: str) -> None:
    assert plan_of(pattern).rust is not None
    python = re.compile(pattern)
    assert found_by(pattern, CHARACTERS) == [bool(python.search(char)) for char in CHARACTERS]


@pytest.mark.parametrize(
    "pattern",
    [
        *(r"a(?=b)", r"(?<!a)b", r"(a)\1", r"(?P<a>b)(?P=a)", r"(a)?(?(1)b|c)", r"(?>ab)c"),
        *(r"a++", r"a{2}+", r"(?:a|b)*+", r"(a*)*", r"(?:|a)+", r"(?:\b)+", r"(?:^|$){2}"),
        *(r"(?x)a b", r"(?a)\w", r"(?a:\w)", r"(?u:\w)", r"x\B", r"\<", r"\0", r"\N{BULLET}"),
        *("[]a]", "a]", "a}", "{", "a{,3}", "(?#x)a", "(?P<é>a)", "(?m:a$)", "(?i)(?s)a"),
        r"(?:\w{60}x){60}",  # too large for Rust
    ],
)
def test_what_is_not_on_the_list_is_pythons(pattern: str) -> None:
    re.compile(pattern)
    assert Pattern(pattern).engine == "python"


@pytest.mark.filterwarnings("ignore:Possible (nested set|set):FutureWarning")
@pytest.mark.parametrize("pattern", ["[a-z&&b]", "[!--b]", "[a~~b]", "[a||b]", "[[a]b]", "[[:a:]]"])
def test_operators_that_only_rust_knows_in_classes_are_characters(pattern: str) -> None:
    assert Pattern(pattern).engine == "python"
    texts = ["a", "b", "&", "-", "~", "|", "[", "[b]", ":]", "c"]
    assert found_by(pattern, texts) == [bool(re.search(pattern, text)) for text in texts]


def test_python_sees_only_the_rows_that_match_without_look_around() -> None:
    texts = ["b" + "a" * 40, "a" * 40 + "b", "c" * 40]
    # on its own, re would try the first row for longer than the limit
    assert found_by(r"(?<!x)(a+)+b", texts) == [False, True, False]
