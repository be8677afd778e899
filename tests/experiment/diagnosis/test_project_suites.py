"""Suites of a small corpus, answered by planted generators: the curves come out as by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ragwright import EvaluationOptions, Workbench
from ragwright.core import GoldSpan, Row, TestsetError
from ragwright.experiment import Curve, capability_curves
from ragwright.testing import Reply, ScriptedServer, ServerRequest
from ragwright.testsets import LeakCheck, SuiteOptions, Testset, gold_answer, write_rows

LEADERS = {
    "north": "Abel",
    "south": "Bruno",
    "east": "Clara",
    "west": "Dora",
    "harbour": "Emil",
    "forest": "Frida",
    "river": "Gustav",
    "hill": "Hanna",
}
MORE = "The {team} team meets on weekdays. Its room is quiet. There is tea."
CUE = "The passages do not answer this question."
ERROR = "There is a factual error in the passages."


class Project:
    """A project whose documents are one passage a team, and its questions."""

    def __init__(self, folder: Path, generator: str = "snippet") -> None:
        docs = folder / "docs"
        docs.mkdir(parents=True)
        for team, name in LEADERS.items():
            (docs / f"{team}.txt").write_text(f"The {team} team is led by {name}.", "utf-8")
        for n, team in enumerate(LEADERS):
            (docs / f"about-{n}.txt").write_text(MORE.format(team=team), "utf-8")
        settings = f"sources: [docs/]\nanswer: {{model: '{generator}'}}\n"
        (folder / "ragwright.yaml").write_text(settings, "utf-8")
        self.folder = folder

    def testset(self, bench: Workbench) -> Testset:
        """A question a team, its gold the leader's name."""
        documents = {Path(document.source).stem: document for document in bench.documents()}
        rows = []
        for team, name in LEADERS.items():
            document = documents[team]
            at = document.text.index(name)
            rows.append(
                Row(
                    team,
                    f"Who leads the {team} team?",
                    reference=name,
                    reference_spans=(GoldSpan(document.id, at, at + len(name), name),),
                )
            )
        return Testset("leaders", tuple(rows))


def asked(request: ServerRequest) -> tuple[list[str], list[str], str]:
    """Teams that a prompt asks for, its passages in their order, and all of it."""
    messages = request.body["messages"]
    text = "\n".join(str(message["content"]) for message in messages)
    block, _, question = str(messages[-1]["content"]).partition("Question:")
    passages = re.findall(r"^\[\d+\] passage \d+\n(.+)$", block, re.MULTILINE)
    return re.findall(r"Who leads the (\w+) team", question), passages, text


def led_by(passage: str) -> tuple[str, str] | None:
    found = re.fullmatch(r"The (\w+) team is led by ([\w ]+)\.", passage)
    return None if found is None else (found[1], found[2])


def copies_the_first(request: ServerRequest) -> str:
    """Repeats what the first passage says, whatever was asked."""
    _, passages, _ = asked(request)
    return passages[0] + " [1]" if passages else "I know nothing."


def needs_the_gold(request: ServerRequest) -> str:
    """Answers from the passage about each team asked for, and says so where one is missing."""
    teams, passages, _ = asked(request)
    known = dict(filter(None, map(led_by, passages)))
    if not all(team in known for team in teams):
        return CUE
    return " ".join(f"It is {known[team]}." for team in teams)


def remembers(request: ServerRequest) -> str:
    """Knows the leaders of four teams by heart, and reads no passage."""
    teams, _, _ = asked(request)
    heart = dict(list(LEADERS.items())[:4])
    return " ".join(f"It is {heart[team]}." if team in heart else "Nobody." for team in teams)


