"""Curves of suites: points, controls and clusters by hand, then suites of planted generators."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_project import MakeProject

from ragwright import EvaluationOptions, Workbench
from ragwright.core import GoldSpan, Row, Score, TestsetError
from ragwright.experiment import Curve, RowResult, capability_curves, evaluation_of
from ragwright.measure import MeasureSetup, parse_measures
from ragwright.testing import Reply, ScriptedServer, ServerRequest
from ragwright.testsets import SuiteOptions, Testset, write_rows

# -- from results alone ----------------------------------------------------------------------


def row(suite: str, dose: float, base: str, response: str | None, **metadata: object) -> Row:
    told = {"suite": suite, "dose": dose, "base": base, **metadata}
    asked = (f"{suite}/{dose:g}/{base}", f"question {base}", response, "Rollo")
    return Row(*asked, metadata=told)  # type: ignore[arg-type]


def curves(*rows: Row, judged: dict[str, float] | None = None, accuracy: str = "") -> list[Curve]:
    found = [
        RowResult(one.id, (), (Score("Pairwise", "scored", (judged or {}).get(one.id, 3.0)),), one)
        for one in rows
    ]
    evaluation = evaluation_of(found, parse_measures("Pairwise"), name="run")
    return list(capability_curves(evaluation, accuracy=accuracy))


def test_a_point_has_its_exact_interval_and_its_control() -> None:
    answers = ["It was Rollo."] * 3 + ["It was Odo."]
    rows = [row("noise", 0.2, str(n), text) for n, text in enumerate(answers)]
    rows += [row("closed_book", 0, str(n), t) for n, t in enumerate(["Rollo", "?", "?", "Rollo"])]
    [curve] = curves(*rows)
    [point] = curve.points
    assert (point.dose, point.n, point.questions, point.mean) == (0.2, 4, 4, 0.75)
    # Clopper and Pearson for 3 of 4, from tables
    assert (point.low, point.high) == pytest.approx((0.1941, 0.9937), abs=1e-4)
    assert (point.closed_book, point.above) == (0.5, (0 + 1 + 1 - 1) / 4)
    assert (point.above_low or 0) < (point.above or 0) < (point.above_high or 0)
    assert curve.change is None  # a single dose


def test_what_abstains_is_not_accurate_and_what_did_not_answer_has_no_value() -> None:
    rows = [
        row("noise", 0.0, "1", "The passages do not say, but Rollo.", abstained=True),
        row("noise", 0.0, "2", "Rollo", abstained=False),
    ]
    [point] = curves(*rows)[0].points
    assert (point.mean, point.abstained, point.closed_book) == (0.5, 0.5, None)
    [point] = curves(row("noise", 0.0, "1", None), row("noise", 0.0, "2", ""))[0].points
    assert (point.n, point.mean) == (1, 0.0)  # an empty answer is one
    assert point.without == {"not_applicable": 1}


def test_parts_are_scored_one_by_one() -> None:
    parts = {"part_1": ("Rollo",), "part_2": ("911", "the year 911")}
    said = enumerate(("Rollo, in 911", "Rollo"))
    whole, share = curves(*(row("integration", 0.0, str(n), one, **parts) for n, one in said))
    assert (whole.quantity, whole.points[0].mean) == ("accuracy", 0.5)
    assert (share.quantity, share.points[0].mean) == ("share of parts", 0.75)


def test_several_rows_of_a_question_are_one_cluster() -> None:
    same = [
        replace(row("noise", 0.2, base, text), id=f"{base}-{n}")
        for base, text in (("1", "Rollo"), ("2", "Odo"), ("3", "Rollo"))
        for n in range(4)
    ]
    alone = [replace(one, metadata={**one.metadata, "base": one.id}) for one in same]
    [point], [free] = (curves(*rows)[0].points for rows in (same, alone))
    assert (point.n, point.questions) == (12, 3)
    assert (point.high or 0) - (point.low or 0) > (free.high or 0) - (free.low or 0) > 0


def test_the_change_between_the_ends_is_paired() -> None:
    rows = [row("noise", 0.0, str(n), "Rollo") for n in range(6)]
    rows += [row("noise", 1.0, str(n), "Odo" if n < 3 else "Rollo") for n in range(6)]
    [curve] = curves(*rows)
    assert curve.change == -0.5
    assert -1 <= (curve.change_low or 0) < -0.5 < (curve.change_high or 1) < 0.2


def test_a_judged_measure_can_stand_for_accuracy() -> None:
    rows = [row("noise", 0.0, "1", "Rollo"), row("noise", 0.0, "2", "Odo")]
    rows.append(row("closed_book", 0.0, "1", "?"))
    judged = {rows[0].id: 5.0, rows[1].id: 2.0, rows[2].id: 1.0}
    [curve] = curves(*rows, judged=judged, accuracy="Pairwise")
    assert (curve.measure, curve.points[0].mean) == ("Pairwise", 3.5)
    assert (curve.points[0].above, curve.points[0].paired) == (4.0, 1)


def test_false_alarms_stand_at_dose_zero() -> None:
    said = "There is a factual error in the passages. It was Rollo."
    answers = [(0.0, "1", said), (0.0, "2", "Rollo"), (1.0, "1", said), (1.0, "2", "Odo")]
    reported, corrected, everywhere, fooled, right = curves(
        *(
            row("counterfactual", dose, base, text, falsified=dose > 0, fake=("Odo",))
            for dose, base, text in answers
        )
    )
    assert [point.mean for point in reported.points] == [0.5, 0.5]
    assert [(point.n, point.mean) for point in corrected.points] == [(0, None), (1, 1.0)]
    assert (everywhere.points[1].n, everywhere.points[1].mean) == (2, 0.5)
    assert [point.mean for point in fooled.points] == [0.0, 0.5]
    assert [point.mean for point in right.points] == [1.0, 0.5]


def test_what_the_model_knows_without_passages_is_a_population_of_its_own() -> None:
    rows = [row("counterfactual", 1.0, base, "Odo", falsified=True, fake=("Odo",)) for base in "12"]
    rows += [row("closed_book", 0.0, base, text) for base, text in (("1", "Rollo"), ("2", "?"))]
    found = {(curve.quantity, curve.among): curve.points[0] for curve in curves(*rows)}
    told = {among: found["false answer given", among] for among in ("all", "known")}
    assert {among: (point.n, point.mean) for among, point in told.items()} == {
        "all": (2, 1.0),
        "known": (1, 1.0),
    }


def test_rows_that_failed_are_counted_at_their_dose() -> None:
    kept = [row("noise", dose, "1", "Rollo") for dose in (0.0, 0.5)]
    results = [RowResult(r.id, (), (Score("Pairwise", "scored", 1.0),), r) for r in kept]
    results.append(RowResult("noise/0.5/2", (), (Score("Pairwise", "errored", reason="gone"),)))
    [curve] = capability_curves(evaluation_of(results, parse_measures("Pairwise")))
    assert [(p.dose, p.n, dict(p.without)) for p in curve.points] == [
        (0.0, 1, {}),
        (0.5, 1, {"errored": 1}),
    ]


def test_cues_are_those_of_the_setup_and_an_own_suite_has_a_curve_too() -> None:
    one = row("rejection", 1.0, "1", "Non saprei.", answerable=False)
    result = RowResult(one.id, (), (Score("Pairwise", "scored", 1.0),), one)
    evaluation = evaluation_of([result], parse_measures("Pairwise"))
    plain = capability_curves(evaluation)[0]
    own = capability_curves(evaluation, setup=MeasureSetup(rejection_cues=("non saprei",)))[0]
    assert (plain.points[0].mean, own.points[0].mean) == (0.0, 1.0)
    [curve] = curves(row("typos", 1, "1", "Rollo"), row("typos", 2, "1", "Odo"))
    assert (curve.suite, curve.dose_name) == ("typos", "dose")
    assert [point.mean for point in curve.points] == [1, 0]


@pytest.mark.parametrize(
    ("one", "accuracy", "said"),
    [
        (Row("1", "q", "a"), "", "no row of the run"),
        (Row("1", "q", "a", "Rollo", metadata={"suite": "noise"}), "", "has the dose"),
        (row("noise", 0, "1", "a"), "Faithfulness", "no scores of Faithfulness"),
    ],
    ids=["no suite", "no dose", "a measure that was not taken"],
)
def test_a_run_that_has_no_curve_is_refused(one: Row, accuracy: str, said: str) -> None:
    with pytest.raises(TestsetError, match=said):
        curves(one, accuracy=accuracy)


# -- suites of a small corpus, answered by planted generators ---------------------------------

PEOPLE = "Abel Bruno Clara Dora Emil Frida Gustav Hanna".split()  # noqa: SIM905
TEAMS = "north south east west harbour forest river hill".split()  # noqa: SIM905
LEADERS = dict(zip(TEAMS, PEOPLE, strict=True))
CUE = "The passages do not answer this question."


def made_project(folder: Path, generator: str = "snippet") -> Path:
    """A project whose documents are one passage a team."""
    more = "The {} team meets on weekdays. Its room is quiet. There is tea."
    texts = {f"{team}.txt": f"The {team} team is led by {LEADERS[team]}." for team in LEADERS}
    texts |= {f"about-{n}.txt": more.format(team) for n, team in enumerate(LEADERS)}
    made = MakeProject(folder)(f"answer: {{model: '{generator}'}}\n", **texts)
    with Workbench.open(made) as bench:
        bench.ingest()
    return made


def leaders(bench: Workbench) -> Testset:
    """A question a team, its gold the leader's name."""
    documents = {Path(document.source).stem: document for document in bench.documents()}
    rows = []
    for team, name in LEADERS.items():
        document = documents[team]
        at = document.text.index(name)
        span = GoldSpan(document.id, at, at + len(name), name)
        question = f"Who leads the {team} team?"
        rows.append(Row(team, question, reference=name, reference_spans=(span,)))
    return Testset("leaders", tuple(rows))


