"""Suites from evidence: exact doses, no answer in what is irrelevant."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
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
    check_distractors,
    gold_answer,
    suite_rows,
)

NAMES = ["Abel", "Bruno", "Clara", "Dora", "Emil", "Frida", "Gustav", "Hanna"]


def span(document: str, text: str, start: int = 0) -> GoldSpan:
    return GoldSpan(document, start, start + len(text), text)


def evidence(number: int, more: int = 4, noise: int = 10) -> Evidence:
    """A question whose answer is a name of its own, with so many passages of each kind."""
    name, document = NAMES[number], f"d{number}"
    led = span(document, f"Team {number} is led by {name}.")
    return Evidence(
        Row(f"q{number}", f"Who leads team {number}?"),
        GoldAnswer(((name,),)),
        (led,),
        tuple(span(document, f"Team {number}, part {n}.", 100 * n) for n in range(1, more + 1)),
        tuple(span(f"n{number}-{n}", f"Weather of day {number} {n}.") for n in range(noise)),
        frozenset({f"Weather of day {number} 0."}),
        ((led, span(document, f"Team {number} is led by {name}ius.")),),
        (f"{name}ius",),
    )


def shares(row: Row) -> float:
    """The share of a row's passages that are irrelevant, by their text alone."""
    return sum("Weather" in text for text in row.retrieved_contexts) / len(row.retrieved_contexts)


def of(rows: Iterable[Row], suite: str) -> list[Row]:
    return [row for row in rows if row.metadata["suite"] == suite]


def test_noise_rows_hold_exactly_their_dose_of_as_many_passages_as_asked_for() -> None:
    some = [evidence(n) for n in range(8)]
    made = suite_rows(some, SuiteOptions(("noise",), seed=1))
    rows = of(made.rows, "noise")
    doses = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    assert Counter(row.metadata["dose"] for row in rows) == dict.fromkeys(doses, 8)
    for row in rows:
        assert shares(row) == row.metadata["dose"]
        assert len(row.retrieved_contexts) == 5
        assert row.metadata["answerable"] is (row.metadata["dose"] != 1)
        relevant = [n for n, text in enumerate(row.retrieved_contexts, 1) if "Team" in text]
        assert row.metadata["gold_rank"] == min(relevant, default=0)
    assert made.notes == ()
    # the order of passages is drawn and stays; a larger dose keeps that of a smaller one
    assert made == suite_rows(some, SuiteOptions(("noise",), seed=1))
    other = suite_rows(some, SuiteOptions(("noise",), seed=2))
    assert [r.retrieved_contexts for r in other.rows] != [r.retrieved_contexts for r in made.rows]
    assert len({row.metadata["gold_rank"] for row in rows if row.metadata["dose"] == 0.8}) > 1
    alone = suite_rows(some[:1], SuiteOptions(("noise",), closed_book=False)).rows
    noise = [[text for text in row.retrieved_contexts if "Weather" in text] for row in alone]
    for less, most in pairwise(noise):
        assert [text for text in most if text in less] == less


def test_doses_that_cannot_be_had_are_replaced_or_counted() -> None:
    """One gold passage gives the shares that it can have."""
    alone = [evidence(n, more=0) for n in range(4)]
    made = suite_rows(alone, SuiteOptions(("noise",), closed_book=False))
    doses = sorted({row.metadata["dose"] for row in made.rows})
    assert doses == [0, 1 / 2, 2 / 3, 3 / 4, 4 / 5, 1]
    assert all(shares(row) == row.metadata["dose"] for row in made.rows)
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
    with pytest.raises(TestsetError, match="no row") as caught:
        suite_rows([evidence(0, noise=0)], SuiteOptions(("rejection",)), where="set.jsonl")
    assert "rejection: no row can be made" in (caught.value.hint or "")


def test_two_questions_are_joined_with_their_gold_unless_they_answer_each_other() -> None:
    made = suite_rows([evidence(n) for n in range(5)], SuiteOptions(("integration",), seed=3))
    rows = of(made.rows, "integration")
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
    both = span("d9", "Team 0 is led by Abel, team 1 by Bruno.")
    some = [replace(evidence(0), gold=(both,)), evidence(1), evidence(2)]
    bases = {str(r.metadata["base"]) for r in of(suite_rows(some).rows, "integration")}
    assert not any({"q0", "q1"} == set(base.split("+")) for base in bases)


def test_sources_grow_one_question_at_a_time_in_equally_long_contexts() -> None:
    options = SuiteOptions(("sources",), sources=3, closed_book=False)
    by_base = defaultdict(list)
    for row in suite_rows([evidence(n) for n in range(6)], options).rows:
        by_base[row.metadata["base"]].append(row)
    assert len(by_base) == 2
    for rows in by_base.values():
        assert [row.metadata["dose"] for row in rows] == [1, 2, 3]
        assert [row.metadata["relevant"] for row in rows] == [1, 2, 3]
        assert {len(row.retrieved_contexts) for row in rows} == {5}
        assert all(later.user_input.startswith(rows[0].user_input) for later in rows)


def test_rejection_falsified_and_control_rows() -> None:
    made = suite_rows([evidence(n) for n in range(3)])
    rejected = of(made.rows, "rejection")
    assert [shares(row) for row in rejected] == [1, 1, 1]
    assert all(row.metadata["answerable"] is False for row in rejected)
    # every question has one control without passages
    asked, controls = {row.user_input for row in made.rows}, of(made.rows, "closed_book")
    assert Counter(row.user_input for row in controls) == dict.fromkeys(asked, 1)
    assert not any(row.retrieved_contexts for row in controls)
    originals = {row.user_input: row for row in reversed(made.rows)}
    assert all(gold_answer(row) == gold_answer(originals[row.user_input]) for row in controls)
    assert len({row.id for row in made.rows}) == len(made.rows)
    # falsified passages take the place of the true ones
    two = [evidence(0), evidence(1)]
    rows = of(suite_rows(two, SuiteOptions(("counterfactual",))).rows, "counterfactual")
    marks = [(row.metadata["dose"], row.metadata["falsified"]) for row in rows]
    assert marks == [(0, False), (0, False), (1, True), (1, True)]
    assert rows[0].retrieved_contexts == ("Team 0 is led by Abel.",)
    assert rows[2].retrieved_contexts == ("Team 0 is led by Abelius.",)
    assert rows[2].metadata["fake"] == ("Abelius",)
    assert rows[2].metadata["ask"] == "report_errors"
    plain = suite_rows(two, SuiteOptions(("counterfactual",), report_errors=False))
    assert not any("ask" in row.metadata for row in plain.rows)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("suites", ("nose",)), ("doses", (1.5,)), ("falsified", ()), ("passages", 0)),
        ("sources", 0),
    ],
)
def test_wrong_options_are_refused(option: str, value: object) -> None:
    with pytest.raises(TestsetError):
        SuiteOptions(**{option: value})  # type: ignore[arg-type]


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
def test_no_distractor_holds_the_answer(texts: list[list[str]], number: int, more: int) -> None:
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
