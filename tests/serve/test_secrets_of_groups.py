"""Secrets of three groups in every place, and every door tried with every field as each of them.

The model repeats all that it is shown, so that what reaches a prompt reaches the reply.
"""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from planted import GROUPS, Secrets, planted
from served import Running, served

from ragwright.project import ProjectFolder
from ragwright.serve import ServeKey, ServeKeys
from ragwright.testing import Reply, ScriptedServer, ServerRequest

pytestmark = pytest.mark.slow

ABSENT = "Qabsent99zx"
"""Looks like a secret, and is none."""

QUESTIONS = (
    "What is the door code?",
    "How many documents are there?",
    "List all documents.",
    "Which documents are about Handbook doors?",
    "What does ZZhr mean, and ZZboard, and ZZsales?",
    "What is CODE_Q?",
    "How many different doors are there?",
    "How many rows have the door north?",
)
BY_SCHEMA = {
    ("get", "/healthz"),
    ("get", "/readyz"),
    ("get", "/metrics"),
    ("get", "/v1/models"),
    ("get", "/v1/models/{name}"),
    ("post", "/v1/chat/completions"),
    ("post", "/v1/retrieve"),
    ("post", "/v1/embeddings"),
    ("post", "/v1/feedback"),
    ("post", "/v1/drafts"),
    ("post", "/v1/responses"),
    ("post", "/retrieval"),
}
"""Every operation of the description of the API; a new one has to be tried here too."""

PAGES = (
    *("/", "/sources", "/source", "/ask/why", "/outputs", "/outputs/1.1"),
    *("/testsets", "/experiments", "/compare", "/baselines"),
)


def repeated(request: ServerRequest) -> Reply:
    """All that a model was shown."""
    body = request.body
    return Reply("1. " + " ".join(str(turn["content"]) for turn in body.get("messages", ())))


class Site:
    """The served project, its secrets and a key of each group."""

    def __init__(self, running: Running, secrets: dict[str, Secrets], keys: dict[str, str]) -> None:
        self.running, self.secrets, self.keys = running, secrets, keys

    def foreign(self, group: str) -> list[str]:
        """Secrets of the other groups."""
        return [
            token for other in GROUPS if other != group for token in self.secrets[other].values()
        ]

    def check(self, group: str, text: str, door: str) -> None:
        """No secret of another group is in a reply."""
        folded = text.casefold()
        held = [token for token in self.foreign(group) if token.casefold() in folded]
        assert not held, (group, door, held, text[:2000])

    def send(self, group: str, door: str, path: str, body: Any = None, form: Any = None) -> str:
        """The reply of a door, with its headers, after it was checked."""
        client = self.running.client(self.keys[group])
        kind = "get" if body is None and form is None else "post"
        reply = client.request(kind, path, json=body, data=form)
        text = f"{reply.status_code} {dict(reply.headers)} {reply.text}"
        self.check(group, re.sub(re.escape(json.dumps(body)[1:-1]), "", text), door)
        return reply.text


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("planted")
    with ScriptedServer(repeated) as model:
        settings = (
            "serve: {name: desk}\n"
            f"answer: {{model: '{model.url}#writer', draft: {{examples: 2, pool: 6}}}}\n"
            "retrieve: {top_k: 40, query: {methods: [glossary]}}\n"
        )
        secrets = planted(folder, settings)
        keys = ServeKeys(ProjectFolder(folder))
        own_keys = {group: keys.add(ServeKey(group, groups=(group,))) for group in GROUPS}
        with served(folder) as running:
            yield Site(running, secrets, own_keys)


def tool(site: Site, group: str, name: str, **arguments: object) -> str:
    params = {"name": name, "arguments": arguments}
    reply = site.running.client(site.keys[group]).post(
        "/mcp/",
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
        headers={"accept": "application/json, text/event-stream"},
    )
    site.check(group, reply.text, f"mcp {name}")
    return reply.text


def test_enough_places_hold_secrets_and_their_own_group_finds_them(site: Site) -> None:
    """The planted texts are really searched: what nobody could find would prove nothing."""
    for group, known in site.secrets.items():
        assert len(known) >= 40
        text = "".join(
            site.send(group, "retrieve", "/v1/retrieve", {"query": query, "top_k": 200})
            for query in ("door code", "message", "north")
        ).casefold()
        missing = {place for place, token in known.items() if token.casefold() not in text}
        assert missing <= {"html_description", "comment"}, missing


def test_every_operation_of_the_api_is_tried(site: Site) -> None:
    described = site.running.client(site.keys["hr"]).get("/openapi.json").json()["paths"]
    offered = {(kind, path) for path, kinds in described.items() for kind in kinds}
    assert offered == BY_SCHEMA


