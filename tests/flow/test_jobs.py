"""Jobs: rows written as they end, taken up where they stopped."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flow_fakes import FakeChat, ask, prompt
from forgetting import forget_at
from waiting import when

from ragwright.core import BudgetStopped, FlowError, ModelRefusedError, ModelTimeoutError
from ragwright.flow import (
    Budget,
    Chat,
    Flow,
    Job,
    Replies,
    RetryPolicy,
    Runner,
    RunnerOptions,
    Runs,
    gather,
    run_job,
)

ONCE = RetryPolicy(attempts=1)


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    store = Runs(tmp_path / "runs.db")
    yield store
    store.close()


def item(text: str) -> tuple[str, Callable[[], Flow[str]]]:
    return f"row {text}", lambda: ask(text)


def job(*texts: str, **options: Any) -> Job[str]:
    return Job("eval", {"version": 1}, [item(t) for t in texts], lambda v: {"text": v}, **options)


def exported(runs: Runs, run: str) -> list[tuple[int, str, str, dict[str, Any]]]:
    return [(r.ordinal, r.id, r.state, dict(r.body)) for r in runs.rows(run)]


def refusing(word: str) -> FakeChat:
    return FakeChat(
        lambda r, n: ModelRefusedError("no", where="m") if word in prompt(r) else f"re: {prompt(r)}"
    )


def test_rows_are_written_in_input_order_with_their_states(runs: Runs) -> None:
    with Runner({Chat: refusing("bad")}) as runner:
        summary = run_job(runner, runs, job("a", "bad", "c"))
        assert runner.progress.total == 3
        assert runner.progress.finished == 3
    assert exported(runs, summary.run) == [
        (0, "row a", "done", {"text": "re: a"}),
        (1, "row bad", "errored", {"error": "ModelRefusedError", "what": "no", "where": "m"}),
        (2, "row c", "done", {"text": "re: c"}),
    ]
    assert (summary.total, summary.done, summary.errored, summary.skipped) == (3, 2, 1, 0)
    assert summary.complete
    assert not summary.resumed
    assert runs.get(summary.run).state == "complete"


def test_a_complete_run_is_not_taken_up_again(runs: Runs) -> None:
    with Runner({Chat: FakeChat()}) as runner:
        first = run_job(runner, runs, job("a"))
        second = run_job(runner, runs, job("a"))
    assert first.run != second.run
    assert not second.resumed


def test_a_budget_stop_skips_the_rest_and_resume_runs_only_that(runs: Runs) -> None:
    handler = FakeChat(price=1.0)
    options = RunnerOptions(longest_reply=10, concurrency=1)
    texts = [str(i) for i in range(10)]
    with Runner({Chat: handler}, options, budget=Budget(45)) as runner:
        summary = run_job(runner, runs, job(*texts, limit=1))
    assert (summary.done, summary.skipped, summary.total) == (4, 6, 10)
    assert isinstance(summary.reason, BudgetStopped)
    assert runs.get(summary.run).state == "stopped"
    assert [state for _, _, state, _ in exported(runs, summary.run)] == ["done"] * 4 + [
        "skipped"
    ] * 6
    with Runner({Chat: handler}) as runner:
        resumed = run_job(runner, runs, job(*texts))
        assert runner.progress.total == runner.progress.finished == 10
    assert (resumed.run, resumed.resumed, resumed.kept) == (summary.run, True, 4)
    assert resumed.complete
    assert len(handler.asked) == 10
    assert [o for o, *_ in exported(runs, resumed.run)] == list(range(10))


def test_without_resume_a_run_starts_afresh(runs: Runs) -> None:
    run = runs.start("eval", {"version": 1})
    with Runner({Chat: FakeChat()}) as runner:
        summary = run_job(runner, runs, job("a", resume=False))
    assert summary.run != run


def test_retry_errors_runs_errored_rows_alone(runs: Runs) -> None:
    with Runner({Chat: refusing("bad")}) as runner:
        first = run_job(runner, runs, job("a", "bad", "c"))
    handler = FakeChat()
    with Runner({Chat: handler}) as runner:
        second = run_job(runner, runs, job("a", "bad", "c", retry_errors=True))
        third = run_job(runner, runs, job("a", "bad", "c", retry_errors=True))
    assert handler.asked[:1] == ["bad"]
    assert second.run == first.run
    assert (second.kept, second.done, second.errored) == (2, 3, 0)
    assert [s for _, _, s, _ in exported(runs, first.run)] == ["done"] * 3
    assert third.run != first.run  # nothing errored is left to retry


def test_a_row_in_which_something_failed_is_run_again_and_kept_until_then(runs: Runs) -> None:
    def half(value: str) -> bool:
        return value == "half"

    said = ["half"]
    with Runner({Chat: FakeChat(lambda r, n: said[0] if "b" in prompt(r) else "fine")}) as runner:
        first = run_job(runner, runs, job("a", "b", failed=half))
        assert (first.done, first.errored) == (1, 1)
        assert exported(runs, first.run)[1] == (1, "row b", "errored", {"text": "half"})
        plain = run_job(runner, runs, job("a", "b", failed=half))
        assert plain.run != first.run  # without retry_errors a complete run is left alone
        said[0] = "whole"
        again = run_job(runner, runs, job("a", "b", failed=half, retry_errors=True))
    assert (again.run, again.kept, again.done) == (plain.run, 1, 2)
    assert exported(runs, again.run)[1] == (1, "row b", "done", {"text": "whole"})


def test_errored_rows_stay_settled_without_retry_errors(runs: Runs) -> None:
    handler = refusing("bad")
    texts = ("bad", "b", "c")
    handler.unit_price, handler.costs = 1.0, True
    options = RunnerOptions(longest_reply=10, concurrency=1)
    with Runner({Chat: handler}, options, budget=Budget(15)) as runner:
        first = run_job(runner, runs, job(*texts, limit=1))
    assert (first.errored, first.done, first.skipped) == (1, 1, 1)
    with Runner({Chat: handler}) as runner:
        second = run_job(runner, runs, job(*texts))
    assert second.run == first.run
    assert handler.asked == ["bad", "b", "c"]
    assert (second.errored, second.done, second.skipped) == (1, 2, 0)


def test_another_scope_never_takes_a_run_up(runs: Runs) -> None:
    runs.start("eval", {"version": 1}, scope="one")
    handler = FakeChat()
    with Runner({Chat: handler}) as runner:
        assert not run_job(runner, runs, job("a", scope="two")).resumed
        assert run_job(runner, runs, job("a", scope="one")).resumed


def test_two_rows_of_one_id_are_refused(runs: Runs) -> None:
    with Runner({Chat: FakeChat()}) as runner, pytest.raises(FlowError, match="share the id"):
        run_job(runner, runs, job("a", "a"))


def test_rows_that_ran_out_of_time_are_errored(runs: Runs) -> None:
    with Runner({Chat: FakeChat(latency=0.5)}, retry=ONCE) as runner:
        summary = run_job(runner, runs, job("a", timeout=0.05))
    (row,) = exported(runs, summary.run)
    assert row[2] == "errored"
    assert row[3]["error"] == ModelTimeoutError.__name__


def test_sources_of_a_row_let_it_be_forgotten(runs: Runs, tmp_path: Path) -> None:
    made = replace(job("a", "b"), sources=lambda value: ["doc"] if value == "re: a" else [])
    with Runner({Chat: FakeChat()}) as runner:
        summary = run_job(runner, runs, made)
    assert forget_at(tmp_path / "runs.db", source="doc")["rows"] == 1
    assert [i for _, i, *_ in exported(runs, summary.run)] == ["row b"]


def test_ctrl_c_writes_what_ended_skips_the_rest_and_is_raised(runs: Runs, tmp_path: Path) -> None:
    handler = FakeChat(latency=0.02)
    replies = Replies(tmp_path / "replies.db")
    texts = [str(i) for i in range(200)]
    with Runner({Chat: handler}, RunnerOptions(concurrency=2), replies=replies) as runner:
        when(lambda: len(handler.asked) > 10, os.kill, os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            run_job(runner, runs, job(*texts))
    (run,) = runs.list()
    assert run.state == "stopped"
    states = list(runs.states(run.id).values())
    assert len(states) == 200
    assert 0 < states.count("done") < 200
    assert set(states) == {"done", "skipped"}
    with Runner({Chat: handler}, replies=replies) as runner:
        summary = run_job(runner, runs, job(*texts))
    replies.close()
    assert summary.resumed
    assert summary.complete
    assert sorted(handler.asked) == sorted(texts)  # nothing was paid for twice


def test_a_result_that_cannot_be_written_down_keeps_what_came_before(runs: Runs) -> None:
    def encode(value: str) -> dict[str, Any]:
        return {"text": object() if "c" in value else value}

    with Runner({Chat: FakeChat()}) as runner:
        with pytest.raises(TypeError):
            run_job(runner, runs, replace(job("a", "b", "c"), encode=encode))
        (run,) = runs.list()
        assert run.state == "open"
        assert [i for _, i, *_ in exported(runs, run.id)] == ["row a", "row b"]
        assert run_job(runner, runs, job("a", "b", "c")).kept == 2


def test_rows_are_made_only_as_they_are_needed(runs: Runs) -> None:
    made = 0

    def items() -> Iterator[tuple[str, Callable[[], Flow[str]]]]:
        for i in range(300):

            def make(i: int = i) -> Flow[str]:
                nonlocal made
                made += 1
                assert made - len(handler.asked) <= 4 * 8 + 8
                return ask(str(i))

            yield str(i), make

    handler = FakeChat(latency=0.001)
    with Runner({Chat: handler}) as runner:
        summary = run_job(runner, runs, replace(job(limit=8), items=items()))
        assert runner.progress.total is None
    assert summary.done == 300


def test_a_flow_that_never_asks_is_a_row_too(runs: Runs) -> None:
    def silent() -> Flow[str]:
        yield from gather([])
        return "known"

    with Runner({Chat: FakeChat()}) as runner:
        summary = run_job(runner, runs, replace(job(), items=[("r", silent)]))
    assert exported(runs, summary.run) == [(0, "r", "done", {"text": "known"})]


def test_a_complete_run_is_taken_as_it_stands_where_that_is_asked_for(runs: Runs) -> None:
    chat = FakeChat()
    with Runner({Chat: chat}) as runner:
        first = run_job(runner, runs, job("a", "b"))
        again = run_job(runner, runs, job("a", "b", reuse=True))
        other = run_job(runner, runs, job("a", "b"))
    assert again.run == first.run
    assert again.kept == again.done == 2
    assert other.run != first.run
    assert len(chat.asked) == 4