def detects(request: ServerRequest) -> str:
    """Knows every leader by heart, and reports a passage that says otherwise, where asked to."""
    teams, passages, text = asked(request)
    [team] = teams
    wrong = [pair for pair in filter(None, map(led_by, passages)) if LEADERS[pair[0]] != pair[1]]
    if wrong and ERROR in text:
        return f"{ERROR} The leader is {LEADERS[team]}."
    return f"It is {wrong[0][1] if wrong else LEADERS[team]}."


Generator = Callable[[ServerRequest], str]


def run(
    folder: Path, generator: Generator, options: SuiteOptions
) -> tuple[dict[tuple[str, str, str], Curve], Testset, int]:
    """Curves by suite, quantity and population; the suite; and how many requests it took."""
    with ScriptedServer(generator) as server:
        project = Project(folder, f"{server.url}#planted")
        with Workbench.open(project.folder) as bench:
            bench.ingest()
            suite = bench.suite(project.testset(bench), options)
            _, summary = bench.evaluate(suite, "", EvaluationOptions(answers=True))
            stored = bench.results(summary.run)
        count = len(server.requests)
    curves = capability_curves(stored)
    return {(one.suite, one.quantity, one.among): one for one in curves}, suite, count


def means(curve: Curve) -> list[float | None]:
    return [None if p.mean is None else round(p.mean, 6) for p in curve.points]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testset]:
    project = Project(tmp_path_factory.mktemp("made") / "project")
    with Workbench.open(project.folder) as bench:
        bench.ingest()
        yield bench.suite(project.testset(bench))


def test_a_suite_of_ones_own_corpus(made: Testset) -> None:
    doses: dict[str, set[object]] = {}
    for row in made.rows:
        doses.setdefault(str(row.metadata["suite"]), set()).add(row.metadata["dose"])
    assert doses == {
        "noise": {0, 1 / 2, 2 / 3, 3 / 4, 4 / 5, 1},
        "rejection": {1},
        "integration": {0, 1 / 3, 1 / 2, 3 / 5},
        "counterfactual": {0, 1},
        "sources": {1, 2, 3},
        "closed_book": {0},
    }
    for row in made.rows:
        gold = gold_answer(row)
        assert gold is not None
        suite, dose = row.metadata["suite"], row.metadata["dose"]
        teams = re.findall(r"Who leads the (\w+) team", row.user_input)
        right = {f"The {team} team is led by {LEADERS[team]}." for team in teams}
        if suite in ("noise", "rejection", "integration", "sources"):
            noise = [text for text in row.retrieved_contexts if text not in right]
            assert not any(LeakCheck(gold).leaks(text) for text in noise)
            if suite != "sources":
                assert len(noise) / len(row.retrieved_contexts) == dose
            if dose != 1 or suite == "sources":
                assert right <= set(row.retrieved_contexts)
    hard = [row.metadata["hard"] for row in made.rows if row.metadata["suite"] == "rejection"]
    assert hard == [5] * 8  # a search for a team finds the other teams


@pytest.mark.slow
def test_random_distractors_are_not_searched_for(tmp_path: Path) -> None:
    project = Project(tmp_path)
    with Workbench.open(project.folder) as bench:
        bench.ingest()
        options = SuiteOptions(("rejection",), distractors="random", closed_book=False)
        found = bench.suite(project.testset(bench), options)
        again = bench.suite(project.testset(bench), options)
    assert found == again
    assert {row.metadata["hard"] for row in found.rows} == {0}
    assert len({row.retrieved_contexts for row in found.rows}) == 8


@pytest.mark.slow
def test_one_that_copies_the_first_passage_is_right_where_the_gold_stands_first(
    tmp_path: Path,
) -> None:
    curves, suite, _ = run(tmp_path, copies_the_first, SuiteOptions(("noise",)))
    first = {
        dose: [
            row.metadata["gold_rank"] == 1
            for row in suite.rows
            if row.metadata["suite"] == "noise" and row.metadata["dose"] == dose
        ]
        for dose in (0, 1 / 2, 2 / 3, 3 / 4, 4 / 5, 1)
    }
    expected = [round(sum(ranks) / 8, 6) for ranks in first.values()]
    accuracy = curves["noise", "accuracy", "all"]
    assert means(accuracy) == expected
    assert expected[0] == 1
    assert expected[-1] == 0
    assert 0 < expected[2] < 1
    assert accuracy.change == -1
    assert [point.closed_book for point in accuracy.points] == [0] * 6


