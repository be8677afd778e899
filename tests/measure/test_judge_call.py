"""What a judge is shown is prepared once, however many replies are read against it."""

from __future__ import annotations

import json

import pytest

from ragwright.flow import ChatReply
from ragwright.measure import JudgeCall, ReplyForm, _judge_call as judging, read_object, schema_text
from ragwright.measure._judge_call import blocks

GOOD = ChatReply(json.dumps({"found": True}))


def test_texts_are_made_safe_once_for_many_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def counted(text: str) -> str:
        seen.append(text)
        return text

    def read(text: str, form: ReplyForm, finish: str) -> bool:
        return bool(read_object(text, ("found",), finish)["found"])

    monkeypatch.setattr(judging, "break_control", counted)
    texts = (("question", "Is this text new to it?"), ("passage 1", "It is: 7c1f."))
    schema = schema_text({"found": {"type": "boolean"}})
    call = JudgeCall("lookup", texts, read, schema, True, {})
    for mark in ("a", "b"):
        blocks(texts, mark)
        assert judging._read_reply(call, GOOD, "json").value is True
    assert seen == [text for _, text in texts]
