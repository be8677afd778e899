"""Marks of an answer: however it is cut on its way, its text and its numbers are the same."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from served import served
from small_project import MakeProject

from ragwright import Workbench
from ragwright.testing import Reply, ScriptedServer, ServerRequest

PIECES = (
    "A [2] ",
    "`code[1]` ",
    "`x[0]",
    "` ",
    "see [1, 3]",
    "[9]",
    "```\n",
    "y[1]\n",
    " end.",
    "[1]",
)


@pytest.mark.slow
def test_a_stream_and_the_whole_agree_on_code_and_marks(tmp_path: Path) -> None:
    rng = random.Random(3)
    texts = {f"Fluid {n}?": "".join(rng.choices(PIECES, k=9)) + " [2]." for n in range(40)}

    def script(request: ServerRequest) -> Reply:
        asked = str(request.body["messages"][-1]["content"])
        return Reply(next(text for name, text in texts.items() if name in asked))

    with ScriptedServer(script) as model:
        folder = MakeProject(tmp_path)(
            f"serve: {{name: book}}\nanswer: {{model: '{model.url}#writer'}}\n"
        )
        with Workbench.open(folder) as bench:
            bench.ingest()
        with served(folder) as running:
            for question, text in texts.items():
                frames = running.ask(question, model="book", stream=True).text.split("\n\n")
                pieces = [json.loads(f[6:]) for f in frames if f.startswith("data: {")]
                streamed = "".join(p["choices"][0]["delta"].get("content", "") for p in pieces)
                whole = running.ask(question, model="book").json()
                assert streamed.strip() == whole["choices"][0]["message"]["content"].strip(), text
