"""Labels of served answers against a promise: kept, fallen back, broken, reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from certified_project import certified_project, things
from small_project import MakeProject
from web_hook import web_hook

from ragwright import Workbench
from ragwright.core import Hit, StoreError, TestsetError
from ragwright.drafting import NewBatch, NewOutput, Origin
from ragwright.promise import Promising, Watching, add_labels, standing_of, watch_promise

KNOWN = f"How many watts does the {things()[0]} need?"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return certified_project(MakeProject(tmp_path), promised=True)


def serve(bench: Workbench, score: float, *, holds: bool = True, number: str = "0001") -> str:
    """Store a served answer as the server does; returns its id."""
    promise = {"certificate": number, "holds": holds, "score": score, "threshold": 0.0, "line": ""}
    details = {"abstained": False, "name": "", "promise": promise}
    name = "docs/part-0.md"
    hit = Hit(1, score, name, f"{name}:0", name, "", None, 0, 10, "It is blue.")
    text = NewOutput(
        "text", "It needs 100 watts.", "extractive", uses=(hit.chunk_id,), details=details
    )
    batch = NewBatch("answer", {"question": KNOWN}, (text,), (hit,))
    return f"{bench.outputs.add(batch, Origin())}.1"


def labelled(bench: Workbench, labels: list[tuple[str, bool]]) -> Watching:
    """Add people's labels of a sample, and look."""
    file = bench.project.folder.root / "labels.jsonl"
    lines = [json.dumps({"output": output, "right": right}) for output, right in labels]
    file.write_text("\n".join(lines), "utf-8")
    add_labels(bench.project, file)
    watching = watch_promise(bench.project)
    assert watching is not None
    return watching


def steps_of(bench: Workbench) -> list[float]:
    standing = standing_of(bench.project.folder)
    assert standing is not None
    return [step.threshold for step in standing[0].steps]


def test_right_labels_leave_it_as_it_is(folder: Path) -> None:
    with Workbench.open(folder) as bench:
        ids = [serve(bench, 99.0) for _ in range(30)]
        watching = labelled(bench, [(output, True) for output in ids])
    assert (watching.sampled.count, watching.sampled.errors) == (30, 0)
    assert watching.standing.state == "holds"
    assert not watching.changed
    assert "0 of 30 wrong; they do not contradict it" in watching.lines[0]


def test_errors_below_a_stricter_threshold_make_it_fall_back(folder: Path) -> None:
    with Workbench.open(folder) as bench:
        bench.promise(Promising("testsets/set.jsonl", risk=0.3))
        strict, *_, loose = steps_of(bench)
        assert strict > loose
        wrong = [(serve(bench, loose, number="0002"), False) for _ in range(40)]
        right = [(serve(bench, strict, number="0002"), True) for _ in range(30)]
        watching = labelled(bench, [*wrong, *right])
        assert watching.changed
        assert watching.standing.state == "fell back"
        assert loose < watching.standing.threshold <= strict
        assert watching.sampled.errors == 0, "the wrong ones would be withheld now"
        [answer] = bench.ask_all(KNOWN, [""])
        again = watch_promise(bench.project)
    assert answer.promise is not None
    assert answer.promise.threshold == watching.standing.threshold
    assert "40 of 70 checked answers were wrong; a stricter threshold is in use" in (
        answer.promise.line
    )
    assert again is not None
    assert not again.changed


def test_errors_at_every_threshold_break_it_and_the_threshold_stays(folder: Path) -> None:
    with Workbench.open(folder) as bench:
        loose = steps_of(bench)[-1]
        watching = labelled(bench, [(serve(bench, 1e6), False) for _ in range(12)])
        assert watching.standing.state == "broken"
        assert watching.standing.threshold == loose
        [answer] = bench.ask_all(KNOWN, [""])
        bench.promise(Promising("testsets/set.jsonl"))
        after = standing_of(bench.project.folder)
    assert answer.promise is not None
    assert not answer.promise.holds
    assert answer.promise.line == (
        "The promise of at most 5 % of answers wrong is broken: 12 of 12 checked answers were wrong"
    )
    assert after is not None
    assert after[1].state == "broken", "the stored result does not mend it"


def test_votes_warn_and_break_nothing(folder: Path) -> None:
    with Workbench.open(folder) as bench:
        for _ in range(12):
            bench.outputs.respond(serve(bench, 99.0), by="user", verdict="rejected")
        watching = watch_promise(bench.project)
    assert watching is not None
    assert (watching.votes.count, watching.votes.errors) == (12, 12)
    assert watching.sampled.count == 0
    assert watching.standing.state == "holds"
    assert "look at the rejected answers" in watching.lines[1]
    assert "voters are not a random sample" in watching.lines[1]


def test_answers_outside_of_the_promise_do_not_count(folder: Path) -> None:
    with Workbench.open(folder) as bench:
        outside = [serve(bench, 99.0, holds=False) for _ in range(10)]
        earlier = [serve(bench, 99.0, number="0000") for _ in range(10)]
        withheld = [serve(bench, -99.0) for _ in range(10)]
        watching = labelled(bench, [(o, False) for o in [*outside, *earlier, *withheld]])
    assert watching.sampled.count == 0
    assert watching.standing.state == "holds"


def test_a_broken_promise_sends_one_notice(tmp_path: Path) -> None:
    with web_hook() as hook:
        alert = f"serve: {{measure: {{alert: {{notify: ['{hook.address}']}}}}}}\n"
        folder = certified_project(MakeProject(tmp_path), alert, promised=True)
        with Workbench.open(folder) as bench:
            assert bench.send_alerts() == ()
            labelled(bench, [(serve(bench, 1e6), False) for _ in range(12)])
            assert [notice.sent for notice in bench.send_alerts()] == [True]
            assert bench.send_alerts() == ()
    assert len(hook.posted) == 1
    assert "the promise of at most 5 % of answers wrong is broken" in str(hook.posted[0])
    assert "12 of 12 wrong" in str(hook.posted[0])


def test_scores_of_the_continuous_evaluation_count_as_a_sample(tmp_path: Path) -> None:
    lines = "serve: {measure: {share: 1, measures: [KPrecision]}}\n"
    folder = certified_project(MakeProject(tmp_path), lines)
    with Workbench.open(folder) as bench:
        bench.promise(Promising("testsets/set.jsonl", measure="KPrecision>=0.5"))
        for _ in range(3):
            serve(bench, 1e6)
        bench.measure_served()
        watching = watch_promise(bench.project)
    assert watching is not None
    assert watching.sampled.count == 3
    assert watching.sampled.errors == 3, "none of their words is in the passage"


@pytest.mark.parametrize(
    ("line", "error", "text"),
    [
        ('{"right": true}', TestsetError, "a label needs output"),
        ('{"output": "1.1", "right": "yes"}', TestsetError, "a label needs output"),
        ("{", TestsetError, "not JSON"),
        ("", TestsetError, "no label"),
        ('{"output": "999.1", "right": true}', StoreError, "999"),
    ],
)
def test_wrong_labels_are_refused_and_none_is_kept(
    folder: Path, line: str, error: type[Exception], text: str
) -> None:
    file = folder / "labels.jsonl"
    with Workbench.open(folder) as bench:
        known = serve(bench, 99.0)
        good = json.dumps({"output": known, "right": True})
        file.write_text(f"{good}\n{line}\n" if line else "", "utf-8")
        with pytest.raises(error, match=text):
            add_labels(bench.project, file)
    assert not (folder / "promises" / "labels.jsonl").exists()
