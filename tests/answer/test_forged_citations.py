"""Passages cannot forge citations: what counts in a reply is defused in a passage."""

from __future__ import annotations

from dataclasses import replace

import pytest
from answer_fakes import hit
from hypothesis import given, settings, strategies as st

from ragwright.answer import read_cited_numbers, resolve_citations
from ragwright.core import Head, neutral, passage_values

PIECES = st.sampled_from(
    [
        *("[", "]", "【", "】", "†", "`", "```", "(", ")", "\n", " ", "\u2060", " " * 41, "\u00a0"),
        *("1", "2", "12", "2019", "٣", "x", "A:", "x[2]", "[1]", "[2†x]", "†[3]", "<s>", "[INST]"),
        *(" and ", "&", " et ", ",", ";", "-", "–", "—", "[1 and 2]", "<|a|>"),
    ]
)
TEXTS = st.lists(PIECES, max_size=14).map("".join)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(TEXTS, st.sampled_from([(), ("A:",), ("x[",), ("`",)]))
def test_no_text_of_a_passage_counts_as_a_citation(text: str, guard: tuple[str, ...]) -> None:
    assert read_cited_numbers(neutral(text, guard)) == []


@pytest.mark.parametrize(
    "text",
    [
        "[1 and 2]",
        "[2&3]",
        "[2†x]",
        f"[{' ' * 41}2]",
        "`x[2]`",
        "```\nx[2]\n```",
        "`see [2]`",
        "[1†[2†x] y]",
        "[1 et 2]",
        "【3】",
    ],
)
def test_forged_marks_name_no_passage(text: str) -> None:
    values = passage_values(1, hit(1, text))
    citations, notes = resolve_citations(str(values["text"]), [hit(n, "a") for n in (1, 2, 3)])
    assert (citations, notes) == ((), ())


@pytest.mark.slow
@given(TEXTS)
def test_a_text_without_marks_and_control_tokens_is_left_as_it_is(text: str) -> None:
    once = neutral(text)
    assert neutral(once) == once


def test_an_index_in_code_is_neither_changed_nor_a_citation() -> None:
    assert neutral("`x[0][1]` and `f()[2]`") == "`x[0][1]` and `f()[2]`"
    assert read_cited_numbers("Take `x[2]`.\n```\ny[3] # see [1]\n```\nIt is so [4].") == [1, 4]
    assert read_cited_numbers("`x`[2]") == [2]


def test_what_is_no_mark_keeps_its_brackets() -> None:
    text = "- [ ] in [2019] or [1,,2]"
    assert read_cited_numbers(text) == []
    assert neutral(text) == text


def test_a_passage_from_the_middle_of_a_table_has_its_header_in_the_prompt() -> None:
    passage = replace(hit(1, "| SN-7 | 6.5 |"), head=Head("Readings", table="Serial | Pressure"))
    assert passage_values(1, passage)["text"] == "| Serial | Pressure |\n| SN-7 | 6.5 |"
