"""Systems that exist, asked through the runner; and rows with history, whoever answers them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from raw_server import Raw, RawServer, raw_server
from small_project import MakeProject

from ragwright import EvaluationOptions, Session, Workbench
from ragwright.core import (
    Answer,
    BudgetStopped,
    ConfigError,
    GoldSpan,
    Row,
    SystemCallError,
    Turn,
    make_plain,
)
from ragwright.experiment import (
    RowResult,
    add_answer,
    read_plain,
    slices,
)
from ragwright.measure import parse_measures
from ragwright.models import SystemOptions, open_system
from ragwright.project import ProjectFolder
from ragwright.testing import ScriptedServer
from ragwright.testsets import Testset

TESTSET = Testset(
    "six", tuple(Row(id=str(at), user_input=f"q{at}", reference=f"a{at}") for at in range(6))
)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    ProjectFolder(tmp_path).begin()
    with Workbench.open(tmp_path) as opened:
        yield opened


# -- functions ---------------------------------------------------------------------------------


def test_rows_are_asked_side_by_side_and_off_the_loop(bench: Workbench) -> None:
    threads: set[str] = set()
    open_: list[str] = []
    most, together = 0, threading.Event()

    def system(question: str) -> str:
        nonlocal most
        threads.add(threading.current_thread().name)
        open_.append(question)
        most = max(most, len(open_))
        if most == 3:
            together.set()
        # q0 is asked alone at first, to see what the system gives
        together.wait(0.02 if question == "q0" else 30)
        open_.remove(question)
        return f"a{question[1:]}"

    under = open_system(system, SystemOptions(concurrency=3))
    found, summary = bench.evaluate(TESTSET, "ExactMatch", system=under)
    assert (found["ExactMatch"].mean, summary.done, most) == (1.0, 6, 3)
    assert all(name.startswith("system") for name in threads)
    made = found.results[0].made
    assert made is not None
    assert made.usage.seconds >= 0.02


def test_a_row_that_fails_costs_itself_alone_and_can_be_tried_again(bench: Workbench) -> None:
    down = True

    def system(question: str) -> str:
        if question == "q2" and down:
            raise ConnectionError("it is down")
        return f"a{question[1:]}"

    found, summary = bench.evaluate(TESTSET, "ExactMatch", system=system)
    assert (summary.done, summary.errored) == (5, 1)
    assert found["ExactMatch"].states["errored"] == 1
    assert "ConnectionError: it is down" in found.results[2].scores[0].reason
    down = False
    again = EvaluationOptions(resume=True, retry_errors=True)
    mended, second = bench.evaluate(TESTSET, "ExactMatch", again, system=system)
    assert (second.run, second.kept, mended["ExactMatch"].n) == (summary.run, 5, 6)


def test_a_system_that_hangs_is_given_up(bench: Workbench) -> None:
    gate = threading.Event()

    def system(question: str) -> str:
        if question != "q0":
            gate.wait(30)
        return "a0"

    under = open_system(system, SystemOptions(timeout=0.2, concurrency=2))
    found, _ = bench.evaluate(TESTSET, "ExactMatch", system=under)
    gate.set()
    reasons = [result.scores[0].reason for result in found.results[1:]]
    assert sum("no answer within 0.2 s" in reason for reason in reasons) >= 2
    assert any("not asked: 2 earlier questions still run" in reason for reason in reasons)


def test_systems_are_measured_by_what_they_give(bench: Workbench) -> None:
    bare, _ = bench.evaluate(TESTSET, "", system=lambda q: "a1")
    assert [s.measure for s in bare.summaries] == ["Contains", "TokenF1"]
    gold = Testset("gold", (Row("1", "q", reference="a", reference_ids={"d": 1}),))
    found, _ = bench.evaluate(gold, "", system=lambda q: ("a", [{"text": "x", "id": "d"}]))
    assert found["Recall@5"].mean == 1.0
    passages = [{"text": "x", "id": "e"}, {"text": "y", "id": "d"}]  # a retriever alone
    found, _ = bench.evaluate(gold, "MRR@5", system=lambda q: passages)
    assert found["MRR@5"].mean == 0.5
    # Ids of another kind are noticed.
    gold = Testset("gold", (Row("1", "q", reference_ids={"docs/a.md": 1}),))
    found, _ = bench.evaluate(gold, "Recall@5", system=lambda q: ("x", [{"text": "y", "id": "7"}]))
    assert any("gives 'y' '7', gold is 'docs/a.md'" in note for note in found.notes)


STALE: dict[str, Any] = {"abstained": True, "chunk_score": 0.9, "model": "m:old", "retrieved": True}
OLD = Row(
    "1",
    "q",
    "old",
    "Paris",
    retrieved_contexts=("an old passage",),
    retrieved_context_ids=("gold",),
    retrieved_spans=(GoldSpan("gold", 0, 5),),
    reference_ids={"gold": 1},
    metadata={**STALE, "route": "index", "topic": "towns"},
)


def test_an_answer_inherits_nothing_of_the_one_before(bench: Workbench) -> None:
    old = Testset("old", (OLD,))
    found, _ = bench.evaluate(old, "Recall@5, TokenF1", system=lambda q: "Paris")
    theirs = found.results[0].row
    assert theirs is not None
    assert not {"abstained", "model", "route"} & theirs.metadata.keys()
    ours = add_answer(OLD, Answer("q", "Paris", model="m:new"))
    assert (ours.metadata["model"], ours.metadata["abstained"]) == ("m:new", False)
    for row in (ours, theirs):
        assert (row.retrieved_spans, row.retrieved_context_ids) == ((), ())
        assert "chunk_score" not in row.metadata
        assert row.metadata["topic"] == "towns"
    ranked, words = found.results[0].scores
    assert (ranked.state, words.value) == ("not_applicable", 1.0)


# -- endpoints ---------------------------------------------------------------------------------

PARIS = json.dumps({"answer": "Paris", "contexts": ["Paris is the capital of France."]}).encode()
DEEP = {"data": {"text": "An answer"}, "documents": [{"text": "one", "id": "d1"}]}


@pytest.fixture
def endpoint() -> Iterator[RawServer]:
    released, busy = threading.Event(), iter([503, 503])

    def play(_path: str, body: Any) -> Raw:
        match body:
            case {"question": "fail"}:
                return Raw(PARIS, 500)
            case {"question": "busy"}:
                return Raw(PARIS, next(busy, 200))
            case {"question": "slow"}:
                released.wait(30)
            case {"question": "html"}:
                return Raw(b"<html>sign in</html>")
            case {"question": "redirect"}:
                return Raw(b"", 307, headers={"location": "/elsewhere"})
            case {"deep": _}:
                return Raw(json.dumps(DEEP).encode())
        return Raw(PARIS)

    with raw_server(play) as server:
        yield server
        released.set()


def asked(bench: Workbench, how: SystemOptions, *questions: str) -> list[Any]:
    """Rows of what an endpoint says; the reason where it failed."""
    rows = tuple(Row(str(n), q, reference="Paris") for n, q in enumerate(("q", *questions)))
    found, _ = bench.evaluate(Testset("asked", rows), "TokenF1", system=how)
    return [r.row if r.row is not None else r.scores[0].reason for r in found.results]


def test_an_endpoint_with_a_body_places_and_a_token(
    bench: Workbench, endpoint: RawServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "secret")
    places: dict[str, Any] = {
        "answer": "data.text",
        "contexts": "documents.*.text",
        "ids": "documents.*.id",
    }
    body = {"deep": [{"role": "user", "content": "{question}"}], "k": 3}
    (row,) = asked(bench, SystemOptions(url=endpoint.url, body=body, token="MY_TOKEN", **places))
    assert row.response == "An answer"
    assert (row.retrieved_contexts, row.retrieved_context_ids) == (("one",), ("d1",))
    assert endpoint.bodies == [{"deep": [{"role": "user", "content": "q"}], "k": 3}]
    assert endpoint.tokens == ["Bearer secret"]


@pytest.mark.slow
def test_what_goes_wrong_is_the_reason_of_its_row(bench: Workbench, endpoint: RawServer) -> None:
    how = SystemOptions(url=endpoint.url, timeout=0.5)
    found = asked(bench, how, "fail", "html", "redirect", "slow")
    assert "status 500" in found[1]
    assert "not JSON: '<html>sign in</html>'" in found[2]
    assert "status 307" in found[3]  # a question goes where it was sent, nowhere else
    assert "SystemCallError" in found[4]
    assert len(endpoint.bodies) == 5  # a POST is not sent again
    # But one that is busy is asked again.
    assert asked(bench, SystemOptions(url=endpoint.url), "busy")[1].response == "Paris"


@pytest.mark.parametrize(
    ("places", "told"),
    [
        ({"answer": "answer"}, "holds no 'answer'"),
        ({"answer": "documents"}, "not a text"),
        ({"answer": "documents.7.text"}, "holds no '7'"),
        ({"answer": "data.text", "contexts": "data"}, "not a list"),
    ],
)
def test_a_place_that_is_not_in_the_reply(
    bench: Workbench, endpoint: RawServer, places: dict[str, Any], told: str
) -> None:
    how = SystemOptions(url=endpoint.url, body={"deep": "{question}"}, **places)
    with pytest.raises(SystemCallError, match=told):
        asked(bench, how)


NOWHERE = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("how", "kind", "told"),
    [
        (SystemOptions(url="file:///etc/passwd"), ConfigError, "not a web address"),
        (SystemOptions(url=NOWHERE, body={"q": "question"}), ConfigError, "no place"),
        (SystemOptions(url=NOWHERE, token="NO_TOKEN_IS_SET"), ConfigError, "NO_TOKEN_IS_SET"),
        (SystemOptions(url=NOWHERE), SystemCallError, "does not answer"),
    ],
    ids=["no address", "no place", "no token", "nobody there"],
)
def test_what_cannot_be_asked_is_refused(
    bench: Workbench, how: SystemOptions, kind: type[Exception], told: str
) -> None:
    with pytest.raises(kind, match=told):
        asked(bench, how)


# -- rows with history: asked after their turns, stored and resumed ------------------------------

HISTORY = (
    Turn("user", "How often must the brake fluid be changed?"),
    Turn("assistant", "Every two years."),
)
ROW = Row(
    "c-2",
    "And the coolant?",
    reference="Every five years.",
    metadata={"turn": 2, "standalone": False},
    history=HISTORY,
)
TALK = Testset("talk", (ROW,))


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer("ok") as running:
        yield running


def written(folder: Path, server: ScriptedServer) -> Path:
    """A project, ingested, whose answers a writer behind the server gives."""
    made = MakeProject(folder)(f"answer: {{model: '{server.url}#writer'}}\n")
    with Workbench.open(made) as bench:
        bench.ingest()
    return made


def test_a_model_condenses_the_turns_once(tmp_path: Path, server: ScriptedServer) -> None:
    server.play(["How often must the coolant be changed?", "Every five years [1]."])
    with Workbench.open(written(tmp_path, server)) as bench:
        evaluation, _ = bench.evaluate(TALK, "TokenF1", EvaluationOptions(answers=True))
        asked = len(server.requests)
        assert "brake fluid" in server.requests[0].prompt
        assert "How often must the coolant be changed?" in server.requests[-1].prompt
        again, _ = bench.evaluate(TALK, "TokenF1", EvaluationOptions(answers=True, resume=True))
    assert len(server.requests) == asked
    (result,) = again.results
    assert result.row is not None
    assert result.row.history == HISTORY
    assert read_plain(RowResult, make_plain(result)).row == result.row
    parts = slices(evaluation.results, TALK.rows, "turn", parse_measures("TokenF1"))
    assert [part.value for part in parts] == ["2"]


def test_systems_get_the_turns(bench: Workbench) -> None:
    seen: list[object] = []

    def kept(what: object) -> str:
        seen.append(what)
        return "Every five years."

    def with_history(question: str, history: list[dict[str, str]]) -> str:
        return kept((question, history))

    def with_messages(messages: list[dict[str, str]]) -> str:
        return kept(messages)

    def alone(question: str) -> str:
        return kept(question)

    for system in (with_history, with_messages, alone):
        evaluation, _ = bench.evaluate(TALK, "ExactMatch", system=system)
        assert evaluation["ExactMatch"].mean == 1.0
        warned = any("takes no history: 1 row" in note for note in evaluation.notes)
        assert warned == (system is alone)
    earlier = [{"role": turn.role, "content": turn.content} for turn in HISTORY]
    question = {"role": "user", "content": ROW.user_input}
    assert seen == [(ROW.user_input, earlier), [*earlier, question], ROW.user_input]
    # An endpoint takes turns where its body has a place for them.
    bodies: list[dict[str, str]] = [{}, {"q": "{question}"}, {"m": "{messages}"}]
    opened = [open_system(SystemOptions(url=NOWHERE, body=body)) for body in bodies]
    assert [one.takes_turns for one in opened] == [True, False, True]


def test_a_stopped_evaluation_goes_on(tmp_path: Path, server: ScriptedServer) -> None:
    parts = ("coolant", "oil filter", "brake light")
    rows = tuple(replace(ROW, id=part, user_input=f"And the {part}?") for part in parts)
    testset, how = Testset("talk", rows), EvaluationOptions(answers=True, resume=True)
    server.play(lambda request: "Every five years [1].")
    folder = written(tmp_path, server)
    price = f"models: {{'{server.url}#writer': {{price_in: 1000, price_out: 0}}}}\n"
    with (folder / "ragwright.yaml").open("a") as settings:
        settings.write(price)
    with Workbench.open(folder, Session(jobs=1, max_cost=0.3)) as bench:
        _, stopped = bench.evaluate(testset, "TokenF1", how)
        head = f"run {stopped.run} was stopped: "
        assert any(note.startswith(head) for note in bench.results(stopped.run).notes)
    before = len(server.requests)
    with Workbench.open(folder) as bench:
        evaluation, summary = bench.evaluate(testset, "TokenF1", how)
    prompts = [json.dumps(request.body["messages"]) for request in server.requests]
    assert isinstance(stopped.reason, BudgetStopped)
    assert 0 < before < len(prompts) == len({*prompts})  # nothing is asked twice
    assert (summary.run, summary.complete) == (stopped.run, True)
    assert evaluation["TokenF1"].n == 3
