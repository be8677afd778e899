"""Systems of other libraries by the names of their methods; endpoints over real HTTP."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from ragwright.answer import resolve_citations
from ragwright.core import Answer, GoldSpan, Hit, Row, TestsetError
from ragwright.experiment import (
    HttpSystem,
    SystemReply,
    answered,
    answered_by,
    answered_flows,
    chat_row,
    haystack_system,
    http_system,
    langchain_system,
    llamaindex_system,
)
from ragwright.experiment.evaluations import reply_of
from ragwright.flow import Chat, ChatReply, Runner
from ragwright.measure import parse_measures, score_rows

ROWS = [Row(id=str(at), user_input=f"q{at}", reference="a1") for at in range(6)]
EXPECTED = SystemReply("An answer", ("one", "two"), ("d1", "d2"))


# -- the libraries' own shapes ---------------------------------------------------------------


@dataclass
class LcDocument:
    """langchain_core.documents.Document"""

    page_content: str
    metadata: dict[str, Any] = field(default_factory=dict)
    id: str | None = None


@dataclass
class Message:
    """langchain_core.messages.AIMessage, haystack.dataclasses.ChatMessage"""

    content: str = ""


class Chain:
    """A Runnable."""

    def __init__(self, output: Any) -> None:
        self.output = output
        self.asked: list[Any] = []

    def invoke(self, asked: Any, config: Any = None) -> Any:
        self.asked.append(asked)
        return self.output


LC_DOCUMENTS = [LcDocument("one", {"source": "d1"}), LcDocument("two", {"source": "s"}, "d2")]


@pytest.mark.parametrize(
    "output",
    [
        {"input": "q", "context": LC_DOCUMENTS, "answer": "An answer"},
        {"query": "q", "source_documents": LC_DOCUMENTS, "result": "An answer"},
        {"context": LC_DOCUMENTS, "answer": Message("An answer")},
    ],
)
def test_langchain(output: Any) -> None:
    chain = Chain(output)
    assert langchain_system(chain)("q") == EXPECTED
    assert chain.asked == [{"input": "q"}]


def test_langchain_variants() -> None:
    bare = Chain(Message("An answer"))
    assert langchain_system(bare, key="")("q") == SystemReply("An answer")
    assert bare.asked == ["q"]
    tagged = [LcDocument("one", {"key": 7}), LcDocument("two", {"key": 8})]
    found = langchain_system(Chain({"answer": "x", "context": tagged}), ids="key")("q")
    assert found.context_ids == ("7", "8")
    holes = [LcDocument("one", {"source": "d1"}), LcDocument("two")]
    assert langchain_system(Chain({"answer": "x", "context": holes}))("q").context_ids is None
    nothing = langchain_system(Chain({"answer": "x", "context": []}))("q")
    assert nothing.context_ids == ()  # searched, and nothing was found
    glued = langchain_system(Chain({"answer": "x", "context": "one\n\ntwo"}))("q")
    assert glued.contexts == ("one\n\ntwo",)
    with pytest.raises(TestsetError, match="'answer' and 'result'"):
        langchain_system(Chain({"answer": "x", "result": "y"}))("q")
    with pytest.raises(TestsetError, match="no 'answer'"):
        langchain_system(Chain({"text": "y"}))("q")
    with pytest.raises(TestsetError, match="not a text"):
        langchain_system(Chain({"answer": 3}))("q")


class Node:
    """llama_index.core.schema.TextNode"""

    def __init__(self, text: str, ref: str | None, name: str) -> None:
        self.text, self.ref_doc_id, self.node_id = text, ref, name
        self.metadata = {"file_name": f"{name}.md"}

    def get_content(self, metadata_mode: str = "none") -> str:
        return self.text


@dataclass
class NodeWithScore:
    node: Node
    score: float = 0.5


@dataclass
class LlamaResponse:
    response: str | None
    source_nodes: list[NodeWithScore]


class QueryEngine:
    def __init__(self, response: str | None = "An answer") -> None:
        nodes = [NodeWithScore(Node("one", "d1", "n1")), NodeWithScore(Node("two", None, "d2"))]
        self.said = LlamaResponse(response, nodes)

    def query(self, text: str) -> LlamaResponse:
        return self.said


def test_llamaindex() -> None:
    assert llamaindex_system(QueryEngine())("q") == EXPECTED
    found = llamaindex_system(QueryEngine(), ids="file_name")("q")
    assert found.context_ids == ("n1.md", "d2.md")
    with pytest.raises(TestsetError, match="not a text"):
        llamaindex_system(QueryEngine(None))("q")


@dataclass
class HsDocument:
    """haystack.Document"""

    id: str
    content: str
    meta: dict[str, Any] = field(default_factory=dict)


@dataclass
class GeneratedAnswer:
    data: str
    documents: list[HsDocument]


HS_DOCUMENTS = [HsDocument("d1", "one", {"n": 1}), HsDocument("d2", "two", {"n": 2})]


class Pipeline:
    def __init__(self, output: dict[str, Any]) -> None:
        self.output = output
        self.asked: list[Any] = []

    def run(self, data: Any, include_outputs_from: set[str] | None = None) -> dict[str, Any]:
        self.asked.append((data, include_outputs_from))
        return self.output


@pytest.mark.parametrize(
    "output",
    [
        {"llm": {"replies": ["An answer"]}, "retriever": {"documents": HS_DOCUMENTS}},
        {"llm": {"replies": [Message("An answer")]}, "retriever": {"documents": HS_DOCUMENTS}},
        {"answer_builder": {"answers": [GeneratedAnswer("An answer", HS_DOCUMENTS)]}},
    ],
)
def test_haystack(output: dict[str, Any]) -> None:
    pipeline = Pipeline(output)
    ask = haystack_system(pipeline, {"retriever": "query", "prompt_builder": "question"})
    assert ask("q") == EXPECTED
    due = {"retriever": {"query": "q"}, "prompt_builder": {"question": "q"}}
    assert pipeline.asked == [(due, {"retriever"})]
    assert haystack_system(Pipeline(output), {"r": "query"}, ids="n")("q").context_ids == (
        ("1", "2")
    )


def test_a_pipeline_without_an_answer_says_so() -> None:
    with pytest.raises(TestsetError, match="neither answers nor replies"):
        haystack_system(Pipeline({"retriever": {"documents": []}}), {"r": "q"})("q")


def test_own_functions_may_return_what_is_natural() -> None:
    assert reply_of("An answer") == SystemReply("An answer")
    assert (
        reply_of({"answer": "An answer", "contexts": ["one", "two"], "context_ids": ["d1", "d2"]})
        == EXPECTED
    )
    given = Row(
        "1",
        "q",
        response="An answer",
        retrieved_contexts=("one", "two"),
        retrieved_context_ids=("d1", "d2"),
    )
    assert reply_of(given) == EXPECTED
    with pytest.raises(TestsetError, match="returned int"):
        reply_of(3)


# -- asking ----------------------------------------------------------------------------------


def test_rows_come_back_in_order_side_by_side_and_off_the_loop() -> None:
    threads: set[str] = set()
    open_ = [0, 0]
    lock = threading.Lock()

    def system(question: str) -> str:
        with lock:
            threads.add(threading.current_thread().name)
            open_[0] += 1
            open_[1] = max(open_)
        time.sleep(0.03 if question == "q0" else 0.01)
        with lock:
            open_[0] -= 1
        return f"a{question[1:]}"

    with Runner({}) as runner:
        flows = answered_flows(answered(ROWS, system, workers=3), parse_measures("ExactMatch"))
        found = list(runner.map(flows))
    assert [r.row_id for r in found] == [row.id for row in ROWS]
    assert [r.scores[0].value for r in found] == [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    assert all(name.startswith("system") for name in threads)
    assert 2 <= open_[1] <= 3


def test_a_system_that_fails_costs_its_own_row_only() -> None:
    def system(question: str) -> str:
        if question == "q2":
            raise ConnectionError("it is down")
        return "a1"

    with Runner({}) as runner:
        flows = answered_flows(answered(ROWS, system), parse_measures("ExactMatch"))
        found = list(runner.map(flows))
    assert [r.scores[0].state for r in found].count("errored") == 1
    assert found[2].scores[0].reason == "ConnectionError: it is down"
    with pytest.raises(TestsetError, match="0 workers"):
        answered(ROWS, system, workers=0)


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


@pytest.mark.parametrize(
    ("said", "recall"),
    [
        ("Paris", None),
        (SystemReply("Paris"), None),
        (SystemReply("Paris", ("new",), ("other",)), 0.0),
        ({"answer": "Paris", "context_ids": []}, 0.0),  # an honest empty ranking
        ({"answer": "Paris", "context_ids": ["gold"]}, 1.0),
    ],
)
def test_an_answer_inherits_nothing_of_the_one_before(said: Any, recall: float | None) -> None:
    (found,) = answered([OLD], lambda question: said)
    row = found.row
    assert (row.retrieved_spans, row.metadata.get("topic")) == ((), "towns")
    assert not {"abstained", "chunk_score", "model", "route"} & row.metadata.keys()
    ((ranked, words),) = score_rows([row], parse_measures("Recall@5, TokenF1"))
    assert (ranked.value, words.state, words.value) == (recall, "scored", 1.0)


def test_a_system_that_fails_leaves_no_old_answer_to_be_judged() -> None:
    def system(question: str) -> str:
        raise ConnectionError("it is down")

    (found,) = answered([OLD], system)
    assert (found.row.response, found.row.retrieved_context_ids) == (None, ())
    with Runner({}) as runner:
        (result,) = runner.map(answered_flows([found], parse_measures("TokenF1")))
    assert (result.scores[0].state, result.row) == ("errored", None)


def test_a_closed_book_answer_has_no_passages() -> None:
    flow = chat_row(OLD, "m:x")
    next(flow)
    with pytest.raises(StopIteration) as ended:
        flow.send(ChatReply("Paris"))
    row = ended.value.value
    assert (row.response, row.retrieved_contexts, dict(row.metadata)) == (
        "Paris",
        (),
        {"topic": "towns"},
    )


def test_our_own_answer_inherits_nothing_of_the_one_before() -> None:
    row = answered_by(OLD, Answer("q", "Paris", model="m:new"))
    assert "chunk_score" not in row.metadata
    assert (row.metadata["model"], row.metadata["abstained"]) == ("m:new", False)
    assert row.retrieved_context_ids == ()


def test_every_form_of_a_resolved_mark_is_taken_out_of_the_answer() -> None:
    hits = [Hit(n, 1.0, f"d{n}", f"d{n}:0-1", "s", "", None, 0, 1, "x") for n in (1, 2, 3)]
    text = "A [1-3]. B [1 and 2]. C 【3†source】. D [7]. E [2, 7]. F `x[2]`. G[3]"
    citations, _ = resolve_citations(text, hits)
    row = answered_by(OLD, Answer("q", text, citations=citations))
    assert row.response == "A. B. C. D [7]. E [2, 7]. F `x[2]`. G"


def test_rows_are_read_only_as_they_are_asked() -> None:
    read: list[str] = []

    def rows() -> Iterator[Row]:
        for row in ROWS:
            read.append(row.id)
            yield row

    asked = answered(rows(), lambda q: "a", workers=2)
    next(asked)
    assert len(read) <= 3
    list(asked)
    assert len(read) == 6


def test_a_chat_model_is_asked_through_the_runner() -> None:
    flow = chat_row(ROWS[0], "m:x", "Be short.")
    request = next(flow)
    assert isinstance(request, Chat)
    assert [(m.role, m.content) for m in request.messages] == [
        ("system", "Be short."),
        ("user", "q0"),
    ]
    with pytest.raises(StopIteration) as ended:
        flow.send(ChatReply("a1"))
    assert ended.value.value.response == "a1"


# -- endpoints -------------------------------------------------------------------------------


class Endpoint(BaseHTTPRequestHandler):
    seen: list[tuple[Any, str | None]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.seen.append((body, self.headers["authorization"]))
        text = str(body)
        if "redirect" in text:
            self.send_response(307)
            self.send_header("location", "/elsewhere")
            self.send_header("content-length", "0")
            self.end_headers()
            return
        said = {
            "data": {"text": "An answer"},
            "documents": [{"text": "one", "id": "d1"}, {"text": "two", "id": "d2"}],
        }
        data = b"<html>" if "html" in text else json.dumps(said).encode()
        self.send_response(500 if "fail" in text else 200)
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


def how(url: str, **more: Any) -> HttpSystem:
    places = {
        "answer": "data.text",
        "contexts": "documents.*.text",
        "ids": "documents.*.id",
    }
    return HttpSystem(url, **{**places, **more})


def test_an_endpoint(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "secret")
    body = {"messages": [{"role": "user", "content": "{question}"}], "k": 3}
    ask = http_system(how(endpoint, body=body, token="MY_TOKEN"))
    assert ask('why "so"?') == EXPECTED
    sent = {"messages": [{"role": "user", "content": 'why "so"?'}], "k": 3}
    assert Endpoint.seen == [(sent, "Bearer secret")]
    failures = [
        ("fail", "status 500"),
        ("html", "not JSON"),
        ("redirect", "status 307"),  # a question goes where it was sent, nowhere else
    ]
    for question, said in failures:
        with pytest.raises(TestsetError, match=said):
            ask(question)


def test_an_endpoint_that_says_something_else(endpoint: str) -> None:
    for places, said in [
        ({"answer": "answer"}, "holds no 'answer'"),
        ({"answer": "documents"}, "not a text"),
        ({"answer": "documents.7.text"}, "holds no '7'"),
        ({"contexts": "data"}, "not a list"),
        ({"contexts": "documents"}, "not all texts"),
    ]:
        with pytest.raises(TestsetError, match=said):
            http_system(how(endpoint, **places))("q")


def test_what_cannot_be_asked_is_refused_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TestsetError, match="not a web address"):
        http_system(HttpSystem("file:///etc/passwd"))
    with pytest.raises(TestsetError, match="no place"):
        http_system(HttpSystem("http://127.0.0.1:9", body={"q": "question"}))
    monkeypatch.delenv("MY_TOKEN", raising=False)
    with pytest.raises(TestsetError, match="MY_TOKEN"):
        http_system(HttpSystem("http://127.0.0.1:9", token="MY_TOKEN"))
    with pytest.raises(TestsetError, match="does not answer"):
        http_system(HttpSystem("http://127.0.0.1:9"))("q")
