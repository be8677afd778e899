"""Models by name and their handlers, driven by the real runner."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragwright.core import ConfigError, ModelRefusedError, ModelReplyError, PluginError, Usage
from ragwright.flow import (
    Chat,
    ChatReply,
    Embed,
    Message,
    OnDelta,
    Rerank,
    RetryPolicy,
    Runner,
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
    Matrix,
    Models,
    ModelSettings,
    Reranker,
    model_handlers,
)
from ragwright.testing import Reply, ScriptedServer, ServerRequest


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(lambda r: f"echo {r.prompt}") as running:
        yield running


def priced(server: ScriptedServer, embed: EmbedOptions | None = None, **more: Any) -> Models:
    return Models({"acme": ModelSettings(base=server.url, **more)}, embed)


def embedding(name: str = "e", **rule: Any) -> EmbedOptions:
    return EmbedOptions(model=f"acme:{name}", **rule)


ONCE = RetryPolicy(attempts=1)
USER = [Message("user", "hello")]


def test_a_chat_goes_through_the_runner(server: ScriptedServer) -> None:
    models = priced(server, price_in=2.0, price_out=10.0)
    server.play(Reply("hi", usage=(1000, 100)))
    with Runner(model_handlers(models)) as runner:
        reply = runner.run(chat("acme:m", USER))
    assert reply.text == "hi"
    assert reply.usage.cost == pytest.approx(1000 * 2e-6 + 100 * 10e-6)


@pytest.mark.slow
def test_chats_stream_complete_and_share_connections(server: ScriptedServer) -> None:
    models = priced(server)
    deltas: list[str] = []
    with Runner(model_handlers(models)) as runner:
        streamed = runner.run(chat("acme:m", USER, stream=True), sink=deltas.append)
        raw = runner.run(complete("acme:m", "Once upon", logprobs=0))
        replies = runner.run(gather(chat("acme:m", [Message("user", str(i))]) for i in range(40)))
    assert "".join(deltas) == streamed.text == "echo hello"
    assert raw.text == "echo Once upon"
    assert raw.tokens
    assert [r.text for r in replies] == [f"echo {i}" for i in range(40)]


def test_concurrency_of_the_settings_holds(server: ScriptedServer) -> None:
    server.play(Reply("ok", delay=0.05))
    models = priced(server, concurrency=3)
    with Runner(model_handlers(models)) as runner:
        runner.run(gather(chat("acme:m", [Message("user", str(i))]) for i in range(12)))
    assert server.max_in_flight <= 3


def test_requests_per_minute_keep_their_distance(server: ScriptedServer) -> None:
    models = priced(server, requests_per_minute=1)
    with Runner(model_handlers(models)) as runner:
        outcomes = runner.outcomes(chat("acme:m", [Message("user", text)]) for text in "ab")
        assert next(outcomes).state == "done"
        runner.interrupt()
        assert [outcome.state for outcome in outcomes] == ["skipped"]
    assert server.count == 1


def test_prices(server: ScriptedServer) -> None:
    usage = Usage(1, 1_000_000, 1_000_000)
    assert priced(server).price("acme:m", usage) == 0.0, "a server on this machine is free"
    assert priced(server, price_in=1.0, price_out=2.0).price("acme:m", usage) == 3.0
    assert Models().price("openai:gpt", usage) is None
    embedder = Models({"openai:e": ModelSettings(price_in=0.5)})
    assert embedder.price("openai:e", Usage(1, 2_000_000, 0)) == 1.0
    assert Models().free("onnx:/somewhere")


def test_models_that_write_nothing_are_paid_for_what_they_read(server: ScriptedServer) -> None:
    def vectors(_: Any) -> Reply:
        return Reply(vectors=[[1.0, 0.0]], usage=(1_000_000, 7))

    server.play(vectors)
    with Runner(model_handlers(priced(server, price_in=0.5))) as runner:
        runner.run(embed("acme:e", ["a"]))
        assert runner.progress.cost == pytest.approx(0.5)
    handlers: Any = model_handlers(Models({"openai:r": ModelSettings(price_in=2.0)}))
    request = Rerank("openai:r", "q", ("p",))
    assert handlers[Rerank](request).price(request, Usage(1, 500_000, 9)) == 1.0


def test_a_retry_sends_only_the_part_that_failed(server: ScriptedServer) -> None:
    failed: list[int] = []

    def shaky(request: Any) -> Reply:
        texts = request.body["input"]
        if len(texts) > 2:
            return Reply(error="batch size 6 > maximum allowed batch size 2", status=422)
        if "e" in texts and len(failed) < 2:
            failed.append(len(server.requests))
            return Reply("broken", status=503)
        return Reply(vectors=[[float(ord(t)), 1.0] for t in texts], usage=(100 * len(texts), 0))

    server.play(shaky)
    models = priced(server, embedding(similarity="dot"), price_in=1.0)
    retry = RetryPolicy(attempts=3, base=0.001)
    with Runner(model_handlers(models), retry=retry) as runner:
        found = runner.run(embed("acme:e", list("abcdef")))
        assert runner.progress.cost == pytest.approx(600e-6)
    assert found[:, 0].tolist() == [ord(c) for c in "abcdef"]
    sent = ["".join(r.body["input"]) for r in server.requests]
    assert sent == ["abcdef", "ab", "cd", "ef", "ef", "ef"]


def test_a_group_of_the_workbench_is_one_call(server: ScriptedServer) -> None:
    with Runner(model_handlers(priced(server))) as runner:
        runner.run(embed("acme:e", [f"text {i}" for i in range(64)]))
    assert len(server.requests) == 1


def test_every_call_of_an_embedding_takes_a_place_in_the_minute(server: ScriptedServer) -> None:
    models = priced(server, requests_per_minute=1)
    with Runner(model_handlers(models)) as runner:

        def stop(_request: ServerRequest) -> str:
            threading.Timer(0.2, runner.interrupt).start()
            return "ok"

        server.play(stop)
        [outcome] = runner.outcomes([embed("acme:e", [f"text {i}" for i in range(97)])])
        assert outcome.state == "skipped"
    assert server.count == 1


@pytest.mark.slow
def test_waiting_for_a_place_does_not_eat_the_time_limit(server: ScriptedServer) -> None:
    models = priced(server, requests_per_minute=120, timeout=0.4)
    with Runner(model_handlers(models), retry=ONCE) as runner:
        found = runner.run(gather(chat("acme:m", [Message("user", str(i))]) for i in range(3)))
    assert len(found) == 3


def test_a_place_is_asked_for_taken_and_given_back(server: ScriptedServer) -> None:
    request = Chat("acme:m", ())
    models = priced(server, requests_per_minute=60, timeout=10)
    handler: Any = model_handlers(models)[Chat]

    async def waits() -> None:
        assert handler.timeout(request) == handler.timeout(request) == 10
        await handler.pace("acme:m")
        assert 10.9 < handler.timeout(request) <= 11.0
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(handler.pace("acme:m"), 0.01)
        assert handler.timeout(request) <= 11.0, "who gave up left no hole"

    asyncio.run(waits())


def test_paid_or_not() -> None:
    handler: Any = model_handlers(Models())[Chat]
    assert handler.paid(Chat("openai:gpt", ()))
    assert not handler.paid(Chat("ollama:llama3", ()))


def test_identities_tell_servers_models_and_parameters_apart(server: ScriptedServer) -> None:
    def identity(models: Models, name: str) -> str:
        handler: Any = model_handlers(models)[Chat]
        return str(handler.identity(Chat(name, ())))

    plain = priced(server)
    names = {
        identity(plain, "acme:m"),
        identity(plain, "acme:other"),
        identity(plain, "ollama:m"),
        identity(priced(server, params={"top_p": 0.1}), "acme:m"),
    }
    assert len(names) == 4
    assert identity(priced(server, price_in=9.0), "acme:m") == identity(plain, "acme:m")


def test_what_decides_the_vectors_of_a_server_is_in_the_identity(server: ScriptedServer) -> None:
    def identity(embed: EmbedOptions | None = None, **more: Any) -> str:
        models = priced(server, embed, **more)
        handler: Any = model_handlers(models)[Embed]
        request = Embed("acme:e", ("a",))
        return str(handler(request).identity(request))

    found = [
        identity(),
        identity(params={"task": "retrieval.query"}),
        identity(params={"task": "retrieval.passage"}),
        identity(context_window=100),
        identity(context_window=200),
        identity(embedding(long_texts="refuse"), context_window=100),
        identity(embedding(query_prefix="q: ")),
        identity(embedding(dimensions=8)),
    ]
    assert len(set(found)) == len(found)
    refusing = identity(embedding(long_texts="refuse"))
    assert refusing == identity(), "without a window nothing is long"
    assert identity(concurrency=2, price_in=1.0) == identity()


def test_remote_embedding(server: ScriptedServer) -> None:
    models = priced(server, embedding(query_prefix="q: ", passage_prefix="p: "))
    with Runner(model_handlers(models)) as runner:
        passages = runner.run(embed("acme:e", ["a", "b", "c"], "passage"))
        query = runner.run(embed("acme:e", ["a"]))
    assert passages.shape == (3, query.shape[1])
    assert passages.dtype == np.float32
    assert np.allclose(np.linalg.norm(passages, axis=1), 1, atol=1e-6)
    assert [r.body["input"] for r in server.requests] == [["p: a", "p: b", "p: c"], ["q: a"]]


def test_remote_embedding_knows_families_and_dimensions(server: ScriptedServer) -> None:
    models = priced(server, embedding("nomic-embed-text", dimensions=8))
    with Runner(model_handlers(models)) as runner:
        vectors = runner.run(embed("acme:nomic-embed-text", ["a"]))
    assert vectors.shape == (1, 8)
    assert server.requests[0].body["input"] == ["search_query: a"]


def test_vectors_as_plain_numbers_are_read_too(server: ScriptedServer) -> None:
    def plain_only(request: Any) -> Reply:
        if "encoding_format" in request.body:
            return Reply.unsupported("encoding_format")
        return Reply(vectors=[[3.0, 4.0]])

    server.play(plain_only)
    models = priced(server, embedding(similarity="dot"))
    with Runner(model_handlers(models)) as runner:
        assert runner.run(embed("acme:e", ["a"])).tolist() == [[3.0, 4.0]]


@pytest.mark.parametrize(
    "reply",
    [
        Reply(malformed="no_choices"),
        Reply(vectors=[[1.0, 2.0], [1.0, 2.0]]),
        Reply(vectors=[[float("nan"), 1.0]]),
        Reply(vectors=[[]]),
        Reply(malformed="json"),
    ],
    ids=["none", "too many", "not finite", "empty", "not json"],
)
def test_wrong_vectors_are_refused(reply: Reply, server: ScriptedServer) -> None:
    server.play(reply)
    with (
        Runner(model_handlers(priced(server)), retry=ONCE) as runner,
        pytest.raises(ModelReplyError),
    ):
        runner.run(embed("acme:e", ["a"]))


def test_a_server_that_ignores_dimensions_is_found_out(server: ScriptedServer) -> None:
    server.play(Reply(vectors=[[1.0, 2.0, 3.0]]))
    with (
        Runner(model_handlers(priced(server, embedding(dimensions=2)))) as runner,
        pytest.raises(ModelRefusedError, match="length 3"),
    ):
        runner.run(embed("acme:e", ["a"]))


def test_long_texts_for_a_server_are_pooled_or_refused(server: ScriptedServer) -> None:
    text = "alpha beta gamma delta " * 50
    models = priced(server, context_window=100)
    with Runner(model_handlers(models)) as runner:
        (vector,) = runner.run(embed("acme:e", [text], "passage"))
    sent = server.requests[0].body["input"]
    assert len(sent) > 1
    assert "".join(sent) == text
    assert np.isclose(np.linalg.norm(vector), 1, atol=1e-6)
    strict = Models(
        {"acme": ModelSettings(base=server.url, context_window=100)},
        EmbedOptions(long_texts="refuse"),
    )
    with Runner(model_handlers(strict)) as runner, pytest.raises(ModelRefusedError, match="tokens"):
        runner.run(embed("acme:e", [text], "passage"))


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
        return [len(wanted & set(p.split())) for p in passages]


def test_registered_back_ends_are_used() -> None:
    models = Models(embed=EmbedOptions(model="mine", query_prefix="??"))
    models.register("talk", Echo("me"))
    models.register("mine", Lengths())
    models.register("sort", Overlap())
    with Runner(model_handlers(models)) as runner:
        assert runner.run(chat("talk", USER)).text == "me:hello"
        assert runner.run(embed("mine", ["abc", "a"]))[:, 0].tolist() == [5.0, 3.0]
        assert runner.run(rerank("sort", "red car", ["red car", "car", "x"])).scores == (2, 1, 0)


def test_one_reranker_works_without_any_settings() -> None:
    with Runner(model_handlers(Models())) as runner:
        scores = runner.run(
            rerank("lexical", "What colour is the car?", ["The car is red.", "It rains."])
        ).scores
    assert scores[0] > scores[1]


def test_plugins_come_from_the_settings() -> None:
    here = f"{__name__}:Echo"
    models = Models({"one": ModelSettings(backend=here), "group": ModelSettings(backend=here)})
    with Runner(model_handlers(models)) as runner:
        assert runner.run(chat("one", USER)).text == ":hello"
        assert runner.run(chat("group:big", USER)).text == "big:hello"


@pytest.mark.parametrize("address", ["nowhere:Thing", f"{__name__}:USER", f"{__name__}:priced"])
def test_a_plugin_that_fits_no_seam_is_refused(address: str) -> None:
    models = Models({"bad": ModelSettings(backend=address)})
    with Runner(model_handlers(models)) as runner, pytest.raises(PluginError):
        runner.run(chat("bad", USER))


def test_a_model_of_the_wrong_kind_is_told() -> None:
    models = Models()
    models.register("sort", Overlap())
    models.register("talk", Echo())
    with Runner(model_handlers(models)) as runner:
        with pytest.raises(ConfigError, match="not a chat model"):
            runner.run(chat("sort", USER))
        with pytest.raises(ConfigError, match="not a chat model"):
            runner.run(chat("onnx:/x", USER))
        with pytest.raises(ConfigError, match="not a reranking model"):
            runner.run(rerank("talk", "q", ["p"]))
        with pytest.raises(ConfigError, match="not a reranking model"):
            runner.run(rerank("static:/x", "q", ["p"]))
        with pytest.raises(ModelRefusedError, match="completions"):
            runner.run(complete("talk", "x"))
        with pytest.raises(ConfigError, match="opnai"):
            runner.run(embed("opnai:x", ["a"]))
    with pytest.raises(PluginError):
        models.register("x", object())  # type: ignore[arg-type]


def test_one_bad_request_in_a_batch_spares_the_others() -> None:
    models = Models()
    models.register("len", Lengths())
    flows = [embed("len", ["a"]), embed("onnx:/nowhere", ["b"]), embed("len", ["cc", "d"])]
    with Runner(model_handlers(models)) as runner:
        good, bad, last = runner.run(gather(flows, settle=True))
    assert isinstance(bad, ConfigError)
    assert [getattr(vectors, "shape", None) for vectors in (good, last)] == [(1, 2), (2, 2)]


@pytest.mark.slow
def test_local_embedding_through_the_runner(minilm_onnx: Path) -> None:
    name = f"onnx:{minilm_onnx}"
    models = Models(embed=EmbedOptions(model=name, passage_prefix="", query_prefix="find: "))
    with Runner(model_handlers(models)) as runner:
        (vector,) = runner.run(embed(name, ["a red car"]))
        passages = runner.run(embed(name, ["a red car", "word " * 600], "passage"))
    embedder = models.embedder(name)
    assert embedder is not None
    assert vector.tobytes() == embedder.embed_batch(["find: a red car"])[0].tobytes()
    assert passages.shape == (2, embedder.dimensions)
    tokenizer = models.tokenizer(name)
    assert tokenizer is not None
    assert tokenizer.count("a red car") == 3
    assert models.embedder(name) is embedder
    plain = Models().embedder_identity(name)
    assert plain != models.embedder_identity(name)


@pytest.mark.slow
def test_a_relative_folder_keeps_its_name_and_its_settings(minilm_onnx: Path) -> None:
    root, name = minilm_onnx.parent, f"onnx:{minilm_onnx.name}"
    models = Models(embed=EmbedOptions(model=name, query_prefix="find: "), root=root)
    with Runner(model_handlers(models)) as runner:
        (vector,) = runner.run(embed(name, ["a red car"]))
    embedder = models.embedder(name)
    assert embedder is not None
    assert vector.tobytes() == embedder.embed_batch(["find: a red car"])[0].tobytes()
    assert models.vector_rule(name).query_prefix == "find: "
    identity = models.embedder_identity(name)
    assert str(root) not in identity
    absolute = f"onnx:{minilm_onnx}"
    elsewhere = Models(embed=EmbedOptions(model=absolute, query_prefix="find: "))
    assert elsewhere.embedder_identity(absolute) == identity, "weights, not where they lie"
    refusing = EmbedOptions(model=name, query_prefix="find: ", long_texts="refuse")
    strict = Models(embed=refusing, root=root)
    assert strict.embedder_identity(name) != identity
    with pytest.raises(ConfigError):
        Models(root=root / "elsewhere").embedder(name)


def test_rerank_needs_as_many_scores_as_passages() -> None:
    class Short(Overlap):
        def score(self, query: str, passages: Sequence[str]) -> Sequence[float]:
            return [1.0]

    models = Models()
    models.register("short", Short())
    request = Rerank("short", "q", ("a", "b"))
    handler: Any = model_handlers(models)[Rerank](request)  # type: ignore[operator]
    (reply,) = handler.reply_to([request])
    assert isinstance(reply, PluginError)
