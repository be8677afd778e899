"""The first screen: what is in the sources, questions that have an answer, and the limits."""

from __future__ import annotations

import html
import re
from pathlib import Path

from served import served
from small_project import CODES, MANUAL, MakeProject

from ragwright import Workbench
from ragwright.project import ProjectFolder
from ragwright.serve import ServeKey, ServeKeys
from ragwright.testing import ScriptedServer

MORE = {
    f"error-{number}.md": f"# Error {number}\n\n## Error E{number}\n\nError E{number} means that "
    f"the {part} does not reach its target temperature within the time that the firmware allows.\n"
    for number, part in ((301, "heat bed"), (302, "nozzle"), (303, "chamber"), (304, "hot end"))
}


def test_each_example_has_an_answer_and_readers_see_their_own(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)("", **{"service.md": MANUAL, "codes.md": CODES, **MORE})
    with Workbench.open(folder) as bench:
        bench.ingest()
    kept = ServeKeys(ProjectFolder(folder))
    whole, narrow = (
        kept.add(ServeKey("a")),
        kept.add(ServeKey("b", filters=("source=docs/codes.md",))),
    )
    nothing = kept.add(ServeKey("c", filters=("source=docs/none.md",)))
    with served(folder) as running:
        http = running.client(whole)
        assert 'hx-get="/ask/welcome' in http.get("/").text
        shown = html.unescape(http.get("/ask/welcome").text)
        questions = re.findall(r'href="/\?q=[^"]+">([^<]+)</a>', shown)
        assert len(questions) == 5
        assert "6 documents (Markdown)" in shown
        assert "does not search the web" in shown
        assert "quotes sentences word for word. It does not calculate, summarise" in shown
        for question in questions:
            body = {"messages": [{"role": "user", "content": question}]}
            answer = http.post("/v1/chat/completions", json=body).json()["ragwright"]
            assert not answer["abstained"], question
            assert answer["citations"]
        hidden = html.unescape(running.client(narrow).get("/ask/welcome").text)
        assert "1 document that you may see" in hidden
        assert "APP_w30" in hidden
        assert "E301" not in hidden
        assert "Service plan" not in hidden
        assert "What is in here" not in running.client(nothing).get("/ask/welcome").text


def test_examples_call_no_model_and_the_limits_name_it(tmp_path: Path) -> None:
    with ScriptedServer("Every two years [1].") as model:
        folder = MakeProject(tmp_path)(f"answer: {{model: '{model.url}#writer'}}\n")
        with Workbench.open(folder) as bench:
            bench.ingest()
        secret = ServeKeys(ProjectFolder(folder)).add(ServeKey("a"))
        with served(folder) as running:
            shown = html.unescape(running.client(secret).get("/ask/welcome").text)
        assert not model.requests
        assert "Questions to begin with" in shown
        assert "writer" in shown
        assert model.url not in shown