def asked(request: ServerRequest) -> tuple[list[str], list[str], str]:
    """Teams that a prompt asks for, its passages in their order, and all of it."""
    messages = request.body["messages"]
    text = "\n".join(str(message["content"]) for message in messages)
    block, _, question = str(messages[-1]["content"]).partition("Question:")
    passages = re.findall(r"^\[\d+\] passage \d+\n(.+)$", block, re.MULTILINE)
    return re.findall(r"Who leads the (\w+) team", question), passages, text


def told_by(passages: list[str]) -> dict[str, str]:
    """Leaders by team, as the passages have them."""
    found = (re.fullmatch(r"The (\w+) team is led by ([\w ]+)\.", one) for one in passages)
    return {one[1]: one[2] for one in found if one}


def needs_the_gold(request: ServerRequest) -> Reply | str:
    """Answers from the passage about each team asked for, and says so where one is missing."""
    teams, passages, _ = asked(request)
    known = told_by(passages)
    if not all(team in known for team in teams):
        return CUE
    return " ".join(f"It is {known[team]}." for team in teams)


REPORTED, CORRECTED = "errors reported", "errors corrected, of those reported"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    with Workbench.open(made_project(tmp_path_factory.mktemp("suites"))) as bench:
        yield bench


def test_a_suite_of_ones_own_corpus(project: Workbench, tmp_path: Path) -> None:
    made = project.suite(leaders(project))
    doses: dict[str, set[object]] = {}
    for one in made.rows:
        doses.setdefault(str(one.metadata["suite"]), set()).add(one.metadata["dose"])
    assert doses == {
        "noise": {0, 1 / 2, 2 / 3, 3 / 4, 4 / 5, 1},
        "rejection": {1},
        "integration": {0, 1 / 3, 1 / 2, 3 / 5},
        "counterfactual": {0, 1},
        "sources": {1, 2, 3},
        "closed_book": {0},
    }
    write_rows(made.rows, tmp_path / "suite.jsonl")  # it goes through a file unchanged
    how = EvaluationOptions(answers=True)
    given = (made, str(tmp_path / "suite.jsonl"))
    direct, through = (project.evaluate(one, "", how)[0] for one in given)
    assert [r.scores for r in direct.results] == [r.scores for r in through.results]
    assert capability_curves(direct) == capability_curves(through)
    hard = [one.metadata["hard"] for one in made.rows if one.metadata["suite"] == "rejection"]
    assert hard == [5] * 8  # a search for a team finds the other teams
    options = SuiteOptions(("rejection",), closed_book=False)
    found = project.suite(leaders(project), options)
    assert found == project.suite(leaders(project), options)
    assert len({row.retrieved_contexts for row in found.rows}) == 8


