"""Chat completions by OpenAI's own client, drafts, and requests that chat programs make beside."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import openai
import pytest
from served import HANDBOOK, Running, asks, handbook, key, served, written_by
from small_project import CODES, MANUAL, QUESTION, MakeProject
from waiting import wait_until

from ragwright import Workbench
from ragwright.core import Chunk, Document, Span
from ragwright.index import IndexedDocument
from ragwright.testing import Reply, ScriptedServer, ServerRequest

COMPLETE = """### Task:
You are an autocompletion system. Continue the text in `<text>`.
%s
<text>How often must the brake</text>
#### Output:
"""
"""The beginning and the end of the prompt that Open WebUI sends while somebody types."""

CHAT = "\n### Chat History:\n<chat_history>\nUSER: When?\nASSISTANT: Never\n</chat_history>"
TITLE = "### Task:\nGenerate a concise title." + CHAT


def asked(running: Running, question: str = QUESTION, **more: Any) -> Any:
    return running.openai().chat.completions.create(
        model="handbook/engineer", messages=[{"role": "user", "content": question}], **more
    )


def test_models_are_configurations_and_personas(offline: Running) -> None:
    api = offline.openai()
    ids = [model.id for model in api.models.list()]
    assert ids == ["handbook", "handbook/engineer", "handbook/marketing"]
    assert api.models.retrieve("handbook/marketing").id == "handbook/marketing"
    with pytest.raises(openai.NotFoundError, match="did you mean handbook/marketing"):
        api.models.retrieve("handbook/marketin")


def test_without_a_model_the_snippets_are_the_content_with_their_citations(
    offline: Running,
) -> None:
    reply = asked(offline)
    content, [note, *_] = reply.choices[0].message.content, reply.choices[0].message.annotations
    details = reply.model_extra["ragwright"]
    assert content.startswith("No chat model is set: these passages match best.")
    place = note.url_citation
    assert content[place.start_index : place.end_index] == "[1]"
    best = details["snippets"][0]
    assert place.url == details["citations"][0]["url"] == best["url"]
    assert best["text"] in content
    start, end = best["marked"]
    assert best["text"][start:end] == "The brake fluid must be changed every two years."
    assert f'<mark id="passage">{best["text"]}</mark>' in offline.http.get(place.url).text
    numbers = [snippet["number"] for snippet in details["snippets"]]
    assert numbers == [cited["number"] for cited in details["citations"]]
    assert reply.usage.total_tokens == 0
    linked = asked(offline, extra_body={"ragwright": {"source_links": True}})
    content, cited = linked.choices[0].message.content, linked.model_extra["ragwright"]["citations"]
    assert all(f"]({place['url']})" in content for place in cited)
    assert content.endswith(f"]({cited[-1]['url']})")


def test_a_stream_gives_the_text_marks_and_usage_of_the_whole_answer(
    writing: Running, model: ScriptedServer
) -> None:
    model.play("Every two years [1]. See [9] too [1, 2].")
    before = len(model.requests)
    frames = list(asked(writing, stream=True, stream_options={"include_usage": True}))
    whole = asked(writing)
    assert len(model.requests) == before + 1, "the whole answer came from the stored reply"
    cited = whole.model_extra["ragwright"]["citations"]
    message = whole.choices[0].message
    assert message.content == "Every two years [1]. See too [1][2]."
    assert [place["number"] for place in cited] == [1, 2]
    assert len({place["url"] for place in cited}) == 2
    assert whole.usage.completion_tokens > 0
    chosen = [frame.choices[0] for frame in frames if frame.choices]
    assert "".join(choice.delta.content or "" for choice in chosen) == message.content
    streamed = [
        note["url_citation"]
        for choice in chosen
        for note in (choice.delta.model_extra or {}).get("annotations", [])
    ]
    assert streamed == [note.url_citation.model_dump() for note in message.annotations]
    assert frames[-1].usage == whole.usage
    assert chosen[-1].finish_reason == "stop"
    final = next(f for f in frames if f.choices and f.choices[0].finish_reason)
    assert final.model_extra["ragwright"]["citations"]

    async def inside() -> str:
        async with openai.AsyncOpenAI(base_url=f"{writing.address}/v1", api_key="x") as api:
            stream = await api.chat.completions.create(
                model="handbook", messages=[{"role": "user", "content": QUESTION}], stream=True
            )
            return "".join([f.choices[0].delta.content or "" async for f in stream])

    assert asyncio.run(inside()).startswith("Every two years [1]")


PIECES = ("A [2] ", "`code[1]` ", "`x[0]", "` ", "see [1, 3]", "[9]", "```\n", "y[1]\n", " end.")


@pytest.mark.slow
def test_a_stream_and_the_whole_agree_on_code_and_marks(
    writing: Running, model: ScriptedServer
) -> None:
    rng = random.Random(3)
    texts = {
        f"Fluid {n}?": "".join(rng.choices([*PIECES, "[1]"], k=9)) + " [2]." for n in range(40)
    }

    def script(request: ServerRequest) -> Reply:
        prompt = str(request.body["messages"][-1]["content"])
        return Reply(next(text for name, text in texts.items() if name in prompt))

    model.play(script)
    for question, text in texts.items():
        frames = writing.ask(question, model="handbook", stream=True).text.split("\n\n")
        pieces = [json.loads(f[6:]) for f in frames if f.startswith("data: {")]
        streamed = "".join(p["choices"][0]["delta"].get("content", "") for p in pieces)
        whole = writing.ask(question, model="handbook").json()
        assert streamed.strip() == whole["choices"][0]["message"]["content"].strip(), text


def test_a_follow_up_is_made_to_stand_alone(offline: Running) -> None:
    turns = [
        {"role": "system", "content": "You are a pirate."},
        *asks("What does APP_w304 mean?", "A sensor reports two positions.")["messages"],
        {"role": "user", "content": [{"type": "text", "text": "And what about APP_w305?"}]},
    ]
    body = offline.http.post("/v1/chat/completions", json={"messages": turns}).json()
    assert "brake light switch" in body["choices"][0]["message"]["content"]
    assert any("read as" in note for note in body["ragwright"]["notes"])


CONVERSATION = "Conversation:\nUser: When?\nAI: Never."
ONE_TITLE = (
    "Provide a concise, 5-word-or-less title for the conversation, using title case conventions. "
    f"Only return the title itself.\n\n{CONVERSATION}"
)


@pytest.mark.parametrize(
    ("prompt", "name"),
    [
        (TITLE, "title"),
        ("### Task:\nGenerate 1-3 broad tags categorizing the chat." + CHAT, "tags"),
        ("### Task:\nSuggest 3-5 relevant follow-up questions." + CHAT, "follow_ups"),
        (ONE_TITLE, "title"),
        (COMPLETE % "", "text"),
        (COMPLETE % f"### Context:{CHAT}", "text"),
    ],
)
def test_titles_tags_and_follow_ups_skip_retrieval_and_go_to_the_model_as_they_are(
    offline: Running, writing: Running, model: ScriptedServer, prompt: str, name: str
) -> None:
    with Workbench.open(offline.folder) as bench:
        before = bench.outputs.count()
        reply = offline.ask(prompt, model="handbook").json()
        assert f'"{name}"' in reply["choices"][0]["message"]["content"]
        assert "ragwright" not in reply
        assert bench.outputs.count() == before
    model.play("A title")
    assert writing.ask(prompt, model="handbook").status_code == 200
    assert model.requests[-1].body["messages"] == [{"role": "user", "content": prompt}]


@pytest.mark.parametrize(
    "question",
    [
        "Suggest a title for the conversation about the brake fluid in the service plan.",
        "### Task:\nExplain how often the brake fluid must be changed, and give the title.",
        "Write a title for this chat: how often must the brake fluid be changed?",
        "Generate a query that finds the brake fluid.",
        "### Task:\nExplain the autocompletion of brake fluid.",
        "Thanks. What does APP_w304 mean?",
        "Thanks for that; and the coolant?",
        "Yes",
    ],
)
def test_a_question_that_looks_like_such_a_request_or_a_courtesy_is_answered(
    offline: Running, question: str
) -> None:
    assert offline.ask(question, model="handbook").json()["ragwright"]["route"] == "index"


@pytest.mark.parametrize("message", ["Thanks!", "Vielen Dank für die Hilfe!", "Hello"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_courtesy_takes_no_search_and_without_a_model_nobody_replies(
    offline: Running, message: str, stream: bool
) -> None:
    response = offline.ask(QUESTION, "Every two years [1].", message, stream=stream).text
    assert "no chat model is set to reply" in response
    assert '"route": "none"' in response.replace('":"', '": "')
    assert "url_citation" not in response


def test_filters_of_a_request_narrow_it(offline: Running) -> None:
    def cited(condition: str) -> Any:
        only = {"filters": [condition]}
        return offline.ask("What does APP_w304 mean?", ragwright=only).json()

    found = cited("source=docs/codes.md")["ragwright"]["citations"]
    assert {place["source"] for place in found} == {"docs/codes.md"}
    assert not cited("source=docs/service.md")["ragwright"]["citations"]
    assert cited("nothing")["error"]["code"] == "invalid_filter"


@pytest.mark.slow
def test_a_stream_that_breaks_ends_with_an_error_frame(
    writing: Running, model: ScriptedServer
) -> None:
    model.play(Reply("Every two years [1]. " * 30, malformed="cut_stream", pace=0.005))
    with pytest.raises(openai.APIError):
        list(asked(writing, "Which brake fluid is it?", stream=True))


def test_the_link_of_a_changed_document_marks_nothing(tmp_path: Path) -> None:
    with handbook(tmp_path) as running:
        url = running.ask(QUESTION).json()["ragwright"]["citations"][0]["url"]
        changed = MANUAL.replace("two years", "three years")
        (running.folder / "docs/service.md").write_text(changed, "utf-8")
        with Workbench.open(running.folder) as bench:
            bench.ingest()
        page = running.http.get(url).text
    assert "<mark" not in page
    assert "has changed since it was cited" in page
    assert parse_qs(urlsplit(url).query)["v"]


def test_nothing_ingested_is_said_and_then_cured(tmp_path: Path) -> None:
    with served(MakeProject(tmp_path)(HANDBOOK, **{"codes.md": CODES})) as running:
        assert running.http.get("/healthz").text == "ok"
        assert running.http.get("/readyz").status_code == 503
        reply = running.ask("a")
        assert reply.status_code == 400
        assert "ingest" in reply.json()["error"]["message"]
        with Workbench.open(running.folder) as bench:
            bench.ingest()
        wait_until(lambda: running.http.get("/readyz").status_code == 200)
        reply = running.ask("What does APP_w304 mean?")
        assert "accelerator pedal" in reply.json()["choices"][0]["message"]["content"]


FORMAT = """\
prompt_variables: [length, ask_type, client, topic, text]
prompt_structure: "A %s %s message from %s about %s:\\n\\n%s"
"""
TEXTS = "1. Chip in now.\n2. We need you today."
KNOWN = {"client": "Jane Doe", "ask_type": "donation", "length": "short"}
DRAFT: dict[str, Any] = {**KNOWN, "topics": ["health care"], "count": 2}


def desk(folder: Path, model: ScriptedServer, more: str = "") -> Path:
    """A project with records in its index, as a refresh leaves them."""
    made = MakeProject(folder)(
        f"serve: {{name: desk}}\n{written_by(model, ', draft: {examples: 3, pool: 6}')}{more}"
    )
    (made / "records/text_formats").mkdir(parents=True)
    (made / "records/text_formats/message.yaml").write_text(FORMAT, "utf-8")
    (made / "records/rollups.yaml").write_text("client: {column: sender}\n", "utf-8")
    batch = []
    head = "A short donation message from Jane Doe:\n\n"
    metadata: Any = {**KNOWN, "topic": ("health care",), "kind": "record", "message_at": len(head)}
    for number in range(12):
        name, text = f"record:{number}", f"{head}Message number {number}."
        place = (name, f"records:{number}", text)
        document = Document(*place, metadata=metadata)
        chunk = Chunk(f"{name}:0", name, 0, Span(0, len(text)), text)
        batch.append(IndexedDocument(document, (chunk,)))
    with Workbench.open(made) as bench:
        bench.project.store.upsert(bench.project.index_spec, batch)
    return made


def test_drafts_take_the_numbers_of_the_command_and_are_charged_and_rated_by_their_key(
    tmp_path: Path,
) -> None:
    with ScriptedServer(TEXTS) as model:
        price = "{price_in: 50000, price_out: 50000}"
        other = f"{model.url}#other"
        folder = desk(
            tmp_path, model, f"models: {{'{model.url}#writer': {price}, '{other}': {{}}}}\n"
        )
        with served(folder) as running:
            usual = running.http.post("/v1/drafts", json=DRAFT).json()
            own = {**DRAFT, "examples": 5, "pool": 9, "models": [other]}
            shown = running.http.post("/v1/drafts", json=own).json()
            faults = [
                running.http.post("/v1/drafts", json={**DRAFT, **wrong})
                for wrong in ({"examples": 7}, {"examples": 0}, {"exampels": 5})
            ]
            mine, theirs = key(folder, "mine", daily_budget=0.01), key(folder, "other")
            reply = running.client(mine).post("/v1/drafts", json={**DRAFT, "count": 3})
            assert reply.status_code == 200, reply.text
            [first, *_] = reply.json()["texts"]
            assert "prompts" not in reply.json()
            rating = {"id": first["id"], "verdict": "accepted"}
            assert running.client(theirs).post("/v1/feedback", json=rating).status_code == 404
            refused = running.client(mine).post("/v1/drafts", json={**DRAFT, "count": 4})
            assert refused.status_code == 429
            assert refused.json()["error"]["code"] == "insufficient_quota"
        with Workbench.open(folder) as bench:
            stored = [bench.outputs.batch(batch["batch"]) for batch in (usual, shown)]
    assert [prompt["model"] for prompt in shown["prompts"]] == [other]
    assert [len(batch["prompts"][0]["examples"]) for batch in (usual, shown)] == [3, 5]
    assert (len(usual["hits"]), len(shown["hits"])) == (6, 9)
    assert [fault.status_code for fault in faults] == [400] * 3
    few, _, misspelt = (fault.json()["error"]["message"] for fault in faults)
    assert "a pool of 6 records cannot give 7 examples" in few
    assert "examples" in misspelt
    assert stored[0].configuration != stored[1].configuration


@pytest.mark.slow
def test_slow_drafts_hold_up_neither_health_nor_retrieval(tmp_path: Path) -> None:
    go = threading.Event()
    with ScriptedServer(Reply(TEXTS, held=go)) as model:
        folder = desk(tmp_path, model)
        with served(folder, "serve.waiting=40") as running:
            states: list[int] = []

            def draft(number: int) -> None:
                body = {**DRAFT, "count": 2 + number}
                states.append(running.client().post("/v1/drafts", json=body).status_code)

            threads = [threading.Thread(target=draft, args=(number,)) for number in range(12)]
            for thread in threads:
                thread.start()
            wait_until(lambda: model.requests)
            for _ in range(5):
                assert running.http.get("/healthz").status_code == 200
                reply = running.http.post("/v1/retrieve", json={"query": "message number 3"})
                assert reply.status_code == 200, reply.text
            assert not states, "the drafts are still being written"
            assert model.max_in_flight <= 4
            go.set()
            for thread in threads:
                thread.join()
    assert states == [200] * 12
