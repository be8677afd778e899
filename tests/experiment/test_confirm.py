"""Confirm a sweep's winner: once, in writing, and how often nothing is taken for something."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from study_project import study_project, swept

from ragwright import EvaluationOptions, Session, Workbench
from ragwright.core import BudgetStopped, Score, StoreError, StudyError
from ragwright.experiment import (
    Confirmation,
    ConfirmOptions,
    ConfirmResult,
    RowResult,
    StudyVerdict,
    compare_with_incumbent,
    correct_confirmations,
    objective_of,
    objective_scores,
    selection_of,
)
from ragwright.measure import Measure, Selection, parse_measures
from ragwright.testing import ScriptedServer, ServerRequest
from ragwright.testsets import Openings, load_testset

# -- projects --------------------------------------------------------------------------------


def answer(request: ServerRequest) -> str:
    """Better with the role in the prompt, on every other question."""
    system = str(request.body["messages"][0]["content"])
    asked = request.prompt.rpartition("changed, ")[2]
    number = int(asked.partition("?")[0])
    good = "PLAIN" in system and number % 4 < 3
    return f"every two years, no {number} [1]" if good else f"I think it is {number} or so [1]"


STUDY = "prompt: {replace: [{}, {role: PLAIN words only.}, {role: WILD words only.}]}\n"


def project(folder: Path, server: ScriptedServer) -> Path:
    rows = [
        {
            "id": f"q{n}",
            "user_input": f"How often must the brake fluid be changed, {n}?",
            "reference": "every two years",
            "split": "tune" if n % 2 else "confirm",
        }
        for n in range(40)
    ]
    made = study_project(folder, rows, STUDY, f"answer: {{model: '{server.url}#m'}}\n")
    swept(made)
    return made


def confirmed(
    folder: Path, name: str = "latest", how: ConfirmOptions | None = None
) -> ConfirmResult:
    with Workbench.open(folder) as bench:
        return bench.confirm(name, how)


@pytest.mark.slow
def test_a_winner_is_confirmed_once_and_only_shown_again_after_that(tmp_path: Path) -> None:
    with ScriptedServer(answer) as server:
        folder = project(tmp_path, server)
        log, file = folder / "testsets" / "openings.jsonl", folder / "ragwright.yaml"
        settings = file.read_text()
        file.write_text(settings + "retrieve: {top_k: 2}\n")
        with pytest.raises(StudyError, match="changed since the sweep"):
            confirmed(folder)
        with pytest.raises(StoreError, match="unknown sweep 'nobody'") as caught:
            confirmed(folder, "nobody")
        assert "the last sweeps: 2" in (caught.value.hint or "")
        # A budget or a price that changed since is no other project.
        price = f"models: {{'{server.url}#m': {{price_in: 0, price_out: 1000}}}}\n"
        file.write_text(f"{settings}budget: {{concurrency: 3}}\n{price}")
        ahead: list[str] = []
        said: list[tuple[str, bool]] = []
        with Workbench.open(folder, Session(max_cost=1e-9)) as bench:
            bench.forecast_confirm(told=ahead.append)
            assert not log.exists()
            with pytest.raises(BudgetStopped):
                bench.confirm("latest", told=lambda text: said.append((text, log.exists())))
        [(text, opened)] = said
        assert not opened
        assert [text] == ahead, "a dry run says it, too"
        assert text.startswith("least provable gain: about 0.")
        assert "of TokenF1 (0-1) on 20 held-out questions; a smaller one will " in text

        found = confirmed(folder)  # goes on with the opening of the one that was cut off
        assert not found.again
        assert len(log.read_text().splitlines()) == found.verdict.openings == 1
        [one] = found.verdict.confirmations
        assert (one.trial, one.outcome) == ("T002", "better")
        assert one.values == {"prompt.replace": {"role": "PLAIN words only."}}
        assert one.confirmed is not None
        assert one.confirmed.n == 20
        assert text in found.verdict.notes
        assert float(text.split()[4]) == pytest.approx(one.confirmed.smallest, abs=0.1)

        asked = len(server.requests)
        again = confirmed(folder, "s")
        assert (again.again, again.verdict) == (True, found.verdict)
        with Workbench.open(folder) as bench:
            bench.confirm(told=lambda text: said.append((text, True)))
        assert len(said) == 1, "a stored result opens nothing"
        assert len(server.requests) == asked
        assert len(log.read_text().splitlines()) == 1
        more = confirmed(folder, how=ConfirmOptions(top=2)).verdict
        assert (more.confirmations[0].trial, more.openings) == ("T002", 2)
        assert any("opened" in note for note in more.notes)


@pytest.mark.slow
def test_rows_that_picked_and_every_earlier_look_at_the_others_count(tmp_path: Path) -> None:
    with ScriptedServer(answer) as server:
        folder = project(tmp_path, server)
        once = confirmed(folder).verdict
        file = folder / "set.jsonl"
        with Workbench.open(folder) as bench:
            openings = Openings(tmp_path / "log.jsonl", "a test")
            rows = load_testset(str(file), split="all", openings=openings)
            bench.evaluate(rows, "TokenF1", EvaluationOptions(answers=True))
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        more = [dict(row, id=f"again {row['id']}", split="confirm") for row in lines[1:9:2]]
        file.write_text("\n".join(map(json.dumps, [*lines, *more])))
        twice = confirmed(folder).verdict
    [one], [two] = once.confirmations, twice.confirmations
    assert one.confirmed is not None
    assert two.confirmed is not None
    assert (one.confirmed.n, two.confirmed.n, once.openings, twice.openings) == (20, 20, 1, 2)
    assert (two.p or 0) > (one.p or 1)
    assert any("1 evaluations of the whole testset, the first" in note for note in twice.notes)
    note = "4 of 24 rows of the confirm split were also used to choose the winner: left out"
    assert note in twice.notes


@pytest.mark.slow
def test_where_nothing_leads_the_split_stays_closed(tmp_path: Path) -> None:
    with ScriptedServer(lambda request: "always the same [1]") as server:
        folder = project(tmp_path, server)
        found = confirmed(folder)
    assert (found.verdict.confirmations, found.verdict.openings) == ((), 0)
    head = "None of 2 candidates beats the current settings on the tune split"
    assert found.verdict.text.startswith(head)
    assert not (folder / "testsets" / "openings.jsonl").exists()


# -- verdicts --------------------------------------------------------------------------------

M, F1 = parse_measures("Column(M), TokenF1")


def rows(
    values: Sequence[float | None], prefix: str = "r", name: str = "Column(M)"
) -> list[RowResult]:
    return [
        RowResult(
            f"{prefix}{at}",
            (),
            (
                Score(name, "abstained", reason="refused")
                if value is None
                else Score(name, "scored", float(value)),
            ),
        )
        for at, value in enumerate(values)
    ]


def f1(values: Sequence[float | None]) -> list[RowResult]:
    return rows(values, name="TokenF1")


def chosen(
    incumbent: Sequence[RowResult],
    candidates: Mapping[str, Sequence[RowResult]],
    objective: Measure,
    **how: Any,
) -> Selection:
    scores = {trial: objective_scores(results, objective) for trial, results in candidates.items()}
    return selection_of(objective_scores(incumbent, objective), scores, objective, **how)


Sides = tuple[list[list[RowResult]], list[list[RowResult]]]


def study(draw: np.random.Generator, lifts: list[float], size: int = 30) -> Sides:
    """(tune, confirm) rows of an incumbent and of candidates that are better by so much."""
    sides = []
    for prefix in ("t", "c"):
        hard = draw.normal(0, 1, size)
        shown = [hard + lift + draw.normal(0, 0.6, size) for lift in (0.0, *lifts)]
        sides.append([rows(values.tolist(), prefix) for values in shown])
    return sides[0], sides[1]


def confirmation(
    sides: Sides, trial: str = "T1", objective: Measure = M, seed: int = 0
) -> Confirmation:
    at = int(trial[1:])
    tune, held = (compare_with_incumbent(side[0], side[at], objective, seed=seed) for side in sides)
    return Confirmation(trial, {}, str(objective), tune, held)


def concluded(sides: Sides, seed: int = 0) -> StudyVerdict:
    tune = sides[0]
    named = {f"T{n}": results for n, results in enumerate(tune) if n}
    selection = chosen(tune[0], named, M, seed=seed)
    if selection.difference <= 0:
        return StudyVerdict(selection)
    one = confirmation(sides, selection.best, seed=seed)
    return StudyVerdict(selection, correct_confirmations([one], M, 1), 1)


@pytest.mark.slow
def test_false_winners_stay_under_the_nominal_rate_where_the_best_mean_wins_too_often() -> None:
    draw = np.random.default_rng(11)
    studies, best_mean, uncorrected, proven = 60, 0, 0, 0
    for seed in range(studies):
        found = concluded(study(draw, [0.0] * 15), seed)
        best_mean += found.selection.difference > 0
        if found.confirmations:
            # what a tool says that tests the winner on the rows that picked it
            uncorrected += found.confirmations[0].tune.verdict == "better"
            proven += found.confirmations[0].outcome == "better"
    assert best_mean / studies > 0.9
    assert uncorrected / studies > 0.15
    assert proven <= 5  # 1.5 are expected of 60; 6 or more: one time in two hundred


@pytest.mark.slow
def test_a_real_lift_is_confirmed() -> None:
    draw = np.random.default_rng(3)
    found = [concluded(study(draw, [0.0] * 9 + [0.7], 40), seed) for seed in range(12)]
    better = [v for v in found if v.confirmations and v.confirmations[0].outcome == "better"]
    assert len(better) >= 11
    assert "T10 is better than the current settings: +" in better[0].text
    # One candidate far ahead: being chosen adds next to nothing.
    assert np.mean([v.selection.optimism for v in better]) == pytest.approx(0, abs=0.02)


def test_every_further_opening_makes_the_proof_dearer() -> None:
    sides = study(np.random.default_rng(5), [0.35], 60)
    one = confirmation(sides)
    first, *more = (correct_confirmations([one], M, openings)[0].p for openings in (1, 2, 8))
    assert first is not None
    assert more == [pytest.approx(2 * first), pytest.approx(min(1.0, 8 * first))]
    both = correct_confirmations([one, one], M, 1)
    assert both[0].p == pytest.approx(2 * first)
    selection = chosen(sides[0][0], {"T1": sides[0][1]}, M)
    outcome = StudyVerdict(selection, correct_confirmations([one], M, 8), 8)
    assert "opened 8 times" in outcome.text


def test_no_change_proven_says_which_difference_so_many_questions_can_prove() -> None:
    found = concluded(study(np.random.default_rng(13), [0.25], 12))
    assert found.confirmations[0].outcome == "no change proven"
    assert "; this many questions can prove a difference of about 0." in found.text


Values = tuple[Sequence[float | None], Sequence[float | None]]
RIGHT_OR_SILENT: Values = ([0.0] * 10 + [1.0] * 30, [1.0] * 10 + [None] * 30)
TURNED = (
    "T1 on the confirm split: 30 rows lack a score in one of the two",
    "the difference lies between -0.5000 and +0.2500",
    "On the tune split, 30 questions lack a score under T1",
)
ONE_LOST: Values = ([0.0] * 40, [1.0] * 39 + [None])
FEW = ("1 question lacks a score under one of the two settings and are not compared",)
LOST = {
    "rows that could turn it": (RIGHT_OR_SILENT, "no change proven", -0.5, TURNED),
    "rows that turn nothing": (ONE_LOST, "better", 0.975, FEW),
}


@pytest.mark.parametrize(("values", "outcome", "difference", "said"), LOST.values(), ids=LOST)
def test_lost_rows(values: Values, outcome: str, difference: float, said: tuple[str, ...]) -> None:
    incumbent, other = map(f1, values)
    side = [incumbent, other]
    [one] = correct_confirmations([confirmation((side, side), objective=F1)], F1, 1)
    assert one.p is not None
    assert one.p < 0.05
    assert one.outcome == outcome
    found = StudyVerdict(chosen(incumbent, {"T1": other}, F1), (one,), 1)
    assert found.selection.difference == pytest.approx(difference)
    assert all(text in found.text for text in said)


def test_a_measure_without_a_worst_value_is_chosen_over_the_rows_it_has_and_says_so() -> None:
    objective = objective_of("Perplexity", parse_measures("Perplexity"))
    before, after = (rows(one, name="Perplexity") for one in ([2.0] * 12, [1.0] * 11 + [None]))
    found = chosen(before, {"T001": after}, objective)
    assert (found.n, found.lost, found.left_out, found.difference) == (11, 0, 1, 1.0)
    assert "1 question lacks a score under T001" in StudyVerdict(found).text
