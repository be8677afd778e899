"""Scores of served answers: what is drawn, what waits, what it costs, and what is forgotten."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from served_answers import BAD, GOOD, Days, outputs_at, serve_answers
from small_project import MakeProject

from ragwright import Workbench
from ragwright.core import ConfigError, MeasureError
from ragwright.ledger import FileLock
from ragwright.testing import Reply, ScriptedServer, ServerRequest

SHARE = "serve: {measure: {share: 1}}\n"


def values(bench: Workbench) -> dict[str, float | None]:
    return {score.output: score.value for score in bench.outputs.scores.all(None)}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    with Workbench.open(MakeProject(tmp_path)(SHARE)) as opened:
        yield opened


@pytest.mark.slow
def test_a_share_is_drawn_by_id_and_the_same_one_in_every_process(tmp_path: Path) -> None:
    drawn, clock = [], Days(1)
    for name in ("a", "b"):
        folder = MakeProject(tmp_path / name)("serve: {measure: {share: 0.3}}\n")
        for part in range(1 if name == "a" else 4):
            with Workbench.open(folder) as bench:
                outputs = outputs_at(bench, clock)
                for at in range(60 if name == "a" else 15):
                    serve_answers(outputs, [GOOD], tag=f"{part * 15 + at}.")
                bench.measure_served()
                drawn.append(set(values(bench)))
    once, *parts = drawn
    assert parts[-1] == once, "restarts do not change the share"
    assert 8 <= len(once) <= 28


def test_scores_stand_beside_the_answer_with_their_origin_and_are_forgotten_with_it(
    bench: Workbench,
) -> None:
    """One process measures at a time, and nothing is scored twice."""
    good, bad = serve_answers(bench.outputs, [GOOD, BAD], model="http://h/v1#big")
    data = bench.project.folder.data
    with FileLock(data / "serve" / "measuring.lock", "a test"):
        assert bench.measure_served().busy
    done = bench.measure_served()
    assert (done.drawn, done.scored, done.waiting) == (2, 2, 0)
    found = values(bench)
    assert (found[good] or 0) > 0.8
    assert found[bad] == 0.0
    again = bench.measure_served()
    assert (again.drawn, again.scored) == (0, 0)
    [score] = bench.outputs.scores.of(good)
    assert (score.model, score.snapshot, score.configuration) == ("http://h/v1#big", "s1", "c1")
    with closing(sqlite3.connect(data / "ledger.sqlite")) as table:
        rows = table.execute("SELECT id, measure, value, model FROM scored").fetchall()
        row = (good, "KPrecision(content+bigrams)", found[good], "http://h/v1#big")
        assert row in rows
        bench.forget("docs/service.md")
        assert values(bench) == {}
        assert table.execute("SELECT count(*) FROM scores").fetchone() == (0,)


GRADE = json.dumps({"reasoning": "Seen.", "score": 4})


class Judge:
    """A judge that gives one grade; it may be down."""

    down = False

    def __call__(self, request: ServerRequest) -> Reply | str:
        return Reply("", status=500) if self.down else GRADE


@pytest.fixture
def judge() -> Iterator[tuple[Judge, ScriptedServer]]:
    script = Judge()
    with ScriptedServer(script) as server:
        yield script, server


def judged(tmp_path: Path, server: ScriptedServer, more: str = "") -> Path:
    return MakeProject(tmp_path)(
        f"judge: {{model: '{server.url}#judge'}}\n"
        f"models: {{'{server.url}#judge': {{price_in: 100, price_out: 100}}}}\n"
        f"serve: {{measure: {{share: 1, measures: [Faithfulness]{more}}}}}\n"
    )


@pytest.mark.slow
def test_the_budget_of_a_day_is_kept_and_the_rest_is_scored_the_next_day(
    tmp_path: Path, judge: tuple[Judge, ScriptedServer]
) -> None:
    folder, clock = judged(tmp_path, judge[1], ", daily_budget: 1.0"), Days(5)
    with Workbench.open(folder) as bench:
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
        calls = len(judge[1].requests)
        assert bench.measure_served().cost == 0
        assert len(judge[1].requests) == calls
    while True:  # another process, on the days after
        with Workbench.open(folder) as bench:
            clock.next()
            outputs_at(bench, clock)
            done = bench.measure_served()
            assert done.spent_today <= 1.0
            if not done.waiting:
                assert list(values(bench).values()) == [4.0] * 40
                return


def test_a_judge_that_is_down_loses_nothing(
    tmp_path: Path, judge: tuple[Judge, ScriptedServer]
) -> None:
    """It is asked again after a while, or at once where that is asked for."""
    script, server = judge
    with Workbench.open(judged(tmp_path, server)) as bench:
        clock = Days(5)
        outputs = outputs_at(bench, clock)
        serve_answers(outputs, [GOOD] * 3)
        script.down = True
        failed = bench.measure_served()
        assert (failed.scored, failed.failed, failed.waiting) == (0, 3, 3)
        assert "every attempt failed" in failed.stopped
        assert outputs.scores.today().failed == 3
        assert outputs.scores.today().reason
        assert not outputs.scores.has_work(None), "not again at once"
        assert bench.measure_served(retry_errors=True).failed == 3
        script.down = False
        assert bench.measure_served().scored == 0
        clock.next(1 / 24)
        assert outputs.scores.has_work(None)
        assert bench.measure_served().scored == 3
        assert bench.outputs.scores.count_waiting() == 0


def test_a_judge_does_not_see_feedback_and_judgments_are_of_one_tenant(
    tmp_path: Path, judge: tuple[Judge, ScriptedServer]
) -> None:
    with Workbench.open(judged(tmp_path, judge[1])) as bench:
        outputs = outputs_at(bench, Days(1))
        [mine] = serve_answers(outputs, [GOOD], scope="acme")
        [theirs] = serve_answers(outputs, [GOOD], scope="globex")
        outputs.respond(mine, by="reader", verdict="rejected", note="quartzose nonsense")
        assert bench.measure_served().scored == 2
        bodies = [request.body for request in judge[1].requests]
        assert len(bodies) == 2, "the same text is judged for each tenant"
        assert "quartzose" not in json.dumps(bodies)
        for scope, seen in (("acme", [mine]), ("globex", [theirs]), ("", [])):
            assert [s.output for s in outputs.scores.all(scope)] == seen
        bench.forget_tenant("acme")
        assert [s.output for s in outputs.scores.all(None)] == [theirs]


JUDGE = "judge: {model: 'http://192.0.2.1/v1#judge'}\nserve: {measure: "


@pytest.mark.parametrize(
    ("lines", "error", "said"),
    [
        ("serve: {measure: {share: 0}}", ConfigError, "share is 0"),
        ("serve: {measure: {share: 1}, keep_answers: false}", ConfigError, "keep_answers"),
        ("serve: {measure: {share: 1, measures: [TokenF1]}}", MeasureError, "lack"),
        ("serve: {measure: {share: 1, measures: [Faithfulness]}}", MeasureError, "model"),
        ("serve: {measure: {measures: [Fathfulness]}}", ConfigError, "unknown measure"),
        ("serve: {measure: {reference: soon}}", ConfigError, "not a day"),
        (JUDGE + "{share: 1, measures: [Faithfulness], daily_budget: 1}}", ConfigError, "no price"),
    ],
)
def test_settings_that_cannot_be_measured_are_refused(
    tmp_path: Path, lines: str, error: type[Exception], said: str
) -> None:
    folder = MakeProject(tmp_path)(f"{lines}\n")
    with pytest.raises(error, match=said), Workbench.open(folder) as bench:
        bench.measure_served()
