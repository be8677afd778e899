"""What a model server may send that is not a reply: each ends in a typed error, or does no harm."""

from __future__ import annotations

import gzip
import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from raw_server import Raw, chat_reply, events, raw_server

from ragwright.core import ModelRefusedError, ModelReplyError, RagwrightError
from ragwright.flow import (
    Budget,
    Chat,
    ChatReply,
    Message,
    Rerank,
    RerankReply,
    RetryPolicy,
    Runner,
    RunnerOptions,
    embed,
    send,
)
from ragwright.models import Models, ModelSettings, model_handlers

ONCE = RetryPolicy(attempts=1)
KEY = "sk-proj-0123456789abcdefghij"
DEEP = b"[" * 100_000 + b"]" * 100_000


def outcome(
    script: Raw | Callable[[str, Any], Raw], work: Callable[[str], Any], **settings: Any
) -> Any:
    """What a flow comes to on a server, or the typed error it ends with."""
    with raw_server(script) as server:
        name = f"{server.url}#m"
        models = Models({name: ModelSettings(timeout=20.0, **settings)})
        with Runner(model_handlers(models), retry=ONCE) as runner:
            try:
                return runner.run(work(name))
            except RagwrightError as error:
                return error


def chatted(script: Raw, *, stream: bool = False, **settings: Any) -> ChatReply | RagwrightError:
    def ask(name: str) -> Any:
        return send(Chat(name, (Message("user", "How far?"),), stream=stream), ChatReply)

    found: ChatReply | RagwrightError = outcome(script, ask, **settings)
    return found


def embedded(vectors: Any, count: int = 2, **settings: Any) -> Any:
    def ask(name: str) -> Any:
        return embed(name, [f"text number {i}" for i in range(count)])

    return outcome(Raw(json.dumps({"data": vectors}).encode()), ask, **settings)


def reranked(results: Any) -> RerankReply | RagwrightError:
    def ask(name: str) -> Any:
        return send(Rerank(name, "whale", ("a bear", "a whale")), RerankReply)

    body = results if isinstance(results, bytes) else json.dumps({"results": results}).encode()
    found: RerankReply | RagwrightError = outcome(Raw(body), ask)
    return found


def refused(error: object, words: str, kind: type[RagwrightError] = ModelReplyError) -> None:
    assert isinstance(error, kind), repr(error)
    assert words in str(error)


