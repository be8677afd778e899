from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import openai
import pytest
from served import Running, served
from small_project import CODES, MANUAL, MakeProject

from ragwright import Workbench
from ragwright.testing import Reply, ScriptedServer

COMPLETE = """### Task:
You are an autocompletion system. Continue the text in `<text>` based on the **completion type** in `<type>` and the given language.

### **Instructions**:
1. Analyze `<text>` for context and meaning.
2. Use `<type>` to guide your output.
3. Start as if you are directly continuing `<text>`. Do **not** repeat it.

### **Output Rules**:
- Respond only in JSON format: `{"text": "<your_completion>"}`.
%s
<type>Search Query</type>
<text>How often must the brake</text>
#### Output:
"""  # noqa: E501
"""The prompt that Open WebUI sends while somebody types."""

QUESTION = "How often must the brake fluid be changed?"
CHAT = "\n### Chat History:\n<chat_history>\nUSER: When?\nASSISTANT: Never\n</chat_history>"
BOTH = "When must brake fluid and coolant be changed?"


@pytest.fixture
def offline(tmp_path: Path) -> Path:
    folder = MakeProject(tmp_path)("serve: {name: handbook, personas: [engineer, marketing]}\n")
    with Workbench.open(folder) as bench:
        bench.ingest()
    return folder


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer("Every two years [1]. See [9] too [1, 2].") as running:
        yield running


@pytest.fixture
def chatting(tmp_path: Path, server: ScriptedServer) -> Path:
    settings = (
        "serve: {name: handbook, personas: [engineer, marketing]}\n"
        f"answer: {{model: '{server.url}#writer'}}\n"
    )
    folder = MakeProject(tmp_path)(settings)
    with Workbench.open(folder) as bench:
        bench.ingest()
    return folder


def asked(running: Running, **more: object) -> openai.types.chat.ChatCompletion:
    reply = running.openai().chat.completions.create(
        model="handbook/engineer",
        messages=[{"role": "user", "content": QUESTION}],
        **more,  # type: ignore[call-overload]
    )
    assert isinstance(reply, openai.types.chat.ChatCompletion)
    return reply


def test_models_are_configurations_and_personas(offline: Path) -> None:
    with served(offline) as running:
        api = running.openai()
        ids = [model.id for model in api.models.list()]
        assert api.models.retrieve("handbook/marketing").id == "handbook/marketing"
        with pytest.raises(openai.NotFoundError, match="did you mean 'handbook/marketing'"):
            api.models.retrieve("handbook/marketin")
    assert ids == ["handbook", "handbook/engineer", "handbook/marketing"]


def test_without_a_model_the_snippets_are_the_content_with_their_citations(offline: Path) -> None:
    with served(offline) as running:
        reply = asked(running)
        message = reply.choices[0].message
        [note, *_] = message.annotations or []
        details = reply.model_extra["ragwright"]  # type: ignore[index]
        page = running.http.get(note.url_citation.url)
    assert message.content is not None
    assert message.content.startswith("No chat model is set: these passages match best.")
    place = note.url_citation
    assert message.content[place.start_index : place.end_index] == "[1]"
    best = details["snippets"][0]
    assert place.url == details["citations"][0]["url"] == best["url"]
    assert best["text"] in message.content
    start, end = best["marked"]
    assert best["text"][start:end] == "The brake fluid must be changed every two years."
    assert f'<mark id="passage">{best["text"]}</mark>' in page.text
    numbers = [snippet["number"] for snippet in details["snippets"]]
    assert numbers == [cited["number"] for cited in details["citations"]]
    assert reply.usage is not None
    assert reply.usage.total_tokens == 0


def test_marks_of_a_model_are_numbered_by_first_use_and_wrong_ones_left_out(chatting: Path) -> None:
    with served(chatting) as running:
        reply = asked(running)
    cited = reply.model_extra["ragwright"]["citations"]  # type: ignore[index]
    assert reply.choices[0].message.content == "Every two years [1]. See too [1][2]."
    assert [place["number"] for place in cited] == [1, 2]
    assert len({place["url"] for place in cited}) == 2
    assert reply.usage is not None
    assert reply.usage.completion_tokens > 0


