"""OpenAI's responses, by the real client and held to OpenAI's document, and Dify's retrieval."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import openai
import pytest
from jsonschema import Draft202012Validator
from openai.types.responses import Response
from served import Running, key
from small_project import QUESTION

from ragwright.testing import Reply, ScriptedServer

SCHEMA: dict[str, Any] = json.loads(
    (Path(__file__).parent / "openai_schema.json").read_text("utf-8")
)
METADATA: Any = {"metadata": {"team": "garage"}}


def strict(response: Response) -> Response:
    """The response, refused where a part is not of the client's own types."""
    return Response.model_validate(response.model_dump(mode="json", warnings="error"))


def faults(name: str, *values: Any) -> list[str]:
    found = Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]})
    return [error.message[:200] for value in values for error in found.iter_errors(value)]


def written(running: Running, question: str = QUESTION) -> list[dict[str, Any]]:
    """The events of a streamed response, as they are sent."""
    body = {"input": question, "stream": True, **METADATA}
    reply = running.http.post("/v1/responses", json=body)
    assert reply.status_code == 200, reply.text
    frames = [line[6:] for line in reply.text.splitlines() if line.startswith("data: ")]
    return [json.loads(frame) for frame in frames if frame != "[DONE]"]


def test_a_response_has_the_search_then_the_message_with_citations(offline: Running) -> None:
    web: Any = {"type": "web_search", "filters": {"allowed_domains": ["example.org"]}}
    response = offline.openai().responses.create(
        model="handbook/engineer", input=QUESTION, tools=[web], **METADATA
    )
    search, message = strict(response).output
    assert (response.status, response.metadata) == ("completed", {"team": "garage"})
    assert search.type == "file_search_call"
    assert (search.queries, search.results) == ([QUESTION], None)
    assert message.type == "message"
    [part] = message.content
    assert part.type == "output_text"
    assert "two years" in part.text
    cited, address = part.annotations[:2]
    assert cited.type == "file_citation"
    assert cited.filename == "docs/service.md"
    assert address.type == "url_citation"
    assert part.text[address.start_index : address.end_index] == "[1]"
    assert "brake fluid" in offline.http.get(address.url).text


def test_a_streamed_response_gives_the_same_text_and_marks(
    writing: Running, model: ScriptedServer
) -> None:
    model.play("Every two years [1]. See [9] too.")
    client = writing.openai()
    whole = strict(client.responses.create(model="handbook", input=QUESTION))
    with client.responses.stream(model="handbook", input=QUESTION) as stream:
        events = list(stream)
        final = stream.get_final_response()
    numbers = [event.sequence_number for event in events]
    assert numbers == sorted(set(numbers))
    assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == final.output_text == whole.output_text
    assert "[9]" not in text
    assert [item.type for item in strict(final).output] == ["file_search_call", "message"]
    notes = [e for e in events if e.type == "response.output_text.annotation.added"]
    assert len(notes) == 2


def test_a_conversation_goes_on_from_the_items_that_a_client_sends(
    writing: Running, model: ScriptedServer
) -> None:
    model.play("Every two years [1].")
    client = writing.openai()
    first = client.responses.create(model="handbook", input=QUESTION)
    items: list[Any] = [
        {"role": "user", "content": QUESTION},
        *[item.model_dump(exclude_none=True) for item in first.output],
        {"role": "user", "content": [{"type": "input_text", "text": "And the coolant?"}]},
    ]
    assert client.responses.create(model="handbook", input=items).status == "completed"
    with pytest.raises(openai.BadRequestError, match="previous_response_id") as refused:
        client.responses.create(model="handbook", input="More?", previous_response_id=first.id)
    assert refused.value.param == "previous_response_id"


def test_responses_and_every_event_are_those_of_openais_document(
    offline: Running, writing: Running, model: ScriptedServer
) -> None:
    for question in (QUESTION, "What is the capital of Peru?"):
        reply = offline.http.post("/v1/responses", json={"input": question, **METADATA}).json()
        assert faults("Response", reply) == []
        assert [item["type"] for item in reply["output"]] == ["file_search_call", "message"]
    events = written(offline)
    assert faults("ResponseStreamEvent", *events) == []
    kinds = {event["type"] for event in events}
    assert {"response.output_text.annotation.added", "response.file_search_call.completed"} <= kinds
    model.play(Reply("Every two years [1]. " * 30, malformed="cut_stream", pace=0.005))
    broken = written(writing, "Which fluid is it?")
    assert "response.output_text.delta" in {event["type"] for event in broken}
    assert (broken[-1]["type"], broken[-1]["code"]) == ("error", "model_error")
    assert faults("ResponseStreamEvent", *broken) == []
    streamed = writing.openai().responses.create(model="", input="Which fluid?", stream=True)
    assert [event.type for event in streamed][-1] == "error"
    assert faults("Response", {**reply, "status": "done"}), "the schema refuses what is wrong"
    assert faults("Response", {name: reply[name] for name in reply if name != "output"})
    assert faults("ResponseStreamEvent", {**events[0], "type": "response.unknown"})


def test_dify_gets_records(offline: Running) -> None:
    body: dict[str, Any] = {"knowledge_id": "handbook", "query": QUESTION}
    body["retrieval_setting"] = {"top_k": 2, "score_threshold": 0.0}

    def records() -> Any:
        return offline.http.post("/retrieval", json=body).json()["records"]

    found = records()
    assert 1 <= len(found) <= 2
    assert "brake fluid" in found[0]["content"]
    assert found[0].keys() == {"content", "score", "title", "metadata"}
    path = found[0]["metadata"]["path"]
    condition: dict[str, Any] = {"name": ["source"], "comparison_operator": "is", "value": path}
    body["metadata_condition"] = {"logical_operator": "and", "conditions": [condition]}
    assert {record["metadata"]["path"] for record in records()} == {path}
    condition["comparison_operator"] = "contains"
    assert "not supported" in offline.http.post("/retrieval", json=body).text
    condition |= {"comparison_operator": "is", "value": None}
    assert "`is` needs a value" in offline.http.post("/retrieval", json=body).text
    body["metadata_condition"] = None
    body["retrieval_setting"]["score_threshold"] = 1.0
    assert len(records()) <= 1


def test_dify_gets_errors_in_its_own_shape(keyed: Running) -> None:
    """It takes a key for right unless the status is 403, and shows no other shape."""
    secret = f"Bearer {key(keyed.folder, 'dify')}"
    for sent, wrong, status, code, message in (
        ("", {}, 403, 1001, "a key is needed"),
        ("Basic YTpi", {}, 403, 1001, "a key is needed"),
        ("Bearer rw_no", {}, 403, 1002, "unknown key"),
        (secret, {"knowledge_id": "nobody"}, 404, 2001, "unknown model 'nobody'"),
        (secret, {"retrieval_setting": {"top_k": "2"}}, 400, 400, "top_k"),
    ):
        body = {"knowledge_id": "handbook", "query": QUESTION, **wrong}
        headers = {"authorization": sent} if sent else {}
        reply = keyed.http.post("/retrieval", json=body, headers=headers)
        error = reply.json()
        assert error.keys() == {"error_code", "error_msg"}
        assert (reply.status_code, error["error_code"]) == (status, code)
        assert message in error["error_msg"]
        assert "www-authenticate" not in reply.headers
    wrong_key = keyed.http.post("/v1/retrieve", json={"query": "a"})
    assert (wrong_key.status_code, wrong_key.json()["error"]["code"]) == (401, "invalid_api_key")
