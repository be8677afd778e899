"""Scores of served answers: what is drawn, what waits, what it costs, and what is forgotten."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from served_answers import BAD, GOOD, Days, outputs_at, serve_answers
from small_project import MakeProject

from ragwright import Workbench
from ragwright.core import ConfigError, MeasureError
from ragwright.jobs import MeasureServedOptions
from ragwright.ledger import FileLock
from ragwright.testing import Reply, ScriptedServer, ServerRequest

SHARE = "serve: {measure: {share: 1}}\n"


def values(bench: Workbench) -> dict[str, float | None]:
    return {score.output: score.value for score in bench.outputs.scores.all(None)}


@pytest.mark.slow
def test_a_share_is_drawn_by_id_and_the_same_one_in_every_process(tmp_path: Path) -> None:
    drawn, clock = [], Days(1)
    for name in ("a", "b"):
        folder = MakeProject(tmp_path / name)("serve: {measure: {share: 0.3}}\n")
        for part in range(1 if name == "a" else 4):
            with Workbench.open(folder) as bench:
                outputs = outputs_at(bench, clock)
                for at in range(100 if name == "a" else 25):
                    serve_answers(outputs, [GOOD], tag=f"{part * 25 + at}.")
                bench.measure_served()
                drawn.append(set(values(bench)))
    once, *parts = drawn
    assert parts[-1] == once, "restarts do not change the share"
    assert 15 <= len(once) <= 45


def test_scores_stand_beside_the_answer_with_their_origin(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)(SHARE)
    with Workbench.open(folder) as bench:
        good, bad = serve_answers(bench.outputs, [GOOD, BAD], model="http://h/v1#big")
        done = bench.measure_served()
        assert (done.drawn, done.scored, done.waiting) == (2, 2, 0)
        found = values(bench)
        assert (found[good] or 0) > 0.8
        assert found[bad] == 0.0
        again = bench.measure_served()
        assert (again.drawn, again.scored) == (0, 0), "nothing is scored twice"
        [score] = bench.outputs.scores.of(good)
    assert (score.model, score.snapshot, score.configuration) == ("http://h/v1#big", "s1", "c1")
    with sqlite3.connect(folder / ".ragwright" / "data" / "ledger.sqlite") as table:
        rows = table.execute("SELECT id, measure, value, model FROM scored").fetchall()
    table.close()
    assert (good, "KPrecision(content+bigrams)", found[good], "http://h/v1#big") in rows


GRADE = json.dumps({"reasoning": "Seen.", "score": 4})


def project_with(tmp_path: Path, server: ScriptedServer, more: str = "") -> Path:
    return MakeProject(tmp_path)(
        f"judge: {{model: '{server.url}#judge'}}\n"
        f"models: {{'{server.url}#judge': {{price_in: 100, price_out: 100}}}}\n"
        f"serve: {{measure: {{share: 1, measures: [Faithfulness]{more}}}}}\n"
    )


@pytest.mark.slow
def test_the_budget_of_a_day_is_kept_and_the_rest_is_scored_the_next_day(tmp_path: Path) -> None:
    with ScriptedServer(GRADE) as server:
        folder = project_with(tmp_path, server, ", daily_budget: 1.0")
        with Workbench.open(folder) as bench:
            clock = Days(5)
            outputs = outputs_at(bench, clock)
            serve_answers(outputs, [GOOD] * 40)
            first = bench.measure_served()
            assert 0 < first.scored < 40
            assert first.waiting == 40 - first.scored
            assert "daily budget of 1" in first.stopped
            assert 0 < first.spent_today <= 1.0
            assert outputs.scores.today().reached == 1.0
            assert not outputs.scores.has_work(1.0)
            assert outputs.scores.has_work(2.0), "a larger budget goes on the same day"
            calls = len(server.requests)
            assert bench.measure_served().cost == 0
            assert len(server.requests) == calls
        while True:  # another process, on the days after
            with Workbench.open(folder) as bench:
                clock.next()
                outputs_at(bench, clock)
                done = bench.measure_served()
                assert done.spent_today <= 1.0
                if not done.waiting:
                    break
        with Workbench.open(folder) as bench:
            assert list(values(bench).values()) == [4.0] * 40


def test_a_judge_that_is_down_loses_nothing(tmp_path: Path) -> None:
    down = [True]

    def said(request: ServerRequest) -> Reply | str:
        return Reply("", status=500) if down[0] else GRADE

    with ScriptedServer(said) as server:
        folder = project_with(tmp_path, server)
        with Workbench.open(folder) as bench:
            clock = Days(5)
            outputs = outputs_at(bench, clock)
            serve_answers(outputs, [GOOD] * 3)
            failed = bench.measure_served()
            assert (failed.scored, failed.failed, failed.waiting) == (0, 3, 3)
            assert "every attempt failed" in failed.stopped
            assert outputs.scores.today().failed == 3
            assert outputs.scores.today().reason
            assert not outputs.scores.has_work(None), "not again at once"
            down[0] = False
            assert bench.measure_served().scored == 0
            clock.next(1 / 24)
            assert outputs.scores.has_work(None)
            assert bench.measure_served().scored == 3
            assert bench.outputs.scores.count_waiting() == 0


def test_errors_may_be_tried_again_at_once(tmp_path: Path) -> None:
    down = [True]

    def said(request: ServerRequest) -> Reply | str:
        return Reply("", status=500) if down[0] else GRADE

    with ScriptedServer(said) as server, Workbench.open(project_with(tmp_path, server)) as bench:
        serve_answers(bench.outputs, [GOOD])
        assert bench.measure_served().failed == 1
        down[0] = False
        assert bench.measure_served(MeasureServedOptions(retry_errors=True)).scored == 1


def test_a_judge_does_not_see_feedback_and_judgments_are_of_one_tenant(tmp_path: Path) -> None:
    with ScriptedServer(GRADE) as server, Workbench.open(project_with(tmp_path, server)) as bench:
        outputs = outputs_at(bench, Days(1))
        [mine] = serve_answers(outputs, [GOOD], scope="acme")
        [theirs] = serve_answers(outputs, [GOOD], scope="globex")
        outputs.respond(mine, by="reader", verdict="rejected", note="quartzose nonsense")
        assert bench.measure_served().scored == 2
        assert len(server.requests) == 2, "the same text is judged for each tenant"
        assert "quartzose" not in json.dumps([request.body for request in server.requests])
        assert [s.output for s in outputs.scores.all("acme")] == [mine]
        assert [s.output for s in outputs.scores.all("globex")] == [theirs]
        assert outputs.scores.all("") == []
        bench.forget_tenant("acme")
        assert [s.output for s in outputs.scores.all(None)] == [theirs]


def test_forgetting_a_document_reaches_the_scores_of_its_answers(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)(SHARE)
    with Workbench.open(folder) as bench:
        serve_answers(bench.outputs, [GOOD, BAD])
        bench.measure_served()
        assert len(values(bench)) == 2
        bench.forget("docs/service.md")
        assert values(bench) == {}
        with sqlite3.connect(folder / ".ragwright" / "data" / "ledger.sqlite") as table:
            assert table.execute("SELECT count(*) FROM scores").fetchone() == (0,)
        table.close()


def test_one_process_measures_at_a_time(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)(SHARE)
    with Workbench.open(folder) as bench:
        serve_answers(bench.outputs, [GOOD])
        with FileLock(folder / ".ragwright" / "data" / "serve" / "measuring.lock", "a test"):
            assert bench.measure_served().busy
        assert bench.measure_served().scored == 1


@pytest.mark.parametrize(
    ("lines", "error", "said"),
    [
        ("serve: {measure: {share: 0}}", ConfigError, "share is 0"),
        ("serve: {measure: {share: 1}, keep_answers: false}", ConfigError, "keep_answers"),
        ("serve: {measure: {share: 1, measures: [TokenF1]}}", MeasureError, "lack"),
        ("serve: {measure: {share: 1, measures: [Faithfulness]}}", MeasureError, "model"),
        ("serve: {measure: {measures: [Fathfulness]}}", ConfigError, "unknown measure"),
        ("serve: {measure: {reference: soon}}", ConfigError, "not a day"),
        (
            "judge: {model: 'http://192.0.2.1/v1#judge'}\n"
            "serve: {measure: {share: 1, measures: [Faithfulness], daily_budget: 1}}",
            ConfigError,
            "no price",
        ),
    ],
)
def test_settings_that_cannot_work_are_refused(
    tmp_path: Path, lines: str, error: type[Exception], said: str
) -> None:
    folder = MakeProject(tmp_path)(f"{lines}\n")
    with pytest.raises(error, match=said), Workbench.open(folder) as bench:
        bench.measure_served()
