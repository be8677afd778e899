"""Responses and their events, held to OpenAI's own OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from served import Running, served
from small_project import MakeProject

from ragwright import Workbench
from ragwright.testing import Reply, ScriptedServer

QUESTION = "How often must the brake fluid be changed?"
SCHEMA: dict[str, Any] = json.loads(
    (Path(__file__).parent / "openai_schema.json").read_text("utf-8")
)
METADATA = {"metadata": {"team": "garage"}}


def faults(name: str, value: Any) -> list[str]:
    """What the schema of this name finds wrong."""
    schema = {"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]}
    return [
        f"{error.json_path}: {error.message[:200]}"
        for error in Draft202012Validator(schema).iter_errors(value)
    ]


def written(running: Running, **more: Any) -> list[dict[str, Any]]:
    """The events of a streamed response, as they are sent."""
    body = {"input": QUESTION, "stream": True, **METADATA, **more}
    reply = running.http.post("/v1/responses", json=body)
    assert reply.status_code == 200, reply.text
    frames = [line[6:] for line in reply.text.splitlines() if line.startswith("data: ")]
    return [json.loads(frame) for frame in frames if frame != "[DONE]"]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    settings = "serve: {name: handbook}\n"
    folder = MakeProject(tmp_path_factory.mktemp("schema"))(settings)
    with Workbench.open(folder) as bench:
        bench.ingest()
    with served(folder) as server:
        yield server


@pytest.mark.parametrize("question", [QUESTION, "What is the capital of Peru?"])
def test_a_response_is_one_of_the_specification(running: Running, question: str) -> None:
    reply = running.http.post("/v1/responses", json={"input": question, **METADATA}).json()
    assert faults("Response", reply) == []
    assert [item["type"] for item in reply["output"]] == ["file_search_call", "message"]


def test_every_event_of_a_stream_is_one_of_the_specification(running: Running) -> None:
    events = written(running)
    assert [fault for event in events for fault in faults("ResponseStreamEvent", event)] == []
    kinds = {event["type"] for event in events}
    assert {"response.output_text.annotation.added", "response.file_search_call.completed"} <= kinds


def test_an_event_of_a_failure_is_one_of_the_specification(tmp_path: Path) -> None:
    broken = Reply("Every two years [1]. " * 30, malformed="cut_stream")
    with ScriptedServer(broken) as model:
        settings = f"serve: {{name: handbook}}\nanswer: {{model: '{model.url}#writer'}}\n"
        folder = MakeProject(tmp_path)(settings)
        with Workbench.open(folder) as bench:
            bench.ingest()
        with served(folder) as server:
            events = written(server)
    assert events[-1]["type"] == "error"
    assert [fault for event in events for fault in faults("ResponseStreamEvent", event)] == []


def test_the_schema_refuses_what_is_wrong(running: Running) -> None:
    reply = running.http.post("/v1/responses", json={"input": QUESTION}).json()
    assert faults("Response", {**reply, "status": "done"})
    assert faults("Response", {name: reply[name] for name in reply if name != "output"})
    [event, *_] = written(running)
    assert faults("ResponseStreamEvent", {**event, "type": "response.unknown"})