def test_a_stream_gives_the_same_text_marks_and_usage(
    chatting: Path, server: ScriptedServer
) -> None:
    with served(chatting) as running:
        frames = list(
            running.openai().chat.completions.create(
                model="handbook/engineer",
                messages=[{"role": "user", "content": QUESTION}],
                stream=True,
                stream_options={"include_usage": True},
            )
        )
        whole = asked(running)
    assert len(server.requests) == 1, "the whole answer came from the stored reply"
    text = "".join(f.choices[0].delta.content or "" for f in frames if f.choices)
    assert text == whole.choices[0].message.content
    streamed = [
        note["url_citation"]
        for f in frames
        if f.choices
        for note in (f.choices[0].delta.model_extra or {}).get("annotations", [])
    ]
    assert streamed == [
        n.url_citation.model_dump() for n in whole.choices[0].message.annotations or []
    ]
    assert frames[-1].usage is not None
    assert frames[-1].usage == whole.usage
    assert [f.choices[0].finish_reason for f in frames if f.choices][-1] == "stop"
    final = next(f for f in frames if f.choices and f.choices[0].finish_reason)
    assert (final.model_extra or {})["ragwright"]["citations"]


def test_the_async_client_streams_too(chatting: Path) -> None:
    async def inside(address: str) -> str:
        async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="x") as api:
            stream = await api.chat.completions.create(
                model="handbook", messages=[{"role": "user", "content": QUESTION}], stream=True
            )
            return "".join([f.choices[0].delta.content or "" async for f in stream])

    with served(chatting) as running:
        assert asyncio.run(inside(running.address)).startswith("Every two years [1]")


def test_a_follow_up_is_made_to_stand_alone(offline: Path) -> None:
    turns = [
        {"role": "system", "content": "You are a pirate."},
        {"role": "user", "content": "What does APP_w304 mean?"},
        {"role": "assistant", "content": "A sensor reports two positions."},
        {"role": "user", "content": [{"type": "text", "text": "And what about APP_w305?"}]},
    ]
    with served(offline) as running:
        reply = running.http.post(
            "/v1/chat/completions", json={"model": "handbook", "messages": turns}
        )
    body = reply.json()
    assert "brake light switch" in body["choices"][0]["message"]["content"]
    assert any("read as" in note for note in body["ragwright"]["notes"])


@pytest.mark.parametrize(
    ("prompt", "key"),
    [
        (
            "### Task:\nGenerate a concise, 3-5 word title.\n<chat_history>\n"
            "USER: When is the brake fluid changed?\nASSISTANT: Never\n</chat_history>",
            "title",
        ),
        ("### Task:\nGenerate 1-3 broad tags categorizing the chat." + CHAT, "tags"),
        ("### Task:\nSuggest 3-5 relevant follow-up questions." + CHAT, "follow_ups"),
        (
            "Provide a concise, 5-word-or-less title for the conversation, using title case "
            "conventions. Only return the title itself.\n\nConversation:\nUser: When?\nAI: Never.",
            "title",
        ),
        (COMPLETE % "", "text"),
        (COMPLETE % f"### Context:{CHAT}", "text"),
    ],
)
def test_titles_tags_and_follow_ups_skip_retrieval(offline: Path, prompt: str, key: str) -> None:
    with served(offline) as running:
        reply = asked_with(running, prompt)
    assert f'"{key}"' in reply["choices"][0]["message"]["content"]
    assert "ragwright" not in reply
    with Workbench.open(offline) as bench:
        assert bench.outputs.count() == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "question",
    [
        "Suggest a title for the conversation about the brake fluid in the service plan.",
        "### Task:\nExplain how often the brake fluid must be changed, and give the title.",
        "Write a title for this chat: how often must the brake fluid be changed?",
        "Generate a query that finds the brake fluid.",
        "### Task:\nExplain the autocompletion of brake fluid.",
    ],
)
def test_a_question_that_looks_like_such_a_request_is_answered(
    offline: Path, question: str
) -> None:
    with served(offline) as running:
        reply = asked_with(running, question)
    assert reply["ragwright"]["route"] == "index"  # type: ignore[call-overload]


