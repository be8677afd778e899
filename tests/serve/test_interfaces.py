"""OpenAI's responses and vector stores by the real client, and Dify's retrieval."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types.responses import Response
from openai.types.vector_store_search_response import VectorStoreSearchResponse
from served import Running, served
from small_project import MakeProject

from ragwright import Workbench
from ragwright.project import ProjectFolder
from ragwright.serve import ServeKey, ServeKeys
from ragwright.testing import Reply, ScriptedServer

JSON = {"content-type": "application/json"}
QUESTION = "How often must the brake fluid be changed?"
TOOL: Any = {"type": "file_search", "vector_store_ids": ["handbook"]}


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
        model="handbook/engineer", input=QUESTION, tools=[web, TOOL],
        include=["file_search_call.results"], metadata={"team": "garage"},
    )  # fmt: skip
    search, message = strict(response).output
    assert response.status == "completed"
    assert response.metadata == {"team": "garage"}
    assert search.type == "file_search_call"
    assert search.queries == [QUESTION]
    assert search.results
    assert "brake fluid" in (search.results[0].text or "")
    assert message.type == "message"
    [part] = message.content
    assert part.type == "output_text"
    assert "two years" in part.text
    cited, address = part.annotations[:2]
    assert cited.type == "file_citation"
    assert cited.filename == search.results[0].filename
    assert address.type == "url_citation"
    assert part.text[address.start_index : address.end_index] == "[1]"
    assert "brake fluid" in running.http.get(address.url).text


def test_results_come_only_where_they_are_asked_for(running: Running) -> None:
    response = running.openai().responses.create(model="handbook", input=QUESTION)
    search = strict(response).output[0]
    assert search.type == "file_search_call"
    assert search.results is None


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


def test_a_conversation_goes_on_from_the_response_before(writing: Running) -> None:
    client = writing.openai()
    first = client.responses.create(model="handbook", input=QUESTION)
    second = client.responses.create(
        model="handbook", input="And the coolant?", previous_response_id=first.id
    )
    assert second.previous_response_id == first.id
    items: list[Any] = [
        {"role": "user", "content": QUESTION},
        *[item.model_dump(exclude_none=True) for item in first.output],
        {"role": "user", "content": [{"type": "input_text", "text": "And the coolant?"}]},
    ]
    again = client.responses.create(model="handbook", input=items)
    assert again.status == "completed"
    with pytest.raises(openai.NotFoundError, match="not stored"):
        client.responses.create(model="handbook", input="More?", previous_response_id="resp_x")


def test_a_conversation_of_another_tenant_does_not_go_on(running: Running, tmp_path: Path) -> None:
    keys = ServeKeys(ProjectFolder(next(tmp_path.rglob("ragwright.yaml")).parent))
    first = keys.add(ServeKey("ann", filters=("source=docs/*",)))
    name = running.openai(first).responses.create(model="handbook", input=QUESTION).id
    keys.revoke("ann")
    again = keys.add(ServeKey("ann", filters=("source=other",)))
    for secret in (again, keys.add(ServeKey("boss", role="owner"))):
        with pytest.raises(openai.NotFoundError, match="not stored"):
            running.openai(secret).responses.create(
                model="handbook", input="More?", previous_response_id=name
            )


def test_an_answer_after_one_that_was_closed_since_does_not_go_on(tmp_path: Path) -> None:
    """It may quote the earlier one, whose document its reader may no longer see."""
    pay, hours = "The pay rises by 7 percent.", "The office opens at eight for 7 percent of us."
    only: Any = {"ragwright": {"filters": ["source=docs/hours.md"]}}
    with ScriptedServer(f"{pay} [1]") as model:
        folder = MakeProject(tmp_path)(
            f"answer: {{model: '{model.url}#writer'}}\n", **{"pay.md": pay, "hours.md": hours}
        )
        with Workbench.open(folder) as bench:
            bench.ingest()
            secret = ServeKeys(ProjectFolder(folder)).add(ServeKey("ann"))
            with served(folder) as server:
                ask = server.openai(secret).responses.create
                first = ask(model="", input="How much does the pay rise?").id
                last = ask(
                    model="", input="When does the office open?", previous_response_id=first,
                    extra_body=only,
                )  # fmt: skip
                assert pay in last.output_text
                (folder / "docs/pay.md").write_text(f"---\ngroups: [hr]\n---\n{pay}\n", "utf-8")
                bench.ingest()
            with served(folder) as server:
                ask = server.openai(secret).responses.create
                with pytest.raises(openai.NotFoundError, match="not stored"):
                    ask(model="", input="Say it again.", previous_response_id=last.id)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"input": []}, "input"),
        ({"input": QUESTION, "background": True}, "background"),
        ({"input": QUESTION, "conversation": "conv_1"}, "previous_response_id"),
        ({"input": QUESTION, "text": {"format": {"type": "json_object"}}}, "text.format"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input_image"),
        ({"input": [{"role": "judge", "content": "x"}]}, "role"),
        ({"input": [{"role": "assistant", "content": "x"}]}, "last message"),
        ({"input": QUESTION, "model": "handbook", "tools": [
            {"type": "file_search", "vector_store_ids": ["other"]}]}, "searches the store"),
        ({"input": QUESTION, "tools": [
            {"type": "file_search", "vector_store_ids": ["other"]}]}, "unknown model"),
        ({"input": QUESTION, "model": "handbook", "tools": [TOOL, TOOL]}, "one tool"),
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

    search = "/v1/vector_stores/handbook/search"
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


def test_a_vector_store_is_searched_by_the_real_client(running: Running) -> None:
    client = running.openai()
    page = client.vector_stores.search("handbook", query=QUESTION, max_num_results=3)
    results = [
        VectorStoreSearchResponse.model_validate(result.model_dump(warnings="error"))
        for result in page
    ]
    assert 1 <= len(results) <= 3
    scores = [result.score for result in results]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert "brake fluid" in results[0].content[0].text
    attributes = results[0].attributes or {}
    assert "brake fluid" in running.http.get(str(attributes["url"])).text
    several = client.vector_stores.search("handbook", query=[QUESTION, "coolant"])
    ids = [(result.attributes or {})["chunk_id"] for result in several]
    assert len(ids) == len(set(ids))


def test_filters_of_a_vector_store_narrow_the_search(running: Running) -> None:
    client = running.openai()
    source = client.vector_stores.search("handbook", query=QUESTION).data[0].filename
    only: Any = {"type": "eq", "key": "source", "value": source}
    kept = client.vector_stores.search("handbook", query=QUESTION, filters=only).data
    assert {result.filename for result in kept} == {source}
    either: Any = {"type": "or", "filters": [only, {"type": "in", "key": "source", "value": ["x"]}]}
    assert client.vector_stores.search("handbook", query=QUESTION, filters=either).data
    mixed: Any = {"type": "or", "filters": [only, {"type": "eq", "key": "title", "value": "x"}]}
    with pytest.raises(openai.BadRequestError, match="one attribute"):
        client.vector_stores.search("handbook", query=QUESTION, filters=mixed)
    nested: Any = {"type": "or", "filters": [only, {"type": "and", "filters": [only, only]}]}
    with pytest.raises(openai.BadRequestError, match="one attribute"):
        client.vector_stores.search("handbook", query=QUESTION, filters=nested)
    unbounded: Any = {"type": "gt", "key": "year", "value": []}
    with pytest.raises(openai.BadRequestError, match="one number or text"):
        client.vector_stores.search("handbook", query=QUESTION, filters=unbounded)
    with pytest.raises(openai.NotFoundError, match="unknown model"):
        client.vector_stores.search("nobody", query=QUESTION)


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
