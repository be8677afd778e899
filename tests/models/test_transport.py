"""Bytes between a client and a server: size, keys, redirects, proxies, halves of characters."""

from __future__ import annotations

import gzip
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from model_desk import REQUESTS, Desk, always, desk, question
from raw_server import Raw, chat_reply, events, raw_server

from ragwright.core import MissingKeyError, ModelRefusedError, ModelReplyError
from ragwright.flow import RetryPolicy, Runner, chat
from ragwright.models import Models, model_handlers
from ragwright.testing import Reply, ScriptedServer

__all__ = ["desk"]

KEY = "sk-proj-0123456789abcdefghij"
END = {"choices": [{"finish_reason": "stop"}]}


def pieces(*texts: str) -> list[Any]:
    return [{"choices": [{"delta": {"content": text}}]} for text in texts]


# -- size ----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("asked", REQUESTS)
def test_a_reply_without_end_is_cut_at_the_limit(desk: Desk, asked: str, status: int) -> None:
    kind = "text/event-stream" if asked == "stream" else "application/json"
    error = desk.ask(Raw(itertools.repeat(b"x" * 50_000 + b"\n"), status, kind), REQUESTS[asked])
    assert isinstance(error, ModelReplyError)
    assert "more than 67,108,864 bytes" in str(error)


MEASURED = """
import re, sys
from pathlib import Path
from ragwright.core import ModelReplyError
from ragwright.flow import Chat, ChatReply, Message, RetryPolicy, Runner, send
from ragwright.models import Models, model_handlers

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])

with Runner(model_handlers(Models()), retry=RetryPolicy(attempts=1)) as runner:
    def ask(kind):
        asked = Chat(f"{sys.argv[1]}/{kind}/v1#m", (Message("user", "q"),))
        return runner.run(send(asked, ChatReply))
    assert ask("sound").text  # what the client itself needs is loaded now
    before = peak()
    said = "the whole reply was taken"
    try:
        ask("bomb")
    except ModelReplyError as error:
        said = error.what
    print((peak() - before) // 1024, said)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read in /proc")
def test_a_gzip_bomb_costs_no_more_memory_than_the_limit() -> None:
    # The peak is that of the process alone: ru_maxrss would begin with that of its parent.
    bomb = gzip.compress(chat_reply("A" * 300_000_000), 1)
    assert len(bomb) < 3_000_000

    def reply(path: str, _body: Any) -> Raw:
        small = Raw(chat_reply())
        return Raw(bomb, headers={"Content-Encoding": "gzip"}) if "bomb" in path else small

    with raw_server(reply) as server:
        command = [sys.executable, "-c", MEASURED, server.url.removesuffix("/v1")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    grown, said = done.stdout.split(" ", 1)
    assert "more than 67,108,864 bytes" in said
    assert 30 < int(grown) < 110, "MB for a reply of 300 MB, limit 64 MB"


# -- text ----------------------------------------------------------------------------------


def test_halves_of_surrogate_pairs_are_joined_replaced_or_refused(desk: Desk) -> None:
    raw = Raw(b'{"choices": [{"message": {"content": "half \\ud800 \\ud83d\\ude00"}}]}')
    assert desk.ask(raw, question()).text == "half \ufffd \U0001f600"
    split = events(*pieces("a \ud83d", "\ude00 \udc00"), END)
    assert desk.ask(split, question(stream=True)).text == "a \U0001f600 \ufffd"
    error = desk.ask("never", question("broken \ud83d text"))
    assert isinstance(error, ModelRefusedError)
    assert "surrogate" in str(error)


# -- keys ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw",
    [
        Raw(f"denied Bearer {KEY}".encode(), kind="text/plain"),
        Raw(json.dumps({"error": {"message": f"bad key {KEY}", "code": KEY}}).encode(), 401),
        Raw(json.dumps({"error": {"message": f"bad key {KEY[:-1]}"}}).encode(), 400),
        Raw(json.dumps({"detail": [{"loc": [KEY], "msg": KEY}]}).encode(), 422),
        Raw(b"", 307, headers={"Location": f"http://{KEY}.example/v1"}),
        Raw(chat_reply(f"your key is {KEY}", model=KEY)),
        Raw(chat_reply("your key is K").replace(b"K", b"\\u0073" + KEY[1:].encode())),
    ],
)
@pytest.mark.parametrize("asked", REQUESTS)
def test_a_key_that_a_server_repeats_is_masked(
    desk: Desk, raw: Raw, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_KEY", KEY)
    found = desk.ask(raw, REQUESTS[asked], key_env="THE_KEY")
    said = f"{found} {getattr(found, 'text', '')} {getattr(found, 'model', '')}"
    assert KEY[:14] not in said
    assert isinstance(found, ModelReplyError) or "***" in said


def test_a_key_is_sent_and_masked_in_all_else(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", KEY)
    shown: list[str] = []
    stream = events(*pieces(*f"key {KEY} and sk-project"), END)
    reply = desk.ask(stream, question(stream=True), key_env="THE_KEY", heard=shown.append)
    assert reply.text == "".join(shown) == "key *** and sk-project"
    error = desk.ask(Reply(status=401, error=f"bad {KEY}"), question(), key_env="THE_KEY")
    assert desk.scripted.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert isinstance(error, MissingKeyError)
    assert "THE_KEY" in str(error)
    assert KEY[:14] not in str(error)


def test_openai_accounts_are_not_told_to_others(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounts = {"API_KEY": "sk-openai", "ADMIN_KEY": "sk-admin"}
    accounts |= {"ORG_ID": "org-mine", "PROJECT_ID": "proj-mine"}
    for name, value in accounts.items():
        monkeypatch.setenv(f"OPENAI_{name}", value)
    desk.ask("ok", question())
    told = " ".join(desk.scripted.requests[0].headers.values())
    assert not [word for word in ("sk-", "org-mine", "proj-mine") if word in told]


# -- where requests go ---------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_takes_the_prompt_nowhere(desk: Desk, status: int) -> None:
    with raw_server(Raw(chat_reply())) as other:
        away = always(Raw(b"", status, headers={"Location": f"{other.url}/chat/completions"}))
        for error in desk.ask(away, *REQUESTS.values()):
            assert isinstance(error, ModelRefusedError)
            assert other.url.split("/")[2] in str(error)
            assert "redirects from 127.0.0.1:" in str(error)
        assert other.bodies == []


@pytest.mark.parametrize("place", ["file:///etc/passwd", "//[", "http://x:99999/", "/v1", "\x7f"])
def test_a_redirect_to_nowhere_is_refused_too(desk: Desk, place: str) -> None:
    error = desk.ask(Raw(b"", 307, headers={"Location": place}), question())
    assert isinstance(error, ModelRefusedError)
    assert "redirect" in str(error)


def test_a_proxy_is_used_for_the_world_alone(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with ScriptedServer("through the proxy") as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/v1"))
        with Runner(model_handlers(Models()), retry=RetryPolicy(attempts=1)) as runner:
            outside = chat("http://models.example.invalid/v1#m", question().messages)
            assert runner.run(outside).text == "through the proxy"
        assert desk.ask("at home", question()).text == "at home"