@pytest.mark.parametrize("group", GROUPS)
def test_no_door_shows_a_secret_of_another_group(
    site: Site, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Answers, passages, counts, lists, drafts, pages, tools, metrics and logs."""
    caplog.set_level(logging.INFO)
    own = site.secrets[group]["body"]
    for question in QUESTIONS:
        chat = {"messages": [{"role": "user", "content": question}]}
        earlier = [
            {"role": "user", "content": "Doors?"},
            {"role": "assistant", "content": "Yes."},
            {"role": "user", "content": question},
        ]
        for body in (chat, chat | {"stream": True}, {"messages": earlier}):
            site.send(group, "chat", "/v1/chat/completions", body)
        site.send(group, "responses", "/v1/responses", {"input": question})
        site.send(group, "retrieve", "/v1/retrieve", {"query": question, "top_k": 200})
        site.send(group, "dify", "/retrieval", {"knowledge_id": "desk", "query": question})
        page = site.send(group, "ask", "/", form={"q": question})
        site.send(group, "why", f"/ask/why?q={question}")
        tool(site, group, "search", query=question, top_k=50)
        tool(site, group, "ask", question=question)
        assert own in page or question != QUESTIONS[0]
    for request in ({"client": "Jane Doe"}, {"topics": ["health"]}, {"tones": ["calm"]}):
        site.send(group, "drafts", "/v1/drafts", {**request, "length": "short", "count": 1})
    site.send(group, "embeddings", "/v1/embeddings", {"input": "door"})
    for path in (*PAGES, "/v1/models", "/v1/models/desk", "/metrics", "/readyz", "/openapi.json"):
        site.send(group, path, path)
    tool(site, group, "list_sources", limit=200)
    assert not re.search(r"Q\w+\d\dzx", caplog.text)


@pytest.mark.parametrize("group", GROUPS)
def test_what_other_groups_hold_is_as_if_it_did_not_exist(site: Site, group: str) -> None:
    """A request that names a secret is answered as one that names nothing stored."""
    tokens = [t for other in GROUPS if other != group for t in site.secrets[other].values()]
    for number, (door, send) in enumerate(DOORS.items()):
        absent = _steady(send(site, group, ABSENT), ABSENT)
        # others at each door, so that each of them is named at one
        for token in tokens[number :: len(DOORS)]:
            shown = _steady(send(site, group, token), token)
            site.check(group, shown, door)
            assert shown == absent, (door, token)


def _steady(text: str, name: str) -> str:
    """A reply without what differs between two equal requests."""
    text = re.sub(re.escape(name), "NAME", text, flags=re.IGNORECASE)
    text = re.sub(
        r"(nearest|it has|did you mean|one of):? [^\"]*", "", text
    )  # by letters in common
    return re.sub(
        r"(fs|msg|resp|chatcmpl)[-_][\w-]+|\"created(_at)?\": ?\d+|\"request_id\":\"\w+\"", "", text
    )


def _raw(path: str, body: Callable[[str], Any]) -> Callable[[Site, str, str], str]:
    def send(site: Site, group: str, name: str) -> str:
        reply = site.running.client(site.keys[group]).post(path, json=body(name))
        return f"{reply.status_code} {reply.text}"

    return send


def _page(path: str) -> Callable[[Site, str, str], str]:
    def send(site: Site, group: str, name: str) -> str:
        reply = site.running.client(site.keys[group]).get(path.format(name))
        return f"{reply.status_code} {reply.text}"

    return send


DOORS: dict[str, Callable[[Site, str, str], str]] = {
    "filter on a field": _raw("/v1/retrieve", lambda n: {"query": "door", "filters": [f"{n}=x"]}),
    "filter on an author": _raw(
        "/v1/retrieve", lambda n: {"query": "door", "filters": [f"author={n}"]}
    ),
    "soft filter": _raw("/v1/retrieve", lambda n: {"query": "door", "soft": [f"client={n}^2"]}),
    "filter on groups": _raw("/v1/retrieve", lambda n: {"query": n, "filters": ["groups=board"]}),
    "condition of a knowledge base": _raw(
        "/retrieval",
        lambda n: {
            "knowledge_id": "desk",
            "query": "door",
            "metadata_condition": {
                "conditions": [{"name": [n], "comparison_operator": "is", "value": "x"}]
            },
        },
    ),
    "client of a draft": _raw("/v1/drafts", lambda n: {"client": f"Client {n}", "count": 1}),
    "topic of a draft": _raw("/v1/drafts", lambda n: {"topics": [n], "count": 1}),
    "biography": _raw("/v1/drafts", lambda n: {"client": f"Client {n}", "bio": True}),
    "model": _raw("/v1/retrieve", lambda n: {"query": "door", "model": n}),
    "feedback": _raw("/v1/feedback", lambda n: {"id": n, "note": n}),
    "list of sources": _page("/sources?find={}"),
    "document": _page("/source?id={}"),
}


def test_random_requests_show_no_secret_of_another_group(site: Site, tmp_path: Path) -> None:
    """Requests that schemathesis makes from the description of the API, by the same rule."""
    (tmp_path / "rule.py").write_text(
        "import os, schemathesis\n\n@schemathesis.check\ndef no_secret(ctx, response, case):\n"
        "    text = response.text.casefold()\n"
        "    held = [t for t in os.environ['FOREIGN'].split() if t.casefold() in text]\n"
        "    assert not held, held\n",
        "utf-8",
    )
    foreign = " ".join(site.foreign("hr"))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run"),
            f"{site.running.address}/openapi.json",
            *("-H", f"Authorization: Bearer {site.keys['hr']}"),
            *("--checks", "no_secret", "--max-examples", "3", "--seed", "1", "--phases", "fuzzing"),
            *("--generation-deterministic", "--continue-on-failure", "--no-color"),
            *("--request-timeout", "20", "--warnings", "off"),
        ],
        cwd=tmp_path,
        env={**os.environ, "SCHEMATHESIS_HOOKS": "rule", "FOREIGN": foreign, "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    assert "no_secret" in done.stdout or "Tested" in done.stdout, done.stdout[-2000:]
