"""OpenAI's responses by the real client, and Dify's retrieval."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types.responses import Response
from served import Running, served
from small_project import MakeProject

from ragwright import Workbench
from ragwright.project import ProjectFolder
from ragwright.serve import ServeKey, ServeKeys
from ragwright.testing import Reply, ScriptedServer

JSON = {"content-type": "application/json"}
QUESTION = "How often must the brake fluid be changed?"


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    folder = MakeProject(tmp_path)("serve: {name: handbook, personas: [engineer]}\n")
    with Workbench.open(folder) as bench:
        bench.ingest()
    with served(folder) as server:
        yield server


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[Running]:
    with ScriptedServer("Every two years [1]. See [9] too.") as model:
        settings = f"serve: {{name: handbook}}\nanswer: {{model: '{model.url}#writer'}}\n"
        folder = MakeProject(tmp_path)(settings)
        with Workbench.open(folder) as bench:
            bench.ingest()
        with served(folder) as server:
            yield server


def strict(response: Response) -> Response:
    """The response, refused where a part is not of the client's own types."""
    return Response.model_validate(response.model_dump(mode="json", warnings="error"))


def test_a_response_has_the_search_then_the_message_with_citations(running: Running) -> None:
    client = running.openai()
    web: Any = {"type": "web_search", "filters": {"allowed_domains": ["example.org"]}}
    response = client.responses.create(
        model="handbook/engineer", input=QUESTION, tools=[web], metadata={"team": "garage"}
    )
    search, message = strict(response).output
    assert response.status == "completed"
    assert response.metadata == {"team": "garage"}
    assert search.type == "file_search_call"
    assert search.queries == [QUESTION]
    assert search.results is None
    assert message.type == "message"
    [part] = message.content
    assert part.type == "output_text"
    assert "two years" in part.text
    cited, address = part.annotations[:2]
    assert cited.type == "file_citation"
    assert cited.filename == "docs/service.md"
    assert address.type == "url_citation"
    assert part.text[address.start_index : address.end_index] == "[1]"
    assert "brake fluid" in running.http.get(address.url).text


def test_a_streamed_response_gives_the_same_text_and_marks(writing: Running) -> None:
    client = writing.openai()
    whole = strict(client.responses.create(model="handbook", input=QUESTION))
    with client.responses.stream(model="handbook", input=QUESTION) as stream:
        events = list(stream)
        final = stream.get_final_response()
    numbers = [event.sequence_number for event in events]
    assert numbers == sorted(set(numbers))
    assert events[0].type == "response.created"
    assert events[-1].type == "response.completed"
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == final.output_text == whole.output_text
    assert "[9]" not in text
    kinds = [item.type for item in strict(final).output]
    assert kinds == ["file_search_call", "message"]
    notes = [e for e in events if e.type == "response.output_text.annotation.added"]
    assert len(notes) == 2


