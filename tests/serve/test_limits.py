"""What requests spend is charged to their key, counted, bounded, and told to a collector."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from raw_server import QuietHandler, serving
from served import Running, asks, handbook, key, served, written_by
from small_project import QUESTION, ingested
from waiting import at_once, wait_until

from ragwright.testing import Reply, ScriptedServer

pytestmark = pytest.mark.slow

ANSWER = "Every two years [1]."
TITLE = "### Task:\nGenerate a concise, 3-5 word title.\n### Chat History:\n<chat_history>\nUSER: "


def prices(model: ScriptedServer, name: str = "writer") -> str:
    return f"models: {{'{model.url}#{name}': {{price_in: 1000000, price_out: 1000000}}}}\n"


@contextmanager
def priced(folder: Path, reply: Reply, *overrides: str, more: str = "") -> Iterator[Any]:
    """A server whose model costs, with an owner as its client, and the model."""
    with ScriptedServer(reply) as model:
        rewriting = f"query: {{methods: [rewrite], model: '{model.url}#writer'}}"
        settings = f"{written_by(model)}{prices(model)}{more.replace('REWRITING', rewriting)}"
        with handbook(folder, settings, *overrides) as running:
            running.http = running.client(key(running.folder, "owner", "owner"))
            yield running, model


def spent(running: Running) -> float:
    return running.metric("ragwright_cost_total")


def test_all_kinds_of_requests_are_charged(tmp_path: Path) -> None:
    usual = Reply(ANSWER, usage=(10, 5))
    with priced(tmp_path, usual, more="retrieve: {REWRITING}\n") as (running, model):

        def charged(work: Callable[[], object]) -> None:
            before = spent(running)
            work()
            wait_until(lambda: spent(running) > before + 10, "nothing was charged")

        turns = ("What does APP_w304 mean?", "A sensor.", "And APP_w305?")
        assert running.ask(*turns).status_code == 200
        calls = len(model.requests)
        assert calls >= 3, "condensed, rewritten, answered"
        for _ in range(2):
            kinds = ("prompt", "completion")
            counts = [running.metric(f'ragwright_tokens_total{{kind="{kind}"}}') for kind in kinds]
            assert counts == [10 * calls, 5 * calls]
            assert spent(running) == pytest.approx(15 * calls)
            assert running.ask(*turns).status_code == 200
        assert len(model.requests) == calls
        for send in (
            lambda: running.http.post("/", data={"q": "Which fluid?"}),
            lambda: running.ask(TITLE + "When?\n</chat_history>"),
            lambda: running.http.post("/v1/retrieve", json={"query": "Which coolant?"}),
            lambda: running.tool("ask", question="Which filter?"),
        ):
            charged(lambda send=send: send().raise_for_status())  # type: ignore[misc]

        def leave() -> None:
            with pytest.raises(httpx2.TimeoutException):
                running.http.post("/v1/chat/completions", json=asks("And oil?"), timeout=0.5)

        model.play(Reply(ANSWER, delay=30.0))
        charged(leave)


def test_a_stream_that_is_cut_in_the_middle_is_charged(tmp_path: Path) -> None:
    long = Reply(f"{ANSWER} " * 200, pace=0.02)
    with priced(tmp_path, long, "serve.timeout=2") as (running, model):
        http = running.client(key(running.folder, "app", daily_budget=1.0))
        body = asks(QUESTION, stream=True)
        with http.stream("POST", "/v1/chat/completions", json=body) as reply:
            lines = reply.iter_lines()
            assert any("years" in next(lines) for _ in range(12))
        wait_until(lambda: spent(running) > 10)
        assert http.post("/v1/chat/completions", json=asks("Why?")).status_code == 429
        before = spent(running)
        model.play(Reply(ANSWER, delay=30.0))
        assert running.ask("Which brake fluid is it?").status_code == 504
        wait_until(lambda: spent(running) > before + 10)


def test_embeddings_are_charged_and_belong_to_their_tenant(tmp_path: Path) -> None:
    with ScriptedServer(ANSWER) as model:
        named = f"embed: {{model: '{model.url}#vectors'}}\n{prices(model, 'vectors')}"
        with served(ingested(tmp_path, named)) as running:
            one, two = (
                key(running.folder, name, filters=(f"tenant={name}",)) for name in ("one", "two")
            )
            running.http = running.client(key(running.folder, "owner", "owner"))
            before = len(model.requests)
            for secret in (one, one, two):
                body = {"input": "a secret", "input_type": "query"}
                reply = running.client(secret).post("/v1/embeddings", json=body)
                assert reply.status_code == 200, reply.text
            assert len(model.requests) == before + 2, "a vector is reused by its own tenant alone"
            wait_until(lambda: spent(running) > 0)


def test_no_model_without_a_price_is_called_under_a_budget(tmp_path: Path) -> None:
    more = "retrieve: {query: {methods: [rewrite], model: 'openai:gpt-x'}}\n"
    with priced(tmp_path, Reply(ANSWER), more=more) as (running, model):
        http = running.client(key(running.folder, "app", daily_budget=100.0))
        for path, body in (
            ("/v1/chat/completions", asks(QUESTION)),
            ("/v1/retrieve", {"query": QUESTION}),
        ):
            refused = http.post(path, json=body)
            assert refused.status_code == 400
            assert "'openai:gpt-x' has no price" in refused.json()["error"]["message"]
        assert not model.requests
    with ScriptedServer(ANSWER) as model, handbook(tmp_path / "free", written_by(model)) as running:
        secret = key(running.folder, "app", daily_budget=0.5)
        assert running.ask(QUESTION, key=secret).status_code == 200


def test_requests_at_once_pass_a_budget_by_no_more_than_those_under_way(tmp_path: Path) -> None:
    """At first all that may run at once begin; once a cost is known, what it leaves room for."""
    with priced(tmp_path, Reply(ANSWER, delay=0.4), "serve.concurrency=3") as (running, model):

        def burst(secret: str, name: str, count: int = 9) -> list[int]:
            ask = lambda n: running.ask(f"{QUESTION} {name}{n}", key=secret)  # noqa: E731
            return sorted(reply.status_code for reply in at_once(count, ask))

        assert burst(key(running.folder, "new", daily_budget=1.0), "a") == [200] * 3 + [429] * 6
        assert len(model.requests) == 3, "it is looked at again after the wait for a turn"
        cost = spent(running) / 3
        secret = key(running.folder, "known", daily_budget=2.5 * cost)
        assert running.ask(QUESTION, key=secret).status_code == 200
        assert burst(secret, "b") == [200] * 2 + [429] * 7
        assert spent(running) - 3 * cost <= 3.5 * cost
        body = running.ask("One more?", key=secret).json()
        assert body["error"]["code"] == "insufficient_quota"


def test_the_time_of_a_request_runs_while_it_waits_for_its_turn(tmp_path: Path) -> None:
    one = ("serve.concurrency=1", "serve.timeout=2.5")
    with priced(tmp_path, Reply(ANSWER, delay=60.0), *one) as (running, model):
        clients = [running.client(key(running.folder, f"app{n}")) for n in range(3)]
        ask = lambda n: clients[n].post("/v1/chat/completions", json=asks(f"{QUESTION} {n}"))  # noqa: E731
        assert [reply.status_code for reply in at_once(3, ask)] == [504] * 3
        assert len(model.requests) < 3, "one after the other, each would be sent to the model"


def test_what_is_asked_at_once_is_bounded(tmp_path: Path) -> None:
    with ScriptedServer(Reply(ANSWER, delay=0.5)) as model:
        settings = f"serve: {{name: book, concurrency: 1, waiting: 1}}\n{written_by(model)}"
        with served(ingested(tmp_path, settings)) as running:

            def states(text: str) -> list[int]:
                replies = at_once(5, lambda n: running.ask(f"{text} {n}"))
                return sorted(reply.status_code for reply in replies)

            assert states("before") == [200, 200, 503, 503, 503]
            file = running.folder / "ragwright.yaml"
            changed = file.read_text().replace("concurrency: 1", "concurrency: 4")
            file.write_text(changed.replace("book", "manual"))
            api = running.openai()
            wait_until(lambda: api.models.list().data[0].id == "manual")
            assert states("after") == [200] * 5


# -- spans, as a collector gets them: OTLP over HTTP ----------------------------------------------


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    got: list[Any] = []

    class Collector(QuietHandler):
        def do_POST(self) -> None:
            body = ExportTraceServiceRequest()
            body.ParseFromString(self.rfile.read(int(self.headers["content-length"])))
            scopes = [scope for resource in body.resource_spans for scope in resource.scope_spans]
            got.extend(span for scope in scopes for span in scope.spans)
            self.begin(200, {})

    with serving(Collector) as port:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
        yield got


def facts(span: Any) -> dict[str, Any]:
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in span.attributes}


def test_a_span_for_each_request_below_the_one_of_the_answer(
    tmp_path: Path, spans: list[Any]
) -> None:
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    with ScriptedServer(ANSWER) as model, handbook(tmp_path, written_by(model)) as running:
        headers = {"traceparent": f"00-{trace}-{parent}-01"}
        reply = running.http.post("/v1/chat/completions", json=asks(QUESTION), headers=headers)
        assert reply.status_code == 200
    assert {"chat", "retrieval", "lookup"} <= {span.name.split()[0] for span in spans}
    [root] = [span for span in spans if span.parent_span_id.hex() == parent]
    below = [span for span in spans if span is not root]
    assert {span.parent_span_id for span in below} == {root.span_id}
    assert {span.trace_id.hex() for span in spans} == {trace}
    [call] = [span for span in below if span.name.startswith("chat")]
    assert facts(call)["gen_ai.operation.name"] == "chat"
    assert facts(call)["gen_ai.usage.output_tokens"] > 0
    assert call.end_time_unix_nano > call.start_time_unix_nano
    assert QUESTION not in str(spans), "texts are left out unless asked for"


@pytest.mark.parametrize("capture", ["false", "true"])
def test_a_failure_repeats_no_text_that_the_model_server_repeats(
    tmp_path: Path, spans: list[Any], monkeypatch: pytest.MonkeyPatch, capture: str
) -> None:
    """Servers quote the prompt in their errors; texts are sent where they are asked for."""
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", capture)
    failing = Reply(status=400, error=f"invalid prompt: {QUESTION} QXPASSAGE")
    with ScriptedServer(failing) as model, handbook(tmp_path, written_by(model)) as running:
        assert running.ask(QUESTION).status_code == 502
    failed = [span for span in spans if "error.type" in facts(span)]
    assert {span.name.partition(" ")[0] for span in failed} == {"chat"}
    assert [span.status.code for span in failed] == [2, 2], "the call, and the answer"
    if capture == "true":
        [call] = [span for span in failed if span.kind == 3]
        assert QUESTION in facts(call)["gen_ai.input.messages"]
    else:
        assert QUESTION not in str(spans)
        assert "QXPASSAGE" not in str(spans)
