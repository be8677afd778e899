"""Suites from evidence: doses are exact, contexts nested, nothing irrelevant tells the answer."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from ragwright.core import GoldSpan, Row, TestsetError
from ragwright.testsets import (
    Evidence,
    GoldAnswer,
    LeakCheck,
    SuiteOptions,
    gold_answer,
    suite_rows,
)
from ragwright.testsets.suites import check_distractors

NAMES = ["Abel", "Bruno", "Clara", "Dora", "Emil", "Frida", "Gustav", "Hanna"]


def span(document: str, text: str, start: int = 0) -> GoldSpan:
    return GoldSpan(document, start, start + len(text), text)


def evidence(number: int, more: int = 4, noise: int = 10) -> Evidence:
    """A question whose answer is a name of its own, with so many passages of each kind."""
    name = NAMES[number]
    fake = f"{name}ius"
    return Evidence(
        Row(f"q{number}", f"Who leads team {number}?"),
        GoldAnswer(((name,),)),
        (span(f"d{number}", f"Team {number} is led by {name}."),),
        tuple(span(f"d{number}", f"Team {number}, part {n}.", 100 * n) for n in range(1, more + 1)),
        tuple(span(f"n{number}-{n}", f"Weather of day {number} {n}.") for n in range(noise)),
        frozenset({f"Weather of day {number} 0."}),
        (
            (
                span(f"d{number}", f"Team {number} is led by {name}."),
                span(f"d{number}", f"Team {number} is led by {fake}."),
            ),
        ),
        (fake,),
    )


def shares(row: Row) -> float:
    """The share of a row's passages that are irrelevant, by their text alone."""
    return sum("Weather" in text for text in row.retrieved_contexts) / len(row.retrieved_contexts)


def test_noise_rows_hold_exactly_their_dose_of_as_many_passages_as_asked_for() -> None:
    made = suite_rows([evidence(n) for n in range(3)], SuiteOptions(("noise",)))
    rows = [row for row in made.rows if row.metadata["suite"] == "noise"]
    assert Counter(row.metadata["dose"] for row in rows) == dict.fromkeys(
        (0.0, 0.2, 0.4, 0.6, 0.8, 1.0), 3
    )
    for row in rows:
        assert shares(row) == row.metadata["dose"]
        assert len(row.retrieved_contexts) == 5
        assert row.metadata["answerable"] is (row.metadata["dose"] != 1)
        rank = row.metadata["gold_rank"]
        assert isinstance(rank, int)
        relevant = [n for n, text in enumerate(row.retrieved_contexts, 1) if "Team" in text]
        assert rank == min(relevant, default=0)
    assert made.notes == ()


def test_a_larger_dose_keeps_the_irrelevant_passages_of_a_smaller_one_in_their_order() -> None:
    made = suite_rows([evidence(0)], SuiteOptions(("noise",), closed_book=False))
    noise = [[text for text in row.retrieved_contexts if "Weather" in text] for row in made.rows]
    for less, most in pairwise(noise):
        assert [text for text in most if text in less] == less


def test_one_gold_passage_gives_the_shares_that_it_can_have() -> None:
    alone = [evidence(n, more=0) for n in range(4)]
    made = suite_rows(alone, SuiteOptions(("noise",), closed_book=False))
    doses = sorted({row.metadata["dose"] for row in made.rows})
    assert doses == [0, 1 / 2, 2 / 3, 3 / 4, 4 / 5, 1]
    assert all(shares(row) == row.metadata["dose"] for row in made.rows)


def test_doses_that_were_asked_for_and_cannot_be_had_are_counted() -> None:
    mixed = [evidence(0), evidence(1), evidence(2, more=0), evidence(3, noise=0)]
    options = SuiteOptions(("noise",), doses=(0, 0.4, 0.7), closed_book=False)
    made = suite_rows(mixed, options)
    assert {row.metadata["base"] for row in made.rows} == {"q0", "q1"}  # the same at every dose
    assert {row.metadata["dose"] for row in made.rows} == {0, 0.4}
    assert made.notes == (
        "noise: dose 0.7 is left out: 0 of 4 questions have the passages for it",
        "noise: 2 of 4 questions are left out: they have too few relevant or irrelevant passages "
        "for one of the doses",
    )


def test_rejection_rows_hold_nothing_relevant() -> None:
    made = suite_rows([evidence(n) for n in range(3)], SuiteOptions(("rejection",)))
    rows = [row for row in made.rows if row.metadata["suite"] == "rejection"]
    assert [shares(row) for row in rows] == [1, 1, 1]
    assert all(row.metadata["answerable"] is False for row in rows)


def test_two_questions_are_joined_with_their_gold() -> None:
    made = suite_rows([evidence(n) for n in range(5)], SuiteOptions(("integration",), seed=3))
    rows = [row for row in made.rows if row.metadata["suite"] == "integration"]
    assert made.notes == ("integration: 1 of 5 questions could not be joined to others",)
    assert {row.metadata["dose"] for row in rows} == {0, 0.2, 0.4, 0.6}
    assert len({row.metadata["base"] for row in rows}) == 2
    for row in rows:
        assert row.user_input.count("Who leads") == 2
        gold = gold_answer(row)
        assert gold is not None
        assert gold.held(" ".join(row.retrieved_contexts)) == (True, True)
        assert shares(row) == row.metadata["dose"]
        assert row.reference == gold.text


def test_questions_that_answer_each_other_are_not_joined() -> None:
    one, other = evidence(0), evidence(1)
    both = span("d9", "Team 0 is led by Abel, team 1 by Bruno.")
    made = suite_rows([replace(one, gold=(both,)), other, evidence(2)], SuiteOptions())
    bases = {row.metadata["base"] for row in made.rows if row.metadata["suite"] == "integration"}
    assert not any({"q0", "q1"} == set(str(base).split("+")) for base in bases)