def test_a_conversation_goes_on_from_the_items_that_a_client_sends(writing: Running) -> None:
    client = writing.openai()
    first = client.responses.create(model="handbook", input=QUESTION)
    items: list[Any] = [
        {"role": "user", "content": QUESTION},
        *[item.model_dump(exclude_none=True) for item in first.output],
        {"role": "user", "content": [{"type": "input_text", "text": "And the coolant?"}]},
    ]
    again = client.responses.create(model="handbook", input=items)
    assert again.status == "completed"
    with pytest.raises(openai.BadRequestError, match="previous_response_id") as refused:
        client.responses.create(model="handbook", input="More?", previous_response_id=first.id)
    assert refused.value.param == "previous_response_id"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"input": []}, "input"),
        ({"input": QUESTION, "background": True}, "background"),
        ({"input": QUESTION, "conversation": "conv_1"}, "conversation"),
        ({"input": QUESTION, "previous_response_id": "r"}, "previous_response_id: no conversation"),
        ({"input": QUESTION, "text": {"format": {"type": "json_object"}}}, "text.format"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input_image"),
        ({"input": [{"role": "judge", "content": "x"}]}, "role"),
        ({"input": [{"role": "assistant", "content": "x"}]}, "last message"),
        ({"input": QUESTION, "tools": [{"type": "file_search", "filters": {"type": "eq"}}]},
            "ragwright.filters"),
        ({"input": QUESTION, "metadata": {"half": "\ud800"}}, "metadata.half"),
        ({"input": [{"type": 5}]}, "input.0.type: "),
        ({"input": "a" * 100_001}, "input: String should have at most"),
        ({"input": QUESTION, "model": "n" * 5_000}, "known: handbook"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered_is_refused(
    running: Running, body: dict[str, Any], reason: str
) -> None:
    reply = running.http.post("/v1/responses", content=json.dumps(body), headers=JSON)
    assert reply.status_code in (400, 404), reply.text
    assert reason in reply.json()["error"]["message"]
    assert len(reply.text) < 600


def test_errors_name_the_field_and_say_what_to_send(running: Running) -> None:
    def fault(path: str, body: bytes) -> str:
        reply = running.http.post(path, content=body, headers=JSON)
        assert 400 <= reply.status_code < 500
        return str(reply.json()["error"]["message"])

    search = "/v1/retrieve"
    assert fault(search, b"{}").startswith("query: ")
    assert "send a JSON object" in fault(search, b"")
    for unread in (b"[" * 90_000, b'{"query": ' + b"9" * 9_000 + b"}", b'{"query": "\xff"}'):
        assert "send JSON in UTF-8" in fault(search, unread)
    assert "openapi.json" in fault("/v1/answers", b"{}")
    assert "`allow`" in fault("/v1/models", b"{}")


def test_a_stream_that_breaks_ends_with_an_error_event(tmp_path: Path) -> None:
    broken = Reply("Every two years [1]. " * 30, malformed="cut_stream", pace=0.005)
    with ScriptedServer(broken) as model:
        settings = f"serve: {{name: handbook}}\nanswer: {{model: '{model.url}#writer'}}\n"
        folder = MakeProject(tmp_path)(settings)
        with Workbench.open(folder) as bench:
            bench.ingest()
        with served(folder) as server:
            events = list(server.openai().responses.create(model="", input=QUESTION, stream=True))
    assert "response.output_text.delta" in {event.type for event in events}
    assert events[-1].type == "error"
    assert events[-1].code == "model_error"


def test_dify_gets_records(running: Running) -> None:
    body: dict[str, Any] = {
        "knowledge_id": "handbook", "query": QUESTION,
        "retrieval_setting": {"top_k": 2, "score_threshold": 0.0},
    }  # fmt: skip
    records = running.http.post("/retrieval", json=body).json()["records"]
    assert 1 <= len(records) <= 2
    assert "brake fluid" in records[0]["content"]
    assert records[0].keys() == {"content", "score", "title", "metadata"}
    assert isinstance(records[0]["metadata"], dict)
    path = records[0]["metadata"]["path"]
    condition = {"name": ["source"], "comparison_operator": "is", "value": path}
    body["metadata_condition"] = {"logical_operator": "and", "conditions": [condition]}
    kept = running.http.post("/retrieval", json=body).json()["records"]
    assert {record["metadata"]["path"] for record in kept} == {path}
    condition["comparison_operator"] = "contains"
    assert "not supported" in running.http.post("/retrieval", json=body).text
    condition |= {"comparison_operator": "is", "value": None}
    assert "`is` needs a value" in running.http.post("/retrieval", json=body).text
    body["metadata_condition"] = None
    body["retrieval_setting"]["score_threshold"] = 1.0
    assert len(running.http.post("/retrieval", json=body).json()["records"]) <= 1


def test_dify_gets_errors_in_its_own_shape(running: Running, tmp_path: Path) -> None:
    """It takes a key for right unless the status is 403, and shows no other shape."""
    keys = ServeKeys(ProjectFolder(next(tmp_path.rglob("ragwright.yaml")).parent))
    secret = keys.add(ServeKey("dify"))
    for sent, body, status, code, message in (
        ("", {}, 403, 1001, "a key is needed"),
        ("Basic YTpi", {}, 403, 1001, "a key is needed"),
        ("Bearer rw_no", {}, 403, 1002, "unknown key"),
        (f"Bearer {secret}", {"knowledge_id": "nobody"}, 404, 2001, "unknown model 'nobody'"),
        (f"Bearer {secret}", {"retrieval_setting": {"top_k": "2"}}, 400, 400, "top_k"),
    ):
        asked = {"knowledge_id": "handbook", "query": QUESTION, **body}
        headers = {"authorization": sent} if sent else {}
        reply = running.http.post("/retrieval", json=asked, headers=headers)
        error = reply.json()
        assert error.keys() == {"error_code", "error_msg"}
        assert (reply.status_code, error["error_code"]) == (status, code)
        assert message in error["error_msg"]
        assert "www-authenticate" not in reply.headers
    wrong = running.http.post("/v1/retrieve", json={"query": "a"})
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (401, "invalid_api_key")