@pytest.mark.parametrize("message", ["Thanks!", "Vielen Dank für die Hilfe!", "Hello"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_courtesy_takes_no_search_and_without_a_model_nobody_replies(
    offline: Path, message: str, stream: bool
) -> None:
    turns = [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": "Every two years [1]."},
        {"role": "user", "content": message},
    ]
    with served(offline) as running:
        response = running.http.post(
            "/v1/chat/completions", json={"messages": turns, "stream": stream}
        ).text
    assert "no chat model is set to reply" in response
    assert '"route": "none"' in response.replace('":"', '": "')
    assert "url_citation" not in response


@pytest.mark.parametrize(
    "question", ["Thanks. What does APP_w304 mean?", "Thanks for that; and the coolant?", "Yes"]
)
def test_a_question_behind_a_courtesy_is_looked_up(offline: Path, question: str) -> None:
    with served(offline) as running:
        reply = running.ask(question).json()
    assert reply["ragwright"]["route"] == "index"


def asked_with(running: Running, prompt: str) -> dict[str, list[dict[str, dict[str, str]]]]:
    reply = running.http.post(
        "/v1/chat/completions",
        json={"model": "handbook", "messages": [{"role": "user", "content": prompt}]},
    )
    assert reply.status_code == 200, reply.text
    completion: dict[str, list[dict[str, dict[str, str]]]] = reply.json()
    return completion


def test_a_title_goes_to_the_model_as_it_is(chatting: Path, server: ScriptedServer) -> None:
    prompt = "### Task:\nGenerate a concise title." + CHAT
    with served(chatting) as running:
        asked_with(running, prompt)
    [sent] = server.requests
    assert sent.body["messages"] == [{"role": "user", "content": prompt}]


def test_answers_are_stored_with_feedback(offline: Path) -> None:
    with served(offline) as running:
        reply = asked(running)
        response = running.http.post(
            "/v1/feedback", json={"id": reply.id, "verdict": "rejected", "note": "too short"}
        )
        assert response.status_code == 200, response.text
        missing = running.http.post("/v1/feedback", json={"id": "nobody", "score": 1})
    assert missing.status_code == 404
    with Workbench.open(offline) as bench:
        [text] = [output for output in bench.outputs.find() if output.kind == "text"]
        assert text.verdict == "rejected"
        assert text.text == reply.choices[0].message.content
        assert text.request["question"] == QUESTION
        assert [hit.text for hit in bench.outputs.used(text.id)]


@pytest.mark.slow
def test_links_are_added_where_asked_for(offline: Path) -> None:
    with served(offline) as running:
        reply = asked(running, extra_body={"ragwright": {"source_links": True}})
    content = reply.choices[0].message.content or ""
    cited = reply.model_extra["ragwright"]["citations"]  # type: ignore[index]
    assert all(f"]({place['url']})" in content for place in cited)
    assert content.endswith(f"]({cited[-1]['url']})")


def test_filters_of_a_request_narrow_it(offline: Path) -> None:
    with served(offline) as running:
        question = {"messages": [{"role": "user", "content": "What does APP_w304 mean?"}]}
        replies = [
            running.http.post(
                "/v1/chat/completions", json={**question, "ragwright": {"filters": [only]}}
            ).json()["ragwright"]["citations"]
            for only in ("source=docs/codes.md", "source=docs/service.md")
        ]
        wrong = running.http.post(
            "/v1/chat/completions",
            json={
                "messages": [{"role": "user", "content": "x"}],
                "ragwright": {"filters": ["nothing"]},
            },
        )
    assert {cited["source"] for cited in replies[0]} == {"docs/codes.md"}
    assert not replies[1]
    assert wrong.status_code == 400
    assert wrong.json()["error"]["code"] == "invalid_filter"


@pytest.mark.parametrize(
    ("body", "param", "fault"),
    [
        ({"messages": []}, "messages", "at least 1"),
        ({"messages": [{"role": "user", "content": "a"}], "n": 2}, "n", "one answer at a time"),
        ({"messages": [{"role": "assistant", "content": "a"}]}, "messages", "must be a question"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages.0.content",
            "only text",
        ),
        (
            {
                "messages": [{"role": "user", "content": "a"}],
                "response_format": {"type": "json_object"},
            },
            "response_format",
            "leave response_format out",
        ),
        (
            {"model": "gpt-4o", "messages": [{"role": "user", "content": "a"}]},
            "model",
            "unknown model",
        ),
    ],
)
def test_bad_requests_are_answered_in_openais_shape(
    offline: Path, body: dict[str, object], param: str, fault: str
) -> None:
    with served(offline) as running:
        reply = running.http.post("/v1/chat/completions", json=body)
    error = reply.json()["error"]
    assert reply.status_code == (404 if param == "model" else 400)
    assert error["param"] == param
    assert fault in error["message"]
    assert reply.headers["x-should-retry"] == "false"


def test_malformed_json_and_long_bodies_are_refused(offline: Path) -> None:
    with served(offline) as running:
        broken = running.http.post(
            "/v1/chat/completions",
            content=b'{"messages": [',
            headers={"content-type": "application/json"},
        )
        untyped = running.http.post("/v1/chat/completions", content=b'{"messages": []}')
        long = running.http.post("/v1/chat/completions", content=b"x" * 5_000_000)
        chunked = running.http.post(
            "/v1/chat/completions", content=iter([b"x" * 2_500_000, b"x" * 2_500_000])
        )
    assert broken.status_code == 400
    assert broken.json()["error"]["type"] == "invalid_request_error"
    assert re.match(
        r"the body is not JSON: [A-Z].* at character \d+$", broken.json()["error"]["message"]
    )
    assert "content-type: application/json" in untyped.json()["error"]["message"]
    assert (long.status_code, chunked.status_code) == (413, 413)


@pytest.mark.parametrize("stream", [False, True])
def test_a_model_that_fails_is_an_error_with_its_status(tmp_path: Path, stream: bool) -> None:
    with ScriptedServer(Reply(status=400, error="bad prompt")) as failing:
        folder = MakeProject(tmp_path)(
            "serve: {name: handbook, personas: [engineer, marketing]}\n"
            f"answer: {{model: '{failing.url}#writer'}}\n"
        )
        with Workbench.open(folder) as bench:
            bench.ingest()
        with served(folder) as running:
            reply = running.http.post(
                "/v1/chat/completions",
                json={"messages": [{"role": "user", "content": QUESTION}], "stream": stream},
            )
    assert reply.status_code == 502
    assert reply.json()["error"]["type"] == "server_error"


@pytest.mark.slow
def test_a_stream_that_breaks_ends_with_an_error_frame(tmp_path: Path) -> None:
    broken = Reply("Every two years [1]. " * 30, malformed="cut_stream", pace=0.005)
    with ScriptedServer(broken) as failing:
        folder = MakeProject(tmp_path)(
            "serve: {name: handbook, personas: [engineer, marketing]}\n"
            f"answer: {{model: '{failing.url}#writer'}}\n"
        )
        with Workbench.open(folder) as bench:
            bench.ingest()
        with served(folder) as running, pytest.raises(openai.APIError):
            list(
                running.openai().chat.completions.create(
                    model="handbook", messages=[{"role": "user", "content": QUESTION}], stream=True
                )
            )


@pytest.mark.slow
def test_the_link_of_a_changed_document_marks_nothing(offline: Path) -> None:
    with served(offline) as running:
        url = asked(running).model_extra["ragwright"]["citations"][0]["url"]  # type: ignore[index]
        changed = MANUAL.replace("two years", "three years")
        (offline / "docs/service.md").write_text(changed, "utf-8")
        with Workbench.open(offline) as bench:
            bench.ingest()
        page = running.http.get(url).text
    assert "<mark" not in page
    assert "has changed since it was cited" in page
    assert parse_qs(urlsplit(url).query)["v"]


def test_nothing_ingested_is_said_and_then_cured(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)(
        "serve: {name: handbook, personas: [engineer, marketing]}\n", **{"codes.md": CODES}
    )
    with served(folder) as running:
        http = running.http
        assert http.get("/healthz").text == "ok"
        assert http.get("/readyz").status_code == 503
        reply = http.post(
            "/v1/chat/completions", json={"messages": [{"role": "user", "content": "a"}]}
        )
        assert reply.status_code == 400
        assert "ingest" in reply.json()["error"]["message"]
        with Workbench.open(folder) as bench:
            bench.ingest()
        for _ in range(400):
            if http.get("/readyz").status_code == 200:
                break
        else:
            pytest.fail("the index was not noticed")
        reply = http.post(
            "/v1/chat/completions",
            json={"messages": [{"role": "user", "content": "What does APP_w304 mean?"}]},
        )
        assert "accelerator pedal" in reply.json()["choices"][0]["message"]["content"]
