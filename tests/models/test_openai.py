"""The OpenAI-compatible client: what it sends, and what it makes of replies of every form."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from model_desk import REQUESTS, Desk, always, desk, question
from raw_server import Raw, chat_reply, events
from waiting import wait_until

from ragwright.core import ModelReplyError
from ragwright.flow import Budget, Chat, Complete, Message, Rerank, Runner, chat
from ragwright.models import (
    ChatModel,
    Models,
    ModelSettings,
    OpenAIChat,
    model_handlers,
)
from ragwright.testing import ChatModelSuite, Reply, ServerRequest

__all__ = ["desk"]

END = {"choices": [{"delta": {}, "finish_reason": "stop"}]}


class TestConforms(ChatModelSuite):
    @pytest.fixture(autouse=True)
    def _serve(self, desk: Desk) -> None:
        self._name = f"{desk.play('ok')}#m"

    def make(self) -> ChatModel:
        return OpenAIChat(Models().target(self._name))


# -- what is sent --------------------------------------------------------------------------


def test_the_server_sees_messages_and_parameters_those_of_a_request_first(desk: Desk) -> None:
    asked = question(params={"temperature": 0.0, "stop": ("END", "STOP"), "seed": 9})
    desk.ask("ok", asked, params={"seed": 3, "top_p": 0.5})
    (seen,) = desk.scripted.requests
    assert seen.path == "/v1/chat/completions"
    assert seen.body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is it?"},
    ]
    wanted = {"temperature": 0.0, "stop": ["END", "STOP"], "seed": 9, "top_p": 0.5}
    assert {name: seen.body[name] for name in wanted} == wanted


def test_a_schema_is_sent_as_response_format(desk: Desk) -> None:
    closed = '{"type":"object","properties":{"a":{}},"required":["a"],"additionalProperties":false}'
    titled = '{"title": "My reply", "type": "object"}'
    desk.ask("ok", question(schema=closed), question(schema=titled))
    formats = [r.body["response_format"]["json_schema"] for r in desk.scripted.requests]
    assert [f["strict"] for f in formats] == [True, True]
    assert formats[1]["name"] == "My_reply"


def test_a_completion_carries_log_probabilities(desk: Desk) -> None:
    request = Complete("", "The cat sat", (("echo", True), ("max_tokens", 1)), logprobs=1)
    reply = desk.ask(Reply("on the mat", usage=(3, 3)), request)
    assert reply.text == "The cat saton the mat"
    assert [token for token, _ in reply.tokens] == [" cat", " saton", " the", " mat"]
    assert all(score <= 0 for _, score in reply.tokens)
    assert desk.scripted.requests[0].path == "/v1/completions"


@pytest.mark.slow
def test_many_calls_run_side_by_side_and_a_cancelled_one_spares_the_others(desk: Desk) -> None:
    gate = threading.Event()

    def held(request: ServerRequest) -> Reply:
        if request.in_flight == 100:
            gate.set()
        return Reply("ok", held=gate, delay=600 if request.prompt == "slow" else 0.0)

    name = f"{desk.play(held)}#m"

    async def main() -> None:
        client = OpenAIChat(Models().target(name))
        slow = asyncio.create_task(client.chat(question("slow")))
        replies = await asyncio.gather(*(client.chat(question(str(i))) for i in range(200)))
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        assert len(replies) == 200
        assert (await client.chat(question("quick"))).text == "ok"
        await client.aclose()

    asyncio.run(main())
    wait_until(lambda: desk.scripted.in_flight == 0)


# -- replies -------------------------------------------------------------------------------

PLAIN = "It is a car."


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("reply", "text", "tokens"),
    [
        (Reply(PLAIN, usage=(7, 4), finish="length"), PLAIN, (7, 4)),
        (Reply("x" * 40, usage=None), "x" * 40, (105, 10)),
        (Reply(""), "", None),
    ],
    ids=["plain", "without usage", "empty"],
)
def test_a_reply_carries_text_usage_finish_and_model(
    desk: Desk, reply: Reply, text: str, tokens: tuple[int, int] | None, stream: bool
) -> None:
    shown: list[str] = []
    found = desk.ask(reply, question("y" * 400, stream), heard=shown.append)
    assert (found.text, found.finish, found.model) == (text, reply.finish, "m")
    assert (found.usage.calls, found.dropped) == (1, ())
    if tokens:
        assert found.usage.prompt_tokens == pytest.approx(tokens[0], abs=15 * (not reply.usage))
        assert found.usage.completion_tokens == tokens[1]
    assert "".join(shown) == (text if stream else "")
    assert not stream or text != PLAIN or len(shown) > 1


def test_content_that_is_null_or_in_parts_is_text(desk: Desk) -> None:
    assert desk.ask(Reply(malformed="null_content"), question()).text == ""
    parts: Any = [{"type": "thinking", "thinking": "…"}, {"text": "yes"}]
    assert desk.ask(Reply(parts), question()).text == "yes"


def test_servers_that_stream_in_their_own_way_are_understood(desk: Desk) -> None:
    def optionless(request: ServerRequest) -> Reply:
        name = "stream_options"
        return Reply.unsupported(name) if name in request.body else Reply("one two")

    def whole(request: ServerRequest) -> Reply:
        request.body["stream"] = False
        return Reply("at once")

    shown: list[str] = []
    reply = desk.ask(optionless, question("x" * 80, stream=True), heard=shown.append)
    assert reply.text == "".join(shown) == "one two"
    assert reply.dropped == (), "it is ours, not the caller's"
    assert reply.usage.prompt_tokens >= 20
    shown.clear()
    reply = desk.ask(whole, question(stream=True), heard=shown.append)
    assert [reply.text] == shown == ["at once"]
    wrong = {"index": 1, "delta": {"content": "WRONG"}}
    right = {"index": 0, "delta": {"content": "right"}, "finish_reason": "stop"}
    assert desk.ask(events({"choices": [wrong, right]}), question(stream=True)).text == "right"
    cut = Raw(b'data: {"choices": [{"delta": {"content": "x"}}]}', kind="text/event-stream")
    assert isinstance(desk.ask(cut, question(stream=True)), ModelReplyError)
    endless = events({"choices": [{"delta": {"content": PLAIN}, "finish_reason": None}]})
    reply = desk.ask(endless, question(stream=True))
    assert (reply.text, reply.finish) == (PLAIN, "stop")
    assert reply.notes == ("the stream ended without a finish reason",)


@pytest.mark.parametrize(
    "count", ["-1000000", "1e308", "NaN", '"10"', "true", "1.5", "9" * 400, "[1]", "1000000000"]
)
def test_tokens_that_cannot_be_are_estimated_with_a_note(desk: Desk, count: str) -> None:
    usage = f'{{"prompt_tokens": {count}, "completion_tokens": {count}}}'.encode()
    request = Chat("", (Message("user", "How far?"),))
    raw = Raw(chat_reply("x" * 40, usage=7).replace(b"7", usage))
    name = f"{desk.play(always(raw))}#m"
    models = Models({name: ModelSettings(price_in=1.0, price_out=1.0)})
    with Runner(model_handlers(models), budget=Budget(1.0)) as runner:
        reply = runner.run(chat(name, request.messages))
        assert runner.budget.spent == pytest.approx(12e-6)  # no negative usage feeds the budget
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (2, 10)
    assert reply.notes == (
        "the server's prompt_tokens and completion_tokens cannot be right: estimated",
    )


# -- thought -------------------------------------------------------------------------------

ANSWER = "Every two years, says [1]."
THOUGHT = "The user asks.\nMaybe 5 years? Passage [2] says so."
HARMONY = f"<|channel|>analysis<|message|>{THOUGHT}<|end|>"

MARKED = {
    "think": f"<think>\n{THOUGHT}\n</think>\n\n{ANSWER}",
    "thinking": f"<Thinking>{THOUGHT}</Thinking>{ANSWER}",
    "bracket": f"[THINK]{THOUGHT}[/THINK]{ANSWER}",
    "seed": f"<seed:think>{THOUGHT}</seed:think>{ANSWER}",
    "thought": f"<thought>{THOUGHT}</thought>\n{ANSWER}",
    "kimi": f"◁think▷{THOUGHT}◁/think▷{ANSWER}",
    "closing": f"{THOUGHT}\n</think>\n\n{ANSWER}",
    "closing bracket": f"{THOUGHT}[/THINK]{ANSWER}",
    "harmony": f"{HARMONY}<|start|>assistant<|channel|>final<|message|>{ANSWER}<|return|>",
    "harmony with a call": f"<|start|>assistant{HARMONY}<|start|>assistant<|channel|>commentary "
    f"to=f.x <|constrain|>json<|message|>{{}}<|call|>"
    f"<|start|>assistant<|channel|>final<|message|>{ANSWER}",
    "harmony without marks": f"analysis{THOUGHT}assistantfinal{ANSWER}",
    "command": f"<|START_THINKING|>{THOUGHT}<|END_THINKING|>"
    f"<|START_RESPONSE|>{ANSWER}<|END_RESPONSE|>",
    "sky": f"<|begin_of_thought|>{THOUGHT}<|end_of_thought|>\n"
    f"<|begin_of_solution|>{ANSWER}<|end_of_solution|>",
    "hunyuan": f"<think>\n{THOUGHT}\n</think>\n<answer>\n{ANSWER}\n</answer>",
    "granite": f"Here is my thought process:\n{THOUGHT}\nHere is my response:\n{ANSWER}",
    "gemma": f"<|channel>thought\n{THOUGHT}<channel|>{ANSWER}",
    "details": f'<details type="reasoning" done="true">{THOUGHT}</details>\n{ANSWER}',
    "two": f"<think>a</think>\n<think>{THOUGHT}</think>{ANSWER}",
    "empty": f"<think>\n\n</think>\n\n{ANSWER}",
    "special tokens": f"<|im_start|>assistant\n{ANSWER}<|im_end|><|endoftext|>",
    "llama": f"<|start_header_id|>assistant<|end_header_id|>\n\n{ANSWER}<|eot_id|>",
    "deepseek": f"{ANSWER}<｜end▁of▁sentence｜>",
    "end of sentence": f"{ANSWER}</s>\n",
}
QUOTED = (
    "Put it between `<think>` and `</think>`.",
    'Models write "</think>" at the end.',
    "```xml\n<think>so</think>\n```\nThis is the form.",
    "Where a < b, [1] and [2] hold; <b>bold</b> is HTML.",
    "Let me say it: 5 [1].",
    "Okay, it is 5 <",
)
UNENDED = [f"{mark}{THOUGHT}" for mark in ("<think>", "[THINK]", HARMONY[:31])]
THOUGHTS = [
    *((text, ANSWER, "stop") for text in MARKED.values()),
    *((text, text, "stop") for text in QUOTED),
    *((text, "", "length") for text in UNENDED),
]


@pytest.mark.parametrize("size", [0, 1, 5], ids=str)
@pytest.mark.parametrize(
    ("sent", "text", "finish"), THOUGHTS, ids=[*MARKED, *QUOTED, *(t[:10] for t in UNENDED)]
)
def test_thoughts_and_marks_are_no_part_of_a_reply_unless_quoted(
    desk: Desk, sent: str, text: str, finish: str, size: int
) -> None:
    parts = [sent[at : at + size] for at in range(0, len(sent), size)] if size else []
    deltas = [{"choices": [{"delta": {"content": part}}]} for part in parts]
    shown: list[str] = []
    raw = events(*deltas, END) if size else Raw(chat_reply(sent))
    reply = desk.ask(raw, question(stream=bool(size)), heard=shown.append)
    assert (reply.text.strip() if text == ANSWER else reply.text) == text
    assert reply.finish == finish
    assert "".join(shown) == (reply.text if size else "")
    assert reply.notes == (("the reply ended within the model's thought",) * (finish == "length"))


def test_a_model_that_marks_only_the_end_is_held_back_from_then_on(desk: Desk) -> None:
    text = f"It may be five.\n</think>\n{ANSWER}"
    chunks = [{"choices": [{"delta": {"content": text[i : i + 6]}}]} for i in range(0, 60, 6)]
    shown: list[str] = []
    asked = question(stream=True)
    first, second = desk.ask(always(events(*chunks, END)), asked, asked, heard=shown.append)
    assert first.text == second.text == ANSWER
    assert "".join(shown).count(ANSWER) == 2
    assert "".join(shown).count("five") == 1, "what the second thinks is not shown"
    assert "its next replies are held back" in first.notes[0]
    assert not second.notes


@pytest.mark.parametrize(
    ("message", "finish", "text", "end"),
    [
        ({"content": None, "refusal": "I cannot."}, "stop", "I cannot.", "refusal"),
        ({"content": "", "tool_calls": [{"id": "a"}]}, "tool_calls", "", "tool_calls"),
        ({"content": "Part of", "refusal": None}, "length", "Part of", "length"),
        ({"content": "Part of"}, "SAFETY", "Part of", "content_filter"),
        ({"content": ANSWER, "reasoning_content": THOUGHT}, "stop", ANSWER, "stop"),
        ({"content": "", "reasoning_content": THOUGHT}, "stop", "", "stop"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_replies_without_an_answer_are_typed_and_keep_their_text(
    desk: Desk, message: dict[str, Any], finish: str, text: str, end: str, stream: bool
) -> None:
    choice = {"message": message, "finish_reason": finish}
    deltas = [{"choices": [{"delta": {name: part}}]} for name, part in message.items()]
    last = {"choices": [{"delta": {}, "finish_reason": finish}]}
    sent = events(*deltas, last) if stream else Raw(json.dumps({"choices": [choice]}).encode())
    reply = desk.ask(sent, question(stream=stream))
    assert (reply.text, reply.finish) == (text, end)


# -- vectors and scores --------------------------------------------------------------------

GOOD = [[1.0, 0.0, 0.5], [0.2, 0.9, 0.1]]


def entries(vectors: Any, indices: Any = (0, 1)) -> list[dict[str, Any]]:
    return [{"index": i, "embedding": v} for i, v in zip(indices, vectors, strict=True)]


def embedded(desk: Desk, vectors: Any) -> Any:
    return desk.ask(Raw(json.dumps({"data": vectors}).encode()), REQUESTS["embed"])


def test_vectors_come_in_the_order_of_their_indices(desk: Desk) -> None:
    backwards = embedded(desk, entries(GOOD[::-1], (1, 0))).vectors
    assert backwards.shape == (2, 3)
    assert (backwards == embedded(desk, entries(GOOD)).vectors).all()
    assert (backwards == embedded(desk, [{"embedding": v} for v in GOOD]).vectors).all()


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
        (entries([*GOOD, GOOD[0]], (0, 1, 2)), "3 vectors for 2 texts"),
        ("x", "0 vectors for 2 texts"),
    ],
)
def test_vectors_that_cannot_be_searched_are_refused(desk: Desk, vectors: Any, words: str) -> None:
    error = embedded(desk, vectors)
    assert isinstance(error, ModelReplyError), repr(error)
    assert words in str(error)


def scored(*scores: Any, indices: Any = (0, 1), **more: Any) -> list[dict[str, Any]]:
    return [
        {"index": i, "relevance_score": s, **more} for i, s in zip(indices, scores, strict=True)
    ]


def test_scores_come_in_the_order_of_the_passages_and_are_paid_for(desk: Desk) -> None:
    body = json.dumps({"results": scored(0.9, 0.1, indices=(1, 0))}).encode()
    assert desk.ask(Raw(body), REQUESTS["rerank"]).scores == (0.1, 0.9)
    passages = ("it rains", "the red car", "a car")
    reply = desk.ask("ok", Rerank("", "the red car", passages), price_in=1.0)
    assert reply.scores.index(max(reply.scores)) == 1
    assert reply.scores[0] == min(reply.scores)
    assert reply.usage.prompt_tokens == 42
    assert reply.usage.cost == pytest.approx(42e-6)
    assert desk.scripted.requests[0].path.endswith("/rerank")


@pytest.mark.parametrize(
    "results",
    [
        *(scored(0.5, 0.4, indices=two) for two in ((0, 0), (-1, -2), (False, True), (1, 7))),
        *(scored(*two) for two in (("0.5", "0.4"), (True, False), (10**400, 0.1), (None, 0.1))),
        *(scored(float(number), 0.1) for number in ("nan", "inf")),
        *(scored(0.5, 0.4, document=other) for other in ({"text": "a whale"}, "a bear")),
        scored(0.5, indices=(0,)),
        [*scored(0.5, 0.4), *scored(0.1, indices=(2,))],
        *(["x", "y"], {"a": 1}, None, b"null"),
    ],
)
def test_scores_that_cannot_be_used_are_a_bad_reply(desk: Desk, results: Any) -> None:
    body = results if isinstance(results, bytes) else json.dumps({"results": results}).encode()
    assert isinstance(desk.ask(Raw(body), REQUESTS["rerank"]), ModelReplyError)