@pytest.mark.slow
def test_one_that_needs_the_gold_is_flat_until_there_is_none(tmp_path: Path) -> None:
    curves, suite, requests = run(tmp_path, needs_the_gold, SuiteOptions())
    accuracy = curves["noise", "accuracy", "all"]
    assert means(accuracy) == [1, 1, 1, 1, 1, 0]
    # exact: 8 of 8, and 0 of 8 (Clopper and Pearson, one-sided 0.025 ** (1 / 8) where none differs)
    assert accuracy.points[0].low == pytest.approx(0.025 ** (1 / 8))
    assert accuracy.points[0].high == 1
    assert accuracy.points[-1].high == pytest.approx(1 - 0.025 ** (1 / 8))
    assert [point.above for point in accuracy.points] == [1, 1, 1, 1, 1, 0]
    assert accuracy.points[-1].abstained == 1
    assert means(curves["rejection", "rejection rate", "all"]) == [1]
    assert means(curves["integration", "accuracy", "all"]) == [1, 1, 1, 1]
    assert means(curves["sources", "accuracy", "all"]) == [1, 1, 1]
    # it follows the false passage, reports nothing, corrects nothing
    assert means(curves["counterfactual", "accuracy", "all"]) == [1, 0]
    assert means(curves["counterfactual", "false answer given", "all"]) == [0, 1]
    assert means(curves["counterfactual", "errors reported", "all"]) == [0, 0]
    assert means(curves["counterfactual", "errors corrected, of those reported", "all"]) == [
        None,
        None,
    ]
    prompts = {
        (row.user_input, row.retrieved_contexts, row.metadata.get("ask")) for row in suite.rows
    }
    assert requests == len(prompts)  # what two suites have in common is asked once


@pytest.mark.slow
def test_what_is_known_by_heart_is_subtracted(tmp_path: Path) -> None:
    curves, _, _ = run(tmp_path, remembers, SuiteOptions())
    accuracy = curves["noise", "accuracy", "all"]
    assert means(accuracy) == [0.5] * 6
    for point in accuracy.points:
        assert (point.closed_book, point.above) == (0.5, 0)
        assert point.paired == 8
        assert point.above_low == pytest.approx(-(1 - 0.025 ** (1 / 8)))  # never a bare 0
        assert point.above_high == pytest.approx(1 - 0.025 ** (1 / 8))
    assert means(curves["rejection", "rejection rate", "all"]) == [0]
    assert means(curves["rejection", "accuracy", "all"]) == [0.5]
    parts = curves["sources", "share of parts", "all"]
    assert all(point.above == 0 for point in parts.points)


@pytest.mark.slow
def test_one_that_detects_errors_mends_them(tmp_path: Path) -> None:
    curves, _, _ = run(tmp_path, detects, SuiteOptions(("counterfactual",)))
    assert means(curves["counterfactual", "errors reported", "all"]) == [0, 1]
    corrected = curves["counterfactual", "errors corrected, of those reported", "all"]
    assert means(corrected) == [None, 1]
    assert corrected.points[1].n == 8
    assert means(curves["counterfactual", "accuracy", "all"]) == [1, 1]
    assert means(curves["counterfactual", "false answer given", "all"]) == [0, 0]


@pytest.mark.slow
def test_nobody_reports_errors_where_the_prompt_does_not_ask(tmp_path: Path) -> None:
    options = SuiteOptions(("counterfactual",), report_errors=False)
    curves, _, _ = run(tmp_path, detects, options)
    assert means(curves["counterfactual", "errors reported", "all"]) == [0, 0]
    assert means(curves["counterfactual", "false answer given", "all"]) == [0, 1]


