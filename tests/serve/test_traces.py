"""Spans as a collector gets them: OTLP over HTTP, to a server that keeps what it is sent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from served import served
from small_project import MakeProject

from ragwright import Workbench
from ragwright.testing import Reply, ScriptedServer

QUESTION = "How often must the brake fluid be changed?"


@pytest.fixture
def collector() -> Iterator[tuple[str, list[Any]]]:
    spans: list[Any] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = ExportTraceServiceRequest()
            body.ParseFromString(self.rfile.read(int(self.headers["content-length"])))
            spans.extend(
                span
                for resource in body.resource_spans
                for scope in resource.scope_spans
                for span in scope.spans
            )
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", spans
    server.shutdown()
    server.server_close()
    thread.join()


def project(tmp_path: Path, model: str) -> Path:
    folder = MakeProject(tmp_path)(f"serve: {{name: book}}\nanswer: {{model: '{model}#writer'}}\n")
    with Workbench.open(folder) as bench:
        bench.ingest()
    return folder


def attributes(span: Any) -> dict[str, Any]:
    kinds = ("string_value", "int_value", "double_value", "bool_value")
    return {
        attribute.key: getattr(
            attribute.value, next((k for k in kinds if attribute.value.HasField(k)), "array_value")
        )
        for attribute in span.attributes
    }


@pytest.mark.slow
def test_a_span_for_each_request_below_the_one_of_the_answer(
    tmp_path: Path, collector: tuple[str, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, spans = collector
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with (
        ScriptedServer("Every two years [1].") as model,
        served(project(tmp_path, model.url)) as running,
    ):
        reply = running.http.post(
            "/v1/chat/completions",
            json={"messages": [{"role": "user", "content": QUESTION}]},
            headers={"traceparent": parent},
        )
        assert reply.status_code == 200
    named = {span.name.split()[0]: span for span in spans}
    assert {"chat", "retrieval", "lookup"} <= set(named)
    [root] = [span for span in spans if span.parent_span_id.hex() == "b7ad6b7169203331"]
    below = [span for span in spans if span is not root]
    assert below
    assert {span.parent_span_id for span in below} == {root.span_id}
    assert {span.trace_id.hex() for span in spans} == {"0af7651916cd43dd8448eb211c80319c"}
    [call] = [span for span in below if span.name.startswith("chat")]
    facts = attributes(call)
    assert facts["gen_ai.operation.name"] == "chat"
    assert facts["gen_ai.usage.output_tokens"] > 0
    assert call.end_time_unix_nano > call.start_time_unix_nano
    assert QUESTION not in str(spans), "texts are left out unless asked for"


@pytest.mark.slow
def test_texts_are_sent_where_asked_for_and_failures_are_marked(
    tmp_path: Path, collector: tuple[str, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, spans = collector
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    failing = Reply(status=400, error="bad prompt")
    with ScriptedServer(failing) as model, served(project(tmp_path, model.url)) as running:
        assert running.ask(QUESTION).status_code == 502
    [call] = [s for s in spans if s.kind == 3 and "error.type" in attributes(s)]
    assert QUESTION in attributes(call)["gen_ai.input.messages"]
    assert call.status.code == 2


@pytest.mark.slow
def test_a_failure_repeats_no_text_that_the_model_server_repeats(
    tmp_path: Path, collector: tuple[str, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers quote the prompt in their errors: question and passages."""
    address, spans = collector
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
    failing = Reply(status=400, error=f"invalid prompt: {QUESTION} QXPASSAGE")
    with ScriptedServer(failing) as model, served(project(tmp_path, model.url)) as running:
        assert running.ask(QUESTION).status_code == 502
    failed = [span for span in spans if "error.type" in attributes(span)]
    assert {span.name.partition(" ")[0] for span in failed} == {"chat"}
    assert len(failed) == 2, "the call, and the answer"
    assert {span.status.code for span in failed} == {2}
    assert QUESTION not in str(spans)
    assert "QXPASSAGE" not in str(spans)
