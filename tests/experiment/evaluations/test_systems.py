"""A system that exists, evaluated: asked through the runner, scored, stored as any other run."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ragwright.answer import resolve_citations
from ragwright.core import Answer, ConfigError, GoldSpan, Hit, Row, SystemCallError
from ragwright.experiment import EvaluationOptions, add_answer, add_reply
from ragwright.flow import SystemReply
from ragwright.measure import parse_measures, score_rows
from ragwright.models import SystemOptions, open_system
from ragwright.project import ProjectFolder
from ragwright.testsets import Testset
from ragwright.workbench import Workbench

ROWS = [Row(id=str(at), user_input=f"q{at}", reference=f"a{at}") for at in range(6)]
TESTSET = Testset("six", tuple(ROWS))

OLD = Row(
    "1",
    "q",
    reference="Paris",
    response="old",
    retrieved_contexts=("an old passage",),
    retrieved_context_ids=("gold",),
    retrieved_spans=(GoldSpan("gold", 0, 5),),
    reference_ids={"gold": 1},
    metadata={
        "abstained": True,
        "chunk_score": 0.9,
        "model": "m:old",
        "retrieved": True,
        "route": "index",
        "topic": "towns",
    },
)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    ProjectFolder(tmp_path).begin()
    with Workbench.open(tmp_path) as opened:
        yield opened


# -- Python ----------------------------------------------------------------------------------


def test_rows_are_asked_side_by_side_and_off_the_loop(bench: Workbench) -> None:
    threads: set[str] = set()
    open_ = [0, 0]
    lock = threading.Lock()

    def system(question: str) -> str:
        with lock:
            threads.add(threading.current_thread().name)
            open_[0] += 1
            open_[1] = max(open_)
        time.sleep(0.05)
        with lock:
            open_[0] -= 1
        return f"a{question[1:]}"

    under = open_system(system, SystemOptions(concurrency=3))
    found, summary = bench.evaluate(TESTSET, "ExactMatch", system=under)
    assert found["ExactMatch"].mean == 1.0
    assert summary.done == 6
    assert all(name.startswith("system") for name in threads)
    assert 2 <= open_[1] <= 3
    made = found.results[0].made
    assert made is not None
    assert made.usage.seconds >= 0.05


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


def test_an_answer_inherits_nothing_of_the_one_before(bench: Workbench) -> None:
    testset = Testset("old", (OLD,))
    found, _ = bench.evaluate(testset, "Recall@5, TokenF1", system=lambda q: "Paris")
    row = found.results[0].row
    assert row is not None
    assert (row.retrieved_spans, row.retrieved_context_ids) == ((), ())
    assert row.metadata.get("topic") == "towns"
    assert not {"abstained", "chunk_score", "model", "route"} & row.metadata.keys()
    ranked, words = found.results[0].scores
    assert (ranked.state, words.value) == ("not_applicable", 1.0)


def test_default_measures_are_those_the_system_can_be_measured_by(bench: Workbench) -> None:
    bare, _ = bench.evaluate(TESTSET, "", system=lambda q: "a1")
    assert [s.measure for s in bare.summaries] == ["Contains", "TokenF1"]
    gold = Testset("gold", (Row("1", "q", reference="a", reference_ids={"d": 1}),))
    found, _ = bench.evaluate(gold, "", system=lambda q: ("a", [{"text": "x", "id": "d"}]))
    assert found["Recall@5"].mean == 1.0


def test_a_retriever_alone_is_measured_by_its_ranking(bench: Workbench) -> None:
    gold = Testset("gold", (Row("1", "q", reference="x", reference_ids={"d": 1}),))
    passages = [{"text": "x", "id": "e"}, {"text": "y", "id": "d"}]
    found, _ = bench.evaluate(gold, "MRR@5", system=lambda q: passages)
    assert found["MRR@5"].mean == 0.5


# -- gold ------------------------------------------------------------------------------------


SPANS = (
    GoldSpan("d1", 10, 30, "the first  evidence."),
    GoldSpan("d2", 0, 20, "The other proof here"),
)


@pytest.mark.parametrize(
    ("passage", "place"),
    [
        ("Before. The first evidence. After.", ("d1", 10, 30)),
        ("it says the first evi", ("d1", 10, 30)),  # a border of a chunk cuts the evidence
        ("her proof here. And", ("d2", 0, 20)),
        ("first evidence", ("d1", 10, 30)),  # more than half of it
        ("the", None),
        ("Nothing.", None),
    ],
)
def test_passages_are_placed_in_the_gold_by_their_text(
    passage: str, place: tuple[str, int, int] | None
) -> None:
    row = Row("1", "q", reference_spans=SPANS)
    (found,) = add_reply(row, SystemReply("x", (passage,))).retrieved_spans
    if place is None:
        assert found.document_id.startswith("passage ")
    else:
        assert (found.document_id, found.start, found.end) == place


def test_gold_passages_become_gold_spans() -> None:
    row = Row("1", "q", reference_contexts=("one fact here", "another fact there"))
    both = add_reply(row, SystemReply("x", ("so one fact here.", "another fact there, yes")))
    ((recall, ndcg),) = score_rows([both], parse_measures("Recall@5, nDCG@5"))
    assert (recall.value, ndcg.value) == (1.0, 1.0)
    half = add_reply(row, SystemReply("x", ("nothing", "another fact there")))
    ((recall, mrr),) = score_rows([half], parse_measures("Recall@5, MRR@5"))
    assert (recall.value, mrr.value) == (0.5, 0.5)


def test_ids_are_compared_where_that_is_asked_for() -> None:
    row = Row("1", "q", reference_spans=SPANS)
    found = add_reply(row, SystemReply("x", ("rewritten",), ("d2",)), "ids")
    ((recall,),) = score_rows([found], parse_measures("Recall@5"))
    assert recall.value == 0.5


def test_ids_of_another_kind_are_noticed(bench: Workbench) -> None:
    gold = Testset("gold", (Row("1", "q", reference_ids={"docs/a.md": 1}),))
    found, _ = bench.evaluate(gold, "Recall@5", system=lambda q: ("x", [{"text": "y", "id": "7"}]))
    assert any("gives such as '7', gold is 'docs/a.md'" in note for note in found.notes)


# -- our own answers, and closed books -------------------------------------------------------


def test_our_own_answer_inherits_nothing_of_the_one_before() -> None:
    row = add_answer(OLD, Answer("q", "Paris", model="m:new"))
    assert "chunk_score" not in row.metadata
    assert (row.metadata["model"], row.metadata["abstained"]) == ("m:new", False)
    assert row.retrieved_context_ids == ()


def test_every_form_of_a_resolved_mark_is_taken_out_of_the_answer() -> None:
    hits = [Hit(n, 1.0, f"d{n}", f"d{n}:0-1", "s", "", None, 0, 1, "x") for n in (1, 2, 3)]
    text = "A [1-3]. B [1 and 2]. C 【3†source】. D [7]. E [2, 7]. F `x[2]`. G[3]"
    citations, _ = resolve_citations(text, hits)
    row = add_answer(OLD, Answer("q", text, citations=citations))
    assert row.response == "A. B. C. D [7]. E [2, 7]. F `x[2]`. G"


# -- endpoints -------------------------------------------------------------------------------


class Endpoint(BaseHTTPRequestHandler):
    seen: list[tuple[Any, str | None]] = []
    busy = 0

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        Endpoint.seen.append((body, self.headers["authorization"]))
        text = str(body)
        if "redirect" in text:
            self.send_response(307)
            self.send_header("location", "/elsewhere")
            self.send_header("content-length", "0")
            self.end_headers()
            return
        if "busy" in text and Endpoint.busy:
            Endpoint.busy -= 1
            self.answered(503, b"busy")
        elif "slow" in text:
            time.sleep(1)
            self.answered(200, b"{}")
        elif "html" in text:
            self.answered(200, b"<html>sign in</html>")
        elif "deep" in text:
            said = {"data": {"text": "An answer"}, "documents": [{"text": "one", "id": "d1"}]}
            self.answered(200, json.dumps(said).encode())
        else:
            said = {"answer": "Paris", "contexts": ["Paris is the capital of France."]}
            self.answered(500 if "fail" in text else 200, json.dumps(said).encode())

    def answered(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    Endpoint.seen.clear()
    yield f"http://127.0.0.1:{server.server_port}/ask"
    server.shutdown()
    thread.join()
    server.server_close()


def asked(bench: Workbench, how: SystemOptions, *questions: str) -> list[Any]:
    """Rows of what an endpoint says; the reason where it failed."""
    rows = tuple(Row(str(n), q, reference="Paris") for n, q in enumerate(("q", *questions)))
    found, _ = bench.evaluate(Testset("asked", rows), "TokenF1", system=how)
    return [r.row if r.row is not None else r.scores[0].reason for r in found.results]


@pytest.mark.slow
def test_an_endpoint_with_a_body_places_and_a_token(
    bench: Workbench, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "secret")
    how = SystemOptions(
        url=endpoint,
        body={"deep": [{"role": "user", "content": "{question}"}], "k": 3},
        answer="data.text",
        contexts="documents.*.text",
        ids="documents.*.id",
        token="MY_TOKEN",
    )
    (row,) = asked(bench, how)
    assert (row.response, row.retrieved_contexts, row.retrieved_context_ids) == (
        "An answer",
        ("one",),
        ("d1",),
    )
    assert Endpoint.seen == [
        ({"deep": [{"role": "user", "content": "q"}], "k": 3}, "Bearer secret")
    ]


@pytest.mark.slow
def test_what_an_endpoint_does_wrong_is_the_reason_of_its_row(
    bench: Workbench, endpoint: str
) -> None:
    how = SystemOptions(url=endpoint, timeout=0.5)
    found = asked(bench, how, "fail", "html", "redirect", "slow")
    assert "status 500" in found[1]
    assert "not JSON: '<html>sign in</html>'" in found[2]
    assert "status 307" in found[3]  # a question goes where it was sent, nowhere else
    assert "SystemCallError" in found[4]
    assert len(Endpoint.seen) == 5  # a POST is not sent again


@pytest.mark.slow
def test_a_busy_endpoint_is_asked_again(bench: Workbench, endpoint: str) -> None:
    Endpoint.busy = 2
    found = asked(bench, SystemOptions(url=endpoint), "busy")
    assert found[1].response == "Paris"


@pytest.mark.slow
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
    bench: Workbench, endpoint: str, places: dict[str, str], told: str
) -> None:
    how = SystemOptions(url=endpoint, body={"deep": "{question}"}, **places)  # type: ignore[arg-type]
    with pytest.raises(SystemCallError, match=told):
        asked(bench, how)


def test_what_cannot_be_asked_is_refused_beforehand(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MY_TOKEN", raising=False)
    for how, told in [
        (SystemOptions(url="file:///etc/passwd"), "not a web address"),
        (SystemOptions(url="http://127.0.0.1:9", body={"q": "question"}), "no place"),
        (SystemOptions(url="http://127.0.0.1:9", token="MY_TOKEN"), "MY_TOKEN"),
    ]:
        with pytest.raises(ConfigError, match=told):
            asked(bench, how)
    with pytest.raises(SystemCallError, match="does not answer"):
        asked(bench, SystemOptions(url="http://127.0.0.1:9"))