def test_falsified_facts_are_shown_for_the_known_ones_by_themselves(tmp_path: Path) -> None:
    def half(request: ServerRequest) -> str:
        """Knows four leaders; reports what contradicts them, and believes the rest."""
        teams, passages, text = asked(request)
        [team] = teams
        said = dict(filter(None, map(led_by, passages))).get(team)
        known = LEADERS[team] if team in list(LEADERS)[:4] else None
        if known and said and said != known and ERROR in text:
            return f"{ERROR} It is {known}."
        return f"It is {said or known or 'unknown'}."

    curves, _, _ = run(tmp_path, half, SuiteOptions(("counterfactual",)))
    assert means(curves["counterfactual", "errors reported", "all"]) == [0, 0.5]
    assert means(curves["counterfactual", "errors reported", "known"]) == [0, 1]
    assert means(curves["counterfactual", "false answer given", "known"]) == [0, 0]
    assert curves["counterfactual", "errors reported", "known"].points[1].n == 4


def test_a_suite_needs_no_index_and_failed_rows_are_counted(tmp_path: Path) -> None:
    rows = (
        Row(
            "a",
            "Who leads the north team?",
            reference="Abel",
            retrieved_contexts=("The north team is led by Abel.",),
            metadata={"suite": "noise", "dose": 0.0, "base": "a"},
        ),
        Row(
            "b",
            "Who leads the south team?",
            reference="Bruno",
            retrieved_contexts=("word " * 9000, "The south team is led by Bruno."),
            metadata={"suite": "noise", "dose": 0.5, "base": "b"},
        ),
    )
    with ScriptedServer(needs_the_gold) as server:
        project = Project(tmp_path, f"{server.url}#planted")
        with Workbench.open(project.folder) as bench:
            found, summary = bench.evaluate(
                Testset("own", rows), "", EvaluationOptions(answers=True)
            )
    assert summary.errored == 1
    assert found["Contains"].states == {"scored": 1, "errored": 1}
    [errored] = [r for r in found.results if r.row_id == "b"]
    assert "2 passages were given" in errored.scores[0].reason
    assert means(capability_curves(found)[0]) == [1]


@pytest.mark.slow
def test_what_a_suite_takes_is_known_before(tmp_path: Path) -> None:
    with ScriptedServer(needs_the_gold) as server:
        project = Project(tmp_path, f"{server.url}#planted")
        with Workbench.open(project.folder) as bench:
            bench.ingest()
            suite = bench.suite(project.testset(bench))
            how = EvaluationOptions(answers=True)
            calls = bench.forecast_evaluate(suite, "", how).calls
            assert not server.requests
            bench.evaluate(suite, "", how)
            made = len(server.requests)
            bench.evaluate(suite, "", how)
    assert calls.low == calls.expected == calls.high == made
    assert len(server.requests) == made  # asked again, nothing is paid again


