"""What a reasoning model thinks is no part of its reply, whole or streamed, whatever its marks."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from raw_server import Raw, chat_reply, events, raw_server

from ragwright.flow import Chat, ChatReply, Message
from ragwright.models import Models, OpenAIChat, drop_thought

ANSWER = "Every two years, says [1]."
THOUGHT = "The user asks.\nMaybe 5 years? Passage [2] says so."

MARKED = {
    "think": f"<think>\n{THOUGHT}\n</think>\n\n{ANSWER}",
    "thinking": f"<Thinking>{THOUGHT}</Thinking>{ANSWER}",
    "bracket": f"[THINK]{THOUGHT}[/THINK]{ANSWER}",
    "seed": f"<seed:think>{THOUGHT}</seed:think>{ANSWER}",
    "thought": f"<thought>{THOUGHT}</thought>\n{ANSWER}",
    "kimi": f"◁think▷{THOUGHT}◁/think▷{ANSWER}",
    "closing": f"{THOUGHT}\n</think>\n\n{ANSWER}",
    "closing bracket": f"{THOUGHT}[/THINK]{ANSWER}",
    "harmony": f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant"
    f"<|channel|>final<|message|>{ANSWER}<|return|>",
    "harmony with a call": f"<|start|>assistant<|channel|>analysis<|message|>{THOUGHT}<|end|>"
    f"<|start|>assistant<|channel|>commentary to=f.x <|constrain|>json<|message|>{{}}<|call|>"
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

PLAIN = (
    "Put it between `<think>` and `</think>`.",
    'Models write "</think>" at the end.',
    "```xml\n<think>so</think>\n```\nThis is the form.",
    "Where a < b, [1] and [2] hold; <b>bold</b> is HTML.",
    "Let me say it: 5 [1].",
    "Okay, it is 5 <",
)


def chatted(text: str, size: int = 0) -> tuple[ChatReply, str]:
    """The reply to a text that a server sends, whole or in pieces, and what was streamed of it."""
    pieces = [text[at : at + size] for at in range(0, len(text), size)] if size else []
    deltas = [{"choices": [{"delta": {"content": piece}}]} for piece in pieces]
    end: dict[str, Any] = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
    reply = events(*deltas, end) if size else Raw(chat_reply(text))
    shown: list[str] = []

    async def main(url: str) -> ChatReply:
        chat = OpenAIChat(Models().target(f"{url}#m"))
        try:
            request = Chat("m", (Message("user", "How often?"),))
            return await chat.chat(request, shown.append if size else None)
        finally:
            await chat.aclose()

    with raw_server(reply) as server:
        return asyncio.run(main(server.url)), "".join(shown)


@pytest.mark.parametrize("size", [0, 1, 4, 11], ids=str)
@pytest.mark.parametrize("text", MARKED.values(), ids=MARKED)
def test_thoughts_and_marks_are_no_part_of_a_reply(text: str, size: int) -> None:
    reply, shown = chatted(text, size)
    assert (reply.text.strip(), reply.finish) == (ANSWER, "stop")
    if size:
        assert shown == reply.text


@pytest.mark.parametrize("size", [0, 1, 4], ids=str)
@pytest.mark.parametrize("text", PLAIN)
def test_marks_that_are_quoted_are_text(text: str, size: int) -> None:
    reply, shown = chatted(text, size)
    assert reply.text == text
    assert shown == (text if size else "")


@pytest.mark.parametrize("size", [0, 3], ids=str)
@pytest.mark.parametrize("mark", ["<think>", "[THINK]", "<|channel|>analysis<|message|>"])
def test_a_thought_that_does_not_end_is_an_incomplete_reply(mark: str, size: int) -> None:
    reply, shown = chatted(f"{mark}{THOUGHT}", size)
    assert (reply.text, reply.finish, shown) == ("", "length", "")
    assert reply.notes == ("the reply ended within the model's thought",)


def test_a_model_that_marks_only_the_end_is_held_back_from_then_on() -> None:
    text = f"It may be five.\n</think>\n{ANSWER}"
    chunks = [{"choices": [{"delta": {"content": text[i : i + 6]}}]} for i in range(0, 60, 6)]
    end = {"choices": [{"delta": {}, "finish_reason": "stop"}]}

    async def main(url: str) -> list[tuple[ChatReply, str]]:
        chat = OpenAIChat(Models().target(f"{url}#m"))
        found = []
        for _ in range(2):
            shown: list[str] = []
            reply = await chat.chat(Chat("m", (Message("user", "?"),)), shown.append)
            found.append((reply, "".join(shown)))
        await chat.aclose()
        return found

    with raw_server(events(*chunks, end)) as server:
        first, second = asyncio.run(main(server.url))
    assert first[0].text == second[0].text == second[1] == ANSWER
    assert "its next replies are held back" in first[0].notes[0]
    assert not second[0].notes


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
    message: dict[str, Any], finish: str, text: str, end: str, stream: bool
) -> None:
    choice = {"message": message, "finish_reason": finish}
    deltas = [{"choices": [{"delta": {name: part}}]} for name, part in message.items()]
    last = {"choices": [{"delta": {}, "finish_reason": finish}]}
    sent = events(*deltas, last) if stream else Raw(json.dumps({"choices": [choice]}).encode())

    async def main(url: str) -> ChatReply:
        chat = OpenAIChat(Models().target(f"{url}#m"))
        try:
            on_delta = (lambda _: None) if stream else None
            return await chat.chat(Chat("m", (Message("user", "?"),)), on_delta)
        finally:
            await chat.aclose()

    with raw_server(sent) as server:
        reply = asyncio.run(main(server.url))
    assert (reply.text, reply.finish) == (text, end)


def test_a_stream_without_a_finish_reason_is_an_answer_with_a_note() -> None:
    chunk = {"choices": [{"delta": {"content": ANSWER}, "finish_reason": None}]}

    async def main(url: str) -> ChatReply:
        chat = OpenAIChat(Models().target(f"{url}#m"))
        try:
            return await chat.chat(Chat("m", (Message("user", "?"),)), lambda _: None)
        finally:
            await chat.aclose()

    with raw_server(events(chunk)) as server:
        reply = asyncio.run(main(server.url))
    assert (reply.text, reply.finish) == (ANSWER, "stop")
    assert reply.notes == ("the stream ended without a finish reason",)


def test_a_given_text_is_read_the_same_way() -> None:
    assert drop_thought(f"<think>{THOUGHT}</think>{ANSWER}") == ANSWER
    assert drop_thought(ANSWER) == ANSWER