def given(base: str, team: str, dose: float, *passages: str) -> Row:
    shown = (*passages, f"The {team} team is led by {LEADERS[team]}.")
    told: dict[str, Any] = {"suite": "noise", "dose": dose, "base": base}
    return Row(base, f"Who leads the {team} team?", None, LEADERS[team], shown, metadata=told)


def test_rows_with_passages_of_their_own_need_no_index_and_stand_apart(tmp_path: Path) -> None:
    rows = (given("a", "north", 0.0), given("b", "south", 0.5, "word " * 9000))
    how = EvaluationOptions(answers=True)
    with ScriptedServer(needs_the_gold) as server:
        (tmp_path / "ragwright.yaml").write_text(f"answer: {{model: '{server.url}#planted'}}\n")
        with Workbench.open(tmp_path) as bench:
            found, summary = bench.evaluate(Testset("own", rows), "", how)
            with pytest.raises(TestsetError, match="some rows belong"):
                bench.evaluate(Testset("x", (rows[0], Row("b", "q?"))), "", how)
            with pytest.raises(TestsetError, match="retrieval is not run for it"):
                bench.evaluate(Testset("x", rows[:1]), "", EvaluationOptions(answers=False))
    assert summary.errored == 1
    assert found["Contains"].states == {"scored": 1, "errored": 1}
    [errored] = [r for r in found.results if r.row_id == "b"]
    assert "2 passages were given" in errored.scores[0].reason
    assert [point.mean for point in capability_curves(found)[0].points] == [1]


def test_questions_that_can_be_no_part_of_a_suite_are_counted(project: Workbench) -> None:
    first = leaders(project).rows[0]
    [span] = first.reference_spans
    name = span.document_id
    odd = (
        Row("1", "q?"),
        Row("2", "q?", reference="the", reference_spans=(span,)),
        Row("3", "q?", reference="Abel"),
        Row("4", "q?", reference="Abel", reference_spans=(GoldSpan(name, 0, 3, "x"),)),
        Row("5", "q?", reference="Abel", reference_spans=(GoldSpan("gone", 0, 3),)),
        Row("7", " ", reference="Abel", reference_spans=(span,)),
        Row("6", first.user_input, reference="Abel", reference_ids={name: 1}),
    )
    made = project.suite(Testset("odd", odd), SuiteOptions(("rejection",)))
    assert {row.metadata["base"] for row in made.rows} == {"6"}
    left = [note for note in made.notes if "questions are left out" in note]
    assert len(left) == 6
    assert all(note.startswith("1 of 7 questions") for note in left)
    with pytest.raises(TestsetError, match="no question"):
        project.suite(Testset("odd", odd[:3]))
