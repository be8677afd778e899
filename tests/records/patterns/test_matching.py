"""Patterns over texts are Python's, whichever engine runs them."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings, strategies as st

from ragwright.core import PatternError, workers
from ragwright.records.patterns import (
    Pattern,
    Replace,
    Replacement,
    matches,
    plan_of,
    replaced,
    tokens_of,
)

ALPHABET = "aAbkKiIsS ıſİµK1_²½\n\r\t\x0b\x1c\x85\u00a0é\u0301\ufe0f\u200d😀٣ǅßΣςσ-.$日\x00\ufffcꀀ"

CLASSES = st.sampled_from(
    [r"\s", r"\S", r"\d", r"\D", r"\w", r"\W", ".", "[a-k]", "[^a-k]", r"[\w.]", r"[^\s]"]
) | st.sampled_from(["[A-Kµ]", r"[^\W\d_]", "[İı]", "[^İ]", r"[\x00-é]", r"[\]\-^]"])
ANCHORS = st.sampled_from([r"\b", r"\B", "^", "$", r"\A", r"\Z", ""])
LITERALS = st.sampled_from([re.escape(c) for c in ALPHABET])
MARKS = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,2}", "{2,}"])
LAZY = st.sampled_from(["", "", "?", "+"])


def grown(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    two = st.tuples(parts, parts)
    return st.one_of(
        two.map("".join),
        two.map(lambda t: f"(?:{t[0]}|{t[1]})"),
        parts.map(lambda t: f"({t})"),
        parts.map(lambda t: f"(?i:{t})"),
        parts.map(lambda t: f"(?a:{t})"),
        parts.map(lambda t: f"(?s-i:{t})"),
        st.tuples(parts, MARKS, LAZY).map(lambda t: f"(?:{t[0]}){t[1]}{t[2]}"),
        st.tuples(LITERALS | CLASSES, MARKS, LAZY).map("".join),
        parts.map(lambda t: f"(?={t})"),
        parts.map(lambda t: f"(?!{t})"),
        LITERALS.map(lambda t: f"(?<={t})"),
        LITERALS.map(lambda t: f"(?<!{t})"),
        parts.map(lambda t: f"({t})\\1"),
        parts.map(lambda t: f"(?>{t})"),
        parts.map(lambda t: f"(x)?(?(1){t}|a)"),
    )


PATTERNS = st.tuples(
    st.sampled_from(["", "", "(?i)", "(?m)", "(?s)", "(?a)", "(?im)", "(?x)"]),
    st.recursive(st.one_of(LITERALS, CLASSES, ANCHORS), grown, max_leaves=6),
).map("".join)
TEXTS = st.lists(st.text(alphabet=ALPHABET, max_size=9), min_size=1, max_size=6)


def texts_of(texts: Sequence[str | None]) -> pa.Array:
    return pa.array(texts, pa.large_string())


def keys_of(texts: Sequence[str | None]) -> pa.Array:
    return pa.array([f"row {at}" for at in range(len(texts))])


def compiled(pattern: str) -> re.Pattern[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return re.compile(pattern)
        except (re.error, OverflowError):
            assume(False)
            raise


def searched(pattern: str, texts: Sequence[str | None]) -> list[bool]:
    found = matches(texts_of(texts), keys_of(texts), [Pattern(pattern)], 5.0)
    return [bool(row) for row in found[:, 0]]


def cleaned(pattern: str, replace: str, texts: Sequence[str | None]) -> list[str | None]:
    step = Replace("x", Pattern(pattern), Replacement(replace))
    made = replaced(texts_of(texts), keys_of(texts), [step], 5.0)
    return list(made.to_pylist())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Possible (nested set|set):FutureWarning")
@settings(max_examples=300, deadline=None, derandomize=True)
@given(PATTERNS, TEXTS)
def test_a_search_finds_what_re_finds(pattern: str, texts: list[str]) -> None:
    python = compiled(pattern)
    assert searched(pattern, texts) == [bool(python.search(text)) for text in texts]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Possible (nested set|set):FutureWarning")
@settings(max_examples=300, deadline=None, derandomize=True)
@given(PATTERNS, TEXTS, st.sampled_from(["", "<>", "$1", "a${1}b$$", "é\n", r"\1"]))
def test_a_replacement_is_that_of_re(pattern: str, texts: list[str], replace: str) -> None:
    python = compiled(pattern)
    assume(python.groups or "1" not in replace)
    tokens = tokens_of(replace, pattern)

    def made(match: re.Match[str]) -> str:
        return "".join(t if isinstance(t, str) else match[t] or "" for t in tokens)

    assert cleaned(pattern, replace, texts) == [python.sub(made, text) for text in texts]


def test_the_pattern_alone_decides_the_engine() -> None:
    rust = [r"(?i)\brefund(s|ed)?\b", r"https?://\S+", r"\s+$", "[‘’]", r"\p{Lu}", r"a{2,5}?"]
    python = [r"(?<=\$)\d+", r"(a+)+\1", r"a(?!b)", r"(?>ab)c", r"x\B", r"(a*)*"]
    assert {Pattern(p).engine for p in rust} == {"rust"}
    assert {Pattern(p).engine for p in python} == {"python"}


@pytest.mark.parametrize("before", ["❤️", "e\u0301", "²", "‿"])
def test_word_boundaries_are_pythons_beside_characters_the_engines_dispute(before: str) -> None:
    texts = [f"{before}Save now", "Save", "xSave", None, f"{before} Save"]
    there = [bool(text and re.search(r"\bSave\b", text)) for text in texts]
    assert searched(r"\bSave\b", texts) == there
    made = [text and re.sub(r"\bSave\b", "-", text) for text in texts]
    assert cleaned(r"\bSave\b", "-", texts) == made


def test_a_dollar_stands_before_a_last_line_break() -> None:
    texts = ["end", "end\n", "end\n\n", "end \nmore", "end\r\n"]
    assert searched("end$", texts) == [bool(re.search("end$", text)) for text in texts]
    assert cleaned("end$", "", texts) == [re.sub("end$", "", text) for text in texts]


def test_steps_follow_each_other_across_engines() -> None:
    steps = [
        Replace("x", Pattern("a"), Replacement("\n")),
        Replace("x", Pattern(r"(?<=b)\n"), Replacement("é\u0301")),
        Replace("x", Pattern(r"\bc"), Replacement("$$1")),
        Replace("x", Pattern(r"\s$"), Replacement("")),
    ]
    texts = ["bac", "ca", "aa", "b c ", None, ""]
    expected = []
    for text in texts:
        made = text
        for find, replace in (("a", "\n"), (r"(?<=b)\n", "é\u0301"), (r"\bc", "$1"), (r"\s$", "")):
            made = made if made is None else re.sub(find, replace, made)
        expected.append(made)
    assert replaced(texts_of(texts), keys_of(texts), steps, 1.0).to_pylist() == expected


def test_a_replacement_is_literal_but_for_groups() -> None:
    assert cleaned(r"(\d+) euro", "€$1 $5x"[:3], ["5 euro"]) == ["€5"]
    assert cleaned(r"(?P<sum>\d+) dollars", r"$$${sum}\1$", ["5 dollars"]) == [r"$5\1$"]
    assert cleaned(r"(a)|b", "<${1}>", ["ab"]) == ["<a><>"]
    assert cleaned(r"(?=b)", "$$5", ["ab"]) == ["a$5b"]
    with pytest.raises(PatternError, match=r"\$5") as caught:
        tokens_of("costs $5", r"(\d+)")
    assert "$$5" in str(caught.value.hint)


def test_a_pattern_of_rust_alone_means_what_it_means_there() -> None:
    assert searched(r"\p{Lu}\p{Ll}+", ["Été", "été", None]) == [True, False, False]
    assert cleaned(r"(?<head>\p{Lu})(\p{Ll})", "$2${head}", ["Été x"]) == ["tÉé x"]


def test_no_engine_accepts_it() -> None:
    with pytest.raises(PatternError, match=r"\(Python\).*\(Rust\)"):
        plan_of("(a")


@pytest.mark.slow
def test_a_pattern_that_backtracks_is_ended_and_the_row_named() -> None:
    texts = ["aaab", "a" * 40 + "!", "b"]
    pattern = Pattern(r"(?<!x)(a+)+$", "records/tags.yaml:7")
    begun = time.monotonic()
    with workers():
        with pytest.raises(PatternError) as caught:
            matches(texts_of(texts), keys_of(texts), [pattern], 0.2)
        # its place is taken by another worker at once
        assert searched(r"(?<!x)(a+)+b", texts) == [True, False, False]
    assert time.monotonic() - begun < 10
    assert caught.value.where == "records/tags.yaml:7"
    assert "'row 1'" in caught.value.what
    assert "backtracks" in caught.value.what
    assert "(a+)+$" in caught.value.what


@pytest.mark.slow
def test_ten_megabytes_in_one_row_take_no_minutes() -> None:
    texts = ["word ❤️ stop!! " * 700_000, "short"]
    begun = time.monotonic()
    assert searched(r"\bstop\b", texts) == [True, False]
    assert searched(r"(?<=t)op", texts) == [True, False]
    made = cleaned(r"\bstop\b", "", texts)
    assert made[0] == re.sub(r"\bstop\b", "", str(texts[0]))
    assert time.monotonic() - begun < 60
