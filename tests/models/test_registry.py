"""Models by name and their handlers, driven by the real runner; is a model usable?"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_desk import Desk, desk

from ragwright.core import ConfigError, ModelRefusedError, PluginError, Usage
from ragwright.flow import (
    Chat,
    ChatReply,
    Embed,
    Flow,
    Message,
    OnDelta,
    Rerank,
    RetryPolicy,
    Runner,
    RunnerOptions,
    chat,
    complete,
    embed,
    gather,
    rerank,
)
from ragwright.models import (
    ChatModel,
    Embedder,
    EmbedOptions,
    LexicalReranker,
    Matrix,
    Models,
    ModelSettings,
    Reranker,
    check_model,
    model_handlers,
)
from ragwright.testing import Reply, ScriptedServer, ServerRequest

__all__ = ["desk"]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(lambda r: f"echo {r.prompt}") as running:
        yield running


def at(server: ScriptedServer, embed: EmbedOptions | None = None, **more: Any) -> Models:
    return Models({"acme": ModelSettings(base=server.url, **more)}, embed)


def running(models: Models, **options: Any) -> Runner:
    return Runner(model_handlers(models), **options)


def embedding(name: str = "e", **rule: Any) -> EmbedOptions:
    return EmbedOptions(model=f"acme:{name}", **rule)


def handler(models: Models, request: Any) -> Any:
    found: Any = model_handlers(models)[type(request)]
    return found(request) if isinstance(request, Embed | Rerank) else found


ONCE = RetryPolicy(attempts=1)
HASTY = RunnerOptions(grace=0.1)
USER = [Message("user", "hello")]


def say(text: str) -> Flow[ChatReply]:
    return chat("acme:m", [Message("user", text)])


def test_chats_stream_complete_and_share_their_connections(server: ScriptedServer) -> None:
    server.play(lambda r: Reply(f"echo {r.prompt}", delay=0.01))
    deltas: list[str] = []
    with running(at(server, concurrency=3)) as runner:
        streamed = runner.run(chat("acme:m", USER, stream=True), sink=deltas.append)
        raw = runner.run(complete("acme:m", "Once upon", logprobs=0))
        replies = runner.run(gather(say(str(i)) for i in range(40)))
    assert "".join(deltas) == streamed.text == "echo hello"
    assert raw.text == "echo Once upon"
    assert raw.tokens
    assert [r.text for r in replies] == [f"echo {i}" for i in range(40)]
    assert server.max_in_flight == 3


# -- money ---------------------------------------------------------------------------------

PRICES: dict[str, Any] = {"price_in": 2.0, "price_out": 10.0}


@pytest.mark.parametrize(
    ("settings", "name", "usage", "price"),
    [
        ({}, "ollama:m", Usage(1, 1_000_000, 1_000_000), 0.0),  # a server on this machine is free
        ({}, "openai:gpt", Usage(1, 1_000_000, 1_000_000), None),
        ({"openai": PRICES}, "openai:gpt", Usage(1, 1_000_000, 1_000_000), 12.0),
        ({"openai": PRICES}, "openai:gpt", Usage(1, 1000, 100), 3e-3),
        ({"openai:e": {"price_in": 0.5}}, "openai:e", Usage(1, 2_000_000, 0), 1.0),
    ],
)
def test_prices(settings: dict[str, Any], name: str, usage: Usage, price: float | None) -> None:
    models = Models({entry: ModelSettings(**one) for entry, one in settings.items()})
    found = models.price(name, usage)
    assert found == (None if price is None else pytest.approx(price))
    request = Chat(name, ())
    assert handler(models, request).paid(request) is name.startswith("openai")
    assert Models().free("onnx:/somewhere")


def test_what_is_read_is_paid_for_and_only_what_failed_sent_again(server: ScriptedServer) -> None:
    failed: list[int] = []

    def shaky(request: ServerRequest) -> Reply:
        texts = request.body["input"]
        if len(texts) > 2:
            return Reply(error="batch size 6 > maximum allowed batch size 2", status=422)
        if "e" in texts and len(failed) < 2:
            failed.append(len(server.requests))
            return Reply("broken", status=503)
        return Reply(vectors=[[float(ord(t)), 1.0] for t in texts], usage=(100 * len(texts), 7))

    server.play(shaky)
    retry = RetryPolicy(attempts=3, base=0.001)
    with running(at(server, embedding(similarity="dot"), **PRICES), retry=retry) as runner:
        found = runner.run(embed("acme:e", list("abcdef")))
        assert runner.progress.cost == pytest.approx(1200e-6)
    assert found[:, 0].tolist() == [ord(c) for c in "abcdef"]
    sent = ["".join(r.body["input"]) for r in server.requests]
    assert sent == ["abcdef", "ab", "cd", "ef", "ef", "ef"]
    request = Rerank("acme:r", "q", ("p",))
    assert handler(at(server, **PRICES), request).price(request, Usage(1, 500_000, 9)) == 1.0


# -- requests per minute -------------------------------------------------------------------


def test_every_call_and_every_part_takes_a_place_in_the_minute(server: ScriptedServer) -> None:
    with running(at(server, requests_per_minute=1), options=HASTY) as runner:
        outcomes = runner.outcomes(say(text) for text in "ab")
        assert next(outcomes).state == "done"
        runner.interrupt()
        assert [outcome.state for outcome in outcomes] == ["skipped"]
    assert server.count == 1
    with running(at(server)) as runner:
        runner.run(embed("acme:e", [f"text {i}" for i in range(64)]))
    assert server.count == 2, "a group of the workbench is one call"
    with running(at(server, requests_per_minute=1), options=HASTY) as runner:

        def stop(_request: ServerRequest) -> str:
            threading.Timer(0.2, runner.interrupt).start()
            return "ok"

        server.play(stop)
        [outcome] = runner.outcomes([embed("acme:e", [f"text {i}" for i in range(97)])])
        assert outcome.state == "skipped"
    assert server.count == 3


@pytest.mark.slow
def test_waiting_for_a_place_does_not_eat_the_time_limit(server: ScriptedServer) -> None:
    with running(at(server, requests_per_minute=120, timeout=0.4), retry=ONCE) as runner:
        assert len(runner.run(gather(say(str(i)) for i in range(3)))) == 3


def test_a_place_is_asked_for_taken_and_given_back(server: ScriptedServer) -> None:
    request = Chat("acme:m", ())
    found = handler(at(server, requests_per_minute=60, timeout=10), request)

    async def waits() -> None:
        assert found.timeout(request) == found.timeout(request) == 10
        await found.pace("acme:m")
        assert 10.9 < found.timeout(request) <= 11.0
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(found.pace("acme:m"), 0.01)
        assert found.timeout(request) <= 11.0, "who gave up left no hole"

    asyncio.run(waits())


# -- identities ----------------------------------------------------------------------------


def test_what_decides_a_reply_is_in_the_identity_and_nothing_else(server: ScriptedServer) -> None:
    def identity(request: Any, options: EmbedOptions | None = None, **more: Any) -> str:
        return str(handler(at(server, options, **more), request).identity(request))

    chats = Chat("acme:m", ())
    different = [
        identity(chats),
        identity(Chat("acme:other", ())),
        identity(Chat("ollama:m", ())),
        identity(chats, params={"top_p": 0.1}),
    ]
    assert len(set(different)) == len(different)
    assert identity(chats, price_in=9.0) == identity(chats)
    texts, refuse = Embed("acme:e", ("a",)), embedding(long_texts="refuse")
    different = [
        identity(texts),
        identity(texts, params={"task": "retrieval.query"}),
        identity(texts, params={"task": "retrieval.passage"}),
        identity(texts, context_window=100),
        identity(texts, context_window=200),
        identity(texts, refuse, context_window=100),
        identity(texts, embedding(query_prefix="q: ")),
        identity(texts, embedding(dimensions=8)),
    ]
    assert len(set(different)) == len(different)
    assert identity(texts, refuse) == identity(texts), "without a window nothing is long"
    assert identity(texts, concurrency=2, price_in=1.0) == identity(texts)


# -- embeddings of servers -----------------------------------------------------------------


def test_remote_embedding_brings_prefixes_of_settings_or_family(server: ScriptedServer) -> None:
    models = at(server, embedding(query_prefix="q: ", passage_prefix="p: "))
    with running(models) as runner:
        passages = runner.run(embed("acme:e", ["a", "b", "c"], "passage"))
        query = runner.run(embed("acme:e", ["a"]))
    assert passages.shape == (3, query.shape[1])
    assert passages.dtype == np.float32
    assert np.allclose(np.linalg.norm(passages, axis=1), 1, atol=1e-6)
    with running(at(server, embedding("nomic-embed-text", dimensions=8))) as runner:
        assert runner.run(embed("acme:nomic-embed-text", ["a"])).shape == (1, 8)
    sent = [r.body["input"] for r in server.requests]
    assert sent == [["p: a", "p: b", "p: c"], ["q: a"], ["search_query: a"]]


def test_plain_vectors_are_read_and_ignored_dimensions_found_out(server: ScriptedServer) -> None:
    def plain_only(request: ServerRequest) -> Reply:
        if "encoding_format" in request.body:
            return Reply.unsupported("encoding_format")
        return Reply(vectors=[[3.0, 4.0]])

    server.play(plain_only)
    with running(at(server, embedding(similarity="dot"))) as runner:
        assert runner.run(embed("acme:e", ["a"])).tolist() == [[3.0, 4.0]]
    server.play(Reply(vectors=[[1.0, 2.0, 3.0]]))
    found_out = pytest.raises(ModelRefusedError, match="length 3")
    with running(at(server, embedding(dimensions=2))) as runner, found_out:
        runner.run(embed("acme:e", ["a"]))


def test_long_texts_for_a_server_are_pooled_or_refused(server: ScriptedServer) -> None:
    text = "alpha beta gamma delta " * 50
    with running(at(server, context_window=100)) as runner:
        (vector,) = runner.run(embed("acme:e", [text], "passage"))
    sent = server.requests[0].body["input"]
    assert len(sent) > 1
    assert "".join(sent) == text
    assert np.isclose(np.linalg.norm(vector), 1, atol=1e-6)
    strict = at(server, EmbedOptions(long_texts="refuse"), context_window=100)
    with running(strict) as runner, pytest.raises(ModelRefusedError, match="tokens"):
        runner.run(embed("acme:e", [text], "passage"))


# -- back ends of one's own ----------------------------------------------------------------


class Echo(ChatModel):
    identity = "echo"

    def __init__(self, name: str = "") -> None:
        self.name = name

    async def chat(self, request: Chat, on_delta: OnDelta | None = None) -> ChatReply:
        return ChatReply(f"{self.name}:{request.messages[-1].content}")


class Lengths(Embedder):
    identity = "lengths"
    dimensions = 2

    def embed_batch(self, texts: Sequence[str]) -> Matrix:
        return np.array([[len(t), 1] for t in texts], np.float32)


class Overlap(Reranker):
    identity = "overlap"
    scale = "words in common"

    def score(self, query: str, passages: Sequence[str]) -> Sequence[float]:
        wanted = set(query.split())
        return [len(wanted & set(p.split())) for p in passages][: len(passages) - (query == "cut")]


@pytest.fixture
def own() -> Models:
    here = f"{__name__}:Echo"
    settings = {"one": ModelSettings(backend=here), "group": ModelSettings(backend=here)}
    models = Models(settings, EmbedOptions(model="mine", query_prefix="??"))
    models.register("talk", Echo("me"))
    models.register("mine", Lengths())
    models.register("sort", Overlap())
    return models


def test_back_ends_that_are_registered_or_named_in_the_settings_are_used(own: Models) -> None:
    with running(own) as runner:
        for name, text in (("talk", "me:hello"), ("one", ":hello"), ("group:big", "big:hello")):
            assert runner.run(chat(name, USER)).text == text
        assert runner.run(embed("mine", ["abc", "a"]))[:, 0].tolist() == [5.0, 3.0]
        assert runner.run(rerank("sort", "red car", ["red car", "car", "x"])).scores == (2, 1, 0)
        passages = ["The car is red.", "It rains."]
        scores = runner.run(rerank("lexical", "What colour is the car?", passages)).scores
    assert scores[0] > scores[1], "one reranker works without any settings"


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: chat("sort", USER), ConfigError, "not a chat model"),
        (lambda: chat("onnx:/x", USER), ConfigError, "not a chat model"),
        (lambda: rerank("talk", "q", ["p"]), ConfigError, "not a reranking model"),
        (lambda: rerank("static:/x", "q", ["p"]), ConfigError, "not a reranking model"),
        (lambda: complete("talk", "x"), ModelRefusedError, "completions"),
        (lambda: embed("opnai:x", ["a"]), ConfigError, "opnai"),
        (lambda: rerank("sort", "cut", ["a", "b"]), PluginError, "1 score for 2"),
    ],
)
def test_a_model_of_the_wrong_kind_or_of_too_few_scores_is_told(
    own: Models, make: Callable[[], Flow[Any]], kind: type[Exception], words: str
) -> None:
    with running(own) as runner, pytest.raises(kind, match=words):
        runner.run(make())


@pytest.mark.parametrize("address", ["nowhere:Thing", f"{__name__}:USER", f"{__name__}:at"])
def test_a_plugin_that_fits_no_seam_is_refused(address: str) -> None:
    models = Models({"bad": ModelSettings(backend=address)})
    with running(models) as runner, pytest.raises(PluginError):
        runner.run(chat("bad", USER))
    with pytest.raises(PluginError):
        models.register("x", object())  # type: ignore[arg-type]


def test_one_bad_request_in_a_batch_spares_the_others(own: Models) -> None:
    flows = [embed("mine", ["a"]), embed("onnx:/nowhere", ["b"]), embed("mine", ["cc", "d"])]
    with running(own) as runner:
        good, bad, last = runner.run(gather(flows, settle=True))
    assert isinstance(bad, ConfigError)
    assert [getattr(vectors, "shape", None) for vectors in (good, last)] == [(1, 2), (2, 2)]


@pytest.mark.slow
def test_a_folder_keeps_its_settings_and_is_known_by_its_weights(minilm_onnx: Path) -> None:
    root, name, absolute = minilm_onnx.parent, f"onnx:{minilm_onnx.name}", f"onnx:{minilm_onnx}"
    models = Models(embed=EmbedOptions(model=name, query_prefix="find: "), root=root)
    with running(models) as runner:
        (vector,) = runner.run(embed(name, ["a red car"]))
        passages = runner.run(embed(name, ["a red car", "word " * 600], "passage"))
    embedder, tokenizer = models.embedder(name), models.tokenizer(name)
    assert embedder is not None
    assert models.embedder(name) is embedder
    assert vector.tobytes() == embedder.embed_batch(["find: a red car"])[0].tobytes()
    assert passages.shape == (2, embedder.dimensions)
    assert tokenizer is not None
    assert tokenizer.count("a red car") == 3
    assert models.vector_rule(name).query_prefix == "find: "
    identity = models.embedder_identity(name)
    assert str(root) not in identity
    elsewhere = Models(embed=EmbedOptions(model=absolute, query_prefix="find: "))
    assert elsewhere.embedder_identity(absolute) == identity, "weights, not where they lie"
    refusing = EmbedOptions(model=name, query_prefix="find: ", long_texts="refuse")
    assert Models(embed=refusing, root=root).embedder_identity(name) != identity
    assert Models().embedder_identity(absolute) != identity
    with pytest.raises(ConfigError):
        Models(root=root / "elsewhere").embedder(name)


# -- is a model usable? --------------------------------------------------------------------

LISTING = ["m", "llama3:latest"]


def test_whether_a_server_has_a_model_is_told_and_nothing_paid_for() -> None:
    with ScriptedServer(models=LISTING) as server:
        models = at(server)
        for name in ("acme:m", "acme:llama3"):
            assert check_model(models, name).state == "ok"
        other = check_model(models, "acme:other")
        assert (other.state, "llama3" in other.text) == ("warning", True)
        assert all(r.method == "GET" for r in server.requests)
    assert "cannot be reached" in check_model(models, "acme:m").text


@pytest.mark.parametrize(
    ("reply", "state", "words"),
    [
        (Reply(status=404), "warning", "no list"),
        (Reply.bad_key(), "error", "key"),
        (Reply(malformed="hang"), "error", "0.2 s"),
    ],
)
def test_a_server_without_a_list_is_told(desk: Desk, reply: Reply, state: str, words: str) -> None:
    models = Models({"acme": ModelSettings(base=desk.play(reply))})
    found = check_model(models, "acme:m", timeout=0.2)
    assert (found.state, words in found.text) == (state, True)


def test_a_missing_key_a_wrong_name_and_one_of_ones_own_are_told(
    own: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert "OPENAI_API_KEY" in check_model(Models(), "openai:gpt").text
    assert "openai" in check_model(Models(), "opnai:gpt").text
    assert check_model(Models(), "onnx:/nowhere").state == "error"
    own.register("lexical of mine", LexicalReranker())
    assert check_model(own, "lexical of mine").state == "ok"