def test_french_answers_are_read_as_french(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    text = "Le filtre a été changé par l'équipe de Lyon, et elle le fera encore dans les deux ans. "
    (docs / "a.txt").write_text(text * 3, "utf-8")
    (docs / "b.txt").write_text("Les pneus sont vérifiés avec le niveau de l'huile, chaque mois.")
    (tmp_path / "ragwright.yaml").write_text("sources: [docs/]\n")
    with Workbench.open(tmp_path) as bench:
        bench.ingest()
        [document] = [d for d in bench.documents() if d.source.endswith("a.txt")]
        at = document.text.index("l'équipe")
        span = GoldSpan(document.id, at, at + len("l'équipe de Lyon"), "l'équipe de Lyon")
        row = Row("1", "Qui a changé le filtre ?", reference=span.text, reference_spans=(span,))
        made = bench.suite(Testset("t", (row,)), SuiteOptions(("rejection",)))
    assert {one.metadata["language"] for one in made.rows} == {"fr"}
    gold = gold_answer(made.rows[0])
    assert gold is not None
    assert gold.held("C'était une équipe de Lyon.") == (True,)


@pytest.mark.slow
def test_rows_that_failed_are_counted_at_their_dose(tmp_path: Path) -> None:
    def fails(request: ServerRequest) -> Reply | str:
        teams, passages, _ = asked(request)
        return Reply.too_long() if teams == ["north"] and passages else needs_the_gold(request)

    with ScriptedServer(fails) as server:
        project = Project(tmp_path, f"{server.url}#planted")
        with Workbench.open(project.folder) as bench:
            bench.ingest()
            suite = bench.suite(project.testset(bench), SuiteOptions(("noise",)))
            _, summary = bench.evaluate(suite, "", EvaluationOptions(answers=True))
            [curve] = capability_curves(bench.results(summary.run))
    assert summary.errored == 6
    assert [point.without for point in curve.points] == [{"errored": 1}] * 6
    assert [point.n for point in curve.points] == [7] * 6


def test_rows_with_and_without_passages_of_their_own_are_kept_apart(tmp_path: Path) -> None:
    project = Project(tmp_path)
    given = Row("a", "q?", metadata={"suite": "noise", "dose": 0.0, "base": "a"})
    with Workbench.open(project.folder) as bench:
        with pytest.raises(TestsetError, match="some rows belong"):
            bench.evaluate(
                Testset("x", (given, Row("b", "q?"))), "", EvaluationOptions(answers=True)
            )
        with pytest.raises(TestsetError, match="retrieval is not run for it"):
            bench.evaluate(Testset("x", (given,)), "", EvaluationOptions(answers=False))


def test_questions_that_can_be_no_part_of_a_suite_are_counted(tmp_path: Path) -> None:
    project = Project(tmp_path)
    with Workbench.open(project.folder) as bench:
        bench.ingest()
        rows = project.testset(bench).rows
        span = rows[0].reference_spans[0]
        odd = (
            Row("1", "q?"),
            Row("2", "q?", reference="the", reference_spans=(span,)),
            Row("3", "q?", reference="Abel"),
            Row(
                "4",
                "q?",
                reference="Abel",
                reference_spans=(GoldSpan(span.document_id, 0, 3, "x"),),
            ),
            Row("5", "q?", reference="Abel", reference_spans=(GoldSpan("gone", 0, 3),)),
            Row("7", " ", reference="Abel", reference_spans=(span,)),
            Row("6", rows[0].user_input, reference="Abel", reference_ids={span.document_id: 1}),
        )
        made = bench.suite(Testset("odd", odd), SuiteOptions(("rejection",)))
        with pytest.raises(TestsetError, match="no question"):
            bench.suite(Testset("odd", odd[:3]))
    assert {row.metadata["base"] for row in made.rows} == {"6"}
    left = [note for note in made.notes if "questions are left out" in note]
    assert len(left) == 6
    assert all(note.startswith("1 of 7 questions") for note in left)


@pytest.mark.slow
def test_a_suite_goes_through_a_file_unchanged(made: Testset, tmp_path: Path) -> None:
    write_rows(made.rows, tmp_path / "suite.jsonl")
    project = Project(tmp_path / "project")
    with Workbench.open(project.folder) as bench:
        bench.ingest()
        how = EvaluationOptions(answers=True)
        direct, _ = bench.evaluate(made, "", how)
        through, _ = bench.evaluate(str(tmp_path / "suite.jsonl"), "", how)
    assert [r.scores for r in direct.results] == [r.scores for r in through.results]
    assert capability_curves(direct) == capability_curves(through)
    assert json.loads((tmp_path / "suite.jsonl").read_text("utf-8").splitlines()[0])["metadata"]
