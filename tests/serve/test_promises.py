"""A promise on the server: the API, its stream, the page, and what is stored for watching."""

from __future__ import annotations

from pathlib import Path

import pytest
from certified_project import certified_project, things
from served import served
from small_project import MakeProject

from ragwright import Workbench
from ragwright.drafting import OutputQuery
from ragwright.experiment import certificates

KNOWN = f"How many watts does the {things()[0]} need?"
UNKNOWN = "Who designed the Quartz kettle?"


@pytest.mark.slow
def test_every_door_of_the_server_keeps_the_promise(tmp_path: Path) -> None:
    folder = certified_project(MakeProject(tmp_path), promised=True)
    with Workbench.open(folder) as bench:
        [certificate] = certificates(bench.project.folder)
    with served(folder) as running:
        known_answer = running.ask(KNOWN).json()["ragwright"]
        withheld = running.ask(UNKNOWN).json()
        streamed = running.ask(UNKNOWN, stream=True).text
        page = running.http.post("/", data={"q": KNOWN}).text
    assert known_answer["promise"]["line"] == certificate.line
    assert known_answer["promise"]["score"] >= certificate.threshold
    assert not known_answer["abstained"]
    assert withheld["ragwright"]["abstained"]
    assert withheld["ragwright"]["snippets"] == []
    assert "watts" not in withheld["choices"][0]["message"]["content"]
    assert "watts" not in streamed.partition('"finish_reason": "stop"')[0]
    assert certificate.line in page
    with Workbench.open(folder) as bench:
        [first, *_] = bench.outputs.find(OutputQuery(kind="text", scope=None))
        assert first.details["promise"] == known_answer["promise"]