def test_sources_grow_one_question_at_a_time_in_equally_long_contexts() -> None:
    options = SuiteOptions(("sources",), sources=3, closed_book=False)
    made = suite_rows([evidence(n) for n in range(6)], options)
    by_base = defaultdict(list)
    for row in made.rows:
        by_base[row.metadata["base"]].append(row)
    assert len(by_base) == 2
    for rows in by_base.values():
        assert [row.metadata["dose"] for row in rows] == [1, 2, 3]
        assert [row.metadata["relevant"] for row in rows] == [1, 2, 3]
        assert {len(row.retrieved_contexts) for row in rows} == {5}
        assert all(later.user_input.startswith(rows[0].user_input) for later in rows)


def test_falsified_passages_take_the_place_of_the_true_ones() -> None:
    made = suite_rows([evidence(0), evidence(1)], SuiteOptions(("counterfactual",)))
    rows = [row for row in made.rows if row.metadata["suite"] == "counterfactual"]
    assert [(row.metadata["dose"], row.metadata["falsified"]) for row in rows] == [
        (0, False),
        (0, False),
        (1, True),
        (1, True),
    ]
    assert rows[0].retrieved_contexts == ("Team 0 is led by Abel.",)
    assert rows[2].retrieved_contexts == ("Team 0 is led by Abelius.",)
    assert rows[2].metadata["fake"] == ("Abelius",)
    assert rows[2].metadata["ask"] == "report_errors"
    plain = suite_rows([evidence(0)], SuiteOptions(("counterfactual",), report_errors=False))
    assert not any("ask" in row.metadata for row in plain.rows)


def test_every_question_has_one_control_without_passages() -> None:
    made = suite_rows([evidence(n) for n in range(3)])
    asked = {row.user_input for row in made.rows}
    controls = [row for row in made.rows if row.metadata["suite"] == "closed_book"]
    assert Counter(row.user_input for row in controls) == dict.fromkeys(asked, 1)
    assert not any(row.retrieved_contexts for row in controls)
    originals = {row.user_input: row for row in reversed(made.rows)}
    assert all(gold_answer(row) == gold_answer(originals[row.user_input]) for row in controls)
    assert len({row.id for row in made.rows}) == len(made.rows)


def test_the_order_of_passages_is_drawn_and_stays() -> None:
    some = [evidence(n) for n in range(8)]
    first = suite_rows(some, SuiteOptions(("noise",), seed=1))
    assert first == suite_rows(some, SuiteOptions(("noise",), seed=1))
    ranks = {row.metadata["gold_rank"] for row in first.rows if row.metadata["dose"] == 0.8}
    assert len(ranks) > 1
    other = suite_rows(some, SuiteOptions(("noise",), seed=2))
    assert [r.retrieved_contexts for r in other.rows] != [r.retrieved_contexts for r in first.rows]


@pytest.mark.parametrize(
    "wrong",
    [
        {"suites": ("nose",)},
        {"doses": (1.5,)},
        {"falsified": ()},
        {"passages": 0},
        {"sources": 0},
        {"distractors": "easy"},
    ],
)
def test_wrong_options_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(TestsetError):
        SuiteOptions(**wrong)  # type: ignore[arg-type]


def test_nothing_to_make_says_why() -> None:
    with pytest.raises(TestsetError, match="no row") as caught:
        suite_rows([evidence(0, noise=0)], SuiteOptions(("rejection",)), where="set.jsonl")
    assert "rejection: no row can be made" in (caught.value.hint or "")


def test_distractors_are_checked_and_what_is_left_out_is_counted() -> None:
    gold = (span("d", "Team 1 is led by Bruno.", 10),)
    candidates = [
        span("d", "by Bruno. And", 25),
        span("e", "Bruno is tall."),
        span("f", "Nothing of it."),
        span("g", "Nothing of it."),
        span("h", " "),
        span("i", "Team 1 is led by Bruno."),
    ]
    dropped: Counter[str] = Counter()
    kept = list(check_distractors(candidates, gold, GoldAnswer((("Bruno",),)), dropped))
    assert kept == [candidates[2]]
    assert dropped == {"passages that overlap the gold": 1, "passages that reveal the answer": 1}
    dropped.clear()
    assert not list(check_distractors(candidates, gold, GoldAnswer((("the",),)), dropped))
    assert dropped["passages that cannot be checked"] == 2


WORDS = st.lists(st.sampled_from([*NAMES, "team", "weather", "led"]), min_size=1, max_size=8)


@pytest.mark.slow
@given(st.lists(WORDS, max_size=30), st.integers(0, 7), st.integers(0, 3))
def test_no_distractor_of_any_row_holds_the_answer(
    texts: list[list[str]], number: int, more: int
) -> None:
    base = evidence(number, more=more)
    candidates = [span(f"x{n}", " ".join(words)) for n, words in enumerate(texts)]
    kept = tuple(check_distractors(candidates, base.gold, base.answer, Counter()))
    other = evidence((number + 1) % 8)
    made = suite_rows([replace(base, distractors=kept), other], SuiteOptions(seed=number))
    relevant = {one.text for e in (base, other) for one in (*e.gold, *e.more)}
    for row in made.rows:
        gold = gold_answer(row)
        assert gold is not None
        if row.metadata["suite"] in ("counterfactual", "closed_book"):
            continue
        noise = [text for text in row.retrieved_contexts if text not in relevant]
        assert not any(LeakCheck(gold).leaks(text) for text in noise)
        assert not any(any(gold.held(text)) for text in noise)
        if row.metadata["suite"] != "sources":
            assert len(noise) / len(row.retrieved_contexts) == row.metadata["dose"]