NOT_REPLIES = {
    "deep": (Raw(DEEP), "not JSON"),
    "an error that is deep": (Raw(b'{"error":' + DEEP + b"}", 400), "400"),
    "a place that is null": (Raw(b'{"detail": [{"loc": null, "msg": "no"}]}', 422), "no"),
    "a place that is a number": (Raw(b'{"detail": [{"loc": 5, "msg": "no"}]}', 422), "no"),
    "a message that is null": (Raw(b'{"choices": [{"message": null}]}'), "without a message"),
    "a message that is text": (Raw(b'{"choices": [{"message": "s"}]}'), "without a message"),
    "not gzip": (Raw(b"no", headers={"Content-Encoding": "gzip"}), "decompressed"),
    "an integer of 5,000 digits": (Raw(b'{"choices": ' + b"9" * 5000 + b"}"), "not JSON"),
    "bytes that are not UTF-8": (Raw(b'{"choices": "\xff\xfe"}'), "not JSON"),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("case", NOT_REPLIES)
def test_what_is_no_reply_is_a_typed_error(case: str, stream: bool) -> None:
    raw, words = NOT_REPLIES[case]
    refused(chatted(raw, stream=stream), words, RagwrightError)


@pytest.mark.parametrize(
    ("chunk", "words"),
    [
        ({"choices": ["x"]}, "choices that are not objects"),
        ({"choices": {"a": 1}}, "choices that are not objects"),
        ({"choices": [{"delta": "x"}]}, "delta that is not an object"),
        (DEEP, "cannot be read"),
        (b'{"choices": [{"delta": {"content": "caf\xe9"}}]}', "cannot be read"),
        ([1, 2], "choices that are not objects"),
    ],
)
def test_a_stream_that_is_no_reply_is_a_typed_error(chunk: Any, words: str) -> None:
    refused(chatted(events(chunk), stream=True), words)


def test_of_several_choices_in_an_event_the_first_by_index_counts() -> None:
    wrong = {"index": 1, "delta": {"content": "WRONG"}}
    right = {"index": 0, "delta": {"content": "right"}, "finish_reason": "stop"}
    reply = chatted(events({"choices": [wrong, right]}), stream=True)
    assert isinstance(reply, ChatReply)
    assert reply.text == "right"


# -- text ----------------------------------------------------------------------------------


def test_half_a_surrogate_pair_in_a_reply_is_replaced() -> None:
    reply = chatted(Raw(b'{"choices": [{"message": {"content": "half \\ud800 \\ud83d\\ude00"}}]}'))
    assert isinstance(reply, ChatReply)
    assert reply.text == "half \ufffd \U0001f600"


def test_a_surrogate_pair_split_between_two_events_is_joined() -> None:
    pieces = [{"choices": [{"delta": {"content": text}}]} for text in ("a \ud83d", "\ude00 \udc00")]
    reply = chatted(events(*pieces, {"choices": [{"finish_reason": "stop"}]}), stream=True)
    assert isinstance(reply, ChatReply)
    assert reply.text == "a \U0001f600 \ufffd"


# -- size ----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("stream", [False, True])
def test_a_reply_without_end_is_cut_at_the_limit(stream: bool, status: int) -> None:
    kind = "text/event-stream" if stream else "application/json"
    endless = Raw(itertools.repeat(b"x" * 50_000 + b"\n"), status, kind)
    refused(chatted(endless, stream=stream), "more than 67,108,864 bytes")


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
        done = subprocess.run(
            [sys.executable, "-c", MEASURED, server.url.removesuffix("/v1")],
            capture_output=True,
            text=True,
            check=True,
        )
    grown, said = done.stdout.split(" ", 1)
    print(f"memory grew by {grown} MB for a reply of 300 MB, limit 64 MB")
    assert "more than 67,108,864 bytes" in said
    assert 30 < int(grown) < 110


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
@pytest.mark.parametrize("stream", [False, True])
def test_a_key_that_a_server_repeats_is_masked(
    raw: Raw, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_KEY", KEY)
    found = chatted(raw, stream=stream, key_env="THE_KEY")
    said = f"{found} {getattr(found, 'text', '')} {getattr(found, 'model', '')}"
    assert KEY[:14] not in said
    assert isinstance(found, ModelReplyError) or "***" in said


def test_a_key_in_the_pieces_of_a_stream_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", KEY)
    said = f"key {KEY} and sk-project"
    pieces = [{"choices": [{"delta": {"content": c}}]} for c in said]
    shown: list[str] = []
    with raw_server(events(*pieces, {"choices": [{"finish_reason": "stop"}]})) as server:
        name = f"{server.url}#m"
        models = Models({name: ModelSettings(key_env="THE_KEY")})
        with Runner(model_handlers(models), RunnerOptions()) as runner:
            asked = send(Chat(name, (Message("user", "q"),), stream=True), ChatReply)
            reply = runner.run(asked, sink=shown.append)
    assert reply.text == "".join(shown) == "key *** and sk-project"


# -- redirects -----------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_takes_the_prompt_nowhere(status: int) -> None:
    with raw_server(Raw(chat_reply())) as other:
        away = Raw(b"", status, headers={"Location": f"{other.url}/chat/completions"})
        for stream in (False, True):
            error = chatted(away, stream=stream)
            refused(error, other.url.split("/")[2], ModelRefusedError)
            assert "redirects from 127.0.0.1:" in str(error)
        assert other.bodies == []


@pytest.mark.parametrize("place", ["file:///etc/passwd", "//[", "http://x:99999/", "/v1", "\x7f"])
def test_a_redirect_to_nowhere_is_refused_too(place: str) -> None:
    refused(chatted(Raw(b"", 307, headers={"Location": place})), "redirect", ModelRefusedError)


# -- usage ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "count", ["-1000000", "1e308", "NaN", '"10"', "true", "1.5", "9" * 400, "[1]", "1000000000"]
)
def test_tokens_that_cannot_be_are_estimated_with_a_note(count: str) -> None:
    usage = f'{{"prompt_tokens": {count}, "completion_tokens": {count}}}'.encode()
    reply = chatted(Raw(chat_reply("x" * 40, usage=7).replace(b"7", usage)))
    assert isinstance(reply, ChatReply)
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (2, 10)
    assert reply.notes == (
        "the server's prompt_tokens and completion_tokens cannot be right: estimated",
    )


def test_negative_usage_does_not_feed_the_budget() -> None:
    usage = {"prompt_tokens": -1_000_000, "completion_tokens": -5_000_000}
    with raw_server(Raw(chat_reply(usage=usage))) as server:
        name = f"{server.url}#m"
        models = Models({name: ModelSettings(price_in=1.0, price_out=1.0)})
        with Runner(model_handlers(models), budget=Budget(1.0)) as runner:
            runner.run(send(Chat(name, (Message("user", "How far?"),)), ChatReply))
            assert runner.budget.spent > 0


# -- vectors -------------------------------------------------------------------------------

GOOD = [[1.0, 0.0, 0.5], [0.2, 0.9, 0.1]]


def entries(vectors: Any, indices: Any = (0, 1)) -> list[dict[str, Any]]:
    return [{"index": i, "embedding": v} for i, v in zip(indices, vectors, strict=True)]


def test_vectors_come_in_the_order_of_their_indices() -> None:
    backwards = embedded(entries(GOOD[::-1], (1, 0)))
    assert backwards.shape == (2, 3)
    assert (backwards == embedded(entries(GOOD))).all()
    assert (backwards == embedded([{"embedding": v} for v in GOOD])).all()


@pytest.mark.parametrize(
    ("vectors", "words"),
    [
        (entries([[0.0] * 3, GOOD[0]]), "a vector of zeros"),
        (entries([[1e30, 0, 0], GOOD[0]]), "length 1e+30"),
        (entries([[1e300, 1e300, 0], GOOD[0]]), "length 1.41e+300"),
        (entries([[1e-30, 0, 0], GOOD[0]]), "length 1e-30"),
        (entries([[5e-324, 0, 0], GOOD[0]]), "which float32 cannot search with"),
        (entries([[float("nan")] * 3, GOOD[0]]), "NaN"),
        (entries([[10**400, 1, 1], GOOD[0]]), "not a list of numbers"),
        (entries(["AAAAAA==", "AAAAAA=="]), "a vector of zeros"),
        (entries(["####", "####"]), "cannot be read"),
        (entries(["AAAA", "AAAA"]), "cannot be read"),
        (entries([[1.0], GOOD[0]]), "cannot be read"),
        (entries([[], []]), "not a list of numbers"),
        (entries([[True] * 3, GOOD[0]]), "not a list of numbers"),
        (entries([["1", "2", "3"], GOOD[0]]), "not a list of numbers"),
        (entries([[GOOD[0]], [GOOD[1]]]), "not a list of numbers"),
        (entries([GOOD[0], GOOD[0]]), "one vector for 2 different texts"),
        (entries(GOOD, (0, 0)), "indices"),
        (entries(GOOD, (-1, -2)), "indices"),
        (entries(GOOD, (False, True)), "indices"),
        (entries(GOOD, ("0", "1")), "indices"),
        (entries(GOOD, (1, 2)), "indices"),
        ([GOOD[0], GOOD[1]], "not an object"),
        (entries(GOOD)[:1], "1 vectors for 2 texts"),
        ("x", "0 vectors for 2 texts"),
    ],
)
def test_vectors_that_cannot_be_searched_are_a_bad_reply(vectors: Any, words: str) -> None:
    refused(embedded(vectors), words)


# -- reranking -----------------------------------------------------------------------------


def scored(*scores: Any, indices: Any = (0, 1), **more: Any) -> list[dict[str, Any]]:
    return [
        {"index": i, "relevance_score": s, **more} for i, s in zip(indices, scores, strict=True)
    ]


def test_scores_come_in_the_order_of_the_passages() -> None:
    reply = reranked(scored(0.9, 0.1, indices=(1, 0)))
    assert isinstance(reply, RerankReply)
    assert reply.scores == (0.1, 0.9)


@pytest.mark.parametrize(
    "results",
    [
        scored(0.5, indices=(0,)),
        [*scored(0.5, 0.4), *scored(0.1, indices=(2,))],
        scored(0.5, 0.4, indices=(0, 0)),
        scored(0.5, 0.4, indices=(-1, -2)),
        scored(0.5, 0.4, indices=(False, True)),
        scored(0.5, 0.4, indices=(1, 7)),
        scored("0.5", "0.4"),
        scored(True, False),
        scored(float("nan"), 0.1),
        scored(float("inf"), 0.1),
        scored(10**400, 0.1),
        scored(None, 0.1),
        scored(0.5, 0.4, document={"text": "a whale"}),
        scored(0.5, 0.4, document="a bear"),
        ["x", "y"],
        {"a": 1},
        None,
        DEEP,
        b"<html>login</html>",
        b"",
        b"null",
    ],
)
def test_scores_that_cannot_be_used_are_a_bad_reply(results: Any) -> None:
    assert isinstance(reranked(results), ModelReplyError)
